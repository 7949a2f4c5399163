//! C programs that each exceed one limit, and the reason with which each must end.

use cluster_tests::{GuestMachine, conclave};

/// A test case of a step's resource limits: a command, its limits, and the reason with which it must end.
pub(crate) struct LimitCase {
    pub(crate) name: &'static str,
    /// Flags that replace the default limits.
    pub(crate) limits: &'static str,
    pub(crate) command: &'static str,
    pub(crate) reason: &'static str,
}

/// The default limits. Every limit is set, so that each program reaches the one that it is about; those of time are generous.
pub(crate) const DEFAULT_LIMITS: [&str; 8] = [
    "wall=120s",
    "cpu=60s",
    "memory=64MiB",
    "processes=32",
    "output=16KiB",
    "space=32MiB",
    "open_files=256",
    "stack=8MiB",
];

pub(crate) const LIMIT_CASES: [LimitCase; 22] = [
    limit_case("fork bomb", "", "forks", "process_limit"),
    limit_case("thread bomb", "", "threads", "process_limit"),
    limit_case("vfork storm", "", "vforks", "process_limit"),
    limit_case("zombie storm", "", "zombies", "process_limit"),
    limit_case("malloc and touch", "", "hog", "memory_limit"),
    limit_case("huge BSS", "", "bss", "memory_limit"),
    limit_case("memfd hoard", "", "memfd", "memory_limit"),
    limit_case("SysV hoard", "", "segments", "memory_limit"),
    limit_case(
        "shm fill",
        "--space 512MiB",
        "dd if=/dev/zero of=/dev/shm/x bs=1M count=256",
        "memory_limit",
    ),
    limit_case("many small ones together", "", "shares", "memory_limit"),
    limit_case("burning process", "--cpu 300ms", "burn", "time_limit"),
    limit_case("burning threads", "--cpu 300ms", "burn_threads", "time_limit"),
    limit_case("burning children", "--cpu 300ms", "burn_children", "time_limit"),
    limit_case("stdout flood", "", "yes", "output_limit"),
    limit_case(
        "large file",
        "--file-size 1MiB",
        "dd if=/dev/zero of=x bs=64K count=64",
        "output_limit",
    ),
    limit_case("a million inodes", "", "files", "disk_limit"),
    limit_case(
        "many bytes",
        "--space 4MiB",
        "dd if=/dev/zero of=x bs=1M count=64",
        "disk_limit",
    ),
    limit_case("open files", "", "descriptors", "exited"),
    limit_case("endless recursion", "", "recursion", "signalled"),
    limit_case("stops itself", "--wall 1s", "sh -c 'kill -STOP $$'", "wall_limit"),
    limit_case("sleep", "--wall 1s", "sleep 600", "wall_limit"),
    limit_case("double-fork daemon", "", "daemon", "exited"),
];

const fn limit_case(
    name: &'static str,
    limits: &'static str,
    command: &'static str,
    reason: &'static str,
) -> LimitCase {
    LimitCase {
        name,
        limits,
        command,
        reason,
    }
}

/// A guest with conclave and all these programs.
pub(crate) fn guest() -> GuestMachine {
    let guest = GuestMachine::new().program("conclave", &conclave());
    PROGRAMS
        .iter()
        .fold(guest, |guest, (name, source)| guest.c_program(name, source))
}

const PROGRAMS: [(&str, &str); 21] = [
    ("forks", "#include <unistd.h>\nint main() { for (;;) fork(); }"),
    ("threads", THREADS),
    ("vforks", VFORKS),
    (
        "zombies",
        "#include <unistd.h>\nint main() { for (;;) if (fork() == 0) _exit(0); }",
    ),
    (
        "hog",
        "#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
    ),
    (
        "bss",
        "#include <string.h>\nstatic char all[256 << 20];\nint main() { memset(all, 1, sizeof all); return all[7]; }",
    ),
    ("memfd", MEMFD),
    ("segments", SEGMENTS),
    ("burn", "int main() { for (;;); }"),
    ("burn_threads", BURN_THREADS),
    (
        "burn_children",
        "#include <unistd.h>\nint main() { fork(); fork(); for (;;); }",
    ),
    ("files", FILES),
    ("descriptors", DESCRIPTORS),
    ("recursion", RECURSION),
    ("daemon", DAEMON),
    ("own_time", OWN_TIME),
    ("hold", HOLD),
    ("attack", ATTACK),
    ("crowd", CROWD),
    ("large", LARGE),
    ("shares", SHARES),
];

const THREADS: &str = r#"
#include <pthread.h>
#include <unistd.h>
static void *wait_for_ever(void *nothing) { for (;;) pause(); }
int main() { pthread_t thread; for (;;) pthread_create(&thread, 0, wait_for_ever, 0); }
"#;

