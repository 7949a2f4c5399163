/* A mapping keeps its file open after the descriptor is closed, so a limit of descriptors does not bound the files. */
static void work(void) {
    while (!is_over()) {
        int file = open("/bin/sh", O_RDONLY);
        if (file < 0) break;
        void *held = mmap(0, 1, PROT_READ, MAP_SHARED, file, 0);
        close(file);
        if (held == MAP_FAILED) break;
        add(&shared->count, 1);
    }
}
static void attack(void) {
    struct rlimit few = { 16, 16 };
    setrlimit(RLIMIT_NOFILE, &few);
    in_processes(20, work);
}
