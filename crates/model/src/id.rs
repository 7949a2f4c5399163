//! Ids and names. Each has a type of its own, so that the compiler keeps them apart.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use uuid::Uuid;

/// The id of a task, a UUID. Conclave makes UUIDv7, which sort by time; a caller may choose any UUID.
///
/// The crates that have a clock make new ids with `Uuid::now_v7`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub Uuid);

/// The beginning of a task id, to find a task by a shortened id: 4 to 36 characters of a hyphenated UUID.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskIdPrefix(String);

/// The id of a session, which is one life of an executor process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub Uuid);

/// The number of an attempt to run a task, counted for each task: 0 before the first, then 1, 2, ...
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AttemptNumber(pub u32);

/// The sequence number of an executor's report to a judicator within its session, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReportSeq(pub u64);

/// The name of the user who owns a task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(String);

/// The name of an executor, which stays the same over all of its sessions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutorName(String);

/// The name of a group of tasks. Groups of different users are different groups.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(String);

/// The name of a network that a step of a task may request. The operators of the executors define the networks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkName(String);

/// Why a text is not a valid name, id or hash in the model (of a task, user, executor, network, root or blob).
#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    #[error("must not be empty")]
    Empty,
    #[error("must be at most {limit} characters long, this one has {actual}")]
    TooLong { limit: usize, actual: usize },
    #[error("must not contain control characters")]
    Control,
    #[error("may contain only letters, digits, '.', '_' and '-'")]
    Charset,
    #[error("may contain only lower-case letters, digits, '.', '_' and '-'")]
    LowerCaseCharset,
    #[error("may contain only letters, digits, '+', '#', '*', '.', '_' and '-'")]
    LanguageCharset,
    #[error("may contain only letters, digits, '.', '_' and '-', and must begin with a letter or a digit")]
    ProblemCharset,
    #[error("must begin with a lower-case letter or a digit")]
    FirstCharacter,
    #[error("must not contain '..'")]
    DoubleDot,
    #[error("must not contain '/', and must not be '.' or '..'")]
    Slash,
    #[error("is not a UUID (like 01890a5d-ac96-774b-bcce-b302099a8057)")]
    Uuid,
    #[error(
        "must have from {} to {} characters, this one has {actual}",
        TaskIdPrefix::MIN_LENGTH,
        TaskIdPrefix::MAX_LENGTH
    )]
    PrefixLength { actual: usize },
    #[error("is not the beginning of a UUID (like 01890a5d-ac96)")]
    Prefix,
    #[error("is not a SHA-256 in hex (64 digits of 0-9 and a-f)")]
    Hash,
}

const NAME_LIMIT: usize = 128;
const NETWORK_LIMIT: usize = 64;

impl TaskIdPrefix {
    pub const MIN_LENGTH: usize = 4;
    /// The length of a whole id.
    pub const MAX_LENGTH: usize = 36;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The lowest id with this prefix.
    pub fn first(&self) -> TaskId {
        self.padded_with(0x0)
    }

    /// The highest id with this prefix.
    pub fn last(&self) -> TaskId {
        self.padded_with(0xf)
    }

    pub fn matches(&self, id: TaskId) -> bool {
        self.first() <= id && id <= self.last()
    }

    fn padded_with(&self, digit: u8) -> TaskId {
        let given = self.0.bytes().filter_map(|c| hex_digit(c).ok());
        let mut digits = given.chain(std::iter::repeat(digit));
        let bytes = std::array::from_fn(|_| {
            let mut next = || digits.next().unwrap_or(digit);
            (next() << 4) | next()
        });
        TaskId(Uuid::from_bytes(bytes))
    }
}

impl AttemptNumber {
    pub fn next(self) -> AttemptNumber {
        AttemptNumber(self.0.saturating_add(1))
    }
}

impl ReportSeq {
    pub fn next(self) -> ReportSeq {
        ReportSeq(self.0 + 1)
    }
}

