//! Timeouts against a server that sends its responses slowly, byte by byte.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

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
    let output = client.output(task, StepName::Execute, OutputName::Stdout).await;
    assert_eq!(output.unwrap().len(), bytes);
    let hash: BlobHash = "0".repeat(64).parse().unwrap();
    let blob = client.get_blob(hash).await.unwrap();
    let sizes: Vec<_> = blob.map(|part| part.unwrap().len()).collect().await;
    assert_eq!(sizes.iter().sum::<usize>(), bytes);
}
