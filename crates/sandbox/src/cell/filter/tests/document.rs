//! docs/system-calls.md says what the table says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use libc::*;
use syscalls::{aarch64, x86_64};

use super::super::Verdict::{Allow, Answer, Kill};
use super::super::calls::{KINDS, UNKNOWN};
use super::super::{Rule, Verdict};

const OPENING: &str = "\
# System calls in a cell

What a command in a [cell](sandbox.md) is answered, for every system call of both machines that cells run on. This page
is made of the filter's own table by its test, which fails when they differ.

- *allowed*: the kernel does it. What it allocates, and who pays for that, is said beside it. *Charged to the group* means
  that it counts as the task's memory and ends with the task's limit.
- *by its arguments*: allowed or refused, as is said beside it.
- *does nothing*: the call succeeds and is not made.
- an error: the call is not made. ENOSYS is the answer of a kernel that does not have the call, and programs do what they
  do on an older one.

A call by the number of another machine (32-bit, x32) ends the process.

| call | x86-64 | aarch64 | answer | why |
|---|---|---|---|---|
";

/// The number of each call by its name, on both machines.
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

fn answer(rule: &Rule) -> &'static str {
    match rule {
        Rule::Flat(verdict) => name(*verdict),
        Rule::Ask { .. } | Rule::Given { .. } => "by its arguments",
    }
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Allow => "allowed",
        Answer(0) => "does nothing",
        Answer(EPERM) => "EPERM",
        Answer(EOPNOTSUPP) => "EOPNOTSUPP",
        other @ (Answer(_) | Kill) => panic!("{other:?} has no name here yet"),
    }
}

fn document() -> String {
    let mut answers: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for kind in KINDS {
        for call in kind.calls {
            let known = answers.insert(call, (answer(&kind.rule), kind.why));
            assert!(known.is_none(), "{call} is in the table twice");
        }
    }
    for (calls, why) in UNKNOWN {
        for call in *calls {
            let known = answers.insert(call, ("ENOSYS", why));
            assert!(known.is_none(), "{call} is in the table, and unknown");
        }
    }
    let numbers = numbers();
    let nobodys: BTreeSet<_> = answers
        .keys()
        .filter(|call| !numbers.contains_key(**call))
        .collect();
    assert_eq!(nobodys, BTreeSet::new(), "no machine has these calls");

    let mut document = OPENING.to_string();
    for (call, [x86, arm]) in numbers {
        let number = |number: Option<i32>| number.map_or("-".to_string(), |number| number.to_string());
        let (answer, why) = answers
            .get(call)
            .unwrap_or(&("ENOSYS", "Not needed by programs of this kind."));
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

/// `CONCLAVE_WRITE_DOCS=1` writes it.
#[test]
fn the_document_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/system-calls.md");
    let document = document();
    if std::env::var_os("CONCLAVE_WRITE_DOCS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == document,
        "docs/system-calls.md does not say what the filter does; write it anew with CONCLAVE_WRITE_DOCS=1 set"
    );
}
