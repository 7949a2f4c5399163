//! The limits that a machine may be unable to keep.

use std::fmt;
use std::str::FromStr;

/// Those that the operator may give up. Without the others a cell would not be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wall {
    Memory,
    Processes,
    Cpu,
}

impl Wall {
    pub const ALL: [Wall; 3] = [Wall::Memory, Wall::Processes, Wall::Cpu];

    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpu => "cpu",
        }
    }

    /// What there is when it was given up.
    pub(super) fn instead(self) -> &'static str {
        match self {
            Self::Memory => "nothing: a peak beyond the limit is told afterwards (given up)",
            Self::Processes => "nothing (given up)",
            Self::Cpu => "rlimit, for each process alone and in whole seconds (given up for all together)",
        }
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Wall {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|wall| wall.name() == text);
        known.ok_or_else(|| "no wall that can be given up has that name".to_string())
    }
}
