//! Connections that break after every few bytes: commands that follow a task still get all of its output, and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster_tests::ConclaveCli;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::harness::SingleNode;

const TIMEOUT: Duration = Duration::from_secs(60);
/// More than one event, far less than the output.
const BYTES_PER_CONNECTION: u64 = 300_000;
const OUTPUT: usize = 2_000_000;

/// A relay to a test's node that closes each connection after some bytes of the node, as a load balancer with a maximal
/// time for requests does. It counts the connections. It runs as long as the test's runtime.
async fn cutting_relay(target: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = connections.clone();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let target = target.clone();
            tokio::spawn(async move {
                let Ok(far) = TcpStream::connect(&target).await else {
                    return;
                };
                let (mut from_near, mut to_near) = near.into_split();
                let (from_far, mut to_far) = far.into_split();
                let mut from_far = from_far.take(BYTES_PER_CONNECTION);
                tokio::select! {
                    _ = tokio::io::copy(&mut from_far, &mut to_near) => {}
                    () = async {
                        let _ = tokio::io::copy(&mut from_near, &mut to_far).await;
                        std::future::pending().await
                    } => {}
                }
                let _ = to_near.shutdown().await;
            });
        }
    });
    (address, connections)
}

#[tokio::test]
async fn followers_continue_at_their_offset_and_end() {
    let node = SingleNode::up(&[]);
    let (address, connections) = cutting_relay(node.system.http().to_string()).await;
    let cut = ConclaveCli::new(&format!("http://{address}"));
    // Every line is different, so that lost, doubled and swapped parts are seen.
    let program = format!("seq -f '%.0f 0123456789' 1 1000000 | head -c {OUTPUT}; echo end >&2");
    let expected: String = (1..=1_000_000u32)
        .map(|line| format!("{line} 0123456789\n"))
        .collect();
    let expected = &expected.as_bytes()[..OUTPUT];
    let said = timeout(TIMEOUT, cut.run(&["run", "--shell", &program])).await;
    let said = said.expect("`run` ends");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout == expected, "{} bytes", said.stdout.len());
    assert!(said.stderr.contains("end\n"), "{}", said.stderr);
    let used = connections.load(Ordering::Relaxed);
    assert!(used > 5, "{used} connections were enough");

    let tasks = node
        .cli
        .run(&["search", "--json"])
        .await
        .assert_success()
        .json_lines();
    let id = tasks[0]["id"].as_str().expect("an id");
    let said = timeout(TIMEOUT, cut.run(&["watch", id])).await;
    let said = said.expect("`watch` ends");
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout == expected, "{} bytes", said.stdout.len());
    let used = connections.load(Ordering::Relaxed);
    println!("{used} connections");
    assert!(used < 100, "{used} connections: output comes again and again");
}
