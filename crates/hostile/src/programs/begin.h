/* The common beginning of all hostile programs. The only argument is the duration in seconds. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* Takes as much of the resource as possible; returns when it gets no more or the time is over. */
static void attack(void);

static time_t end;
/* Shared by all processes of the program. */
static struct { long count, done; int error; } *shared;

static int is_over(void) { return time(0) >= end; }
static long add(long *counter, long more) { return __atomic_add_fetch(counter, more, __ATOMIC_SEQ_CST); }

/* Prints how much was taken, and the error that stopped it. */
static void say(long count) { printf("%ld %s\n", count, strerror(errno)); fflush(stdout); }

/* Runs the attack in this many processes, which keep what they have taken. Returns when all of them have done it. */
static void in_processes(int processes, void (*work)(void)) {
    long started = 0;
    for (int i = 0; i < processes; i++) {
        pid_t child = fork();
        if (child == 0) {
            work();
            if (!is_over()) shared->error = errno;
            add(&shared->done, 1);
            for (;;) pause();
        }
        started += child > 0;
    }
    while (add(&shared->done, 0) < started && !is_over()) usleep(1000);
    errno = shared->error;
    say(shared->count);
}

int main(int argc, char **argv) {
    end = time(0) + (argc > 1 ? atoi(argv[1]) : 1);
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    attack();
    while (!is_over()) usleep(10000);
    return 0;
}
