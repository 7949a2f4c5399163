//! The reported measurements match what a command used.

use std::time::Duration;

use sandbox::{CommandEndReason, CommandInput, CommandSpec};

use crate::harness::{command, folder, python, run, run_in, sh, stdout, warden};

const MIB: u64 = 1 << 20;

/// Uses CPU time in itself and in a child, and prints how much.
const BURN: &str = r"
import os, resource, time
def burn(until):
    while time.process_time() < until: pass
pid = os.fork()
burn(0.15)
if pid == 0: os._exit(0)
os.waitpid(pid, 0)
both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(usage.ru_utime + usage.ru_stime for usage in both), flush=True)
os._exit(0)
";

#[test]
fn cpu_time_matches_what_the_command_measures_itself() {
    let outcome = run(&python(BURN));
    let text = stdout(&outcome);
    let own: f64 = text.trim().parse().unwrap();
    let difference = outcome.cpu.as_secs_f64() - own;
    assert!(own > 0.28, "{text}");
    assert!(
        difference.abs() < 0.02,
        "measured {:?}, itself {text}",
        outcome.cpu
    );
}

#[test]
fn cpu_time_of_orphans_counts() {
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let direct = run(&sh(busy));
    let (_keep, folder) = folder();
    let mut spec = sh(&format!(
        "(({busy}; echo > done) &); until [ -e done ]; do sleep 0.01; done"
    ));
    spec.directory.clone_from(&folder);
    let orphan = run(&spec);
    assert!(
        orphan.cpu > direct.cpu / 2,
        "{:?} in an orphan, {:?} directly",
        orphan.cpu,
        direct.cpu
    );
}

#[test]
fn wall_time_ends_with_the_first_process() {
    let outcome = run(&sh("sleep 60 & sleep 0.2"));
    // The other process sleeps for twice the wall limit of the harness.
    assert_eq!(outcome.reason, CommandEndReason::Exited);
    assert!(
        outcome.wall > Duration::from_millis(200) && outcome.wall < Duration::from_secs(30),
        "{:?}",
        outcome.wall
    );
    assert!(outcome.cpu < Duration::from_millis(100), "{:?}", outcome.cpu);
}

#[test]
fn memory_is_the_peak_of_the_largest_process() {
    let outcome = run(&python("x = b'x' * (100 << 20)\ndel x"));
    assert!(
        outcome.memory > 100 * MIB && outcome.memory < 130 * MIB,
        "{}",
        outcome.memory
    );
    let child = run(&sh("/usr/bin/python3 -S -c \"x = b'x' * (100 << 20)\"; true"));
    assert!(
        child.memory > 100 * MIB && child.memory < 130 * MIB,
        "{}",
        child.memory
    );
}

#[test]
fn memory_of_a_command_does_not_include_buffers_of_the_warden() {
    let mut warden = warden();
    let before = run_in(&mut warden, &command(&["true"])).memory;
    assert!(before < 12 * MIB, "{before}");
    let large = CommandSpec {
        input: CommandInput::Bytes(vec![7; 40 << 20]),
        max_captured_bytes: 40 << 20,
        ..command(&["cat"])
    };
    assert_eq!(run_in(&mut warden, &large).stdout.size, 40 << 20);
    let after = run_in(&mut warden, &command(&["true"])).memory;
    assert!(after < before + MIB, "{before} before, {after} after");
}
