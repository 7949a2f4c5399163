/* Busy processes in many sessions: without CPU shares for control groups the scheduler treats each session as a group. */
static void work(void) { setsid(); while (!is_over()) for (volatile int i = 0; i < 1000000; i++); }
static void attack(void) { in_processes(500, work); }
