//! What each room wants to know, out of the configuration.

use std::num::NonZeroU32;

use anyhow::Result;
use executor::{Contact, Division, Machine};
use gateway::MetricsAccess;
use model::{Bounds, Capacity, LimitPolicy, Limits};
use sandbox::{CellPlan, Usual, Wall};

use super::{Folder, Secrets};
use crate::config::{Config, Isolation, Metrics};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// For one on the embedded store, that stands alone and without an executor in its process.
pub(crate) fn judicator(config: &Config, address: String) -> judicator::Options {
    let section = &config.judicator;
    judicator::Options {
        name: section.name.0.clone(),
        address,
        version: VERSION.to_string(),
        store: "sqlite".to_string(),
        limits: limits(config),
        capacity: None,
        bounds: bounds(config),
        max_blob: section.max_blob.0,
        lease: section.lease,
        grace: section.grace,
        keep_done: section.keep_done,
        keep_blobs: section.keep_blobs,
        scan_blobs: section.scan_blobs,
        forget_executors: section.forget_executors,
        roster: None,
    }
}

pub(super) fn executor(config: &Config, folder: &Folder, contact: Contact) -> Result<executor::Options> {
    let section = &config.executor;
    Ok(executor::Options {
        name: section.name.clone(),
        data: folder.executor()?,
        slots: section.slots.0,
        reserve: reserve(config),
        capacity: capacity(config),
        heartbeat: section.heartbeat,
        self_kill: section.self_kill,
        contact,
        stall: section.stall,
        stop_grace: section.stop_grace,
        cache_bytes: section.cache.0,
        keep_output: section.keep_output.0,
        version: VERSION.to_string(),
        cells: cells(config),
        // By way of /proc: the same program even after an upgrade has replaced its file.
        warden: ("/proc/self/exe".into(), vec!["warden".into()]),
    })
}

/// None: tasks run without cells.
pub(crate) fn cells(config: &Config) -> Option<CellPlan> {
    let section = &config.sandbox;
    let binds = section.binds.iter().flatten();
    match config.executor.isolation {
        Isolation::None => None,
        Isolation::Cell => Some(CellPlan {
            root: section.root.clone(),
            binds: binds.map(|bind| (bind.from.clone(), bind.to.clone())).collect(),
            first_user: section.first_user.0,
            wardens: executor::WARDENS_OF_SLOT * config.executor.slots.0,
            parent_group: section.cgroup.clone().map(|group| group.0),
            usual: Usual {
                memory: section.memory.map(|size| size.0),
                processes: section.processes.map(|number| number.get()),
                open_files: Some(open_files(config).into()),
            },
            space: section.space.0,
            files: section.files.get().into(),
            networks: section.networks.clone().unwrap_or_default(),
            without: section.allow_weaker.clone().unwrap_or_default(),
        }),
    }
}

pub(super) fn gateway(config: &Config, secrets: &Secrets) -> gateway::Options {
    let section = &config.gateway;
    gateway::Options {
        max_body: section.max_body.0,
        max_blob: config.judicator.max_blob.0,
        bounds: bounds(config),
        max_batch: count(section.max_batch),
        max_wait: section.max_wait,
        max_connections: count(section.max_connections),
        max_waiting: count(section.max_waiting),
        max_uploads: count(section.max_uploads),
        max_text_searches: count(section.max_text_searches),
        requests_in_flight: count(section.max_requests),
        share: section.share.get(),
        max_bytes: section.max_bytes.0,
        min_rate: section.min_rate.0,
        body_stall: section.body_stall,
        answer_stall: section.answer_stall,
        unpackers: count(section.unpackers),
        max_unpacked: section.max_unpacked.0,
        inline_limit: section.inline.0,
        metrics: metrics_access(section.metrics, secrets),
        tokens: secrets.tokens.clone(),
        version: VERSION.to_string(),
    }
}

fn metrics_access(metrics: Metrics, secrets: &Secrets) -> MetricsAccess {
    match metrics {
        Metrics::Open => MetricsAccess::Open,
        Metrics::Token => MetricsAccess::Token,
        Metrics::Off => MetricsAccess::Off,
        Metrics::Auto if secrets.tokens.is_some() => MetricsAccess::Token,
        Metrics::Auto => MetricsAccess::Open,
    }
}

fn count(number: NonZeroU32) -> usize {
    usize::try_from(number.get()).unwrap_or(usize::MAX)
}

fn bounds(config: &Config) -> Bounds {
    let section = &config.judicator;
    Bounds {
        files: count(section.max_files),
        inline_bytes: section.max_inline.0,
        command_bytes: usize::try_from(section.max_command.0).unwrap_or(usize::MAX),
        args: count(section.max_args),
        env: count(section.max_env),
    }
}

