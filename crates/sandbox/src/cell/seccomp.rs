//! The seccomp filter: which system calls a command may make.
//!
//! A call in `syscall_table` gets the answer of the table. All other calls fail with ENOSYS, as on a kernel that does
//! not have them, so that programs fall back to older calls. A call by the number of another architecture (32-bit on
//! a 64-bit machine, x32) kills the process: ordinary programs never make such calls, and their arguments would need
//! separate rules.
//!
//! The kernel compiles a filter when it is installed, and the time grows with the filter's length: the whole table
//! took a quarter of the time of creating a cell. A process inherits the filters of its parent for free. So the table
//! is split in two programs. The warden installs the long one once, for itself and so for all its cells; it allows
//! the calls that the warden needs to create cells. Each stub installs the short one, which refuses just these calls.
//! The kernel takes the stricter answer of both, which is that of the table.
//!
//! Each program has one return instruction for each answer and finds it by binary search over the call numbers. A
//! linear list, or one filter for each answer, takes the kernel several times as long to install.
mod bpf;
mod rules;
mod syscall_table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use libc::{c_int, sock_filter};

use rules::{ALLOW, UNKNOWN};

/// The two seccomp programs of a warden: one for itself and its cells, and one that a cell adds before its command.
/// Both must be installed after new privileges are forbidden.
#[derive(Debug)]
pub(crate) struct SeccompFilter {
    warden_program: Vec<sock_filter>,
    stub_program: Vec<sock_filter>,
}

impl SeccompFilter {
    pub(crate) fn new(affinity: CommandAffinity) -> Self {
        let mut warden_rules = syscall_table::rules_by_number(affinity);
        let mut stub_rules = BTreeMap::new();
        for (number, split) in syscall_table::warden_rule_splits() {
            let rule = warden_rules.insert(number, split.in_warden).unwrap_or(UNKNOWN);
            stub_rules.insert(number, split.in_stub.unwrap_or(rule));
        }
        Self {
            warden_program: bpf::assemble(&warden_rules, UNKNOWN),
            stub_program: bpf::assemble(&stub_rules, ALLOW),
        }
    }

    /// The program for the warden, which all processes that it starts inherit.
    pub(crate) fn warden_program(&self) -> &[sock_filter] {
        &self.warden_program
    }

    /// The program for the stub, which it installs after it has made all calls that only the warden and its cells may
    /// make.
    pub(crate) fn stub_program(&self) -> &[sock_filter] {
        &self.stub_program
    }
}

/// Whether the commands of a warden may choose the CPUs on which they run, or stay on the one to which it is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandAffinity {
    Free,
    Fixed,
}

/// What the seccomp filter makes the kernel do with a system call: allow it, return an error, or kill the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeccompAction {
    Allow,
    /// The call is not made and fails with this error; with 0 it is not made and succeeds.
    ReturnErrno(c_int),
    KillProcess,
}

/// The rule of the seccomp filter for one system call: an action, possibly depending on the call's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyscallRule {
    Always(SeccompAction),
    /// Applies `yes` if the argument, masked, is one of the values in `among`, and otherwise `no`.
    ///
    /// Only the low 32 bits are compared. The kernel takes most of these arguments as 32-bit numbers, so a rule on
    /// the high bits would let a value pass that the kernel then truncates to a forbidden one. Where it takes all
    /// bits (flags of `mmap` and `clone`, requests of `ptrace`), the high bits have no meaning.
    IfArgument {
        argument: u8,
        mask: u32,
        among: &'static [u32],
        yes: &'static SyscallRule,
        no: &'static SyscallRule,
    },
    /// Applies `yes` if the argument, a pointer, is not null, and otherwise `no`.
    IfPointer {
        argument: u8,
        yes: &'static SyscallRule,
        no: &'static SyscallRule,
    },
}
