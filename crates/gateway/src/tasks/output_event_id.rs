//! The ids of output events: they say how far a client is in all output streams of a task.

use std::fmt;
use std::str::FromStr;

use axum::http::HeaderMap;
use model::{AttemptNumber, InvalidField, OutputPosition, OutputSource};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// The `id` of a server-sent event with output. It says how far a client that received the event is: the attempt, and
/// where the next bytes of each output stream begin, as numbers with dots in between. A client that lost its connection
/// sends the last one in `Last-Event-ID`, as browsers do, and the events continue there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputEventId {
    pub(super) attempt: AttemptNumber,
    /// In the order of [`OutputSource::ALL`].
    pub(super) offsets: [u64; OutputSource::ALL.len()],
}

const HEADER: &str = "Last-Event-ID";

impl OutputEventId {
    pub(super) fn read(headers: &HeaderMap) -> Result<Option<OutputEventId>, InvalidField> {
        // An empty one means the beginning, as for browsers.
        let Some(value) = headers.get(HEADER).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        let id = value.to_str().ok().and_then(|text| text.parse().ok());
        id.map(Some).ok_or_else(|| {
            InvalidField::new(
                HEADER,
                "is not the id of an output event; send the last one that you received, or leave it out",
            )
        })
    }

    pub(super) fn positions(&self) -> [OutputPosition; OutputSource::ALL.len()] {
        std::array::from_fn(|index| OutputPosition {
            source: OutputSource::ALL[index],
            offset: self.offsets[index],
        })
    }
}

impl fmt::Display for OutputEventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.attempt.0)?;
        self.offsets
            .iter()
            .try_for_each(|offset| write!(formatter, ".{offset}"))
    }
}

impl FromStr for OutputEventId {
    type Err = InvalidField;

    fn from_str(text: &str) -> Result<OutputEventId, InvalidField> {
        let number = |part: Option<&str>| {
            // `parse` would also take a sign.
            let digits = part.filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse::<u64>().ok())
        };
        let parse = || {
            let mut parts = text.split('.');
            let attempt = AttemptNumber(u32::try_from(number(parts.next())?).ok()?);
            let mut offsets = [0; OutputSource::ALL.len()];
            for offset in &mut offsets {
                *offset = number(parts.next())?;
            }
            parts
                .next()
                .is_none()
                .then_some(OutputEventId { attempt, offsets })
        };
        parse().ok_or_else(|| InvalidField::new("id", "is not the id of an output event"))
    }
}

impl PartialSchema for OutputEventId {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("The `id` of an output event."))
            .pattern(Some(r"^(?:[0-9]{1,9}(?:\.[0-9]{1,19}){4})?$"))
            .examples(["1.0.0.6.0"]);
        RefOr::T(schema.into())
    }
}

impl ToSchema for OutputEventId {}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn ids_are_five_numbers_with_dots() {
        let id = OutputEventId {
            attempt: AttemptNumber(2),
            offsets: [1, 0, 70_000, u64::MAX],
        };
        assert_eq!(id.to_string(), "2.1.0.70000.18446744073709551615");
        let read = |value: &'static [u8]| {
            let value = HeaderValue::from_bytes(value).unwrap();
            OutputEventId::read(&HeaderMap::from_iter([("last-event-id".parse().unwrap(), value)]))
        };
        assert_eq!(read(b"2.1.0.70000.18446744073709551615"), Ok(Some(id)));
        assert_eq!(read(b""), Ok(None));
        assert_eq!(OutputEventId::read(&HeaderMap::new()), Ok(None));
        for malformed in [
            &b"1"[..],
            b"1.2.3.4",
            b"1.2.3.4.5.6",
            b"1.2.3.4.",
            b"1.2.3.4.-5",
            b"1.2.3.4.+5",
            b"1.2.3.4.18446744073709551616",
            b"4294967296.0.0.0.0",
            b"\xff",
        ] {
            assert_eq!(read(malformed).unwrap_err().field, HEADER, "{malformed:?}");
        }
    }
}
