//! Types of the model as JSON text: `#[serde(with = "serde_text::task")]` and so on.
//! The model does not depend on serde; its parsers check the text and give the error messages.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;

use crate::parse;

/// Deserializes a text and passes it to `parse`, without a copy unless the text contains escapes.
pub(crate) fn deserialize_text<'de, D, T, E>(
    deserializer: D,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: Display,
{
    /// A serde visitor that accepts JSON text and parses it as a type of the model, such as an id or a name.
    struct TextVisitor<T, E, F> {
        expected: &'static str,
        parse: F,
        parsed: PhantomData<fn() -> (T, E)>,
    }

    impl<T, E: Display, F: FnOnce(&str) -> Result<T, E>> Visitor<'_> for TextVisitor<T, E, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.expected)
        }

        fn visit_str<Err: Error>(self, text: &str) -> Result<T, Err> {
            (self.parse)(text).map_err(Err::custom)
        }
    }

    deserializer.deserialize_str(TextVisitor {
        expected,
        parse,
        parsed: PhantomData,
    })
}

/// Finds a value by its name among all that there are.
pub(crate) fn find_known<T: Copy, const N: usize>(
    kind: &str,
    known: [(&str, T); N],
    name: &str,
) -> Result<T, String> {
    let found = known.iter().find(|(candidate, _)| *candidate == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names = known.map(|(name, _)| name);
        format!("'{name}' {}", parse::unknown_name(kind, name, &names))
    })
}

/// Defines a module for `#[serde(with)]` for each type.
macro_rules! as_text {
    ($($module:ident: $type:ty, $expected:literal, $parse:expr, $show:expr;)*) => {$(
        pub(crate) mod $module {
            use super::*;

            pub(crate) fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&$show(value))
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                deserialize_text(deserializer, $expected, $parse)
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
    drain_reason: model::DrainReason, "a reason as text", model::DrainReason::new,
        |reason: &model::DrainReason| reason.clone();
    network: model::NetworkName, "a network's name as text", |text| model::NetworkName::new(text),
        |name: &model::NetworkName| name.clone();
    group: model::GroupName, "a group's name as text", |text| model::GroupName::new(text),
        |name: &model::GroupName| name.clone();
    language: model::LanguageName, "a language's name as text", |text| model::LanguageName::new(text),
        |name: &model::LanguageName| name.clone();
    root: model::RootName, "a root's name as text", |text| model::RootName::new(text),
        |name: &model::RootName| name.clone();
    problem: model::ProblemName, "a problem's name as text", |text| model::ProblemName::new(text),
        |name: &model::ProblemName| name.clone();
    case_name: model::CaseName, "a name as text", |text| model::CaseName::new(text),
        |name: &model::CaseName| name.clone();
    verdict: model::Verdict, "a verdict as text", |text| text.parse::<model::Verdict>(),
        |verdict: &model::Verdict| *verdict;
    stop: model::StopRule, "a rule as text",
        |text| find_known("rule", model::StopRule::ALL.map(|rule| (rule.as_str(), rule)), text),
        |rule: &model::StopRule| rule.as_str();
    scoring: model::GroupScoring, "a rule as text",
        |text| find_known("rule", model::GroupScoring::ALL.map(|rule| (rule.as_str(), rule)), text),
        |rule: &model::GroupScoring| rule.as_str();
    protocol: model::JudgeProtocol, "a protocol as text",
        |text| find_known("protocol", model::JudgeProtocol::ALL.map(|known| (known.as_str(), known)), text),
        |protocol: &model::JudgeProtocol| protocol.as_str();
    kept_path: model::WorkspacePath, "a path as text", |text| model::WorkspacePath::of_kept_file(text),
        |path: &model::WorkspacePath| path.clone();
    blob: model::BlobHash, "a SHA-256 in hex", |text| text.parse::<model::BlobHash>(),
        |hash: &model::BlobHash| *hash;
    step: model::StepName, "a step as text", |text| text.parse::<model::StepName>(),
        |step: &model::StepName| *step;
    stream: model::StreamName, "a stream as text", |text| text.parse::<model::StreamName>(),
        |stream: &model::StreamName| *stream;
    recorded_end: model::RecordedEnd, "the end of an attempt as text", |text| text.parse::<model::RecordedEnd>(),
        |end: &model::RecordedEnd| end.as_str();
    left_out_reason: model::LeftOutReason, "a reason as text", |text| text.parse::<model::LeftOutReason>(),
        |reason: &model::LeftOutReason| reason.as_str();
    span: model::HistorySpan, "hour or day", |text| text.parse::<model::HistorySpan>(),
        |span: &model::HistorySpan| *span;
    status: model::TaskStatus, "a status as text", |text| text.parse::<model::TaskStatus>(),
        |status: &model::TaskStatus| *status;
    reason: model::OutcomeReason, "a reason as text", |text| text.parse::<model::OutcomeReason>(),
        |reason: &model::OutcomeReason| *reason;
    time: model::UnixTime, "a time as text, like \"2026-01-31T12:00:00Z\"", crate::parse_time,
        |time: &model::UnixTime| crate::format_time(*time);
    cursor: model::SearchCursor, "a cursor as text", |text| text.parse::<model::SearchCursor>(),
        |cursor: &model::SearchCursor| *cursor;
}

/// The same modules for fields that may be null.
pub(crate) mod optional {
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    macro_rules! optional {
        ($($module:ident: $type:ty, $inner:literal;)*) => {$(
            pub(crate) mod $module {
                use super::*;

                /// A value of the model that is text in JSON, as the content of an optional field.
                #[derive(serde::Deserialize)]
                struct TextValue(#[serde(with = $inner)] $type);

                pub(crate) fn serialize<S: Serializer>(
                    value: &Option<$type>,
                    serializer: S,
                ) -> Result<S::Ok, S::Error> {
                    match value {
                        Some(value) => crate::serde_text::$module::serialize(value, serializer),
                        None => serializer.serialize_none(),
                    }
                }

                pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                    deserializer: D,
                ) -> Result<Option<$type>, D::Error> {
                    Ok(Option::deserialize(deserializer)?.map(|TextValue(value)| value))
                }
            }
        )*};
    }

    optional! {
        task: model::TaskId, "crate::serde_text::task";
        user: model::UserName, "crate::serde_text::user";
        executor: model::ExecutorName, "crate::serde_text::executor";
        network: model::NetworkName, "crate::serde_text::network";
        group: model::GroupName, "crate::serde_text::group";
        language: model::LanguageName, "crate::serde_text::language";
        root: model::RootName, "crate::serde_text::root";
        blob: model::BlobHash, "crate::serde_text::blob";
        reason: model::OutcomeReason, "crate::serde_text::reason";
        problem: model::ProblemName, "crate::serde_text::problem";
        case_name: model::CaseName, "crate::serde_text::case_name";
        verdict: model::Verdict, "crate::serde_text::verdict";
        stop: model::StopRule, "crate::serde_text::stop";
        recorded_end: model::RecordedEnd, "crate::serde_text::recorded_end";
        left_out_reason: model::LeftOutReason, "crate::serde_text::left_out_reason";
        time: model::UnixTime, "crate::serde_text::time";
        cursor: model::SearchCursor, "crate::serde_text::cursor";
    }
}
