//! Generates docs/system-calls.md from the table and checks that the page is up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use libc::*;
use syscalls::{aarch64, x86_64};

use super::super::SeccompAction::{Allow, KillProcess, ReturnErrno};
use super::super::syscall_table::{SYSCALL_GROUPS, UNKNOWN};
use super::super::{SeccompAction, SyscallRule};

const OPENING: &str = "\
# System calls in a cell

The answer that a command in a [cell](sandbox.md) gets, for every system call of both architectures that cells run on. A
test generates this page from the table of the seccomp filter, and fails if they differ.

- *allowed*: the kernel does it. The last column says what it allocates and who pays for that. *Charged to the group* means
  that it counts as the task's memory and is limited by the task's memory limit.
- *by its arguments*: allowed or refused, as the last column says.
- *does nothing*: the call is not made and succeeds.
- an error: the call is not made and fails. ENOSYS is the answer of a kernel that does not have the call, so programs fall
  back to older calls.

A call by the number of another architecture (32-bit, x32) kills the process.

| call | x86-64 | aarch64 | answer | why |
|---|---|---|---|---|
";

/// The numbers of each call on both architectures, by name.
fn numbers() -> BTreeMap<&'static str, [Option<i32>; 2]> {
    const HIGHEST: usize = 1000;
    let mut numbers: BTreeMap<&str, [Option<i32>; 2]> = BTreeMap::new();
    for call in (0..HIGHEST).filter_map(x86_64::Sysno::new) {
        numbers.entry(call.name()).or_default()[0] = Some(call.id());
    }
    for call in (0..HIGHEST).filter_map(aarch64::Sysno::new) {
        numbers.entry(call.name()).or_default()[1] = Some(call.id());
    }
    numbers
}

fn answer(rule: &SyscallRule) -> &'static str {
    match rule {
        SyscallRule::Always(action) => name(*action),
        SyscallRule::IfArgument { .. } | SyscallRule::IfPointer { .. } => "by its arguments",
    }
}

fn name(action: SeccompAction) -> &'static str {
    match action {
        Allow => "allowed",
        ReturnErrno(0) => "does nothing",
        ReturnErrno(EPERM) => "EPERM",
        ReturnErrno(EOPNOTSUPP) => "EOPNOTSUPP",
        other @ (ReturnErrno(_) | KillProcess) => panic!("{other:?} needs a name on the page"),
    }
}

fn document() -> String {
    let mut answers: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for kind in SYSCALL_GROUPS {
        for call in kind.calls {
            let rules_by_number = answers.insert(call, (answer(&kind.rule), kind.why));
            assert!(rules_by_number.is_none(), "{call} is in the table twice");
        }
    }
    for (calls, why) in UNKNOWN {
        for call in *calls {
            let rules_by_number = answers.insert(call, ("ENOSYS", why));
            assert!(
                rules_by_number.is_none(),
                "{call} is in the table and also listed as unknown"
            );
        }
    }
    let numbers = numbers();
    let unknown_names: BTreeSet<_> = answers
        .keys()
        .filter(|call| !numbers.contains_key(**call))
        .collect();
    assert_eq!(unknown_names, BTreeSet::new(), "no architecture has these calls");

    let mut document = OPENING.to_string();
    for (call, [x86, arm]) in numbers {
        let number = |number: Option<i32>| number.map_or("-".to_string(), |number| number.to_string());
        let (answer, why) = answers
            .get(call)
            .unwrap_or(&("ENOSYS", "Not needed by ordinary programs."));
        writeln!(
            document,
            "| `{call}` | {} | {} | {answer} | {why} |",
            number(x86),
            number(arm)
        )
        .unwrap();
    }
    document
}

/// With `CONCLAVE_WRITE_DOCS=1` in the environment, this test writes the page.
#[test]
fn the_docs_page_matches_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/system-calls.md");
    let document = document();
    if std::env::var_os("CONCLAVE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == document,
        "docs/system-calls.md is out of date; run this test with CONCLAVE_WRITE_DOCS=1 to write it"
    );
}
