/* Crashes of processes with some memory, which a core dump would contain. Tests in a guest check whether the core dump
   helper was started. */
static void attack(void) {
    enum { HELD = 16 << 20 };
    long count = 0;
    for (; !is_over(); count++) {
        pid_t child = fork();
        if (child == 0) {
            volatile char *held = malloc(HELD);
            for (int i = 0; i < HELD; i += 4096) held[i] = 1;
            abort();
        }
        if (child > 0) waitpid(child, 0, 0);
    }
    say(count);
}
