//! Names of things, each its own type so that one cannot be taken for another.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use uuid::Uuid;

/// Names a task. New ones are UUIDv7 (they sort by time); a caller may choose any UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub Uuid);

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
    #[error("must be at most {limit} bytes long, this one has {actual}")]
    TooLong { limit: usize, actual: usize },
    #[error("must not contain control characters")]
    Control,
    #[error("may hold letters, digits, '.', '_' and '-' only")]
    Charset,
    #[error("may hold small letters, digits, '.', '_' and '-' only")]
    SmallCharset,
    #[error("is not a UUID (like 01890a5d-ac96-774b-bcce-b302099a8057)")]
    Uuid,
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
    match name.len() {
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
    SessionId,
    Attempt,
    Seq,
    UserName,
    ExecutorName,
    NetworkName
);
debug_as_display!(
    TaskId,
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
}
