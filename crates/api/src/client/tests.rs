//! Timeouts and lost connections, against servers that send their responses slowly or in part.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use futures::StreamExt;
use model::{BlobHash, StepName, StreamName, TaskId};

use super::*;

const PAUSE: Duration = Duration::from_millis(100);
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// A client of a server that sends bodies of this many bytes, with a pause before each byte.
async fn client_of_slow_server(status: &'static str, bytes: usize) -> HttpClient {
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
    let options = HttpClientOptions {
        idle_timeout: IDLE_TIMEOUT,
        ..HttpClientOptions::default()
    };
    HttpClient::with_options(&server, options).unwrap()
}

#[tokio::test]
async fn a_json_response_that_arrives_byte_by_byte_hits_the_deadline() {
    for status in ["200 OK", "503 Service Unavailable"] {
        let client = client_of_slow_server(status, 10_000).await;
        let stats = tokio::time::timeout(20 * IDLE_TIMEOUT, client.stats()).await;
        let error = stats.expect("the client has no deadline").unwrap_err();
        assert!(
            matches!(error, HttpClientError::IncompleteResponse { .. }),
            "{error}"
        );
        assert!(error.is_transient() && error.may_have_taken_effect());
    }
    // The deadline is that of all attempts together.
    let client = client_of_slow_server("200 OK", 10_000).await;
    let retry_policy = HttpRetryPolicy::new(IDLE_TIMEOUT, 2 * IDLE_TIMEOUT, |_| {});
    let client = HttpClient {
        retry_policy,
        ..client
    };
    let began = Instant::now();
    let error = client.stats().await.unwrap_err();
    assert!(
        matches!(error, HttpClientError::IncompleteResponse { .. }),
        "{error}"
    );
    assert!(began.elapsed() >= 2 * IDLE_TIMEOUT, "{:?}", began.elapsed());
}

#[tokio::test]
async fn blobs_and_outputs_have_no_deadline_while_bytes_arrive() {
    let bytes = 25;
    let client = client_of_slow_server("200 OK", bytes).await;
    let task = TaskId(uuid::Uuid::now_v7());
    let output = client.output(task, StepName::Execute, StreamName::Stdout).await;
    assert_eq!(output.unwrap().len(), bytes);
    let hash: BlobHash = "0".repeat(64).parse().unwrap();
    let blob = client.get_blob(hash).await.unwrap();
    let sizes: Vec<_> = blob.map(|part| part.unwrap().len()).collect().await;
    assert_eq!(sizes.iter().sum::<usize>(), bytes);
}

/// A server that sends pieces of one text, ten bytes in each connection, and then breaks the connection. It understands
/// `Range` and the parameter `offset`. Returns a client, and counts the connections.
async fn client_of_breaking_server(text: &'static str) -> (HttpClient, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let mut request = vec![0; 4096];
            let length = connection.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
            let number_after = |mark: &str| -> Option<usize> {
                let (_, rest) = request.split_once(mark)?;
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse().ok()
            };
            let range = number_after("range: bytes=");
            let from = range.or(number_after("offset=")).unwrap_or(0);
            let status = range.map_or("200 OK", |_| "206 Partial Content");
            let rest = &text[from..];
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", rest.len());
            let _ = connection.write_all(head.as_bytes()).await;
            let _ = connection.write_all(&rest.as_bytes()[..rest.len().min(10)]).await;
        }
    });
    let options = HttpClientOptions {
        idle_timeout: IDLE_TIMEOUT,
        retry_for: 20 * IDLE_TIMEOUT,
        ..HttpClientOptions::default()
    };
    (HttpClient::with_options(&server, options).unwrap(), connections)
}

const TEXT: &str = "exactly these bytes, once";

#[tokio::test]
async fn a_followed_output_continues_at_its_offset() {
    let (client, connections) = client_of_breaking_server(TEXT).await;
    let task = TaskId(uuid::Uuid::now_v7());
    for offset in [0, 7] {
        let output = client.follow_output(task, StepName::Execute, StreamName::Stdout, offset);
        let pieces: Vec<_> = output.map(|piece| piece.unwrap()).collect().await;
        assert_eq!(pieces.concat(), TEXT.as_bytes()[offset as usize..]);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 3 + 2);
    // Without retries the error is returned, and the stream ends.
    let retry_policy = HttpRetryPolicy::new(IDLE_TIMEOUT, Duration::ZERO, |_| {});
    let client = HttpClient {
        retry_policy,
        ..client
    };
    let output = client.follow_output(task, StepName::Execute, StreamName::Stdout, 0);
    let pieces: Vec<_> = output.collect().await;
    assert!(matches!(
        pieces.last(),
        Some(Err(HttpClientError::ConnectionLost { .. }))
    ));
}

#[tokio::test]
async fn a_downloaded_file_is_verified() {
    let (client, connections) = client_of_breaking_server(TEXT).await;
    let task = TaskId(uuid::Uuid::now_v7());
    let file = crate::KeptFile {
        path: model::WorkspacePath::new("out/a b%2F?#.csv").unwrap(),
        size: TEXT.len() as u64,
        sha256: BlobHash::of(TEXT),
        executable: false,
    };
    let mut content = Vec::new();
    client.download_file(task, &file, &mut content).await.unwrap();
    assert_eq!(content, TEXT.as_bytes());
    assert_eq!(connections.load(Ordering::Relaxed), 3);
    let other = crate::KeptFile {
        sha256: BlobHash::of("other"),
        ..file.clone()
    };
    let error = client
        .download_file(task, &other, &mut Vec::new())
        .await
        .unwrap_err();
    assert!(matches!(error, FileDownloadError::WrongContent { .. }), "{error}");
    let short = crate::KeptFile { size: 7, ..file };
    let error = client
        .download_file(task, &short, &mut Vec::new())
        .await
        .unwrap_err();
    assert!(matches!(error, FileDownloadError::TooLong { .. }), "{error}");
}

#[test]
fn names_of_users_are_single_parts_of_a_url() {
    let client = HttpClient::new("http://h/base/", None).unwrap();
    let url = client.url_below("/api/v1/groups", ["a b%2F?#", "events"]);
    assert_eq!(
        url.as_str(),
        "http://h/base/api/v1/groups/a%20b%252F%3F%23/events"
    );
}
