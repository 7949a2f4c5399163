/* Locks on single bytes, which no limit counts: some 20 MB of them, so many as any machine can spare, to see that neighbours
   go on. The executor's reserve of memory is what bounds them; the test guest/memory_reserve takes all that there is. */
static void attack(void) {
    enum { FILES = 100, LOCKS = 1000 };
    long count = 0;
    for (int i = 0; i < FILES && !is_over(); i++) {
        char name[20];
        sprintf(name, "f%d", i);
        int file = open(name, O_CREAT | O_RDWR, 0600);
        for (int j = 0; j < LOCKS; j++) {
            struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * j, .l_len = 1 };
            if (fcntl(file, F_SETLK, &lock)) break;
            count++;
        }
    }
    say(count);
}
