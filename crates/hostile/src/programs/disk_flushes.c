/* Has the machine's disks written and its caches emptied, again and again. */
static void attack(void) {
    DIR *folder = opendir("/usr/bin");
    for (long round = 0; folder && !is_over();) {
        struct dirent *entry = readdir(folder);
        if (!entry) { rewinddir(folder); continue; }
        int file = openat(dirfd(folder), entry->d_name, O_RDONLY | O_NONBLOCK);
        if (file < 0) continue;
        fsync(file);
        fdatasync(file);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        if (++round % 100 == 0) { syncfs(file); sync(); }
        close(file);
    }
}
