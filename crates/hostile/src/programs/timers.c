/* Timers that fire continuously, and queued signals that are never received. */
static void work(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
    struct itimerspec often = { { 0, 100000 }, { 0, 100000 } };
    timer_t timer;
    for (int i = 0; i < 10000 && !is_over() && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0; i++) {
        timer_settime(timer, 0, &often, 0);
        add(&shared->count, 1);
    }
    while (sigqueue(getpid(), SIGRTMAX, (union sigval){ 0 }) == 0) add(&shared->count, 1);
    /* Received one by one, so that each timer fires again. */
    for (siginfo_t info; !is_over();) sigwaitinfo(&all, &info);
}
static void attack(void) { in_processes(8, work); }
