//! Tests both programs together against the table, with a small BPF interpreter.

use std::collections::BTreeMap;

use libc::*;

use super::super::SeccompAction::{Allow, KillProcess, ReturnErrno};
use super::super::rules::UNKNOWN;
use super::super::{CommandAffinity, SeccompAction, SeccompFilter, SyscallRule, bpf, syscall_table};

/// Returns the stricter answer of both programs, as the kernel does.
fn run_both_programs(
    filter: &SeccompFilter,
    machine: u32,
    number: u32,
    arguments: [u64; 6],
) -> SeccompAction {
    let [shared, last] = [filter.warden_program(), filter.stub_program()]
        .map(|it| run_program(it, machine, number, arguments));
    match (shared, last) {
        (KillProcess, _) | (_, KillProcess) => KillProcess,
        (Allow, last) => last,
        (refused, Allow) => refused,
        // Of two errors the kernel takes that of the filter that was installed last.
        (ReturnErrno(_), ReturnErrno(_)) => last,
    }
}

/// What the kernel would do with a call.
fn run_program(program: &[sock_filter], machine: u32, number: u32, arguments: [u64; 6]) -> SeccompAction {
    let mut data = vec![number, machine, 0, 0];
    data.extend(
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
            code if code == BPF_LD | BPF_W | BPF_ABS => value = data[it.k as usize / 4],
            code if code == BPF_ALU | BPF_AND => value &= it.k,
            code if code == BPF_JMP | BPF_JA => at += it.k as usize,
            code if code == BPF_JMP | BPF_JEQ => at += jump(value == it.k),
            code if code == BPF_JMP | BPF_JGE => at += jump(value >= it.k),
            code if code == BPF_RET => {
                return match it.k & SECCOMP_RET_ACTION_FULL {
                    SECCOMP_RET_ALLOW => Allow,
                    SECCOMP_RET_ERRNO => ReturnErrno((it.k & SECCOMP_RET_DATA) as c_int),
                    SECCOMP_RET_KILL_PROCESS => KillProcess,
                    other => panic!("returns {other:#x}"),
                };
            }
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

/// What the table says about a call.
fn expected(rule: &SyscallRule, arguments: [u64; 6]) -> SeccompAction {
    match rule {
        SyscallRule::Always(action) => *action,
        SyscallRule::IfArgument {
            argument,
            mask,
            among,
            yes,
            no,
        } => {
            let value = arguments[usize::from(*argument)] as u32 & mask;
            expected(if among.contains(&value) { yes } else { no }, arguments)
        }
        SyscallRule::IfPointer { argument, yes, no } => {
            let is_given = arguments[usize::from(*argument)] != 0;
            expected(if is_given { yes } else { no }, arguments)
        }
    }
}

#[track_caller]
fn check(
    rules_by_number: &BTreeMap<u32, SyscallRule>,
    filter: &SeccompFilter,
    number: u32,
    arguments: [u64; 6],
) {
    let rule = rules_by_number.get(&number).copied().unwrap_or(UNKNOWN);
    let action = run_both_programs(filter, bpf::AUDIT_ARCH, number, arguments);
    assert_eq!(
        action,
        expected(&rule, arguments),
        "call {number} with {arguments:#x?}"
    );
}

fn rules_and_filter(affinity: CommandAffinity) -> (BTreeMap<u32, SyscallRule>, SeccompFilter) {
    let rules_by_number = syscall_table::rules_by_number(affinity);
    (rules_by_number, SeccompFilter::new(affinity))
}

#[test]
fn a_pinned_command_cannot_choose_its_cpus() {
    let check = |affinity, wanted| {
        let (_, filter) = rules_and_filter(affinity);
        let number = SYS_sched_setaffinity as u32;
        let action = run_both_programs(&filter, bpf::AUDIT_ARCH, number, [0; 6]);
        assert_eq!(action, wanted, "{affinity:?}");
    };
    check(CommandAffinity::Free, Allow);
    check(CommandAffinity::Fixed, ReturnErrno(EPERM));
}

#[test]
fn every_call_number_gets_the_answer_of_the_table() {
    for affinity in [CommandAffinity::Free, CommandAffinity::Fixed] {
        let (rules_by_number, filter) = rules_and_filter(affinity);
        for number in 0..2000 {
            check(&rules_by_number, &filter, number, [0; 6]);
        }
    }
}

#[test]
fn arguments_are_compared_as_the_table_says() {
    let (rules_by_number, filter) = rules_and_filter(CommandAffinity::Free);
    // Values that some rule compares, and others.
    #[rustfmt::skip]
    let values = [
        0, 1, 2, 4, 6, 10, 12, 15, 17, 26, 31, 41, 54, 1024, 1026, 0x5401, 0x5412, 0x8912, 0x8914, 0x8982,
        CLONE_NEWUSER as u64, 0o020_666, u64::MAX,
    ];
    // The high half of an argument changes nothing.
    let values = values.into_iter().flat_map(|value| [value, value | 1 << 32]);
    let asking = rules_by_number
        .iter()
        .filter(|(_, rule)| !matches!(rule, SyscallRule::Always(_)));
    for number in asking.map(|(number, _)| *number) {
        for first in values.clone() {
            for second in values.clone() {
                for third in values.clone() {
                    for fourth in [0, MAP_HUGETLB as u64] {
                        check(
                            &rules_by_number,
                            &filter,
                            number,
                            [first, second, third, fourth, 0, 0],
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_long_program_reaches_all_its_actions() {
    let rule = |number| SyscallRule::Always(ReturnErrno(number as c_int));
    let rules_by_number: BTreeMap<u32, SyscallRule> =
        (0..900).map(|number| (number * 2, rule(number))).collect();
    let program = bpf::assemble(&rules_by_number, UNKNOWN);
    assert!(program.len() > 1000);
    for number in 0..2000 {
        let expected = rules_by_number.get(&number).copied().unwrap_or(UNKNOWN);
        let action = run_program(&program, bpf::AUDIT_ARCH, number, [0; 6]);
        assert_eq!(SyscallRule::Always(action), expected, "call {number}");
    }
}

#[test]
fn calls_of_other_architectures_kill_the_process() {
    let filter = SeccompFilter::new(CommandAffinity::Free);
    let check = |machine, number, wanted| {
        assert_eq!(
            run_both_programs(&filter, machine, number, [0; 6]),
            wanted,
            "call {number:#x} of {machine:#x}"
        );
    };
    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;
    for number in [0, 1, 20, 1000, u32::MAX] {
        check(I386, number, KillProcess);
        check(ARM, number, KillProcess);
        check(bpf::AUDIT_ARCH, 0x4000_0000 | number & 0x3fff_ffff, KillProcess);
    }
    // Tracers set this number to skip a call.
    check(bpf::AUDIT_ARCH, u32::MAX, ReturnErrno(ENOSYS));
}

/// The calls that a stub makes after the filter is installed, until it ends or the command starts.
#[test]
fn a_stub_can_make_the_calls_it_needs_after_the_filter() {
    let rules_by_number = syscall_table::rules_by_number(CommandAffinity::Free);
    #[rustfmt::skip]
    let needed = [
        SYS_write, SYS_recvmsg, SYS_dup3, SYS_chdir, SYS_execve, SYS_statx, SYS_nanosleep, SYS_exit_group,
    ];
    for call in needed {
        assert_eq!(
            rules_by_number.get(&(call as u32)),
            Some(&SyscallRule::Always(Allow)),
            "call {call}"
        );
    }
    // A limit of its own process, which is not process 1.
    let limits = rules_by_number[&(SYS_prlimit64 as u32)];
    for resource in [RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_STACK] {
        let arguments = [0, resource.into(), 1, 1, 0, 0];
        assert_eq!(expected(&limits, arguments), Allow, "resource {resource}");
    }
}
