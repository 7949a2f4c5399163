//! What waits for a program in the kernel's memory. `hostile_neighbours` has what the kernel keeps for it otherwise.

use cluster_tests::HostWatch;
use hostile::HOSTILE;
use serde_json::json;

use crate::stage::Zoo;

/// Says how many bytes wait in all sockets together when no more can be sent.
const QUEUES: &str = r#"
import socket
receivers = []
try:
    while True:
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(('127.0.0.1', 0))
        receiver.setblocking(False)
        receivers.append(receiver)
except OSError: pass
sender = receivers.pop()
for receiver in receivers:
    for _ in range(64):
        try: sender.sendto(bytes(16384), receiver.getsockname())
        except OSError: break
waiting = 0
for receiver in receivers:
    try:
        while True: waiting += len(receiver.recv(65536))
    except OSError: pass
print(len(receivers), waiting)
"#;

#[tokio::test]
async fn what_waits_in_sockets_is_bounded() {
    let zoo = Zoo::open().await;
    let queues = json!({
        "user": "zoo", "source": {"main.py": QUEUES},
        "execute": {
            "command": "python3 -S main.py", "network": "loopback",
            "limits": {"wall": "20s", "memory": "64MiB", "open_files": 500},
        },
    });
    let done = zoo.task(&queues).await;
    let said = done["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    let figures: Vec<u64> = said
        .split_whitespace()
        .filter_map(|figure| figure.parse().ok())
        .collect();
    let [sockets, waiting] = figures[..] else {
        panic!("{done:#}");
    };
    // Without a bound each socket holds about 100 KiB.
    assert!(sockets > 400 && waiting > 0 && waiting <= 16 << 20, "{said}");
}

#[tokio::test]
async fn files_that_mappings_hold_are_paid_for_with_memory() {
    // In the end it has more than 64 MiB allow, at about 400 bytes each with its mapping.
    const MOST: u64 = 250_000;
    let zoo = Zoo::open().await;
    let hostile = HOSTILE.iter().find(|hostile| hostile.name == "mapped_files");
    let mut task = hostile.expect("in the list").task(60);
    task["execute"]["limits"]["memory"] = json!("64MiB");
    let watch = HostWatch::start();
    let done = zoo.task(&task).await;
    let held = watch.end().open_files;
    assert_eq!(done["result"]["execute"]["reason"], "memory_limit", "{done:#}");
    // More than its limit of open files would allow to 20 processes, and no more than its memory allows.
    assert!(held > 20 * 16 && held < MOST, "{held} files");
}
