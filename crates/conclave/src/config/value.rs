//! The types of configuration values, each parsed from text and printed as text.

mod location;
mod number;
mod sandbox;
mod text;

pub(crate) use location::{DataFolder, HostAddress, HostPort, InitialMember, ProgramPath, RootsFolder};
pub(crate) use number::{AutoOr, MaxLimit, OpenFileLimit, PortNumber, SlotCount, ThreadCount};
pub(crate) use sandbox::{BindMount, CgroupPath, FirstUserId, IsolationMode};
pub(crate) use text::{LogFormat, LogSetting, MetricsSetting, NodeName, ReplicaSetName};

/// A type that the value of a configuration key can have. Every layer provides text, so one parser serves all layers.
pub(crate) trait ConfigValue: Sized {
    /// Describes the accepted values, for error messages.
    const ACCEPTS: &'static str;
    /// `ACCEPTS` for an `Option` of the type; set only if there are such keys.
    const ACCEPTS_OR_NONE: &'static str = Self::ACCEPTS;
    /// `ACCEPTS` for a key that also accepts `auto`; set only if there are such keys.
    const ACCEPTS_OR_AUTO: &'static str = Self::ACCEPTS;
    /// The keyword that the type accepts besides: `none` for no value, or `auto` for a value that the node chooses.
    const KEYWORD: Option<&'static str> = None;
    /// Whether a relative value is relative to the configuration file.
    const IS_PATH: bool = false;

    fn parse(text: &str) -> Result<Self, String>;
    fn to_text(&self) -> String;
}

impl<T: ConfigValue> ConfigValue for Option<T> {
    /// Describes the accepted values, for error messages.
    const ACCEPTS: &'static str = T::ACCEPTS_OR_NONE;
    const KEYWORD: Option<&'static str> = match T::KEYWORD {
        None => Some("none"),
        keyword => keyword,
    };
    const IS_PATH: bool = T::IS_PATH;

    fn parse(text: &str) -> Result<Option<T>, String> {
        match Self::KEYWORD {
            Some(keyword) if text == keyword => Ok(None),
            _ => T::parse(text).map(Some),
        }
    }

    fn to_text(&self) -> String {
        match self {
            Some(value) => value.to_text(),
            None => Self::KEYWORD.unwrap_or("none").to_string(),
        }
    }
}

#[cfg(test)]
fn check<T: ConfigValue>(text: &str, expected: Result<&str, &str>) {
    match (T::parse(text), expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value.to_text(), expected, "{text:?}"),
        (Err(error), Err(part)) => assert!(error.contains(part), "{text:?}: {error}"),
        (Ok(value), Err(_)) => panic!("{text:?} was accepted as {}", value.to_text()),
        (Err(error), Ok(_)) => panic!("{text:?} was refused: {error}"),
    }
}
