//! Assembles the filter as a BPF program.
//!
//! BPF jumps only go forward, by a distance. So the program is written from its end: when an instruction is added,
//! all its jump targets already exist at a known distance.

use std::collections::BTreeMap;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter,
};

use super::{SeccompAction, SyscallRule};

#[cfg(target_arch = "x86_64")]
pub(super) const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const AUDIT_ARCH: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the seccomp filter supports only x86_64 and aarch64");

/// x32 programs run on the same architecture and set this bit in the call number.
const X32: u32 = 0x4000_0000;
const AFTER_X32: u32 = 0x8000_0000;

/// Offsets in `struct seccomp_data`, which the program reads.
const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;

const HALF: u32 = 4;

/// Both architectures are little-endian, so the low half comes first.
fn low_half(argument: u8) -> u32 {
    ARGUMENTS_OFFSET + 2 * HALF * u32::from(argument)
}

/// Assembles a program. `others` is the rule for all numbers without a rule of their own.
pub(super) fn assemble(
    rules_by_number: &BTreeMap<u32, SyscallRule>,
    others: SyscallRule,
) -> Vec<sock_filter> {
    let mut program = BpfProgram::default();
    let ranges: Vec<(u32, InstructionIndex)> = ranges(rules_by_number, others)
        .into_iter()
        .map(|(first, rule)| (first, program.rule(&rule)))
        .collect();
    program.find(&ranges);
    let find = program.load(NUMBER_OFFSET);
    let kill = program.action(SeccompAction::KillProcess);
    program.jump(BPF_JEQ, AUDIT_ARCH, find, kill);
    program.load(ARCH_OFFSET);
    program.0.reverse();
    program.0
}

/// The first number of each range of numbers with the same rule, in order and without gaps.
fn ranges(rules_by_number: &BTreeMap<u32, SyscallRule>, others: SyscallRule) -> Vec<(u32, SyscallRule)> {
    let mut bounds: BTreeMap<u32, SyscallRule> = BTreeMap::from([
        (0, others),
        (X32, SyscallRule::Always(SeccompAction::KillProcess)),
        (AFTER_X32, others),
    ]);
    // The end of one range may be the start of another, whose rule then replaces this one.
    bounds.extend(rules_by_number.keys().map(|number| (number + 1, others)));
    bounds.extend(rules_by_number);
    let mut ranges: Vec<(u32, SyscallRule)> = bounds.into_iter().collect();
    ranges.dedup_by(|later, earlier| later.1 == earlier.1);
    ranges
}

/// The BPF program of a seccomp filter while it is assembled, in reverse order: the last instruction comes first.
#[derive(Default)]
struct BpfProgram(Vec<sock_filter>);

/// The index of an instruction in a [`BpfProgram`], as a jump target of the instructions that are added later.
#[derive(Clone, Copy)]
struct InstructionIndex(usize);

impl BpfProgram {
    fn rule(&mut self, rule: &SyscallRule) -> InstructionIndex {
        match *rule {
            SyscallRule::Always(action) => self.action(action),
            SyscallRule::IfArgument {
                argument,
                mask,
                among,
                yes,
                no,
            } => {
                let (yes, mut no) = (self.rule(yes), self.rule(no));
                for value in among {
                    no = self.jump(BPF_JEQ, *value, yes, no);
                }
                if mask != u32::MAX {
                    self.push(BPF_ALU | BPF_AND | BPF_K, mask);
                }
                self.load(low_half(argument))
            }
            SyscallRule::IfPointer { argument, yes, no } => {
                let (yes, no) = (self.rule(yes), self.rule(no));
                self.jump(BPF_JEQ, 0, no, yes);
                let low = self.load(low_half(argument));
                self.jump(BPF_JEQ, 0, low, yes);
                self.load(low_half(argument) + HALF)
            }
        }
    }

    /// Writes the binary search that jumps to the range of the call number.
    fn find(&mut self, ranges: &[(u32, InstructionIndex)]) -> InstructionIndex {
        let (low, high) = ranges.split_at(ranges.len() / 2);
        match (low, high) {
            ([], [(_, at)]) => *at,
            _ => {
                let bound = high[0].0;
                let (high, low) = (self.find(high), self.find(low));
                self.jump(BPF_JGE, bound, high, low)
            }
        }
    }

    /// Reuses an existing return instruction if it is near enough.
    fn action(&mut self, action: SeccompAction) -> InstructionIndex {
        let value = match action {
            SeccompAction::Allow => libc::SECCOMP_RET_ALLOW,
            SeccompAction::ReturnErrno(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
            SeccompAction::KillProcess => libc::SECCOMP_RET_KILL_PROCESS,
        };
        let written = self
            .0
            .iter()
            .rposition(|it| u32::from(it.code) == BPF_RET | BPF_K && it.k == value);
        match written.map(InstructionIndex) {
            Some(at) if self.is_near(at) => at,
            _ => self.push(BPF_RET | BPF_K, value),
        }
    }

    /// Execution continues with the instruction that was written before this one.
    fn load(&mut self, offset: u32) -> InstructionIndex {
        self.push(BPF_LD | BPF_W | BPF_ABS, offset)
    }

    fn jump(
        &mut self,
        condition: u32,
        value: u32,
        yes: InstructionIndex,
        no: InstructionIndex,
    ) -> InstructionIndex {
        let (yes, no) = (self.near(yes), self.near(no));
        let (jt, jf) = (self.distance(yes) as u8, self.distance(no) as u8);
        self.push(BPF_JMP | condition | BPF_K, value);
        let at = self.0.len() - 1;
        (self.0[at].jt, self.0[at].jf) = (jt, jf);
        InstructionIndex(at)
    }

    /// A conditional jump reaches at most 255 instructions; an unconditional one reaches all of them.
    fn near(&mut self, at: InstructionIndex) -> InstructionIndex {
        match self.is_near(at) {
            true => at,
            false => self.push(BPF_JMP | BPF_JA, self.distance(at) as u32),
        }
    }

    /// Leaves room for the instruction that `near` may write for the other branch of the same jump.
    fn is_near(&self, at: InstructionIndex) -> bool {
        self.distance(at) < usize::from(u8::MAX)
    }

    /// The distance from the next instruction to be written.
    fn distance(&self, at: InstructionIndex) -> usize {
        self.0.len() - at.0 - 1
    }

    fn push(&mut self, code: u32, k: u32) -> InstructionIndex {
        self.0.push(sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        });
        InstructionIndex(self.0.len() - 1)
    }
}
