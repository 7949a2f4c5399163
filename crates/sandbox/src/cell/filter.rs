//! Which system calls a command may make.
//!
//! What is named in `calls` gets the answer that is written there. What is not is unknown to this filter, and the
//! answer is that of a kernel without it, so that programs do what they do on an older one. Calls by another
//! machine's numbers (32-bit on a 64-bit machine, x32) are never made by programs of this kind, and their arguments
//! would have to be judged anew: they end the process.
//!
//! The filter is one program with one return for each answer, found by halving the numbers. A list that is gone
//! through from the top, or a filter for each answer, takes the kernel several times as long to take in, and that
//! is paid for every cell.
mod bpf;
mod calls;
mod rules;
#[cfg(test)]
mod tests;

use libc::{c_int, sock_filter};

/// Made once by each warden, installed by each of its stubs.
#[derive(Debug)]
pub(crate) struct Filter(Vec<sock_filter>);

impl Filter {
    pub(crate) fn new() -> Self {
        Self(bpf::assemble(&calls::known()))
    }

    /// To be installed when new privileges are forbidden already.
    pub(crate) fn program(&self) -> &[sock_filter] {
        &self.0
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
