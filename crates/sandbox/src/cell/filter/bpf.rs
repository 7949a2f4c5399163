//! Writes the filter as a program for the kernel's packet filter machine.
//!
//! That machine jumps forward only, and by a distance. So the program is written from its end: when an instruction
//! is added, all that it can jump to is there, at a known distance.

use std::collections::BTreeMap;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter,
};

use super::{Rule, Verdict};

#[cfg(target_arch = "x86_64")]
pub(super) const MACHINE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const MACHINE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the filter of system calls is written for x86_64 and aarch64 only");

/// x32 programs run on the same machine and say so in the number of the call.
const X32: u32 = 0x4000_0000;
const AFTER_X32: u32 = 0x8000_0000;

/// Where the kernel puts what the program looks at.
const NUMBER: u32 = 0;
const MACHINE_AT: u32 = 4;
const ARGUMENTS: u32 = 16;

const HALF: u32 = 4;

/// Both machines have the low half first.
fn low_half(argument: u8) -> u32 {
    ARGUMENTS + 2 * HALF * u32::from(argument)
}

/// `others` is the rule for all numbers that are not known.
pub(super) fn assemble(known: &BTreeMap<u32, Rule>, others: Rule) -> Vec<sock_filter> {
    let mut program = Program::default();
    let ranges: Vec<(u32, At)> = ranges(known, others)
        .into_iter()
        .map(|(first, rule)| (first, program.rule(&rule)))
        .collect();
    program.find(&ranges);
    let find = program.load(NUMBER);
    let kill = program.verdict(Verdict::Kill);
    program.jump(BPF_JEQ, MACHINE, find, kill);
    program.load(MACHINE_AT);
    program.0.reverse();
    program.0
}

/// The first number of each range of numbers that have the same rule, in order and without gaps.
fn ranges(known: &BTreeMap<u32, Rule>, others: Rule) -> Vec<(u32, Rule)> {
    let mut bounds: BTreeMap<u32, Rule> =
        BTreeMap::from([(0, others), (X32, Rule::Flat(Verdict::Kill)), (AFTER_X32, others)]);
    // The end of one may be the beginning of another, which then counts.
    bounds.extend(known.keys().map(|number| (number + 1, others)));
    bounds.extend(known);
    let mut ranges: Vec<(u32, Rule)> = bounds.into_iter().collect();
    ranges.dedup_by(|later, earlier| later.1 == earlier.1);
    ranges
}

/// The last instruction comes first.
#[derive(Default)]
struct Program(Vec<sock_filter>);

/// An instruction that is written already.
#[derive(Clone, Copy)]
struct At(usize);

impl Program {
    fn rule(&mut self, rule: &Rule) -> At {
        match *rule {
            Rule::Flat(verdict) => self.verdict(verdict),
            Rule::Ask {
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
            Rule::Given { argument, yes, no } => {
                let (yes, no) = (self.rule(yes), self.rule(no));
                self.jump(BPF_JEQ, 0, no, yes);
                let low = self.load(low_half(argument));
                self.jump(BPF_JEQ, 0, low, yes);
                self.load(low_half(argument) + HALF)
            }
        }
    }

    /// Goes to the range that the number is in.
    fn find(&mut self, ranges: &[(u32, At)]) -> At {
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

    /// The same return serves all that can reach it.
    fn verdict(&mut self, verdict: Verdict) -> At {
        let value = match verdict {
            Verdict::Allow => libc::SECCOMP_RET_ALLOW,
            Verdict::Answer(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
            Verdict::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        };
        let written = self
            .0
            .iter()
            .rposition(|it| u32::from(it.code) == BPF_RET | BPF_K && it.k == value);
        match written.map(At) {
            Some(at) if self.is_near(at) => at,
            _ => self.push(BPF_RET | BPF_K, value),
        }
    }

    /// Goes on with what was written before.
    fn load(&mut self, offset: u32) -> At {
        self.push(BPF_LD | BPF_W | BPF_ABS, offset)
    }

    fn jump(&mut self, condition: u32, value: u32, yes: At, no: At) -> At {
        let (yes, no) = (self.near(yes), self.near(no));
        let (jt, jf) = (self.distance(yes) as u8, self.distance(no) as u8);
        self.push(BPF_JMP | condition | BPF_K, value);
        let at = self.0.len() - 1;
        (self.0[at].jt, self.0[at].jf) = (jt, jf);
        At(at)
    }

    /// A jump with a condition reaches 255 instructions far, one without reaches them all.
    fn near(&mut self, at: At) -> At {
        match self.is_near(at) {
            true => at,
            false => self.push(BPF_JMP | BPF_JA, self.distance(at) as u32),
        }
    }

    /// With room for what `near` writes for the other way of the same jump.
    fn is_near(&self, at: At) -> bool {
        self.distance(at) < usize::from(u8::MAX)
    }

    /// From the instruction that is written next.
    fn distance(&self, at: At) -> usize {
        self.0.len() - at.0 - 1
    }

    fn push(&mut self, code: u32, k: u32) -> At {
        self.0.push(sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k,
        });
        At(self.0.len() - 1)
    }
}
