//! Reads a streamed HTTP response in the background, so that a test sees each part as it arrives.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::sync::watch;

/// Long, because the machine may be busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An HTTP response that a test reads in the background while the server still sends it.
pub struct StreamedResponse {
    pub status: u16,
    pub headers: HeaderMap,
    received: watch::Receiver<ReceivedBody>,
}

/// What a test has received of a streamed body.
#[derive(Default)]
struct ReceivedBody {
    bytes: Vec<u8>,
    end: Option<BodyEnd>,
}

/// How a streamed body ended that a test has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    Complete,
    /// The connection ended within the body.
    Aborted,
}

/// One event of a `text/event-stream` that a test has received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedEvent {
    pub name: String,
    pub data: Value,
}

impl StreamedResponse {
    /// Sends the request, and returns once the head of the response has arrived.
    pub async fn open(request: RequestBuilder) -> StreamedResponse {
        StreamedResponse::try_open(request).await.expect("an answer")
    }

    /// As `open`; `None` if there is no answer.
    pub async fn try_open(request: RequestBuilder) -> Option<StreamedResponse> {
        let response = request.timeout(Duration::from_secs(300)).send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let (sender, received) = watch::channel(ReceivedBody::default());
        tokio::spawn(read(response, sender));
        Some(StreamedResponse {
            status,
            headers,
            received,
        })
    }

    /// Waits until what was received satisfies the condition.
    pub async fn wait_for(&mut self, what: &str, is_wanted: impl Fn(&[u8]) -> bool) {
        let wanted = self.received.wait_for(|body| is_wanted(&body.bytes));
        let found = tokio::time::timeout(TIMEOUT, wanted)
            .await
            .is_ok_and(|found| found.is_ok());
        assert!(found, "waited in vain for {what}: {:?}", self.text());
    }

    /// Waits until the body has ended, and returns how, and all of it.
    pub async fn end(mut self) -> (BodyEnd, Vec<u8>) {
        let ended = self.received.wait_for(|body| body.end.is_some());
        let ended = tokio::time::timeout(TIMEOUT, ended).await.is_ok();
        let body = self.received.borrow();
        let end = body.end.filter(|_| ended);
        let end = end.unwrap_or_else(|| panic!("no end after {} bytes", body.bytes.len()));
        (end, body.bytes.clone())
    }

    /// Waits for the end of a complete body.
    pub async fn complete(self) -> Vec<u8> {
        let (end, bytes) = self.end().await;
        assert_eq!(end, BodyEnd::Complete, "after {} bytes", bytes.len());
        bytes
    }

    pub fn received(&self) -> Vec<u8> {
        self.received.borrow().bytes.clone()
    }

    pub fn has_ended(&self) -> bool {
        self.received.borrow().end.is_some()
    }

    fn text(&self) -> String {
        let bytes = self.received();
        let shown = &bytes[..bytes.len().min(2000)];
        format!("{} bytes: {}", bytes.len(), String::from_utf8_lossy(shown))
    }

    /// The complete events so far.
    pub fn events(&self) -> Vec<ReceivedEvent> {
        ReceivedEvent::parse_all(&self.received())
    }
}

impl ReceivedEvent {
    /// Parses the events of a body; the last may be incomplete and is left out then.
    pub fn parse_all(body: &[u8]) -> Vec<ReceivedEvent> {
        let text = String::from_utf8_lossy(body);
        let Some((complete, _)) = text.rsplit_once("\n\n") else {
            return Vec::new();
        };
        complete.split("\n\n").filter_map(ReceivedEvent::parse).collect()
    }

    /// `None` for a comment, which keeps the connection alive.
    fn parse(text: &str) -> Option<ReceivedEvent> {
        let field = |name: &str| {
            let lines = text.lines().filter_map(move |line| line.strip_prefix(name));
            let values: Vec<_> = lines.map(str::trim_start).collect();
            (!values.is_empty()).then(|| values.join("\n"))
        };
        let data = field("data:")?;
        Some(ReceivedEvent {
            name: field("event:").unwrap_or_default(),
            data: serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {text}")),
        })
    }
}

async fn read(mut response: Response, sender: watch::Sender<ReceivedBody>) {
    let end = loop {
        match response.chunk().await {
            Ok(Some(bytes)) => sender.send_modify(|body| body.bytes.extend_from_slice(&bytes)),
            Ok(None) => break BodyEnd::Complete,
            Err(_) => break BodyEnd::Aborted,
        }
        if sender.is_closed() {
            return;
        }
    };
    sender.send_modify(|body| body.end = Some(end));
}
