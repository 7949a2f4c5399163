//! The limits that this machine may be unable to enforce.

use std::fmt;
use std::str::FromStr;

/// A limit on all processes of a cell together that the operator may waive with `--allow-weaker`. No other protection
/// of a cell can be waived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaivableLimit {
    Memory,
    Processes,
    Cpu,
}

impl WaivableLimit {
    pub const ALL: [WaivableLimit; 3] = [
        WaivableLimit::Memory,
        WaivableLimit::Processes,
        WaivableLimit::Cpu,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpu => "cpu",
        }
    }

    /// What enforces the limit if the operator has waived it.
    pub(super) fn replacement(self) -> &'static str {
        match self {
            Self::Memory => "nothing (waived): a peak above the limit is reported afterwards",
            Self::Processes => "nothing (waived)",
            Self::Cpu => "rlimit, for each process and in whole seconds (waived for all processes together)",
        }
    }
}

impl fmt::Display for WaivableLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WaivableLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|limit| limit.name() == text);
        known.ok_or_else(|| "no limit has that name".to_string())
    }
}
