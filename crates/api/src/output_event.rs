//! Output of a running task in JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::{StepName, StreamName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{schema, serde_text};

/// A piece of a step's output, as an event of the stream of a task's events. It has one of `text` and `base64`. Within an
/// attempt, the pieces of a stream follow each other without gaps; a new attempt begins again at offset 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Output)]
pub struct OutputEvent {
    pub attempt: u32,
    #[serde(with = "serde_text::step")]
    #[schema(value_type = schema::Step)]
    pub step: StepName,
    #[serde(with = "serde_text::stream")]
    #[schema(value_type = schema::Stream)]
    pub stream: StreamName,
    /// How many bytes of the stream come before this piece.
    pub offset: u64,
    /// The bytes, if they are UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in standard base64, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl OutputEvent {
    /// The bytes of this piece. `None` if the server has sent neither text nor valid base64.
    pub fn bytes(&self) -> Option<Bytes> {
        match (&self.text, &self.base64) {
            (Some(text), None) => Some(Bytes::copy_from_slice(text.as_bytes())),
            (None, Some(encoded)) => STANDARD.decode(encoded).ok().map(Bytes::from),
            _ => None,
        }
    }

    /// Sets the bytes of this piece.
    pub fn with_bytes(self, bytes: Vec<u8>) -> OutputEvent {
        let (text, base64) = match String::from_utf8(bytes) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        OutputEvent { text, base64, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_base64() {
        let check = |bytes: &[u8], field: &str, value: &str| {
            let event = OutputEvent {
                attempt: 1,
                step: StepName::Execute,
                stream: StreamName::Stdout,
                offset: 7,
                text: None,
                base64: None,
            };
            let json = serde_json::to_value(event.with_bytes(bytes.to_vec())).unwrap();
            let expected = serde_json::json!({
                "attempt": 1, "step": "execute", "stream": "stdout", "offset": 7, field: value,
            });
            assert_eq!(json, expected);
            let read: OutputEvent = serde_json::from_value(json).unwrap();
            assert_eq!(read.bytes().unwrap(), bytes);
        };
        check("é\n".as_bytes(), "text", "é\n");
        check(b"a\xff", "base64", "Yf8=");
    }
}
