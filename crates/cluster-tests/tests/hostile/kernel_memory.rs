//! Kernel memory of socket buffers and of mapped files. `hostile_neighbours` tests other kernel memory.

use cluster_tests::HostUsageMonitor;
use hostile::HOSTILE_TASKS;
use serde_json::json;

use crate::harness::HostileTestNode;

/// Prints how many bytes are queued in all sockets together when no more can be sent.
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
async fn socket_buffers_are_limited() {
    let node = HostileTestNode::start().await;
    let queues = json!({
        "user": "zoo", "source": {"main.py": QUEUES},
        "execute": {
            "command": "python3 -S main.py", "network": "loopback",
            "limits": {"wall": "20s", "memory": "64MiB", "open_files": 500},
        },
    });
    let done = node.task(&queues).await;
    let said = done["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    let figures: Vec<u64> = said
        .split_whitespace()
        .filter_map(|figure| figure.parse().ok())
        .collect();
    let [sockets, waiting] = figures[..] else {
        panic!("{done:#}");
    };
    // Without the limit each socket holds about 100 KiB.
    assert!(sockets > 400 && waiting > 0 && waiting <= 16 << 20, "{said}");
}

#[tokio::test]
async fn mapped_files_are_limited_by_memory() {
    // More than 64 MiB allow, at about 400 bytes for each file with its mapping.
    const MOST: u64 = 250_000;
    let node = HostileTestNode::start().await;
    let hostile = HOSTILE_TASKS
        .iter()
        .find(|hostile| hostile.name == "mapped_files");
    let mut task = hostile.expect("in the list").task(60);
    task["execute"]["limits"]["memory"] = json!("64MiB");
    let watch = HostUsageMonitor::start();
    let done = node.task(&task).await;
    let held = watch.end().open_files;
    assert_eq!(done["result"]["execute"]["reason"], "memory_limit", "{done:#}");
    // More than the limit of open files allows for 20 processes, but no more than the memory limit allows.
    assert!(held > 20 * 16 && held < MOST, "{held} files");
}
