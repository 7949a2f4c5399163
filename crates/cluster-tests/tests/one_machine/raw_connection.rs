//! A raw TCP connection, for requests that no HTTP client sends.

use std::time::Duration;

use cluster_tests::{HttpResponse, TestSystem};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A raw TCP connection of a test to a gateway, for requests that no HTTP client sends.
pub(crate) struct RawConnection(TcpStream);

impl RawConnection {
    pub(crate) async fn open(system: &TestSystem) -> RawConnection {
        RawConnection(TcpStream::connect(system.http()).await.expect("a connection"))
    }

    /// Sends the text and reads the beginning of the response.
    pub(crate) async fn ask(&mut self, text: &str) -> String {
        self.0.write_all(text.as_bytes()).await.expect("bytes are taken");
        let mut part = [0; 4096];
        let length = timeout(TIMEOUT, self.0.read(&mut part)).await;
        let length = length.expect("an answer in time").expect("an answer");
        String::from_utf8_lossy(&part[..length]).into_owned()
    }

    /// As `ask`, for a server that may close the connection early. Empty if the response is lost then.
    pub(crate) async fn try_ask(&mut self, text: &str) -> String {
        drop(self.0.write_all(text.as_bytes()).await);
        let mut part = [0; 4096];
        let length = timeout(TIMEOUT, self.0.read(&mut part)).await;
        let length = length.expect("an answer or an end in time").unwrap_or(0);
        String::from_utf8_lossy(&part[..length]).into_owned()
    }

    /// Sends the bytes and reads nothing.
    pub(crate) async fn send_only(&mut self, text: &[u8]) {
        self.0.write_all(text).await.expect("bytes are taken");
    }

    /// Sends `piece` every `pause` until the server responds, and returns the beginning of the response; empty if the server closes
    /// the connection without one.
    pub(crate) async fn trickle(&mut self, piece: &[u8], pause: Duration) -> String {
        let mut answer = [0; 4096];
        let trickling = async {
            loop {
                match timeout(pause, self.0.read(&mut answer)).await {
                    Ok(read) => return read.unwrap_or(0),
                    // Fails if the server has closed the connection; the next read shows that.
                    Err(_) => drop(self.0.write_all(piece).await),
                }
            }
        };
        let length = timeout(TIMEOUT, trickling).await.expect("an end in time");
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    /// Sends `head` and then `more` up to `times` times, and reads the response at the same time. `None` if the server closes the
    /// connection without one.
    pub(crate) async fn send(self, head: &[u8], more: &[u8], times: u64) -> Option<HttpResponse> {
        let (mut reader, mut writer) = self.0.into_split();
        let (head, more) = (head.to_vec(), more.to_vec());
        // The server may close the connection early; then sending fails, as expected.
        let sending = tokio::spawn(async move {
            writer.write_all(&head).await?;
            for _ in 0..times {
                writer.write_all(&more).await?;
            }
            writer.shutdown().await
        });
        let mut answer = Vec::new();
        let mut part = [0; 4096];
        let read = async {
            // Until the end or an error: what was received before is the response.
            while let Ok(length @ 1..) = reader.read(&mut part).await {
                answer.extend_from_slice(&part[..length]);
                if is_complete(&answer) {
                    break;
                }
            }
        };
        timeout(TIMEOUT, read).await.expect("an answer or an end in time");
        sending.abort();
        (!answer.is_empty()).then(|| parse(&answer))
    }
}

fn split(answer: &[u8]) -> Option<(String, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((
        String::from_utf8_lossy(&answer[..end]).into_owned(),
        &answer[end + 4..],
    ))
}

fn length(head: &str) -> usize {
    let lower = head.to_ascii_lowercase();
    let length = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)
}

fn is_complete(answer: &[u8]) -> bool {
    split(answer).is_some_and(|(head, body)| body.len() >= length(&head))
}

fn parse(answer: &[u8]) -> HttpResponse {
    let (head, body) =
        split(answer).unwrap_or_else(|| panic!("not an HTTP answer: {}", String::from_utf8_lossy(answer)));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.parse().ok()?, value.parse().ok()?))
    });
    HttpResponse {
        status: status.expect("a status"),
        headers: headers.collect(),
        body: body.to_vec(),
    }
}
