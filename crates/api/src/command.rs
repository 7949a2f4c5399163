//! A command: text for the shell, or a list for no shell.

use std::fmt;

use model::Command;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};

use crate::bounds::{self, Kind};

pub(crate) fn serialize<S: Serializer>(command: &Command, serializer: S) -> Result<S::Ok, S::Error> {
    match command {
        Command::Shell(text) => serializer.serialize_str(text),
        Command::Argv(words) => {
            let mut list = serializer.serialize_seq(Some(words.len()))?;
            words.iter().try_for_each(|word| list.serialize_element(word))?;
            list.end()
        }
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Command, D::Error> {
    struct CommandVisitor;

    impl<'de> Visitor<'de> for CommandVisitor {
        type Value = Command;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text or a list of texts")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Command, E> {
            Ok(Command::Shell(text.to_string()))
        }

        fn visit_string<E: Error>(self, text: String) -> Result<Command, E> {
            Ok(Command::Shell(text))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Command, A::Error> {
            Ok(Command::Argv(bounds::read_list(Kind::Words, list)?))
        }
    }

    deserializer.deserialize_any(CommandVisitor)
}
