/* Watches accesses of other tasks to the machine's programs by inotify. Prints the number of events. */
static void attack(void) {
    static char events[1 << 16];
    int queue = inotify_init1(IN_NONBLOCK);
    if (queue < 0 || inotify_add_watch(queue, "/usr/bin", IN_ALL_EVENTS) < 0) { say(0); return; }
    inotify_add_watch(queue, "/usr/lib", IN_ALL_EVENTS);
    long seen = 0;
    for (; !is_over(); usleep(1000))
        for (ssize_t size; (size = read(queue, events, sizeof events)) > 0;) seen += size;
    printf("%ld bytes of events\n", seen);
}
