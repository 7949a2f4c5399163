/* What a program of the C library does: memory, a child, signals, a file that it wants on the disk. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t alarms;
static void on_alarm(int number) { alarms++; }

int main(void) {
    char *memory = malloc(64 << 20);
    memset(memory, 1, 64 << 20);
    int file = open("file", O_CREAT | O_RDWR, 0600);
    printf("%zd %d %d\n", write(file, memory, 1 << 20), fsync(file), fdatasync(file));
    free(memory);
    signal(SIGALRM, on_alarm);
    alarm(1);
    pause();
    printf("%d\n", (int)alarms);
    fflush(stdout);
    int status;
    if (fork() == 0) { execlp("sh", "sh", "-c", "exit 7", (char *)0); _exit(1); }
    wait(&status);
    printf("%d\n", WEXITSTATUS(status));
    return 0;
}