/// A cell has a limit of its own for what a task leaves open. It is resolved here, where the task is added, so that the
/// task shows what applied; the executor's own is left for tasks that were stored without one.
fn limits(config: &Config) -> LimitPolicy {
    let (default, max) = (&config.limits_default, &config.limits_max);
    let cell = cells(config);
    let usual = cell.as_ref().map(|cell| cell.usual).unwrap_or_default();
    let keeps_processes = |cell: &CellPlan| !cell.without.contains(&Wall::Processes);
    let processes = cell
        .as_ref()
        .filter(|cell| keeps_processes(cell))
        .and(usual.processes);
    let space = cell.as_ref().map(|cell| cell.space);
    let chosen_files = config.sandbox.open_files.0;
    let open_files = cell.as_ref().map(|_| chosen_files.unwrap_or(USUAL_OPEN_FILES));
    let open_files = open_files.map(|files| files.max(default.open_files.map_or(0, NonZeroU32::get)));
    LimitPolicy {
        default: Limits {
            wall: default.wall,
            cpu: default.cpu,
            memory: or_usual(default.memory.map(|size| size.0), max.memory.0, usual.memory),
            output: default.output.map(|size| size.0),
            processes: or_usual(
                default.processes.map(|number| number.get()),
                max.processes.0,
                processes,
            ),
            file_size: default.file_size.map(|size| size.0),
            open_files: or_usual(
                default.open_files.map(|number| number.get()),
                max.open_files.0,
                open_files,
            ),
            stack: default.stack.map(|size| size.0),
            space: or_usual(default.space.map(|size| size.0), max.space.0, space),
        },
        max: Limits {
            wall: max.wall,
            cpu: max.cpu,
            memory: max.memory.0.map(|size| size.0),
            output: max.output.map(|size| size.0),
            processes: max.processes.0.map(|number| number.get()),
            file_size: max.file_size.map(|size| size.0),
            open_files: max.open_files.0.map(|number| number.get()).or(open_files),
            stack: max.stack.map(|size| size.0),
            space: max.space.0.map(|size| size.0),
        },
        divide_open_files: open_files.is_some() && !operator_chose_open_files(config),
    }
}

/// What one slot of an executor on this machine can give to a task.
pub(crate) fn capacity(config: &Config) -> Capacity {
    Machine::read().capacity(Division {
        slots: config.executor.slots.0,
        reserve: reserve(config),
        slot_memory: config.executor.slot_memory.0.map(|size| size.0),
    })
}

/// Memory that tasks leave to everyone else.
pub(crate) fn reserve(config: &Config) -> u64 {
    let chosen = config.executor.reserve.0.map(|size| size.0);
    chosen.unwrap_or_else(|| Machine::read().usual_reserve())
}

const USUAL_OPEN_FILES: u32 = 1024;

fn operator_chose_open_files(config: &Config) -> bool {
    let (default, max) = (&config.limits_default, &config.limits_max);
    config.sandbox.open_files.0.is_some() || default.open_files.is_some() || max.open_files.0.is_some()
}

/// Of each process of a step that asks for no limits.
pub(crate) fn open_files(config: &Config) -> u32 {
    let processes = config.limits_default.processes.or(config.sandbox.processes);
    let processes = processes.map_or(LimitPolicy::default().default.processes, |number| {
        Some(number.get())
    });
    let derived = || {
        let share = capacity(config).open_files_for(processes.unwrap_or(1));
        share.min(USUAL_OPEN_FILES)
    };
    config.sandbox.open_files.0.unwrap_or_else(derived)
}

/// Where there is a maximum, it is the default too.
fn or_usual<T, M>(default: Option<T>, max: Option<M>, usual: Option<T>) -> Option<T> {
    default.or(usual.filter(|_| max.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flag, Layers};

    /// What applies in a cell is said where the task is added; what nobody keeps is not.
    #[test]
    fn default_limits_are_those_that_apply() {
        let check =
            |set: &[(&str, &str)], memory: Option<u64>, processes: Option<u32>, space: Option<u64>| {
                let flags = set.iter().map(|(key, text)| Flag {
                    key: key.to_string(),
                    flag: "--set",
                    text: text.to_string(),
                });
                let flags = flags.collect();
                let config = Layers::gather(None, flags).unwrap().config().unwrap();
                let Limits {
                    memory: found_memory,
                    processes: found_processes,
                    space: found_space,
                    ..
                } = limits(&config).resolve(Limits::default()).unwrap();
                assert_eq!(
                    (found_memory, found_processes, found_space),
                    (memory, processes, space),
                    "{set:?}"
                );
            };
        let (memory, processes, space) = (Some(1 << 30), Some(512), Some(256 << 20));
        check(&[], memory, processes, space);
        check(&[("executor.isolation", "none")], None, None, None);
        check(
            &[("sandbox.memory", "2GiB"), ("sandbox.space", "1MiB")],
            Some(2 << 30),
            processes,
            Some(1 << 20),
        );
        check(
            &[("limits.default.memory", "64MiB"), ("sandbox.processes", "none")],
            Some(64 << 20),
            None,
            space,
        );
        check(
            &[
                ("limits.max.memory", "4GiB"),
                ("sandbox.allow_weaker", "processes"),
            ],
            Some(4 << 30),
            None,
            space,
        );
    }

    #[test]
    fn the_defaults_are_those_of_the_rooms() {
        let config = Layers::gather(None, Vec::new()).unwrap().config().unwrap();
        assert_eq!(bounds(&config), Bounds::default());
        assert_eq!(limits(&config), LimitPolicy::default());
        let secrets = Secrets::load(&config).unwrap();
        assert_eq!(
            format!("{:?}", gateway(&config, &secrets)),
            format!("{:?}", gateway::Options::default())
        );
    }
}
