//! Checks values that are valid alone but not in combination, and ranges.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};
use model::Limits;

use super::keys::Config;
use super::layers::ConfigLayers;
use super::value::MetricsSetting;

pub(super) fn check(config: &Config, layers: &ConfigLayers) -> Result<()> {
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
    let describe = |name: &str| match layers.setting(name) {
        Ok(setting) => format!("{name} is {} ({})", setting.text, setting.origin),
        Err(_) => name.to_string(),
    };

    for (name, duration) in [
        ("judicator.lease", judicator.lease),
        ("executor.heartbeat", executor.heartbeat),
        ("executor.self_kill", executor.self_kill),
    ] {
        ensure!(
            duration >= MIN_INTERVAL,
            "{}; it must be at least 10ms",
            describe(name)
        );
    }
    // Otherwise a task could still run on this executor when the judicator has already given it to another one.
    ensure!(
        executor.self_kill < judicator.lease,
        "{}, which must be below the lease: {}. Lower the first or raise the second",
        describe("executor.self_kill"),
        describe("judicator.lease")
    );
    // A client uploads large files as blobs before it adds the task; they must still exist when the task is added.
    ensure!(
        judicator.keep_blobs >= MIN_BLOB_RETENTION,
        "{}; it must be at least 1s",
        describe("judicator.keep_blobs")
    );
    // One RPC message has whole tasks, and several of them.
    ensure!(
        judicator.max_inline.0 <= MAX_INLINE,
        "{}; a task can have at most 32MiB inline, larger files must be blobs",
        describe("judicator.max_inline")
    );
    // Starting a process takes long on a busy machine, which must not fail the attempt.
    ensure!(
        executor.stall >= MIN_STALL_TIMEOUT,
        "{}; it must be at least 1s",
        describe("executor.stall")
    );
    // A single lost report must not stop all tasks.
    ensure!(
        executor.heartbeat * 2 <= executor.self_kill,
        "{}, which must be at most half of self_kill: {}. Lower the first or raise the second",
        describe("executor.heartbeat"),
        describe("executor.self_kill")
    );
    let port = |address: &str| address.rsplit(':').next().map(str::to_string);
    ensure!(
        gateway.listen != judicator.listen
            // `conclave up` does not listen on the default address, and other nodes have only one of the two.
            || layers.is_default("judicator.listen")
            || port(&gateway.listen.0).as_deref() == Some("0"),
        "{} and {}; give them different ports",
        describe("gateway.listen"),
        describe("judicator.listen")
    );
    ensure!(
        gateway.inline <= judicator.max_inline,
        "{}, which is more than {}; files between the two could be neither inline nor blobs",
        describe("gateway.inline"),
        describe("judicator.max_inline")
    );
    ensure!(
        gateway.share.get() <= 100,
        "{}; it must be a percentage of at most 100",
        describe("gateway.share")
    );
    // Browsers count the age of a cookie in seconds.
    ensure!(
        gateway.sign_in_time >= MIN_SIGN_IN_TIME,
        "{}; it must be at least 1s",
        describe("gateway.sign_in_time")
    );
    // A client with a good connection may pause this long while a lost packet is retransmitted.
    for (name, duration) in [
        ("gateway.body_stall", gateway.body_stall),
        ("gateway.answer_stall", gateway.answer_stall),
    ] {
        ensure!(
            duration >= MIN_STALL_TIMEOUT,
            "{}; it must be at least 1s",
            describe(name)
        );
    }
    ensure!(
        gateway.metrics != MetricsSetting::Token || secrets.tokens_file.is_some(),
        "{}, but there are no tokens; set secrets.tokens_file, or set gateway.metrics to open or off",
        describe("gateway.metrics")
    );
    // What is kept waits in this space for its upload, so a result that does not fit could never be reported.
    for (name, size) in [
        ("executor.keep_output", executor.keep_output),
        ("executor.keep_bytes", executor.keep_bytes),
    ] {
        ensure!(
            size <= executor.outgoing,
            "{}, which is more than {}. Lower the first or raise the second",
            describe(name),
            describe("executor.outgoing")
        );
    }
    ensure!(
        judicator.attempts <= judicator.max_attempts,
        "{}, which is more than {}. Lower the first or raise the second",
        describe("judicator.attempts"),
        describe("judicator.max_attempts")
    );

    let check_maximum = |name: &str, fits: bool| -> Result<()> {
        ensure!(
            fits,
            "{}, which is more than {}",
            describe(&format!("limits.default.{name}")),
            describe(&format!("limits.max.{name}"))
        );
        Ok(())
    };
    check_maximum("wall", fits(limits_default.wall, limits_max.wall))?;
    check_maximum("cpu", fits(limits_default.cpu, limits_max.cpu))?;
    check_maximum("memory", fits(limits_default.memory, limits_max.memory.0))?;
    check_maximum("output", fits(limits_default.output, limits_max.output))?;
    check_maximum(
        "processes",
        fits(limits_default.processes, limits_max.processes.0),
    )?;
    check_maximum("file_size", fits(limits_default.file_size, limits_max.file_size))?;
    check_maximum(
        "open_files",
        fits(limits_default.open_files, limits_max.open_files.0),
    )?;
    check_maximum("stack", fits(limits_default.stack, limits_max.stack))?;
    check_maximum("space", fits(limits_default.space, limits_max.space.0))?;

    // For a tmpfs, a size of 0 means no limit.
    ensure!(
        sandbox.space.0 > 0,
        "{}; it must be more than zero",
        describe("sandbox.space")
    );
    ensure!(
        sandbox.memory.is_none_or(|memory| memory.0 >= MIN_MEMORY),
        "{}; it must be at least 16MiB, or none",
        describe("sandbox.memory")
    );
    ensure!(
        sandbox.files.get() >= MIN_FILES,
        "{}; it must be at least {MIN_FILES}, for a task's folders and a few files",
        describe("sandbox.files")
    );
    for (name, durations) in [
        ("wall", [limits_default.wall, limits_max.wall]),
        ("cpu", [limits_default.cpu, limits_max.cpu]),
    ] {
        let is_zero = durations.map(|duration| duration == Some(Duration::ZERO));
        check_nonzero(name, is_zero, &describe)?;
    }
    for (name, sizes) in [
        ("memory", [limits_default.memory, limits_max.memory.0]),
        ("output", [limits_default.output, limits_max.output]),
        ("file_size", [limits_default.file_size, limits_max.file_size]),
        ("space", [limits_default.space, limits_max.space.0]),
    ] {
        let is_zero = sizes.map(|size| size.is_some_and(|size| size.0 == 0));
        check_nonzero(name, is_zero, &describe)?;
    }

    // These apply to steps that request no limit. With less than the minimum, no program could start.
    for (name, count) in [
        ("limits.default.open_files", limits_default.open_files),
        ("limits.max.open_files", limits_max.open_files.0),
    ] {
        let least = Limits::MIN_OPEN_FILES;
        ensure!(
            count.is_none_or(|count| count.get() >= least),
            "{}; it must be at least {least}",
            describe(name)
        );
    }
    for (name, stack) in [
        ("limits.default.stack", limits_default.stack),
        ("limits.max.stack", limits_max.stack),
    ] {
        let least = Limits::MIN_STACK;
        ensure!(
            stack.is_none_or(|stack| stack.0 >= least),
            "{}; it must be at least {}KiB",
            describe(name),
            least >> 10
        );
    }
    Ok(())
}

