//! One resource limit in JSON: a value, or `"none"` where there is no limit. A request may also contain null.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{ByteSize, HumanDuration, integer};

/// The word that a response contains in place of a limit that does not exist.
pub(crate) const NONE: &str = "none";

/// The value of a resource limit in the JSON of a task: a duration, a size or a number.
pub(crate) trait LimitValue: Sized + Serialize {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl LimitValue for HumanDuration {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HumanDuration, D::Error> {
        HumanDuration::deserialize(deserializer)
    }
}

impl LimitValue for ByteSize {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        ByteSize::deserialize(deserializer)
    }
}

impl LimitValue for u32 {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        integer::deserialize(deserializer)
    }
}

pub(crate) fn serialize<T: LimitValue, S: Serializer>(
    limit: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match limit {
        Some(limit) => limit.serialize(serializer),
        None => serializer.serialize_str(NONE),
    }
}

pub(crate) fn deserialize<'de, T: LimitValue, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(LimitVisitor(PhantomData))
}

/// A serde visitor that parses a resource limit. It passes everything but null and `"none"` to the type of the value,
/// which has the error messages.
struct LimitVisitor<T>(PhantomData<T>);

impl<'de, T: LimitValue> Visitor<'de> for LimitVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a limit")
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<T>, E> {
        match text {
            NONE => Ok(None),
            text => T::read(text.into_deserializer()).map(Some),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<T>, E> {
        T::read(value.into_deserializer()).map(Some)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<T>, E> {
        T::read(number.into_deserializer()).map(Some)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<T>, E> {
        T::read(number.into_deserializer()).map(Some)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<T>, E> {
        T::read(number.into_deserializer()).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Option<T>, A::Error> {
        T::read(SeqAccessDeserializer::new(list)).map(Some)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::read(MapAccessDeserializer::new(map)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use crate::Limits;

    #[test]
    fn a_limit_is_a_value_or_none() {
        let check = |json: &str, expected: Option<u32>| {
            let limits: Limits = serde_json::from_str(&format!(r#"{{"processes": {json}}}"#)).unwrap();
            assert_eq!(limits.processes, expected, "{json}");
        };
        check("7", Some(7));
        check("7.0", Some(7));
        check("null", None);
        check("\"none\"", None);
        let written = serde_json::to_value(Limits::default()).unwrap();
        assert!(written.as_object().unwrap().values().all(|value| value == "none"));
        for (json, problem) in [
            (r#"{"wall": "never"}"#, "is not a duration"),
            (
                r#"{"wall": true}"#,
                "invalid type: boolean `true`, expected a number of seconds",
            ),
            (
                r#"{"memory": []}"#,
                "invalid type: sequence, expected a number of bytes",
            ),
            (
                r#"{"memory": {}}"#,
                "invalid type: map, expected a number of bytes",
            ),
            (r#"{"processes": "7"}"#, "expected a whole number"),
            (r#"{"processes": -1}"#, "expected a whole number"),
        ] {
            let error = serde_json::from_str::<Limits>(json).unwrap_err().to_string();
            assert!(error.contains(problem), "{json}: {error}");
        }
    }
}
