//! Values that are fine one by one and nonsense together.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};
use model::Limits;

use super::keys::Config;
use super::layers::Layers;
use super::value::Metrics;

pub(super) fn check(config: &Config, layers: &Layers) -> Result<()> {
    let Config {
        judicator,
        executor,
        gateway,
        limits_default,
        limits_max,
        sandbox,
        secrets,
        ..
    } = config;
    let said = |name: &str| match layers.setting(name) {
        Ok(setting) => format!("{name} is {} ({})", setting.text, setting.origin),
        Err(_) => name.to_string(),
    };

    for (name, span) in [
        ("judicator.lease", judicator.lease),
        ("executor.heartbeat", executor.heartbeat),
        ("executor.self_kill", executor.self_kill),
    ] {
        ensure!(span >= LEAST_SPAN, "{}; it must be at least 10ms", said(name));
    }
    // Otherwise a task could still run here when the judicator has already given it to another executor.
    ensure!(
        executor.self_kill < judicator.lease,
        "{}, which must be below the lease: {}. Lower the first or raise the second",
        said("executor.self_kill"),
        said("judicator.lease")
    );
    // An add puts its large files as blobs first; they must still be there when it comes to the task.
    ensure!(
        judicator.keep_blobs >= LEAST_KEPT,
        "{}; it must be at least 1s",
        said("judicator.keep_blobs")
    );
    // A task travels whole in one message, with those of other tasks.
    ensure!(
        judicator.max_inline.0 <= INLINE_MOST,
        "{}; at most 32MiB can be in a task itself, more goes into blobs",
        said("judicator.max_inline")
    );
    // A busy machine takes its time to start a process; that is no reason to give a task up.
    ensure!(
        executor.stall >= LEAST_STALL,
        "{}; it must be at least 1s",
        said("executor.stall")
    );
    // One report that is lost on the way must not be enough to stop every task.
    ensure!(
        executor.heartbeat * 2 <= executor.self_kill,
        "{}, which must be at most half of self_kill: {}. Lower the first or raise the second",
        said("executor.heartbeat"),
        said("executor.self_kill")
    );
    let port = |address: &str| address.rsplit(':').next().map(str::to_string);
    ensure!(
        gateway.listen != judicator.listen
            // `conclave up` does not open it then, and other nodes have only one of the two.
            || layers.is_default("judicator.listen")
            || port(&gateway.listen.0).as_deref() == Some("0"),
        "{} and {}; give them different ports",
        said("gateway.listen"),
        said("judicator.listen")
    );
    ensure!(
        gateway.inline <= judicator.max_inline,
        "{}, which is more than {}; such files could travel neither way",
        said("gateway.inline"),
        said("judicator.max_inline")
    );
    ensure!(
        gateway.share.get() <= 100,
        "{}; it is a percentage and at most 100",
        said("gateway.share")
    );
    // A client on a good line may be silent for as long while a packet is sent again.
    for (name, span) in [
        ("gateway.body_stall", gateway.body_stall),
        ("gateway.answer_stall", gateway.answer_stall),
    ] {
        ensure!(span >= LEAST_STALL, "{}; it must be at least 1s", said(name));
    }
    ensure!(
        gateway.metrics != Metrics::Token || secrets.tokens_file.is_some(),
        "{}, but there are no tokens; set secrets.tokens_file, or let gateway.metrics be open or off",
        said("gateway.metrics")
    );
    // A result travels inside one report, with those of other tasks.
    ensure!(
        executor.keep_output.0 <= KEEP_OUTPUT_MOST,
        "{}; at most 8MiB of each output can be kept",
        said("executor.keep_output")
    );

    let below = |name: &str, fits: bool| -> Result<()> {
        ensure!(
            fits,
            "{}, which is more than {}",
            said(&format!("limits.default.{name}")),
            said(&format!("limits.max.{name}"))
        );
        Ok(())
    };
    below("wall", fits(limits_default.wall, limits_max.wall))?;
    below("cpu", fits(limits_default.cpu, limits_max.cpu))?;
    below("memory", fits(limits_default.memory, limits_max.memory.0))?;
    below("output", fits(limits_default.output, limits_max.output))?;
    below(
        "processes",
        fits(limits_default.processes, limits_max.processes.0),
    )?;
    below("file_size", fits(limits_default.file_size, limits_max.file_size))?;
    below(
        "open_files",
        fits(limits_default.open_files, limits_max.open_files.0),
    )?;
    below("stack", fits(limits_default.stack, limits_max.stack))?;
    below("space", fits(limits_default.space, limits_max.space.0))?;

    // To a file system it would mean no limit at all.
    ensure!(
        sandbox.space.0 > 0,
        "{}; it must be more than zero",
        said("sandbox.space")
    );
    ensure!(
        sandbox.memory.is_none_or(|memory| memory.0 >= LEAST_MEMORY),
        "{}; it must be at least 16MiB, or none",
        said("sandbox.memory")
    );
    ensure!(
        sandbox.files.get() >= LEAST_FILES,
        "{}; a task needs {LEAST_FILES} for its folders and a few files",
        said("sandbox.files")
    );
    for (name, spans) in [
        ("wall", [limits_default.wall, limits_max.wall]),
        ("cpu", [limits_default.cpu, limits_max.cpu]),
    ] {
        let is_zero = spans.map(|span| span == Some(Duration::ZERO));
        more_than_zero(name, is_zero, &said)?;
    }
    for (name, sizes) in [
        ("memory", [limits_default.memory, limits_max.memory.0]),
        ("output", [limits_default.output, limits_max.output]),
        ("file_size", [limits_default.file_size, limits_max.file_size]),
        ("space", [limits_default.space, limits_max.space.0]),
    ] {
        let is_zero = sizes.map(|size| size.is_some_and(|size| size.0 == 0));
        more_than_zero(name, is_zero, &said)?;
    }

    // A step that asks for nothing is given these unasked; no program could start.
    for (name, count) in [
        ("limits.default.open_files", limits_default.open_files),
        ("limits.max.open_files", limits_max.open_files.0),
    ] {
        let least = Limits::LEAST_OPEN_FILES;
        ensure!(
            count.is_none_or(|count| count.get() >= least),
            "{}; it must be at least {least}",
            said(name)
        );
    }
    for (name, stack) in [
        ("limits.default.stack", limits_default.stack),
        ("limits.max.stack", limits_max.stack),
    ] {
        let least = Limits::LEAST_STACK;
        ensure!(
            stack.is_none_or(|stack| stack.0 >= least),
            "{}; it must be at least {}KiB",
            said(name),
            least >> 10
        );
    }
    Ok(())
}

