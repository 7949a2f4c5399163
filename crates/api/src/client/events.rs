//! Reading server-sent events: blocks of `name: value` lines, each ended by an empty line.

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};

use super::ClientError;
use crate::{Event, Problem};

struct Reader<S> {
    bytes: S,
    buffer: Vec<u8>,
}

/// No event is anywhere near this long: a server that sends more is not ours.
const BLOCK_LIMIT: usize = 1 << 20;

pub(super) fn read<S>(bytes: S) -> impl Stream<Item = Result<Event, ClientError>> + Send + 'static
where
    S: Stream<Item = Result<Bytes, ClientError>> + Send + 'static,
{
    let reader = Reader {
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
                Ok(chunk) if reader.buffer.len() + chunk.len() > BLOCK_LIMIT => {
                    return Some((Err(foreign("an event without an end")), None));
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

/// A comment (they keep the connection alive) is no event.
fn parse_block(block: &[u8]) -> Option<Result<Event, ClientError>> {
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
            Ok(problem) => ClientError::Problem(Box::new(problem)),
            Err(error) => foreign(&error.to_string()),
        }),
        _ => serde_json::from_str(data).map_err(|error| foreign(&error.to_string())),
    })
}

fn foreign(problem: &str) -> ClientError {
    ClientError::Answer {
        server: "the server".into(),
        problem: problem.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_whole() {
        let mut buffer = b": hello\n\nevent: status\ndata: {}\n\nevent: sta".to_vec();
        assert_eq!(take_block(&mut buffer).unwrap(), b": hello\n\n");
        assert_eq!(take_block(&mut buffer).unwrap(), b"event: status\ndata: {}\n\n");
        assert_eq!(take_block(&mut buffer), None);
        assert_eq!(buffer, b"event: sta");
    }

    #[test]
    fn blocks_become_events() {
        assert!(parse_block(b": still here\n\n").is_none());
        let id = model::TaskId::generate();
        let block = format!(
            "event: status\ndata: {{\"id\":\"{id}\",\"status\":\"running\",\"done\":false,\
             \"executor\":null,\"time\":\"2026-01-01T00:00:00.000000Z\"}}\n\n"
        );
        let event = parse_block(block.as_bytes()).unwrap().unwrap();
        assert_eq!((event.id, event.status), (id, model::Status::Running));
        assert!(parse_block(b"data: {}\n\n").unwrap().is_err());
        let block =
            b"event: problem\ndata: {\"type\":\"x\",\"title\":\"x\",\"status\":503,\"detail\":\"gone\"}\n\n";
        let error = parse_block(block).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "gone");
    }
}
