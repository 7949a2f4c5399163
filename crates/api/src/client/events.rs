//! Parsing server-sent events: blocks of `name: value` lines, each followed by an empty line.

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use serde::de::DeserializeOwned;

use super::HttpClientError;
use crate::{CaseEvent, OutputEvent, Problem, TaskEvent};

/// An event of a task that is followed together with its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStreamEvent {
    Status(TaskEvent),
    Case(CaseEvent),
    Output(OutputEvent),
}

/// An event of a task that is followed together with its output, as the HTTP client received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedTaskEvent {
    /// A client that lost its connection continues after the last event that has an id. Those with a status have none.
    pub id: Option<String>,
    pub event: TaskStreamEvent,
}

/// A server-sent event as the HTTP client receives it from a gateway: its name, its id and its data in JSON.
pub(super) struct ServerSentEvent<'a> {
    id: Option<&'a str>,
    name: Option<&'a str>,
    data: &'a str,
}

/// Splits the bytes of a gateway's response into server-sent events, for the HTTP client.
struct EventReader<S> {
    bytes: S,
    buffer: Vec<u8>,
}

/// Far larger than any event of a gateway.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Reads the events of a response with `parse`, which returns `None` for an event that it does not know.
pub(super) fn read<S, T>(
    bytes: S,
    parse: fn(&ServerSentEvent<'_>) -> Result<Option<T>, serde_json::Error>,
) -> impl Stream<Item = Result<T, HttpClientError>> + Send + 'static
where
    S: Stream<Item = Result<Bytes, HttpClientError>> + Send + 'static,
    T: Send + 'static,
{
    let reader = EventReader {
        bytes: bytes.boxed(),
        buffer: Vec::new(),
    };
    stream::unfold(Some(reader), move |reader| async move {
        let mut reader = reader?;
        loop {
            while let Some(block) = take_block(&mut reader.buffer) {
                match parse_block(&block, parse) {
                    Ok(None) => {}
                    Ok(Some(event)) => return Some((Ok(event), Some(reader))),
                    Err(error) => return Some((Err(error), None)),
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

/// For the statuses of a task, whose stream has the verdicts on its cases as well.
pub(super) fn parse_status(event: &ServerSentEvent<'_>) -> Result<Option<TaskEvent>, serde_json::Error> {
    match event.name {
        Some("status") => parse_data(event),
        _ => Ok(None),
    }
}

/// For streams with a single kind of event.
pub(super) fn parse_data<T: DeserializeOwned>(
    event: &ServerSentEvent<'_>,
) -> Result<Option<T>, serde_json::Error> {
    serde_json::from_str(event.data).map(Some)
}

/// For a task that is followed together with its output.
pub(super) fn parse_followed(
    event: &ServerSentEvent<'_>,
) -> Result<Option<ReceivedTaskEvent>, serde_json::Error> {
    let id = event.id.map(str::to_string);
    let event = match event.name {
        Some("status") => TaskStreamEvent::Status(serde_json::from_str(event.data)?),
        Some("case") => TaskStreamEvent::Case(serde_json::from_str(event.data)?),
        Some("output") => TaskStreamEvent::Output(serde_json::from_str(event.data)?),
        _ => return Ok(None),
    };
    Ok(Some(ReceivedTaskEvent { id, event }))
}

fn take_block(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = buffer.windows(2).position(|pair| pair == b"\n\n")? + 2;
    let rest = buffer.split_off(end);
    Some(std::mem::replace(buffer, rest))
}

/// `None` for a comment, which the gateway sends to keep the connection open, and for an unknown event.
fn parse_block<T>(
    block: &[u8],
    parse: fn(&ServerSentEvent<'_>) -> Result<Option<T>, serde_json::Error>,
) -> Result<Option<T>, HttpClientError> {
    let text = String::from_utf8_lossy(block);
    let value = |name: &str| {
        text.lines().find_map(|line| {
            let value = line.strip_prefix(name)?.strip_prefix(':')?;
            Some(value.strip_prefix(' ').unwrap_or(value))
        })
    };
    let Some(data) = value("data") else {
        return Ok(None);
    };
    let event = ServerSentEvent {
        id: value("id"),
        name: value("event"),
        data,
    };
    let unexpected = |error: serde_json::Error| unexpected(&error.to_string());
    match event.name {
        Some("problem") => {
            let problem: Problem = serde_json::from_str(data).map_err(unexpected)?;
            Err(HttpClientError::Problem(Box::new(problem)))
        }
        _ => parse(&event).map_err(unexpected),
    }
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
        let parse = |block: &[u8]| parse_block::<TaskEvent>(block, parse_data);
        assert!(parse(b": still here\n\n").unwrap().is_none());
        let id = model::TaskId(uuid::Uuid::now_v7());
        let block = format!(
            "event: status\ndata: {{\"id\":\"{id}\",\"status\":\"running\",\"done\":false,\
             \"executor\":null,\"time\":\"2026-01-01T00:00:00.000000Z\"}}\n\n"
        );
        let event = parse(block.as_bytes()).unwrap().unwrap();
        assert_eq!((event.id, event.status), (id, model::TaskStatus::Running));
        assert!(parse(b"data: {}\n\n").is_err());
        let block =
            b"event: problem\ndata: {\"type\":\"x\",\"title\":\"x\",\"status\":503,\"detail\":\"gone\"}\n\n";
        assert_eq!(parse(block).unwrap_err().to_string(), "gone");
    }

    #[test]
    fn verdicts_on_cases_are_left_out_of_the_statuses() {
        let block = b"event: case\ndata: {\"index\":1,\"name\":\"a b\",\"verdict\":\"wrong_answer\"}\n\n";
        assert_eq!(parse_block(block, parse_status).unwrap(), None);
        let followed = parse_block(block, parse_followed).unwrap();
        let expected = CaseEvent {
            index: 1,
            name: model::CaseName::new("a b").unwrap(),
            verdict: model::Verdict::WrongAnswer,
        };
        assert_eq!(
            followed.map(|event| event.event),
            Some(TaskStreamEvent::Case(expected))
        );
    }

    #[test]
    fn status_and_output_are_told_apart_and_unknown_events_are_skipped() {
        let parse = |block: &[u8]| parse_block(block, parse_followed).unwrap();
        assert_eq!(parse(b"event: news\ndata: {}\n\n"), None);
        let block = b"event: output\nid: 1.0.0.7.0\ndata: {\"attempt\":1,\"step\":\"execute\",\"stream\":\"stdout\",\"offset\":5,\"text\":\"hi\"}\n\n";
        let Some(ReceivedTaskEvent {
            id: Some(id),
            event: TaskStreamEvent::Output(output),
        }) = parse(block)
        else {
            panic!("this is output with an id");
        };
        assert_eq!(id, "1.0.0.7.0");
        assert_eq!((output.offset, output.text.as_deref()), (5, Some("hi")));
    }
}
