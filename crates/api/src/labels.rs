//! The labels of a task and its patterns of files to keep, in JSON.

use model::{InvalidField, Labels};
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;

use crate::item_limits::{CountedItem, text_by_name};

pub(crate) fn serialize<S: Serializer>(labels: &Labels, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter())
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    let labels = text_by_name(CountedItem::Labels, deserializer)?;
    Labels::new(labels).map_err(|invalid| D::Error::custom(message(&invalid)))
}

/// The error path names only `labels`, so the message names the label. `parse` extracts the numbers again.
fn message(invalid: &InvalidField) -> String {
    let InvalidField {
        field,
        problem,
        limit,
        actual,
    } = invalid;
    let label = field.strip_prefix("labels.");
    let problem = label.map_or_else(|| problem.clone(), |label| format!("'{label}' {problem}"));
    match (limit, actual) {
        (Some(limit), Some(actual)) => format!("{problem} (limit {limit}, actual {actual})"),
        _ => problem,
    }
}

/// The patterns of files to keep.
pub(crate) mod keep {
    use model::KeepPattern;
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    use crate::item_limits::{CountedItem, ListVisitor};
    use crate::serde_text::deserialize_text;

    /// A pattern of files to keep, which is text in JSON.
    struct KeepPatternText(KeepPattern);

    impl<'de> Deserialize<'de> for KeepPatternText {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeepPatternText, D::Error> {
            deserialize_text(deserializer, "a pattern as text", |text| {
                KeepPattern::new(text).map(KeepPatternText)
            })
        }
    }

    pub(crate) fn serialize<S: Serializer>(
        patterns: &[KeepPattern],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(patterns.iter().map(KeepPattern::as_str))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<KeepPattern>, D::Error> {
        let patterns: Vec<KeepPatternText> =
            deserializer.deserialize_seq(ListVisitor::new(CountedItem::Patterns))?;
        Ok(patterns
            .into_iter()
            .map(|KeepPatternText(pattern)| pattern)
            .collect())
    }
}
