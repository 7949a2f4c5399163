//! Programs that leave System V and POSIX IPC objects behind: shared memory, semaphores, message queues.

use serde_json::{Value, json};

use crate::harness::{HostileTestNode, default_limits};

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { KEY = 0x7a6f6f, SIZE = 1 << 20 };
static char bytes[SIZE];
static void hoard(void) {
    int memory = memfd_create("x", 0), file = open("/dev/shm/x", O_CREAT | O_WRONLY, 0600);
    memset(bytes, 1, SIZE);
    for (;;) {
        int segment = shmget(IPC_PRIVATE, SIZE, 0600);
        if (segment < 0) exit(1);
        void *at = shmat(segment, 0, 0);
        if (at == (void *)-1) exit(2);
        memcpy(at, bytes, SIZE);
        if (write(memory, bytes, SIZE) < 0) exit(3);
        // Another limit may come first; other tests cover that.
        write(file, bytes, SIZE);
    }
}
int main(int argc, char **argv) {
    int make = strcmp(argv[1], "look") ? IPC_CREAT | 0666 : 0;
    struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 64};
    int segment = shmget(KEY, 4096, make), semaphore = semget(KEY, 1, make), messages = msgget(KEY, make);
    int queue = syscall(SYS_mq_open, "zoo", make ? O_CREAT | O_RDWR : O_RDWR, 0666, &attributes);
    struct shm_info info;
    shmctl(0, SHM_INFO, (struct shmid_ds *)&info);
    printf("%d %d %d %d, %d in all\n", segment >= 0, semaphore >= 0, messages >= 0, queue >= 0, info.used_ids);
    fflush(stdout);
    if (strcmp(argv[1], "hoard") == 0) hoard();
    return 0;
}
"#;
const ALL_THERE: &str = "1 1 1 1, 1 in all\n";
const NOTHING: &str = "0 0 0 0, 0 in all\n";

fn task(compile: &str, execute: &str) -> Value {
    json!({
        "source": {"main.c": PROGRAM},
        "compile": {"command": compile},
        "execute": {"command": execute, "limits": default_limits()},
    })
}

#[tokio::test]
async fn ipc_objects_are_removed_after_each_step() {
    const COMPILE: &str = "gcc -w -o main main.c";
    let node = HostileTestNode::start().await;
    // The second step of the same task runs on the same warden.
    let done = node
        .task(&task(&format!("{COMPILE} && ./main leave"), "./main look"))
        .await;
    assert_eq!(done["result"]["compile"]["stdout"], ALL_THERE, "{done:#}");
    assert_eq!(done["result"]["execute"]["stdout"], NOTHING, "{done:#}");

    for (execute, reason) in [("./main leave", "exited"), ("./main hoard", "memory_limit")] {
        let done = node.task(&task(COMPILE, execute)).await;
        assert_eq!(done["result"]["execute"]["stdout"], ALL_THERE, "{done:#}");
        assert_eq!(done["result"]["execute"]["reason"], reason, "{done:#}");
        node.assert_output_on_every_warden(&task(COMPILE, "./main look"), NOTHING)
            .await;
    }
}
