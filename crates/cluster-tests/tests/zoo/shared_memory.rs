//! Those that leave what belongs to no process: shared memory, semaphores, queues.

use serde_json::{Value, json};

use crate::stage::{Zoo, usual};

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
        // Its own limit may come first, and is another story.
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
        "execute": {"command": execute, "limits": usual()},
    })
}

#[tokio::test]
async fn what_belongs_to_no_process_goes_with_the_step() {
    const COMPILE: &str = "gcc -w -o main main.c";
    let zoo = Zoo::open().await;
    // In the second step of the same task, which is the same warden's, already.
    let done = zoo
        .task(&task(&format!("{COMPILE} && ./main leave"), "./main look"))
        .await;
    assert_eq!(done["result"]["compile"]["stdout"], ALL_THERE, "{done:#}");
    assert_eq!(done["result"]["execute"]["stdout"], NOTHING, "{done:#}");

    for (execute, reason) in [("./main leave", "exited"), ("./main hoard", "memory_limit")] {
        let done = zoo.task(&task(COMPILE, execute)).await;
        assert_eq!(done["result"]["execute"]["stdout"], ALL_THERE, "{done:#}");
        assert_eq!(done["result"]["execute"]["reason"], reason, "{done:#}");
        zoo.every_warden_says(&task(COMPILE, "./main look"), NOTHING)
            .await;
    }
}