const VFORKS: &str = r#"
#include <unistd.h>
int main() { for (;;) if (vfork() == 0) { execl("/bin/sleep", "sleep", "600", (char *)0); _exit(1); } }
"#;

const MEMFD: &str = r#"
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
static char bytes[1 << 20];
int main() { int file = memfd_create("x", 0); while (write(file, bytes, sizeof bytes) > 0); return 1; }
"#;

const SEGMENTS: &str = r#"
#include <string.h>
#include <sys/shm.h>
int main() {
    for (;;) {
        void *at = shmat(shmget(IPC_PRIVATE, 1 << 20, 0600), 0, 0);
        if (at == (void *)-1) return 1;
        memset(at, 1, 1 << 20);
    }
}
"#;

const BURN_THREADS: &str = r#"
#include <pthread.h>
static void *burn(void *nothing) { for (;;); }
int main() { pthread_t thread; for (int i = 0; i < 3; i++) pthread_create(&thread, 0, burn, 0); burn(0); }
"#;

const FILES: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main() {
    for (int number = 0; number < 1000000; number++) {
        char name[16];
        sprintf(name, "%d", number);
        int file = open(name, O_CREAT | O_WRONLY, 0600);
        if (file < 0) return 1;
        close(file);
    }
    return 0;
}
"#;

/// Prints the error and the number of descriptors beyond the standard streams.
const DESCRIPTORS: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
int main() { int more = 0; while (dup(0) >= 0) more++; printf("%d %d\n", errno, more); return 0; }
"#;

const RECURSION: &str = r#"
static int deeper(volatile int level) {
    volatile char frame[4096];
    frame[level % 4096] = 1;
    return deeper(level + 1) + frame[0];
}
int main() { return deeper(0); }
"#;

const DAEMON: &str = r#"
#include <unistd.h>
int main() { if (fork()) return 0; setsid(); if (fork()) return 0; for (;;) pause(); }
"#;

/// Prints the CPU time of its process, thread and child as the kernel counts it. It runs long enough for the time of its exit to
/// be negligible.
const OWN_TIME: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static double used(int by) {
    struct rusage usage;
    getrusage(by, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}
static void *burn(void *nothing) {
    while (used(RUSAGE_THREAD) < 1) for (volatile int i = 0; i < 10000; i++);
    return 0;
}
int main() {
    pthread_t thread;
    if (fork() == 0) { burn(0); _exit(0); }
    pthread_create(&thread, 0, burn, 0);
    burn(0);
    pthread_join(thread, 0);
    wait(0);
    printf("%f\n", used(RUSAGE_SELF) + used(RUSAGE_CHILDREN));
    return 0;
}
"#;

const HOLD: &str = r#"
#include <stdlib.h>
int main() {
    volatile char *held = malloc(24 << 20);
    for (int i = 0; i < 24 << 20; i += 512) held[i] = 1;
    return held[512] != 1;
}
"#;

/// Attacks process 1, and returns how many calls succeeded. Without subordinate ids the command has the same user as process 1.
const ATTACK: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
int main() {
    struct rlimit one = {1, 1};
    struct sched_param idle = {0};
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    int taken = 0;
    taken += prlimit(1, RLIMIT_CPU, &one, 0) == 0;
    taken += prlimit(1, RLIMIT_NOFILE, 0, &one) == 0;
    taken += setpriority(PRIO_PROCESS, 1, 19) == 0;
    taken += sched_setaffinity(1, sizeof first, &first) == 0;
    taken += sched_setscheduler(1, SCHED_IDLE, &idle) == 0;
    taken += ptrace(PTRACE_ATTACH, 1, 0, 0) == 0;
    kill(1, SIGKILL);
    kill(1, SIGSTOP);
    return taken;
}
"#;

/// Prints how many children it could create.
const CROWD: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main() {
    int others = 0;
    for (int i = 0; i < 40; i++) {
        int child = fork();
        if (child == 0) for (;;) pause();
        others += child > 0;
    }
    printf("%d\n", others);
    return 0;
}
"#;

/// Allocates 96 MiB and exits.
const LARGE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main() {
    volatile char *held = malloc(96 << 20);
    for (int i = 0; i < 96 << 20; i += 4096) held[i] = 1;
    puts("had it");
    return 0;
}
"#;

/// Two processes that allocate 32 MiB each at the same time.
const SHARES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void hold(void) {
    volatile char *held = malloc(32 << 20);
    for (int i = 0; i < 32 << 20; i += 4096) held[i] = 1;
}
int main() {
    int ends[2];
    pipe(ends);
    if (fork() == 0) { hold(); write(ends[1], "x", 1); for (;;) pause(); }
    hold();
    char held;
    read(ends[0], &held, 1);
    puts("had it");
    return 0;
}
"#;
