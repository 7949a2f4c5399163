/* All the memory that there is. */
static void attack(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }
