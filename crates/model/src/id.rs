//! Names of things, each its own type so that one cannot be taken for another.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use uuid::Uuid;

/// Names a task. New ones are UUIDv7 (they sort by time); a caller may choose any UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub Uuid);

/// How a task id begins, for finding a task by a shortened id: 4 to 36 characters of a UUID in its usual form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdPrefix(String);

/// One life of an executor process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub Uuid);

/// Which hand-out of a task this is: 0 before the first, then 1, 2, ...
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Attempt(pub u32);

/// The number of a report within its session, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(pub u64);

/// SHA-256 of a blob's bytes: its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

/// Who owns a task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(String);

/// Names an executor for as long as it exists, over all of its sessions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutorName(String);

/// Names a network that a step may ask for. Which ones there are, the executors' operators decide.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkName(String);

#[derive(Debug, Error, PartialEq, Eq)]
pub enum NameError {
    #[error("must not be empty")]
    Empty,
    #[error("must be at most {limit} characters long, this one has {actual}")]
    TooLong { limit: usize, actual: usize },
    #[error("must not contain control characters")]
    Control,
    #[error("may hold letters, digits, '.', '_' and '-' only")]
    Charset,
    #[error("may hold small letters, digits, '.', '_' and '-' only")]
    SmallCharset,
    #[error("is not a UUID (like 01890a5d-ac96-774b-bcce-b302099a8057)")]
    Uuid,
    #[error(
        "must have from {} to {} characters, this one has {actual}",
        IdPrefix::SHORTEST,
        IdPrefix::LONGEST
    )]
    PrefixLength { actual: usize },
    #[error("is not the beginning of a UUID (like 01890a5d-ac96)")]
    Prefix,
    #[error("is not a SHA-256 in hex (64 digits of 0-9 and a-f)")]
    Hash,
}

const NAME_LIMIT: usize = 128;
const NETWORK_LIMIT: usize = 64;

impl TaskId {
    pub fn generate() -> TaskId {
        TaskId(Uuid::now_v7())
    }
}

impl IdPrefix {
    pub const SHORTEST: usize = 4;
    /// A whole id.
    pub const LONGEST: usize = 36;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The lowest id that begins like this.
    pub fn first(&self) -> TaskId {
        self.filled_up_with(0x0)
    }

    /// The highest id that begins like this.
    pub fn last(&self) -> TaskId {
        self.filled_up_with(0xf)
    }

    pub fn begins(&self, id: TaskId) -> bool {
        self.first() <= id && id <= self.last()
    }

    fn filled_up_with(&self, digit: u8) -> TaskId {
        let given = self.0.bytes().filter_map(|c| nibble(c).ok());
        let mut digits = given.chain(std::iter::repeat(digit));
        let bytes = std::array::from_fn(|_| {
            let mut next = || digits.next().unwrap_or(digit);
            (next() << 4) | next()
        });
        TaskId(Uuid::from_bytes(bytes))
    }
}

impl SessionId {
    pub fn generate() -> SessionId {
        SessionId(Uuid::now_v7())
    }
}

impl Attempt {
    pub fn next(self) -> Attempt {
        Attempt(self.0.saturating_add(1))
    }
}

impl Seq {
    pub fn next(self) -> Seq {
        Seq(self.0 + 1)
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

impl ExecutorName {
    /// Executor names become folder names and labels, so their alphabet is narrow.
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
    /// One spelling for each: an operator and a user who mean the same network also write the same.
    pub fn new(name: impl Into<String>) -> Result<NetworkName, NameError> {
        let name = name.into();
        check_length(&name, NETWORK_LIMIT)?;
        if !name
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-'))
        {
            return Err(NameError::SmallCharset);
        }
        Ok(NetworkName(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn check_length(name: &str, limit: usize) -> Result<(), NameError> {
    match name.chars().count() {
        0 => Err(NameError::Empty),
        actual if actual > limit => Err(NameError::TooLong { limit, actual }),
        _ => Ok(()),
    }
}

impl FromStr for TaskId {
    type Err = NameError;
    fn from_str(text: &str) -> Result<TaskId, NameError> {
        // Only the hyphenated form: one task has one spelling, in URLs and in logs.
        if text.len() != 36 {
            return Err(NameError::Uuid);
        }
        Uuid::try_parse(text).map(TaskId).map_err(|_| NameError::Uuid)
    }
}

impl FromStr for IdPrefix {
    type Err = NameError;
    fn from_str(text: &str) -> Result<IdPrefix, NameError> {
        const DASHES: [usize; 4] = [8, 13, 18, 23];
        let text = text.to_ascii_lowercase();
        let actual = text.chars().count();
        if !(IdPrefix::SHORTEST..=IdPrefix::LONGEST).contains(&actual) {
            return Err(NameError::PrefixLength { actual });
        }
        let fits = |(place, c): (usize, u8)| match DASHES.contains(&place) {
            true => c == b'-',
            false => nibble(c).is_ok(),
        };
        if !text.bytes().enumerate().all(fits) {
            return Err(NameError::Prefix);
        }
        Ok(IdPrefix(text))
    }
}

impl FromStr for BlobHash {
    type Err = NameError;
    fn from_str(text: &str) -> Result<BlobHash, NameError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(NameError::Hash);
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
        }
        Ok(BlobHash(hash))
    }
}

fn nibble(digit: u8) -> Result<u8, NameError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NameError::Hash),
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
    IdPrefix,
    SessionId,
    Attempt,
    Seq,
    UserName,
    ExecutorName,
    NetworkName
);
debug_as_display!(
    TaskId,
    IdPrefix,
    SessionId,
    Attempt,
    Seq,
    UserName,
    ExecutorName,
    NetworkName,
    BlobHash
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
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
            assert_eq!(NetworkName::new(wrong), Err(NameError::SmallCharset));
        }
    }

    #[test]
    fn hashes_survive_text() {
        let hash = BlobHash([0xa7; 32]);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!("a7".parse::<BlobHash>(), Err(NameError::Hash));
        assert_eq!("A7".repeat(32).parse::<BlobHash>(), Err(NameError::Hash));
        assert_eq!("é".repeat(32).parse::<BlobHash>(), Err(NameError::Hash));
    }

    #[test]
    fn a_task_id_has_one_spelling() {
        let id = TaskId::generate();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.0.simple().to_string().parse::<TaskId>(), Err(NameError::Uuid));
        assert_eq!("not-a-uuid".parse::<TaskId>(), Err(NameError::Uuid));
    }

    #[test]
    fn a_prefix_is_the_range_of_ids_that_begin_with_it() {
        let check = |text: &str, first: &str, last: &str| {
            let prefix: IdPrefix = text.parse().unwrap();
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
        let id = TaskId::generate();
        let whole = id.to_string();
        check(&whole, &whole, &whole);
        assert!(whole[..11].parse::<IdPrefix>().unwrap().begins(id));
        assert!(!"ffff".parse::<IdPrefix>().unwrap().begins(id));
    }

    #[test]
    fn a_prefix_has_the_form_of_a_uuid() {
        for (text, expected) in [
            ("", NameError::PrefixLength { actual: 0 }),
            ("018", NameError::PrefixLength { actual: 3 }),
            (&"0".repeat(37), NameError::PrefixLength { actual: 37 }),
            ("018g", NameError::Prefix),
            ("0189-", NameError::Prefix),
            ("01890a5dac96", NameError::Prefix),
            ("0189é", NameError::Prefix),
        ] {
            assert_eq!(text.parse::<IdPrefix>(), Err(expected), "{text:?}");
        }
    }
}
