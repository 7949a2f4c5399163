//! A judicator that is called over gRPC, through a proxy that can cut connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt};
use model::{
    AddTask, BlobHash, FollowRequest, OutputEvent, OutputPosition, OutputSource, StepName, StreamName,
};
use rpc::{BlobFileSource, Calls, RpcClient, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::fake_output::FakeOutput;
use super::harness::with_deadline;
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, new_id, spec};

/// A TCP proxy that counts what clients send, and cuts the connection that exceeds the limit.
#[derive(Clone)]
struct CuttingProxy {
    sent: Arc<AtomicU64>,
    limit: Arc<AtomicU64>,
}

impl CuttingProxy {
    /// Returns the address at which it listens.
    async fn start(server: String) -> (CuttingProxy, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let proxy = CuttingProxy {
            sent: Arc::default(),
            limit: Arc::new(AtomicU64::new(u64::MAX)),
        };
        let accepting = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(accepting.clone().pass_on(client, server));
            }
        });
        (proxy, address)
    }

    async fn pass_on(self, client: TcpStream, server: TcpStream) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let upwards = async {
            let mut buffer = vec![0; 16 << 10];
            while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
                let sent = self.sent.fetch_add(length as u64, Ordering::SeqCst) + length as u64;
                if sent > self.limit.load(Ordering::SeqCst)
                    || to_server.write_all(&buffer[..length]).await.is_err()
                {
                    return;
                }
            }
        };
        tokio::select! {
            () = upwards => {}
            _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
        }
    }
}

/// Serves the judicator, and returns its address.
async fn serve_judicator(node: &SqliteJudicator) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(serve(
        listener,
        node.judicator.clone(),
        None,
        CancellationToken::new(),
    ));
    address
}

fn client(address: String) -> RpcClient {
    RpcClient::new(watch::channel(vec![address]).1, None)
}

#[tokio::test]
async fn an_upload_continues_after_its_connection_was_cut() {
    const SIZE: u64 = 16 << 20;
    let folder = tempfile::tempdir().unwrap();
    let node = SqliteJudicator::start(folder.path());
    let (proxy, address) = CuttingProxy::start(serve_judicator(&node).await).await;
    let client = client(address);
    let content: Vec<u8> = (0..SIZE as u32 / 4).flat_map(u32::to_le_bytes).collect();
    let source = BlobFileSource {
        hash: BlobHash::of(&content),
        size: SIZE,
        path: folder.path().join("outgoing"),
    };
    std::fs::write(&source.path, &content).unwrap();
    for part in 1..=3 {
        let sent = proxy.sent.load(Ordering::SeqCst);
        proxy.limit.store(sent + SIZE / 4, Ordering::SeqCst);
        let cut = with_deadline(client.put_blob_file(source.clone())).await;
        assert!(
            cut.as_ref().is_err_and(|error| error.is_transient()),
            "{part}: {cut:?}"
        );
    }
    proxy.limit.store(u64::MAX, Ordering::SeqCst);
    with_deadline(client.put_blob_file(source.clone())).await.unwrap();
    let sent = proxy.sent.load(Ordering::SeqCst);
    assert!(sent < SIZE + SIZE / 4, "{sent} bytes were sent for {SIZE}");
    let stored = client.get_blob(source.hash).await.unwrap();
    let stored: Vec<_> = with_deadline(stored.try_collect::<Vec<_>>()).await.unwrap();
    assert!(stored.concat() == content);
}

#[tokio::test]
async fn output_passes_from_a_remote_executor_to_a_remote_follower() {
    const STDOUT: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stdout);
    let folder = tempfile::tempdir().unwrap();
    let node = SqliteJudicator::start(folder.path());
    let server_address = serve_judicator(&node).await;
    let (proxy, address) = CuttingProxy::start(server_address.clone()).await;
    let (executor_calls, follower_calls) = (client(address), client(server_address));
    let id = new_id();
    let task = AddTask::new(id, spec());
    follower_calls.add(vec![task]).await.unwrap();
    let at = OutputPosition {
        source: STDOUT,
        offset: 0,
    };
    let request = FollowRequest {
        attempt: None,
        positions: vec![at],
    };
    let mut events = follower_calls.follow(id, request).await.unwrap();
    let mut executor = ScriptedExecutor::new(&node.judicator, "e");
    let output = FakeOutput::default();
    let attempt = executor.claim_one().await;
    let content: Vec<u8> = (0..1 << 18_u32).flat_map(u32::to_le_bytes).collect();
    let mut read = Vec::new();
    // The connection of the executor is cut twice.
    for part in content.chunks(content.len().div_ceil(3)) {
        let connection =
            with_deadline(output.connect(&executor_calls, &executor.name, executor.session)).await;
        output.write(attempt, STDOUT, part);
        let expected = read.len() + part.len();
        while read.len() < expected {
            match with_deadline(events.next()).await.unwrap().unwrap() {
                OutputEvent::Written { at, bytes, .. } => {
                    assert_eq!(at.offset, read.len() as u64);
                    read.extend_from_slice(&bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        connection.abort();
    }
    assert!(read == content);
    assert!(proxy.sent.load(Ordering::SeqCst) > content.len() as u64);
    executor.finish(&[attempt], 0).await;
    assert!(with_deadline(events.next()).await.is_none());
}