impl UserName {
    pub fn new(name: impl Into<String>) -> Result<UserName, NameError> {
        let name = name.into();
        check_length(&name, NAME_LIMIT)?;
        if name.chars().any(char::is_control) {
            return Err(NameError::Control);
        }
        Ok(UserName(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl GroupName {
    /// A group is a part of URLs, so it is one path segment.
    pub fn new(name: impl Into<String>) -> Result<GroupName, NameError> {
        let name = name.into();
        check_length(&name, NAME_LIMIT)?;
        if name.chars().any(char::is_control) {
            return Err(NameError::Control);
        }
        if name.contains('/') || name == "." || name == ".." {
            return Err(NameError::Slash);
        }
        Ok(GroupName(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ExecutorName {
    /// Executor names become folder names and metric labels, so few characters are allowed.
    pub fn new(name: impl Into<String>) -> Result<ExecutorName, NameError> {
        let name = name.into();
        check_length(&name, NAME_LIMIT)?;
        if !name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        {
            return Err(NameError::Charset);
        }
        Ok(ExecutorName(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NetworkName {
    /// Lower case only, so that operators and users spell a network in the same way.
    pub fn new(name: impl Into<String>) -> Result<NetworkName, NameError> {
        let name = name.into();
        check_length(&name, NETWORK_LIMIT)?;
        if !name
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-'))
        {
            return Err(NameError::LowerCaseCharset);
        }
        Ok(NetworkName(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub(crate) fn check_length(name: &str, limit: usize) -> Result<(), NameError> {
    match name.chars().count() {
        0 => Err(NameError::Empty),
        actual if actual > limit => Err(NameError::TooLong { limit, actual }),
        _ => Ok(()),
    }
}

impl FromStr for TaskId {
    type Err = NameError;
    fn from_str(text: &str) -> Result<TaskId, NameError> {
        // Only the hyphenated form, so that a task has one spelling in URLs and in logs.
        if text.len() != 36 {
            return Err(NameError::Uuid);
        }
        Uuid::try_parse(text).map(TaskId).map_err(|_| NameError::Uuid)
    }
}

impl FromStr for TaskIdPrefix {
    type Err = NameError;
    fn from_str(text: &str) -> Result<TaskIdPrefix, NameError> {
        const HYPHENS: [usize; 4] = [8, 13, 18, 23];
        let text = text.to_ascii_lowercase();
        let actual = text.chars().count();
        if !(TaskIdPrefix::MIN_LENGTH..=TaskIdPrefix::MAX_LENGTH).contains(&actual) {
            return Err(NameError::PrefixLength { actual });
        }
        let fits = |(position, c): (usize, u8)| match HYPHENS.contains(&position) {
            true => c == b'-',
            false => hex_digit(c).is_ok(),
        };
        if !text.bytes().enumerate().all(fits) {
            return Err(NameError::Prefix);
        }
        Ok(TaskIdPrefix(text))
    }
}

pub(crate) fn hex_digit(digit: u8) -> Result<u8, NameError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NameError::Hash),
    }
}

macro_rules! display_as_inner {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

macro_rules! debug_as_display {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    )*};
}

display_as_inner!(
    TaskId,
    TaskIdPrefix,
    SessionId,
    AttemptNumber,
    ReportSeq,
    UserName,
    GroupName,
    ExecutorName,
    NetworkName
);
debug_as_display!(
    TaskId,
    TaskIdPrefix,
    SessionId,
    AttemptNumber,
    ReportSeq,
    UserName,
    GroupName,
    ExecutorName,
    NetworkName
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_refused() {
        assert!(UserName::new("Ada Lovelace").is_ok());
        assert!(UserName::new("ü".repeat(128)).is_ok());
        assert_eq!(UserName::new(""), Err(NameError::Empty));
        assert_eq!(UserName::new("a\nb"), Err(NameError::Control));
        assert_eq!(
            UserName::new("x".repeat(129)),
            Err(NameError::TooLong {
                limit: 128,
                actual: 129
            })
        );
        assert!(ExecutorName::new("node-1.lab_2").is_ok());
        assert_eq!(ExecutorName::new("../x"), Err(NameError::Charset));
        assert!(NetworkName::new("lab-2.loop_back").is_ok());
        assert!(NetworkName::new("x".repeat(64)).is_ok());
        assert_eq!(NetworkName::new(""), Err(NameError::Empty));
        assert_eq!(
            NetworkName::new("x".repeat(65)),
            Err(NameError::TooLong {
                limit: 64,
                actual: 65
            })
        );
        for wrong in ["Loopback", "a/b", "a b", "é"] {
            assert_eq!(NetworkName::new(wrong), Err(NameError::LowerCaseCharset));
        }
    }

    #[test]
    fn a_task_id_has_one_spelling() {
        let id = TaskId(Uuid::from_u128(0x0189_0a5d_ac96_774b_bcce_b302_099a_8057));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.0.simple().to_string().parse::<TaskId>(), Err(NameError::Uuid));
        assert_eq!("not-a-uuid".parse::<TaskId>(), Err(NameError::Uuid));
    }

    #[test]
    fn a_prefix_covers_the_range_of_ids_that_begin_with_it() {
        let check = |text: &str, first: &str, last: &str| {
            let prefix: TaskIdPrefix = text.parse().unwrap();
            assert_eq!(prefix.first(), first.parse().unwrap(), "{text}");
            assert_eq!(prefix.last(), last.parse().unwrap(), "{text}");
            assert_eq!(prefix.as_str(), text.to_lowercase());
        };
        check(
            "0189",
            "01890000-0000-0000-0000-000000000000",
            "0189ffff-ffff-ffff-ffff-ffffffffffff",
        );
        check(
            "01890A5D-",
            "01890a5d-0000-0000-0000-000000000000",
            "01890a5d-ffff-ffff-ffff-ffffffffffff",
        );
        check(
            "01890a5d-ac9",
            "01890a5d-ac90-0000-0000-000000000000",
            "01890a5d-ac9f-ffff-ffff-ffffffffffff",
        );
        let id = TaskId(Uuid::from_u128(0x0189_0a5d_ac96_774b_bcce_b302_099a_8057));
        let whole = id.to_string();
        check(&whole, &whole, &whole);
        assert!(whole[..11].parse::<TaskIdPrefix>().unwrap().matches(id));
        assert!(!"ffff".parse::<TaskIdPrefix>().unwrap().matches(id));
    }

    #[test]
    fn a_prefix_must_be_the_beginning_of_a_uuid() {
        for (text, expected) in [
            ("", NameError::PrefixLength { actual: 0 }),
            ("018", NameError::PrefixLength { actual: 3 }),
            (&"0".repeat(37), NameError::PrefixLength { actual: 37 }),
            ("018g", NameError::Prefix),
            ("0189-", NameError::Prefix),
            ("01890a5dac96", NameError::Prefix),
            ("0189é", NameError::Prefix),
        ] {
            assert_eq!(text.parse::<TaskIdPrefix>(), Err(expected), "{text:?}");
        }
    }
}
