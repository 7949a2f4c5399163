//! The part of the zoo that is about limits and measures: programs of C.

use cluster_tests::{Guest, conclave};

/// With conclave and all these programs.
pub(crate) fn guest() -> Guest {
    let guest = Guest::new().program("conclave", &conclave());
    PROGRAMS
        .iter()
        .fold(guest, |guest, (name, source)| guest.c_program(name, source))
}

const PROGRAMS: [(&str, &str); 9] = [
    ("forks", "#include <unistd.h>\nint main() { for (;;) fork(); }"),
    (
        "hog",
        "#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
    ),
    ("burn", "int main() { for (;;); }"),
    (
        "burn_children",
        "#include <unistd.h>\nint main() { fork(); fork(); for (;;); }",
    ),
    ("hold", HOLD),
    ("attack", ATTACK),
    ("crowd", CROWD),
    ("large", LARGE),
    ("shares", SHARES),
];

const HOLD: &str = r#"
#include <stdlib.h>
int main() {
    volatile char *held = malloc(24 << 20);
    for (int i = 0; i < 24 << 20; i += 512) held[i] = 1;
    return held[512] != 1;
}
"#;

/// Says how much of it the kernel took. An ordinary user's commands have their user in common with the first process.
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

/// Says how many processes there are beside it.
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

/// Holds 96 MiB and goes.
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

/// Two processes that hold 32 MiB each at the same time.
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
