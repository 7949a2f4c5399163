/* Writes output without end. */
static void attack(void) {
    static char bytes[1 << 16];
    while (!is_over() && write(1, bytes, sizeof bytes) > 0);
}
