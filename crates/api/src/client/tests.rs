//! A server whose answers come slowly, byte by byte.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const PAUSE: Duration = Duration::from_millis(100);
const SILENCE: Duration = Duration::from_secs(1);

/// Answers each call with a body of this many bytes, one of them after each pause.
async fn trickling(status: &'static str, bytes: usize) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = connection.read(&mut [0; 4096]).await;
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {bytes}\r\n\r\n");
                let _ = connection.write_all(head.as_bytes()).await;
                for _ in 0..bytes {
                    tokio::time::sleep(PAUSE).await;
                    if connection.write_all(b" ").await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    let options = ClientOptions {
        silence: SILENCE,
        ..ClientOptions::default()
    };
    Client::with(&server, options).unwrap()
}

#[tokio::test]
async fn an_answer_in_json_has_a_deadline_however_steadily_it_trickles() {
    for status in ["200 OK", "503 Service Unavailable"] {
        let client = trickling(status, 10_000).await;
        let answer = tokio::time::timeout(20 * SILENCE, client.stats()).await;
        let error = answer.expect("it waits on and on").unwrap_err();
        assert!(matches!(error, ClientError::Unfinished { .. }), "{error}");
        assert!(error.is_transient() && error.may_have_been_done());
    }
    // Repeats count: the call ends at its deadline.
    let client = trickling("200 OK", 10_000).await;
    let repeat = Repeat::new(SILENCE, 2 * SILENCE, |_| {});
    let client = Client { repeat, ..client };
    let began = Instant::now();
    let error = client.stats().await.unwrap_err();
    assert!(matches!(error, ClientError::Unfinished { .. }), "{error}");
    assert!(began.elapsed() >= 2 * SILENCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn blobs_and_outputs_may_take_as_long_as_their_bytes_move() {
    let bytes = 25;
    let client = trickling("200 OK", bytes).await;
    let task = TaskId::generate();
    let output = client.output(task, Step::Execute, Output::Stdout).await;
    assert_eq!(output.unwrap().len(), bytes);
    let hash: BlobHash = "0".repeat(64).parse().unwrap();
    let blob = client.get_blob(hash).await.unwrap();
    let sizes: Vec<_> = blob.map(|part| part.unwrap().len()).collect().await;
    assert_eq!(sizes.iter().sum::<usize>(), bytes);
}
