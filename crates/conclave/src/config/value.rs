//! The kinds of values that keys take, each read from text and shown as text.

mod amount;
mod cell;
mod place;
mod word;

pub(crate) use amount::{Auto, Most, OpenFiles, Port, Slots, Threads};
pub(crate) use cell::{Bind, GroupPath, Isolation, UserNumber};
pub(crate) use place::{Address, DataFolder, Founder, Host, Program};
pub(crate) use word::{Log, LogFormat, Metrics, NodeName, SetName};

/// Something that a key can be set to. Every layer gives text, so there is one reader for all of them.
pub(crate) trait Value: Sized {
    const ACCEPTS: &'static str;
    /// What an `Option` of it accepts besides; set where there are such keys.
    const ACCEPTS_OR_NOT: &'static str = Self::ACCEPTS;
    /// What a key takes that can also leave it to the node; set where there are such keys.
    const ACCEPTS_OR_AUTO: &'static str = Self::ACCEPTS;
    /// The word for having none of it, or for leaving the choice to the node.
    const WORD: Option<&'static str> = None;
    const PATH: bool = false;

    fn parse(text: &str) -> Result<Self, String>;
    fn show(&self) -> String;
}

impl<T: Value> Value for Option<T> {
    const ACCEPTS: &'static str = T::ACCEPTS_OR_NOT;
    const WORD: Option<&'static str> = match T::WORD {
        None => Some("none"),
        word => word,
    };
    const PATH: bool = T::PATH;

    fn parse(text: &str) -> Result<Option<T>, String> {
        match Self::WORD {
            Some(word) if text == word => Ok(None),
            _ => T::parse(text).map(Some),
        }
    }

    fn show(&self) -> String {
        match self {
            Some(value) => value.show(),
            None => Self::WORD.unwrap_or("none").to_string(),
        }
    }
}

#[cfg(test)]
fn check<T: Value>(text: &str, expected: Result<&str, &str>) {
    match (T::parse(text), expected) {
        (Ok(value), Ok(shown)) => assert_eq!(value.show(), shown, "{text:?}"),
        (Err(wrong), Err(part)) => assert!(wrong.contains(part), "{text:?} gave: {wrong}"),
        (Ok(value), Err(_)) => panic!("{text:?} was taken as {}", value.show()),
        (Err(wrong), Ok(_)) => panic!("{text:?} was refused: {wrong}"),
    }
}
