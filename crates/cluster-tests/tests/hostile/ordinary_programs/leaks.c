/* Leaks if it is given an argument. */
#include <stdlib.h>
int main(int argc, char **argv) {
    char *volatile text = malloc(1000);
    text[0] = 1;
    if (argc == 1) free(text);
    text = 0;
    return 0;
}
