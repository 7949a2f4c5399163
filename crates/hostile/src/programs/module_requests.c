/* Requests for which the kernel may load modules. Tests in a guest check whether it started the module loader. */
static void attack(void) {
    enum { GET_VLAN = 0x8982, GET_BRIDGE = 0x8940 };
    char room[256] = "none0";
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    for (int round = 0; !is_over(); round++) {
        ioctl(s, GET_VLAN, room);
        ioctl(s, GET_BRIDGE, room);
        sprintf(room, "none%d", round % 1000);
        ioctl(s, 0x8933 /* SIOCGIFINDEX */, room);
        int other = socket(round % 46, SOCK_STREAM, round % 256);
        if (other >= 0) close(other);
    }
}
