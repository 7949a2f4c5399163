//! Resources that the kernel limits for each user: a task of an ordinary user's executor exhausts them while others run.

use std::time::Duration;

use cluster_tests::{GuestCommand, GuestMachine, GuestOutputs, conclave};
use serde_json::Value;

const DONE: Duration = Duration::from_secs(450);

/// The soft limit of the guest is 1024 open files and the hard one 4096, as on many machines. 1024 are more than an eighth of the
/// executor's own limit, and as many as its wardens had before they raised theirs.
const START: &str = r#"
cd /tmp
conclave up --isolation cell --slots 3 --data node --set sandbox.open_files=1024 \
    --set limits.default.wall=300s >serving 2>log &
tries=600
until grep -q 'is serving' serving; do
    tries=$((tries - 1))
    [ $tries != 0 ] || exit 1
    sleep 0.1
done 2>/dev/null
"#;

/// Waits until the programs have changed their process name, which they do when the kernel refuses more.
const AWAIT_FULL: &str = r#"
tries=600
until [ "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^full$')" = COUNT ]; do
    tries=$((tries - 1))
    [ $tries != 0 ] || exit 1
    sleep 0.1
done
for comm in /proc/[0-9]*/comm; do
    grep -q '^full$' $comm && grep -E '^(Uid|Gid|Groups)' ${comm%comm}status
done 2>/dev/null | tr '\t' ' '
"#;

/// A task with files in a folder that sends descriptors to itself.
const NEIGHBOUR: &str = "conclave run --json --source /tmp/code --shell 'passes && cat folder/file && \
    chmod 600 folder/file && echo more >>folder/file && stat -c \"%u %g\" . folder folder/file /tmp /dev/shm'";
const NEIGHBOURS: [&str; 4] = ["first", "second", "third", "fourth"];

const CANCEL: &str = "for id in $(cat /tmp/ids); do conclave cancel $id; done; \
    while grep -q '^full$' /proc/[0-9]*/comm; do sleep 0.1; done 2>/dev/null";

/// Sends descriptors that are never received, until the kernel refuses.
const IN_FLIGHT: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
int main() {
    enum { EACH = 250 };
    union { struct cmsghdr header; char bytes[CMSG_SPACE(EACH * sizeof(int))]; } control;
    char byte = 0;
    struct iovec part = {&byte, 1};
    for (;;) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) return 1;
        for (;;) {
            struct msghdr message = {0};
            memset(&control, 0, sizeof control);
            message.msg_iov = &part;
            message.msg_iovlen = 1;
            message.msg_control = &control;
            message.msg_controllen = sizeof control.bytes;
            control.header.cmsg_level = SOL_SOCKET;
            control.header.cmsg_type = SCM_RIGHTS;
            control.header.cmsg_len = CMSG_LEN(EACH * sizeof(int));
            if (sendmsg(pair[0], &message, 0) > 0) continue;
            if (errno == EAGAIN) break;
            if (errno != ETOOMANYREFS) return 2;
            prctl(PR_SET_NAME, "full");
            for (;;) pause();
        }
    }
}
"#;

const WATCHES: &str = r#"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>
int main() {
    enum { FILES = 200 };
    int files[FILES];
    for (int i = 0; i < FILES; i += 2) if (pipe(files + i) != 0) return 1;
    for (;;) {
        int poll = epoll_create1(0);
        if (poll < 0) return 2;
        for (int i = 0; i < FILES; i++) {
            struct epoll_event event = {EPOLLET, {0}};
            if (epoll_ctl(poll, EPOLL_CTL_ADD, files[i], &event) == 0) continue;
            if (errno != ENOSPC) return 3;
            prctl(PR_SET_NAME, "full");
            for (;;) pause();
        }
    }
}
"#;

/// Sends a descriptor to itself and receives it.
const PASSES: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
int main() {
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = {{0}};
    char byte = 0;
    int pair[2];
    struct iovec part = {&byte, 1};
    struct msghdr message = {0};
    struct epoll_event event = {EPOLLIN, {0}};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control.bytes;
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
    if (epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, pair[1], &event) != 0) { perror("epoll_ctl"); return 2; }
    if (sendmsg(pair[0], &message, 0) != 1) { perror("sendmsg"); return 3; }
    if (recvmsg(pair[1], &message, 0) != 1) return 4;
    return 0;
}
"#;

fn guest() -> GuestMachine {
    GuestMachine::new()
        .program("conclave", &conclave())
        .c_program("in_flight", IN_FLIGHT)
        .c_program("watches", WATCHES)
        .c_program("passes", PASSES)
}

fn await_full(count: usize) -> GuestCommand {
    GuestCommand::root("full", &AWAIT_FULL.replace("COUNT", &count.to_string()))
}

fn neighbours() -> impl Iterator<Item = GuestCommand> {
    NEIGHBOURS
        .into_iter()
        .map(|name| GuestCommand::user(name, NEIGHBOUR))
}

fn add(program: &str) -> GuestCommand {
    GuestCommand::user(
        program,
        &format!("conclave add -- {program} >>/tmp/ids && cat /tmp/ids"),
    )
}

/// Asserts that each neighbour succeeded at its first attempt.
fn assert_neighbours_succeeded(ran: &GuestOutputs, expected: &str) {
    let log = ran["log"].text();
    for name in NEIGHBOURS {
        let said = &ran[name];
        assert_eq!(said.code, 0, "{name}: {said:?}\n---- log\n{log}");
        let task: Value = said.json();
        assert_eq!(task["attempt"], 1, "{name}: {task:#}\n---- log\n{log}");
        assert_eq!(
            task["result"]["execute"]["stdout"], expected,
            "{name}: {task:#}\n---- log\n{log}"
        );
    }
}

