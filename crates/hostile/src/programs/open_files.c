/* Opens as many files as possible in many processes. */
static void work(void) { while (open("/dev/null", O_RDONLY) >= 0 && !is_over()) add(&shared->count, 1); }
static void attack(void) { in_processes(20, work); }
