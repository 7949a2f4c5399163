//! A command in JSON: text is a shell command, a list is a program and its arguments.

use std::fmt;

use model::StepCommand;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};

use crate::item_limits::{self, CountedItem};

pub(crate) fn serialize<S: Serializer>(command: &StepCommand, serializer: S) -> Result<S::Ok, S::Error> {
    match command {
        StepCommand::Shell(text) => serializer.serialize_str(text),
        StepCommand::Argv(words) => {
            let mut list = serializer.serialize_seq(Some(words.len()))?;
            words.iter().try_for_each(|word| list.serialize_element(word))?;
            list.end()
        }
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StepCommand, D::Error> {
    /// A serde visitor that parses the command of a step from JSON: text for the shell, or a list of arguments.
    struct CommandVisitor;

    impl<'de> Visitor<'de> for CommandVisitor {
        type Value = StepCommand;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text or a list of texts")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<StepCommand, E> {
            Ok(StepCommand::Shell(text.to_string()))
        }

        fn visit_string<E: Error>(self, text: String) -> Result<StepCommand, E> {
            Ok(StepCommand::Shell(text))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<StepCommand, A::Error> {
            Ok(StepCommand::Argv(item_limits::read_list(
                CountedItem::Words,
                list,
            )?))
        }
    }

    deserializer.deserialize_any(CommandVisitor)
}
