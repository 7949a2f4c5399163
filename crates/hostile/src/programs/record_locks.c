/* Byte-range locks, which no limit counts: about 20 MB of them, which any machine can spare. The executor's memory reserve
   bounds them; the test guest/memory_reserve takes as many as possible. */
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
