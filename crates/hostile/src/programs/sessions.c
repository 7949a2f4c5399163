/* Each session is a group of its own to a scheduler that has nothing else to go by. */
static void work(void) { setsid(); while (!is_over()) for (volatile int i = 0; i < 1000000; i++); }
static void attack(void) { in_processes(500, work); }
