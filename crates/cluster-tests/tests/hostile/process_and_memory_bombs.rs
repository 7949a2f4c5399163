//! Programs that create processes or allocate memory without end.

use serde_json::json;

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource};

#[tokio::test]
async fn process_bombs_end_by_the_process_limit() {
    let node = HostileTestNode::start().await;
    for (name, program) in [
        (
            "fork bomb",
            ProgramSource::C("#include <unistd.h>\nint main() { for (;;) fork(); }"),
        ),
        (
            "fork bomb of a shell",
            ProgramSource::Shell("bomb() { bomb | bomb & }; bomb; sleep 60"),
        ),
        (
            "fork bomb in new sessions",
            ProgramSource::C("#include <unistd.h>\nint main() { for (;;) if (fork() == 0) setsid(); }"),
        ),
        (
            "thread bomb",
            ProgramSource::C(
                "#include <pthread.h>\n#include <unistd.h>\nvoid *f(void *x) { for (;;) pause(); }\n\
                 int main() { pthread_t t; for (;;) pthread_create(&t, 0, f, 0); }",
            ),
        ),
        (
            "vfork storm",
            ProgramSource::C(
                "#include <unistd.h>\nint main() { for (;;) if (vfork() == 0) { execl(\"/bin/sleep\", \"sleep\", \"60\", 0); _exit(1); } }",
            ),
        ),
        (
            "zombie storm",
            ProgramSource::C("#include <unistd.h>\nint main() { for (;;) if (fork() == 0) _exit(0); }"),
        ),
    ] {
        node.assert_reason("process_limit", HostileProgram::new(name, program))
            .await;
    }
}

#[tokio::test]
async fn memory_hogs_end_by_the_memory_limit() {
    let node = HostileTestNode::start().await;
    for (name, program) in [
        (
            "malloc and touch",
            ProgramSource::C(
                "#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
            ),
        ),
        (
            "huge BSS",
            ProgramSource::C(
                "#include <string.h>\nstatic char a[1 << 30];\nint main() { memset(a, 1, sizeof a); return a[7]; }",
            ),
        ),
        (
            "many small ones together",
            ProgramSource::Python(
                "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        b = bytearray(os.urandom(1 << 20) * 8)\n        time.sleep(60)\ntime.sleep(60)",
            ),
        ),
        (
            "memfd hoard",
            ProgramSource::Python(
                "import os\nfd = os.memfd_create('x')\nwhile True: os.write(fd, b'x' * (1 << 20))",
            ),
        ),
        (
            "SysV hoard",
            ProgramSource::C(
                "#include <sys/shm.h>\n#include <string.h>\nint main() { for (;;) { int i = shmget(IPC_PRIVATE, 1 << 20, 0600);\
                 if (i < 0) return 1; void *p = shmat(i, 0, 0); if (p == (void *)-1) return 2; memset(p, 1, 1 << 20); } }",
            ),
        ),
    ] {
        node.assert_reason("memory_limit", HostileProgram::new(name, program))
            .await;
    }
    // Files are in memory, too. With the default limits the limit of space is the lower one.
    for (name, folder) in [
        ("tmp fill", "/tmp"),
        ("shm fill", "/dev/shm"),
        ("workspace fill", "."),
    ] {
        let fill: &'static str = Box::leak(format!("head -c 1G /dev/zero > {folder}/x").into_boxed_str());
        node.assert_reason(
            "disk_limit",
            HostileProgram::new(name, ProgramSource::Shell(fill)),
        )
        .await;
        let hostile_program = HostileProgram::new(name, ProgramSource::Shell(fill));
        node.assert_reason("memory_limit", hostile_program.with("space", json!("1GiB")))
            .await;
    }
}

#[tokio::test]
async fn endless_recursion_ends_by_the_stack_limit() {
    let node = HostileTestNode::start().await;
    let program = ProgramSource::C(
        "int f(volatile int x) { volatile char a[4096]; a[x % 4096] = 1; return f(x + 1) + a[0]; }\nint main() { return f(0); }",
    );
    let outcome = node
        .assert_reason("signalled", HostileProgram::new("endless recursion", program))
        .await;
    assert_eq!(outcome["signal"], 11, "{outcome:#}");
}
