/* Fills pipes, System V and POSIX message queues. */
static void attack(void) {
    static struct { long kind; char bytes[8000]; } message = { 1 };
    long count = 0;
    for (int i = 0; i < 400 && !is_over(); i++) {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK)) break;
        fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
        while (write(ends[1], message.bytes, sizeof message.bytes) > 0) count++;
    }
    for (int i = 0; i < 100 && !is_over(); i++) {
        char name[20];
        sprintf(name, "/q%d", i);
        mqd_t queue = mq_open(name, O_CREAT | O_RDWR | O_NONBLOCK, 0600, 0);
        if (queue < 0) break;
        while (mq_send(queue, message.bytes, sizeof message.bytes, 0) == 0) count++;
    }
    for (int queue; !is_over() && (queue = msgget(IPC_PRIVATE, 0600)) >= 0;)
        while (msgsnd(queue, &message, sizeof message.bytes, IPC_NOWAIT) == 0) count++;
    say(count);
}
