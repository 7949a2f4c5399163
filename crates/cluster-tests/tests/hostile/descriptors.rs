//! Programs that inspect the file descriptors they inherit.

use serde_json::json;

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource};

#[tokio::test]
async fn a_command_inherits_only_the_standard_streams() {
    let node = HostileTestNode::start().await;
    let program = ProgramSource::C(
        r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
static const char *end(long result) { return result < 0 ? strerrorname_np(errno) : "SUCCESS"; }
static const char *kind(struct stat *s) {
    if (S_ISCHR(s->st_mode) && s->st_rdev == makedev(1, 3)) return "null";
    return S_ISFIFO(s->st_mode) ? "pipe" : S_ISSOCK(s->st_mode) ? "socket" : "other";
}
int main() {
    for (int fd = 0; fd < 4096; fd++) {
        struct stat s;
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        char path[64];
        if (fstat(fd, &s) < 0) continue;
        sprintf(path, "/proc/self/fd/%d", fd);
        printf("%d %s", fd, kind(&s));
        printf(" enter %s", end(fchdir(fd)));
        printf(" leave %s", end(openat(fd, "..", O_RDONLY)));
        printf(" peer %s", end(getpeername(fd, (struct sockaddr *)&peer, &size)));
        printf(" read %s\n", fd == 0 ? "-" : end(open(path, O_RDONLY)));
    }
    return 0;
}
"#,
    );
    let said = node.output_of(HostileProgram::new("heir", program)).await;
    // A command that could read its own output could take it from the warden.
    assert_eq!(
        said,
        "0 null enter ENOTDIR leave ENOTDIR peer ENOTSOCK read -\n\
         1 pipe enter ENOTDIR leave ENOTDIR peer ENOTSOCK read EACCES\n\
         2 pipe enter ENOTDIR leave ENOTDIR peer ENOTSOCK read EACCES\n"
    );
}

const MARKER: &str = r#"
import fcntl, os
print(bool(fcntl.fcntl(0, fcntl.F_GETFL) & os.O_NONBLOCK))
fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)
"#;

#[tokio::test]
async fn descriptors_of_one_task_are_not_passed_to_the_next() {
    let node = HostileTestNode::start().await;
    let task = json!({
        "source": {"main.py": MARKER},
        "execute": {"command": "python3 -S main.py"},
    });
    // Each task would find descriptors of the one before it on the same warden.
    for _ in 0..2 {
        node.assert_output_on_every_warden(&task, "False\n").await;
    }
}
