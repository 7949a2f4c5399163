//! Both filters together against the table. The machine that runs them is so small that it can be written down here.

use std::collections::BTreeMap;

use libc::*;

use super::super::Verdict::{Allow, Answer, Kill};
use super::super::rules::UNKNOWN;
use super::super::{Filter, Rule, Verdict, bpf, calls};

/// The stricter answer of both filters, as the kernel takes it.
fn judge_both(filter: &Filter, machine: u32, number: u32, arguments: [u64; 6]) -> Verdict {
    let [shared, last] = [filter.shared(), filter.last()].map(|it| judge(it, machine, number, arguments));
    match (shared, last) {
        (Kill, _) | (_, Kill) => Kill,
        (Allow, last) => last,
        (refused, Allow) => refused,
        // Of two errors the kernel takes that of the filter that was installed last.
        (Answer(_), Answer(_)) => last,
    }
}

/// What the kernel would do with a call.
fn judge(program: &[sock_filter], machine: u32, number: u32, arguments: [u64; 6]) -> Verdict {
    let mut words = vec![number, machine, 0, 0];
    words.extend(
        arguments
            .iter()
            .flat_map(|value| [*value as u32, (value >> 32) as u32]),
    );
    let (mut at, mut value) = (0, 0);
    loop {
        let it = program[at];
        at += 1;
        let jump = |yes: bool| usize::from(if yes { it.jt } else { it.jf });
        match u32::from(it.code) {
            code if code == BPF_LD | BPF_W | BPF_ABS => value = words[it.k as usize / 4],
            code if code == BPF_ALU | BPF_AND => value &= it.k,
            code if code == BPF_JMP | BPF_JA => at += it.k as usize,
            code if code == BPF_JMP | BPF_JEQ => at += jump(value == it.k),
            code if code == BPF_JMP | BPF_JGE => at += jump(value >= it.k),
            code if code == BPF_RET => {
                return match it.k & SECCOMP_RET_ACTION_FULL {
                    SECCOMP_RET_ALLOW => Allow,
                    SECCOMP_RET_ERRNO => Answer((it.k & SECCOMP_RET_DATA) as c_int),
                    SECCOMP_RET_KILL_PROCESS => Kill,
                    other => panic!("returns {other:#x}"),
                };
            }
            other => panic!("no instruction of ours: {other:#x}"),
        }
    }
}

/// What the table says.
fn expected(rule: &Rule, arguments: [u64; 6]) -> Verdict {
    match rule {
        Rule::Flat(verdict) => *verdict,
        Rule::Ask {
            argument,
            mask,
            among,
            yes,
            no,
        } => {
            let value = arguments[usize::from(*argument)] as u32 & mask;
            expected(if among.contains(&value) { yes } else { no }, arguments)
        }
        Rule::Given { argument, yes, no } => {
            let is_given = arguments[usize::from(*argument)] != 0;
            expected(if is_given { yes } else { no }, arguments)
        }
    }
}

#[track_caller]
fn check(known: &BTreeMap<u32, Rule>, filter: &Filter, number: u32, arguments: [u64; 6]) {
    let rule = known.get(&number).copied().unwrap_or(UNKNOWN);
    let verdict = judge_both(filter, bpf::MACHINE, number, arguments);
    assert_eq!(
        verdict,
        expected(&rule, arguments),
        "call {number} with {arguments:#x?}"
    );
}

#[test]
fn every_number_gets_what_the_table_says() {
    let (known, filter) = (calls::known(), Filter::new());
    for number in 0..2000 {
        check(&known, &filter, number, [0; 6]);
    }
}

#[test]
fn arguments_are_looked_at_as_the_table_says() {
    let (known, filter) = (calls::known(), Filter::new());
    // What some rule asks for, and what none does.
    #[rustfmt::skip]
    let values = [
        0, 1, 2, 4, 6, 10, 12, 15, 17, 26, 31, 41, 54, 1024, 1026, 0x5401, 0x5412, 0x8912, 0x8914, 0x8982,
        CLONE_NEWUSER as u64, 0o020_666, u64::MAX,
    ];
    // A high half changes nothing.
    let values = values.into_iter().flat_map(|value| [value, value | 1 << 32]);
    let asking = known.iter().filter(|(_, rule)| !matches!(rule, Rule::Flat(_)));
    for number in asking.map(|(number, _)| *number) {
        for first in values.clone() {
            for second in values.clone() {
                for third in values.clone() {
                    for fourth in [0, MAP_HUGETLB as u64] {
                        check(&known, &filter, number, [first, second, third, fourth, 0, 0]);
                    }
                }
            }
        }
    }
}

#[test]
fn a_long_program_reaches_all_its_verdicts() {
    let rule = |number| Rule::Flat(Answer(number as c_int));
    let known: BTreeMap<u32, Rule> = (0..900).map(|number| (number * 2, rule(number))).collect();
    let program = bpf::assemble(&known, UNKNOWN);
    assert!(program.len() > 1000);
    for number in 0..2000 {
        let expected = known.get(&number).copied().unwrap_or(UNKNOWN);
        let verdict = judge(&program, bpf::MACHINE, number, [0; 6]);
        assert_eq!(Rule::Flat(verdict), expected, "call {number}");
    }
}

#[test]
fn numbers_of_other_machines_end_the_process() {
    let filter = Filter::new();
    let check = |machine, number, wanted| {
        assert_eq!(
            judge_both(&filter, machine, number, [0; 6]),
            wanted,
            "call {number:#x} of {machine:#x}"
        );
    };
    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;
    for number in [0, 1, 20, 1000, u32::MAX] {
        check(I386, number, Kill);
        check(ARM, number, Kill);
        check(bpf::MACHINE, 0x4000_0000 | number & 0x3fff_ffff, Kill);
    }
    // What tracers set to skip a call.
    check(bpf::MACHINE, u32::MAX, Answer(ENOSYS));
}

/// What a stub does once it is filtered, up to its end or the command's beginning.
#[test]
fn a_stub_can_take_its_orders() {
    let known = calls::known();
    #[rustfmt::skip]
    let needed = [
        SYS_write, SYS_recvmsg, SYS_dup3, SYS_chdir, SYS_execve, SYS_statx, SYS_nanosleep, SYS_exit_group,
    ];
    for call in needed {
        assert_eq!(known.get(&(call as u32)), Some(&Rule::Flat(Allow)), "call {call}");
    }
    // Of itself, which is no process 1.
    let limits = known[&(SYS_prlimit64 as u32)];
    for resource in [RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_STACK] {
        let arguments = [0, resource.into(), 1, 1, 0, 0];
        assert_eq!(expected(&limits, arguments), Allow, "resource {resource}");
    }
}
