/* Sockets that never read, each with a full receive buffer. */
static void work(void) {
    static char bytes[16384];
    int sender = socket(AF_INET, SOCK_DGRAM, 0), largest = 1 << 30;
    for (int i = 0; i < 900 && !is_over(); i++) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof address;
        int s = socket(AF_INET, SOCK_DGRAM, 0);
        if (s < 0 || bind(s, (struct sockaddr *)&address, size)) break;
        setsockopt(s, SOL_SOCKET, SO_RCVBUF, &largest, sizeof largest);
        getsockname(s, (struct sockaddr *)&address, &size);
        for (int j = 0; j < 64; j++)
            if (sendto(sender, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&address, size) < 0) break;
        add(&shared->count, 1);
    }
}
static void attack(void) { in_processes(4, work); }