/// What no task may ask for must not be given to one that asks for nothing.
fn more_than_zero(name: &str, is_zero: [bool; 2], said: &impl Fn(&str) -> String) -> Result<()> {
    for (of, is_zero) in ["default", "max"].into_iter().zip(is_zero) {
        ensure!(
            !is_zero,
            "{}; it must be more than zero, or none",
            said(&format!("limits.{of}.{name}"))
        );
    }
    Ok(())
}

const LEAST_FILES: u32 = 16;
/// Hardly any program does with less.
const LEAST_MEMORY: u64 = 16 << 20;
const KEEP_OUTPUT_MOST: u64 = 8 << 20;
const INLINE_MOST: u64 = 32 << 20;
const LEAST_SPAN: Duration = Duration::from_millis(10);
const LEAST_KEPT: Duration = Duration::from_secs(1);
const LEAST_STALL: Duration = Duration::from_secs(1);

/// No default is fine, and so is no maximum.
fn fits<T: PartialOrd + fmt::Debug>(default: Option<T>, max: Option<T>) -> bool {
    match (default, max) {
        (Some(default), Some(max)) => default <= max,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::layers::Flag;
    use super::*;

    #[test]
    fn nonsense_is_refused_and_named() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            let flags = set.iter().map(|(key, text)| Flag {
                key: key.to_string(),
                flag: "--set",
                text: text.to_string(),
            });
            let found = Layers::gather(None, flags.collect()).unwrap().config();
            match (found, expected) {
                (Ok(_), None) => {}
                (Err(wrong), Some(part)) => assert!(wrong.to_string().contains(part), "{wrong}"),
                (found, _) => panic!("{set:?} gave {:?}", found.map(|_| ())),
            }
        };
        check(&[], None);
        check(
            &[("executor.self_kill", "10s")],
            Some(
                "executor.self_kill is 10s (flag --set), which must be below the lease: judicator.lease is 10s (default)",
            ),
        );
        check(&[("executor.heartbeat", "4s")], Some("at most half of self_kill"));
        check(&[("executor.heartbeat", "0s")], Some("at least 10ms"));
        check(&[("judicator.lease", "9ns")], Some("at least 10ms"));
        check(&[("judicator.keep_blobs", "0s")], Some("at least 1s"));
        check(&[("gateway.share", "101")], Some("at most 100"));
        check(&[("gateway.body_stall", "0s")], Some("at least 1s"));
        check(&[("gateway.answer_stall", "0s")], Some("at least 1s"));
        check(&[("judicator.max_inline", "33MiB")], Some("at most 32MiB"));
        check(&[("judicator.lease", "30s"), ("executor.self_kill", "20s")], None);
        check(&[("gateway.listen", "127.0.0.1:7010")], None);
        let same = [
            ("gateway.listen", "127.0.0.1:7010"),
            ("judicator.listen", "127.0.0.1:7010"),
        ];
        check(&same, Some("different ports"));
        check(
            &[
                ("gateway.listen", "127.0.0.1:0"),
                ("judicator.listen", "127.0.0.1:0"),
            ],
            None,
        );
        check(&[("gateway.metrics", "token")], Some("there are no tokens"));
        check(
            &[("gateway.metrics", "token"), ("secrets.tokens_file", "/tokens")],
            None,
        );
        check(&[("limits.default.wall", "2d")], Some("limits.max.wall is 1d"));
        check(
            &[("gateway.inline", "9MiB")],
            Some("judicator.max_inline is 8MiB"),
        );
        check(&[("limits.max.memory", "1GiB")], None);
        for (name, default, max) in [
            ("file_size", "2MiB", "1MiB"),
            ("open_files", "200", "100"),
            ("stack", "2MiB", "1MiB"),
            ("space", "2MiB", "1MiB"),
        ] {
            let keys = ["default", "max"].map(|of| format!("limits.{of}.{name}"));
            let expected = format!(
                "{} is {default} (flag --set), which is more than {}",
                keys[0], keys[1]
            );
            check(&[(&keys[0], default), (&keys[1], max)], Some(&expected));
            check(&[(&keys[0], max), (&keys[1], default)], None);
        }
        check(
            &[("limits.default.open_files", "3")],
            Some("limits.default.open_files is 3 (flag --set); it must be at least 4"),
        );
        check(
            &[("limits.max.stack", "63KiB")],
            Some("limits.max.stack is 63KiB (flag --set); it must be at least 64KiB"),
        );
        check(&[("executor.keep_output", "9MiB")], Some("at most 8MiB"));
        check(&[("sandbox.space", "0")], Some("sandbox.space is 0 (flag --set)"));
        check(&[("sandbox.memory", "15MiB")], Some("at least 16MiB, or none"));
        check(&[("sandbox.memory", "none")], None);
        check(&[("sandbox.files", "3")], Some("needs 16"));
        check(&[("limits.max.cpu", "0s")], Some("limits.max.cpu is 0s"));
        check(&[("limits.default.cpu", "0s")], Some("limits.default.cpu is 0s"));
        check(
            &[("limits.default.space", "0")],
            Some("limits.default.space is 0"),
        );
    }
}