fn wall(ran: &GuestOutputs) -> Value {
    let walls = ran["check"].json_lines();
    let mut walls = walls.into_iter();
    let found = walls.find(|said| said["wall"] == "what the kernel counts for each user");
    found.expect("that wall")
}

const CHECK: &str = "conclave sandbox --check --json </dev/null";
const FILES: &str = "mkdir -p /tmp/code/folder && echo text >/tmp/code/folder/file && touch /tmp/ids && \
    chmod -R a+rX /tmp/code && chmod 666 /tmp/ids && echo 20000 >/proc/sys/fs/epoll/max_user_watches";

#[tokio::test]
async fn with_subordinate_ids_a_task_exhausts_only_its_own_users_limits() {
    let mut steps = vec![
        GuestCommand::root("files", FILES),
        GuestCommand::user("check", CHECK),
        GuestCommand::user("no privileges", &format!("setpriv --nnp {CHECK}")),
        GuestCommand::user("start", START),
        add("in_flight"),
        add("watches"),
        await_full(2),
    ];
    steps.extend(neighbours());
    steps.extend([
        GuestCommand::user("cancel", CANCEL),
        GuestCommand::user("after", NEIGHBOUR),
        GuestCommand::root("log", "cat /tmp/log"),
    ]);
    let ran = guest().subordinate_ids().run(&steps, DONE).await;

    let log = ran["log"].text();
    let wall = wall(&ran);
    assert!(wall["missing"].is_null(), "{wall:#}");
    let refused = ran["no privileges"].text();
    for words in [r#""missing":true"#, "NoNewPrivileges="] {
        assert!(refused.contains(words), "{:?}", ran["no privileges"]);
    }
    assert!(!log.contains("sandbox protection is missing"), "{log}");
    assert_eq!(ran["full"].code, 0, "{:?}\n---- log\n{log}", ran["full"]);
    let mut users: Vec<_> = lines(&ran, "Uid:");
    let groups = lines(&ran, "Gid:");
    assert_eq!(users, groups, "{:?}", ran["full"]);
    users.sort_unstable();
    users.dedup();
    // Two of the first six ids of three slots, which have 25 together.
    assert_eq!(users.len(), 2, "{:?}", ran["full"]);
    assert!(
        users.iter().all(|user| (165_511..165_517).contains(user)),
        "{users:?}"
    );
    let groupless = ran["full"].text().lines().filter(|line| line.trim() == "Groups:");
    assert_eq!(groupless.count(), 2, "{:?}", ran["full"]);
    let owners = "1000 1000\n".repeat(5);
    assert_neighbours_succeeded(&ran, &format!("text\n{owners}"));
    assert_eq!(ran["cancel"].code, 0, "{:?}", ran["cancel"]);
    assert_eq!(ran["after"].code, 0, "{:?}\n---- log\n{log}", ran["after"]);
}

/// The user ids in the lines that begin so; real, effective, saved and file system id are the same.
fn lines(ran: &GuestOutputs, start: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    for line in ran["full"].text().lines() {
        if let Some(rest) = line.strip_prefix(start) {
            let mut all: Vec<u32> = rest
                .split_whitespace()
                .map(|id| id.parse().expect("an id"))
                .collect();
            all.dedup();
            assert_eq!(all.len(), 1, "{line}");
            ids.extend(all);
        }
    }
    ids
}

#[tokio::test]
async fn without_subordinate_ids_the_executor_continues_and_names_the_missing_protection() {
    // Other tasks are refused as well, by their shared limit; but the executor must continue.
    let neighbours = NEIGHBOURS.map(|name| GuestCommand::user(name, &NEIGHBOUR.replace("passes && ", "")));
    let mut steps = vec![
        GuestCommand::root("files", FILES),
        GuestCommand::user("check", CHECK),
        GuestCommand::user("start", START),
        add("in_flight"),
        await_full(1),
    ];
    steps.extend(neighbours);
    steps.extend([
        GuestCommand::user("cancel", CANCEL),
        GuestCommand::user("after", NEIGHBOUR),
        GuestCommand::root("log", "cat /tmp/log"),
    ]);
    let ran = guest().run(&steps, DONE).await;

    let log = ran["log"].text();
    let wall = wall(&ran);
    assert_eq!(wall["missing"], true, "{wall:#}");
    let by = wall["by"].as_str().expect("words");
    // As it is in the log, with quotes.
    for said in [by, log] {
        for words in [
            "epoll watches",
            "512 open files",
            "apt-get install uidmap && usermod --add-subuids 100000-165535 --add-subgids 100000-165535 user",
        ] {
            assert!(said.contains(words), "no '{words}' in {said}");
        }
    }
    assert!(log.contains("sandbox protection is missing"), "{log}");
    assert_eq!(ran["full"].code, 0, "{:?}\n---- log\n{log}", ran["full"]);
    assert_eq!(lines(&ran, "Uid:"), [1000]);
    let owners = "1000 1000\n".repeat(5);
    assert_neighbours_succeeded(&ran, &format!("text\n{owners}"));
    assert_eq!(ran["after"].code, 0, "{:?}\n---- log\n{log}", ran["after"]);
}
