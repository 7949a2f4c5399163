//! Which system calls a command may make.
//!
//! What is named in `calls` gets the answer that is written there. What is not is unknown to this filter, and the
//! answer is that of a kernel without it, so that programs do what they do on an older one. Calls by another
//! machine's numbers (32-bit on a 64-bit machine, x32) are never made by programs of this kind, and their arguments
//! would have to be judged anew: they end the process.
//!
//! The kernel translates a filter when it is installed, and the time for that grows with the filter's length: the whole
//! table took a quarter of what making a cell costs. A process inherits the filters of its parent for nothing. So the
//! table is split in two. The *shared* filter is installed once, by the warden for itself and so for all its cells; it
//! lets pass what the warden needs to make cells. The *last* filter is short: it refuses just these calls, and each
//! command's process installs it. The kernel takes the stricter answer of both, which is that of the table.
//!
//! Each filter is one program with one return for each answer, found by halving the numbers. A list that is gone through
//! from the top, or a filter for each answer, takes the kernel several times as long to take in.
mod bpf;
mod calls;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use libc::{c_int, sock_filter};

use rules::{ALLOW, UNKNOWN};

/// Made once by each warden. Both parts are to be installed when new privileges are forbidden already.
#[derive(Debug)]
pub(crate) struct Filter {
    shared: Vec<sock_filter>,
    last: Vec<sock_filter>,
}

impl Filter {
    pub(crate) fn new() -> Self {
        let mut shared = calls::known();
        let mut last = BTreeMap::new();
        for (number, split) in calls::of_warden() {
            let rule = shared.insert(number, split.shared).unwrap_or(UNKNOWN);
            last.insert(number, split.last.unwrap_or(rule));
        }
        Self {
            shared: bpf::assemble(&shared, UNKNOWN),
            last: bpf::assemble(&last, ALLOW),
        }
    }

    /// For the warden, and so for all processes that come from it.
    pub(crate) fn shared(&self) -> &[sock_filter] {
        &self.shared
    }

    /// For a command's process, which has made all calls of the warden's kind that it needs.
    pub(crate) fn last(&self) -> &[sock_filter] {
        &self.last
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allow,
    /// The call is not made and fails with this; with 0 it is not made and succeeds.
    Answer(c_int),
    Kill,
}

/// What a call gets, perhaps after a look at its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Flat(Verdict),
    /// Whether the argument, with only the bits of the mask, is one of these.
    ///
    /// Only the low half of an argument is looked at. Most of what is asked here the kernel takes as 32-bit numbers, and
    /// a look at the high half would let a value pass that the kernel then shortens to a forbidden one. Where it takes
    /// all bits (flags of `mmap` and `clone`, requests of `ptrace`), none of the high ones means anything.
    Ask {
        argument: u8,
        mask: u32,
        among: &'static [u32],
        yes: &'static Rule,
        no: &'static Rule,
    },
    /// Whether the argument, a pointer, is given at all: not null in all its bits.
    Given {
        argument: u8,
        yes: &'static Rule,
        no: &'static Rule,
    },
}
