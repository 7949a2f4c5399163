//! Why an archive is refused, with the name of the member.

use std::io;

use thiserror::Error;

use super::limits::{ReadLimit, ReadMeter};
use super::member_path::MemberPathError;
use crate::interrupt_flag::InterruptedWork;

/// Why an archive could not be unpacked.
#[derive(Debug, Error)]
pub enum UnpackError {
    #[error("the member '{member}' is refused")]
    Member {
        member: String,
        #[source]
        problem: MemberProblem,
    },
    #[error("the archive cannot be read after the member '{last_member}'; it is damaged or incomplete")]
    Archive { last_member: String, source: io::Error },
    #[error("the input is not a tar archive, or a damaged one")]
    FirstHeader { source: io::Error },
    #[error("the archive ends without an end marker after {}; it is incomplete", .last_member.as_ref().map_or("no member".to_string(), |name| format!("the member '{name}'")))]
    NoEndMarker { last_member: Option<String> },
    #[error("the archive is refused after {}: {limit}", .last_member.as_ref().map_or("no member".to_string(), |name| format!("the member '{name}'")))]
    Limit {
        last_member: Option<String>,
        limit: ReadLimit,
    },
    #[error("interrupted")]
    Interrupted,
}

/// Why a member of an archive is refused, and the archive with it.
#[derive(Debug, Error)]
pub enum MemberProblem {
    #[error("its path {0}")]
    Path(MemberPathError),
    #[error("it is beneath the link '{link}' to '{target}', which leads out of the root")]
    LinkLeadsOut { link: String, target: String },
    #[error("it is beneath the link '{link}' to '{target}', which does not exist in the root")]
    LinkLeadsNowhere { link: String, target: String },
    #[error("there are too many links on its path")]
    TooManyLinks,
    #[error("'{path}' is not a folder")]
    NotAFolder { path: String },
    #[error("it is a hard link to '{target}', whose path {problem}")]
    HardLinkPath {
        target: String,
        problem: MemberPathError,
    },
    #[error("it is a hard link to '{target}', which is not a file that was unpacked before")]
    HardLinkTarget { target: String },
    #[error("the target of the link is empty, longer than 4095 bytes, or contains a NUL")]
    LinkTarget,
    #[error("it is not a valid whiteout: the rest of the name must be the name of a file")]
    Whiteout,
    #[error(
        "it is a sparse file in the format of POSIX; make the archive without --sparse, or with --format=gnu"
    )]
    PaxSparse,
    #[error("members of the type '{0}' are not supported")]
    Type(String),
    #[error("it has an owner, mode or time that is not a number, or another invalid header")]
    Header(#[source] io::Error),
    #[error("its headers disagree about its size")]
    Size,
    #[error("the archive has more than {limit} members, with the folders that they are in")]
    TooManyEntries { limit: u64 },
    #[error(
        "the files of the archive are larger than {limit} bytes together, with 4096 for each name; allow more with --max-size"
    )]
    TooLarge { limit: u64 },
    #[error("{0}")]
    ReadLimit(ReadLimit),
    #[error(
        "the disk has no room: {needed} bytes are needed, and {free} are free beyond a reserve of {reserve}"
    )]
    DiskFull { needed: u64, free: u64, reserve: u64 },
    #[error("its content ends early; the archive is incomplete")]
    Truncated,
    #[error("its content cannot be read; the archive is damaged or incomplete")]
    Read(#[source] io::Error),
    #[error("could not write it")]
    Write(#[source] io::Error),
}

impl From<MemberPathError> for MemberProblem {
    fn from(error: MemberPathError) -> MemberProblem {
        MemberProblem::Path(error)
    }
}

impl UnpackError {
    /// An error of reading headers, or what follows a member.
    pub(super) fn archive(last_member: Option<String>, meter: &ReadMeter, source: io::Error) -> UnpackError {
        if is_interrupt(&source) {
            return UnpackError::Interrupted;
        }
        match (meter.exceeded(), last_member) {
            (Some(limit), last_member) => UnpackError::Limit { last_member, limit },
            (None, Some(last_member)) => UnpackError::Archive { last_member, source },
            (None, None) => UnpackError::FirstHeader { source },
        }
    }

    pub(super) fn member(member: String, meter: &ReadMeter, problem: MemberProblem) -> UnpackError {
        match (problem, meter.exceeded()) {
            (MemberProblem::Read(error), _) if is_interrupt(&error) => UnpackError::Interrupted,
            (MemberProblem::Read(_), Some(limit)) => UnpackError::Member {
                member,
                problem: MemberProblem::ReadLimit(limit),
            },
            (problem, _) => UnpackError::Member { member, problem },
        }
    }

    /// Whether the input ended before the archive did, so that the program that wrote it may have failed.
    pub(crate) fn is_truncated(&self) -> bool {
        matches!(
            self,
            UnpackError::Archive { .. }
                | UnpackError::FirstHeader { .. }
                | UnpackError::NoEndMarker { .. }
                | UnpackError::Member {
                    problem: MemberProblem::Truncated | MemberProblem::Read(_),
                    ..
                }
        )
    }
}

fn is_interrupt(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<InterruptedWork>())
}

/// A name for an error message, which must fit on a line.
pub(super) fn display_name(bytes: &[u8]) -> String {
    const MAX_CHARS: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    let visible = |letter: char| match letter.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => letter,
    };
    let mut short: String = text.chars().take(MAX_CHARS).map(visible).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        short.push('…');
    }
    short
}
