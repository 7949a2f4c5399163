#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
int main(void) {
    int queue = inotify_init1(IN_CLOEXEC);
    printf("%d %s\n", queue, strerror(errno));
    return 0;
}
