//! Those that multiply, and those that hoard memory.

use serde_json::json;

use crate::stage::{Animal, Program, Zoo};

#[tokio::test]
async fn whatever_multiplies_meets_the_limit_of_processes() {
    let zoo = Zoo::open().await;
    for (name, program) in [
        (
            "fork bomb",
            Program::C("#include <unistd.h>\nint main() { for (;;) fork(); }"),
        ),
        (
            "fork bomb of a shell",
            Program::Shell("bomb() { bomb | bomb & }; bomb; sleep 60"),
        ),
        (
            "fork bomb in new sessions",
            Program::C("#include <unistd.h>\nint main() { for (;;) if (fork() == 0) setsid(); }"),
        ),
        (
            "thread bomb",
            Program::C(
                "#include <pthread.h>\n#include <unistd.h>\nvoid *f(void *x) { for (;;) pause(); }\n\
                 int main() { pthread_t t; for (;;) pthread_create(&t, 0, f, 0); }",
            ),
        ),
        (
            "vfork storm",
            Program::C(
                "#include <unistd.h>\nint main() { for (;;) if (vfork() == 0) { execl(\"/bin/sleep\", \"sleep\", \"60\", 0); _exit(1); } }",
            ),
        ),
        (
            "zombie storm",
            Program::C("#include <unistd.h>\nint main() { for (;;) if (fork() == 0) _exit(0); }"),
        ),
    ] {
        zoo.ends_by("process_limit", Animal::new(name, program)).await;
    }
}

#[tokio::test]
async fn whatever_hoards_meets_the_limit_of_memory() {
    let zoo = Zoo::open().await;
    for (name, program) in [
        (
            "malloc and touch",
            Program::C(
                "#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
            ),
        ),
        (
            "huge BSS",
            Program::C(
                "#include <string.h>\nstatic char a[1 << 30];\nint main() { memset(a, 1, sizeof a); return a[7]; }",
            ),
        ),
        (
            "many small ones together",
            Program::Python(
                "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        b = bytearray(os.urandom(1 << 20) * 8)\n        time.sleep(60)\ntime.sleep(60)",
            ),
        ),
        (
            "memfd hoard",
            Program::Python(
                "import os\nfd = os.memfd_create('x')\nwhile True: os.write(fd, b'x' * (1 << 20))",
            ),
        ),
        (
            "SysV hoard",
            Program::C(
                "#include <sys/shm.h>\n#include <string.h>\nint main() { for (;;) { int i = shmget(IPC_PRIVATE, 1 << 20, 0600);\
                 if (i < 0) return 1; void *p = shmat(i, 0, 0); if (p == (void *)-1) return 2; memset(p, 1, 1 << 20); } }",
            ),
        ),
    ] {
        zoo.ends_by("memory_limit", Animal::new(name, program)).await;
    }
    // Files are in memory too; here their own limit is the lower one.
    for (name, folder) in [
        ("tmp fill", "/tmp"),
        ("shm fill", "/dev/shm"),
        ("workspace fill", "."),
    ] {
        let fill: &'static str = Box::leak(format!("head -c 1G /dev/zero > {folder}/x").into_boxed_str());
        zoo.ends_by("disk_limit", Animal::new(name, Program::Shell(fill)))
            .await;
        let animal = Animal::new(name, Program::Shell(fill));
        zoo.ends_by("memory_limit", animal.with("space", json!("1GiB")))
            .await;
    }
}

#[tokio::test]
async fn endless_recursion_ends_by_its_stack() {
    let zoo = Zoo::open().await;
    let program = Program::C(
        "int f(volatile int x) { volatile char a[4096]; a[x % 4096] = 1; return f(x + 1) + a[0]; }\nint main() { return f(0); }",
    );
    let outcome = zoo
        .ends_by("signalled", Animal::new("endless recursion", program))
        .await;
    assert_eq!(outcome["signal"], 11, "{outcome:#}");
}