/// A task may not request a limit of zero, so the default must not be zero either.
fn check_nonzero(name: &str, is_zero: [bool; 2], describe: &impl Fn(&str) -> String) -> Result<()> {
    for (section, is_zero) in ["default", "max"].into_iter().zip(is_zero) {
        ensure!(
            !is_zero,
            "{}; it must be more than zero, or none",
            describe(&format!("limits.{section}.{name}"))
        );
    }
    Ok(())
}

const MIN_FILES: u32 = 16;
/// Hardly any program runs with less.
const MIN_MEMORY: u64 = 16 << 20;
const MAX_INLINE: u64 = 32 << 20;
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MIN_BLOB_RETENTION: Duration = Duration::from_secs(1);
const MIN_SIGN_IN_TIME: Duration = Duration::from_secs(1);
const MIN_STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the default is at most the maximum. A missing default or maximum is fine.
fn fits<T: PartialOrd + fmt::Debug>(default: Option<T>, max: Option<T>) -> bool {
    match (default, max) {
        (Some(default), Some(max)) => default <= max,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::layers::ConfigFlag;
    use super::*;

    #[test]
    fn inconsistent_values_are_refused_with_their_keys() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            let flags = set.iter().map(|(key, text)| ConfigFlag {
                key: key.to_string(),
                flag: "--set",
                text: text.to_string(),
            });
            let found = ConfigLayers::gather(None, flags.collect()).unwrap().config();
            match (found, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
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
        check(&[("gateway.sign_in_time", "999ms")], Some("at least 1s"));
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
        check(&[("executor.keep_output", "4GiB")], None);
        check(
            &[("executor.keep_output", "5GiB")],
            Some("executor.outgoing is 4GiB (default)"),
        );
        check(
            &[("executor.outgoing", "200MiB")],
            Some("executor.keep_bytes is 256MiB (default), which is more than"),
        );
        check(
            &[("judicator.attempts", "101")],
            Some("judicator.max_attempts is 100 (default)"),
        );
        check(&[("sandbox.space", "0")], Some("sandbox.space is 0 (flag --set)"));
        check(&[("sandbox.memory", "15MiB")], Some("at least 16MiB, or none"));
        check(&[("sandbox.memory", "none")], None);
        check(&[("sandbox.files", "3")], Some("at least 16"));
        check(&[("limits.max.cpu", "0s")], Some("limits.max.cpu is 0s"));
        check(&[("limits.default.cpu", "0s")], Some("limits.default.cpu is 0s"));
        check(
            &[("limits.default.space", "0")],
            Some("limits.default.space is 0"),
        );
    }
}
