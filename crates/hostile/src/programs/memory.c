/* Allocates memory without end. */
static void attack(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }
