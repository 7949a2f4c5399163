//! Parsing server-sent events: blocks of `name: value` lines, each followed by an empty line.

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};

use super::HttpClientError;
use crate::{Problem, TaskEvent};

/// Splits the bytes of a gateway's response into server-sent events, for the HTTP client.
struct EventReader<S> {
    bytes: S,
    buffer: Vec<u8>,
}

/// Far larger than any event of a gateway.
const MAX_EVENT_BYTES: usize = 1 << 20;

pub(super) fn read<S>(bytes: S) -> impl Stream<Item = Result<TaskEvent, HttpClientError>> + Send + 'static
where
    S: Stream<Item = Result<Bytes, HttpClientError>> + Send + 'static,
{
    let reader = EventReader {
        bytes: bytes.boxed(),
        buffer: Vec::new(),
    };
    stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        loop {
            while let Some(block) = take_block(&mut reader.buffer) {
                match parse_block(&block) {
                    None => {}
                    Some(Ok(event)) => return Some((Ok(event), Some(reader))),
                    Some(Err(error)) => return Some((Err(error), None)),
                }
            }
            match reader.bytes.next().await? {
                Ok(chunk) if reader.buffer.len() + chunk.len() > MAX_EVENT_BYTES => {
                    return Some((Err(unexpected("an event is too long")), None));
                }
                Ok(chunk) => reader.buffer.extend_from_slice(&chunk),
                Err(error) => return Some((Err(error), None)),
            }
        }
    })
}

fn take_block(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = buffer.windows(2).position(|pair| pair == b"\n\n")? + 2;
    let rest = buffer.split_off(end);
    Some(std::mem::replace(buffer, rest))
}

/// `None` for a comment, which the gateway sends to keep the connection open.
fn parse_block(block: &[u8]) -> Option<Result<TaskEvent, HttpClientError>> {
    let text = String::from_utf8_lossy(block);
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix(':')?;
            Some(value.strip_prefix(' ').unwrap_or(value))
        })
    };
    let data = value("data")?;
    Some(match value("event") {
        Some("problem") => Err(match serde_json::from_str::<Problem>(data) {
            Ok(problem) => HttpClientError::Problem(Box::new(problem)),
            Err(error) => unexpected(&error.to_string()),
        }),
        _ => serde_json::from_str(data).map_err(|error| unexpected(&error.to_string())),
    })
}

fn unexpected(problem: &str) -> HttpClientError {
    HttpClientError::UnexpectedResponse {
        server: "the server".into(),
        problem: problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_blocks_are_taken() {
        let mut buffer = b": hello\n\nevent: status\ndata: {}\n\nevent: sta".to_vec();
        assert_eq!(take_block(&mut buffer).unwrap(), b": hello\n\n");
        assert_eq!(take_block(&mut buffer).unwrap(), b"event: status\ndata: {}\n\n");
        assert_eq!(take_block(&mut buffer), None);
        assert_eq!(buffer, b"event: sta");
    }

    #[test]
    fn blocks_are_parsed_as_events() {
        assert!(parse_block(b": still here\n\n").is_none());
        let id = model::TaskId(uuid::Uuid::now_v7());
        let block = format!(
            "event: status\ndata: {{\"id\":\"{id}\",\"status\":\"running\",\"done\":false,\
             \"executor\":null,\"time\":\"2026-01-01T00:00:00.000000Z\"}}\n\n"
        );
        let event = parse_block(block.as_bytes()).unwrap().unwrap();
        assert_eq!((event.id, event.status), (id, model::TaskStatus::Running));
        assert!(parse_block(b"data: {}\n\n").unwrap().is_err());
        let block =
            b"event: problem\ndata: {\"type\":\"x\",\"title\":\"x\",\"status\":503,\"detail\":\"gone\"}\n\n";
        let error = parse_block(block).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "gone");
    }
}
