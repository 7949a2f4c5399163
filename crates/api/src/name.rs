//! The model's names and words as JSON text: `#[serde(with = "name::task")]` and so on.
//! The model knows no serde, and its own parsers say best what is wrong.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

/// Reads one text and hands it to `parse`, with no copy unless the text has escapes in it.
pub(crate) fn read<'de, D, T, E>(
    deserializer: D,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: Display,
{
    struct Text<T, E, F> {
        expected: &'static str,
        parse: F,
        made: PhantomData<fn() -> (T, E)>,
    }

    impl<T, E: Display, F: FnOnce(&str) -> Result<T, E>> Visitor<'_> for Text<T, E, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.expected)
        }

        fn visit_str<Err: Error>(self, text: &str) -> Result<T, Err> {
            (self.parse)(text).map_err(Err::custom)
        }
    }

    deserializer.deserialize_str(Text {
        expected,
        parse,
        made: PhantomData,
    })
}

/// Makes a module for `#[serde(with)]`.
macro_rules! as_text {
    ($($module:ident: $type:ty, $expected:literal, $parse:expr, $show:expr;)*) => {$(
        pub(crate) mod $module {
            use super::*;

            pub(crate) fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&$show(value))
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                read(deserializer, $expected, $parse)
            }
        }
    )*};
}

as_text! {
    task: model::TaskId, "a task's id as text", |text| text.parse::<model::TaskId>(), |id: &model::TaskId| *id;
    user: model::UserName, "a user's name as text", |text| model::UserName::new(text),
        |user: &model::UserName| user.clone();
    executor: model::ExecutorName, "an executor's name as text", |text| model::ExecutorName::new(text),
        |name: &model::ExecutorName| name.clone();
    network: model::NetworkName, "a network's name as text", |text| model::NetworkName::new(text),
        |name: &model::NetworkName| name.clone();
    status: model::Status, "a status as text", |text| text.parse::<model::Status>(),
        |status: &model::Status| *status;
    reason: model::Reason, "a reason as text", |text| text.parse::<model::Reason>(),
        |reason: &model::Reason| *reason;
    time: model::Moment, "a time as text, like \"2026-01-31T12:00:00Z\"", crate::parse_time,
        |time: &model::Moment| crate::show_time(*time);
    cursor: model::Cursor, "a cursor as text", |text| text.parse::<model::Cursor>(),
        |cursor: &model::Cursor| *cursor;
}

/// The same for a field that may be null.
pub(crate) mod optional {
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    macro_rules! optional {
        ($($module:ident: $type:ty, $inner:literal;)*) => {$(
            pub(crate) mod $module {
                use super::*;

                #[derive(serde::Deserialize)]
                struct Inner(#[serde(with = $inner)] $type);

                pub(crate) fn serialize<S: Serializer>(
                    value: &Option<$type>,
                    serializer: S,
                ) -> Result<S::Ok, S::Error> {
                    match value {
                        Some(value) => crate::name::$module::serialize(value, serializer),
                        None => serializer.serialize_none(),
                    }
                }

                pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                    deserializer: D,
                ) -> Result<Option<$type>, D::Error> {
                    Ok(Option::deserialize(deserializer)?.map(|Inner(value)| value))
                }
            }
        )*};
    }

    optional! {
        task: model::TaskId, "crate::name::task";
        user: model::UserName, "crate::name::user";
        executor: model::ExecutorName, "crate::name::executor";
        network: model::NetworkName, "crate::name::network";
        time: model::Moment, "crate::name::time";
        cursor: model::Cursor, "crate::name::cursor";
    }
}
