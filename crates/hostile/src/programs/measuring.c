/* Fixed work: the given number of rounds over a table that fits into a core's own cache. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static uint64_t table[1 << 13];
int main(int argc, char **argv) {
    uint64_t sum = 1;
    for (long rounds = argc > 1 ? atol(argv[1]) : 1; rounds > 0; rounds--) {
        sum = sum * 6364136223846793005u + 1442695040888963407u;
        table[sum >> 51] ^= sum;
        sum ^= table[sum >> 40 & 8191] >> 7;
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
