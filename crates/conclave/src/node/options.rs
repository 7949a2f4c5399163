//! The options of each crate, from the configuration.

use std::num::NonZeroU32;

use anyhow::Result;
use executor::{JudicatorLocation, MachinePartitioning, MachineResources};
use gateway::MetricsAccess;
use model::{Capacity, LimitPolicy, Limits, TaskSizeLimits};
use sandbox::{DefaultCommandLimits, SandboxOptions, WaivableLimit};

use super::{NodeFolder, NodeSecrets};
use crate::config::{Config, IsolationMode, MetricsSetting};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Options of a judicator with the embedded store and without an executor in its process.
pub(crate) fn judicator(config: &Config, address: String) -> Result<judicator::JudicatorOptions> {
    let section = &config.judicator;
    let languages = languages::read(section.languages.as_deref())?;
    Ok(judicator::JudicatorOptions {
        name: section.name.0.clone(),
        address,
        version: VERSION.to_string(),
        store: "sqlite".to_string(),
        limits: limits(config),
        languages,
        capacity: None,
        task_size_limits: bounds(config),
        attempts: section.attempts.get(),
        max_attempts: section.max_attempts.get(),
        max_blob: section.max_blob.0,
        lease: section.lease,
        grace: section.grace,
        keep_done: section.keep_done,
        keep_blobs: section.keep_blobs,
        scan_blobs: section.scan_blobs,
        forget_executors: section.forget_executors,
        list_judicators: None,
    })
}

pub(super) fn executor(
    config: &Config,
    folder: &NodeFolder,
    judicator_location: JudicatorLocation,
) -> Result<executor::ExecutorOptions> {
    let section = &config.executor;
    let mut cells = cells(config);
    let mut roots = super::root_store(config)?;
    if let Some(cells) = &mut cells {
        roots = super::hold_default_root(roots, cells)?;
    }
    Ok(executor::ExecutorOptions {
        name: section.name.clone(),
        data: folder.executor_folder()?,
        slots: section.slots.0,
        reserve: reserve(config),
        capacity: capacity(config),
        heartbeat: section.heartbeat,
        self_kill: section.self_kill,
        judicator_location,
        stall: section.stall,
        stop_grace: section.stop_grace,
        cache_bytes: section.cache.0,
        keep_output: section.keep_output.0,
        keep_files: section.keep_files.get(),
        keep_bytes: section.keep_bytes.0,
        outgoing_bytes: section.outgoing.0,
        version: VERSION.to_string(),
        cells,
        roots,
        pin: section.pin,
        judge_without_cells: section.judge_without_cells,
        // The running program, even after an upgrade has replaced its file.
        warden: ("/proc/self/exe".into(), vec!["warden".into()]),
    })
}

/// The options of the cells, or `None` if tasks run without cells.
pub(crate) fn cells(config: &Config) -> Option<SandboxOptions> {
    let section = &config.sandbox;
    let binds = section.binds.iter().flatten();
    match config.executor.isolation {
        IsolationMode::None => None,
        IsolationMode::Cell => Some(SandboxOptions {
            // Wardens have another working directory.
            root: section
                .root
                .as_ref()
                .map(|root| std::path::absolute(root).unwrap_or_else(|_| root.clone())),
            binds: binds.map(|bind| (bind.from.clone(), bind.to.clone())).collect(),
            first_user: section.first_user.0,
            wardens: executor::warden_count(config.executor.slots.0),
            parent_group: section.cgroup.clone().map(|group| group.0),
            default_limits: DefaultCommandLimits {
                memory: section.memory.map(|size| size.0),
                processes: section.processes.map(|number| number.get()),
                open_files: Some(open_files(config).into()),
            },
            space: section.space.0,
            max_files: section.files.get().into(),
            networks: section.networks.clone().unwrap_or_default(),
            waived_limits: section.allow_weaker.clone().unwrap_or_default(),
        }),
    }
}

pub(super) fn gateway(config: &Config, secrets: &NodeSecrets) -> gateway::GatewayOptions {
    let section = &config.gateway;
    gateway::GatewayOptions {
        max_body: section.max_body.0,
        max_blob: config.judicator.max_blob.0,
        task_size_limits: bounds(config),
        limits: limits(config),
        max_batch: count(section.max_batch),
        max_wait: section.max_wait,
        max_connections: count(section.max_connections),
        max_waiting: count(section.max_waiting),
        max_uploads: count(section.max_uploads),
        max_text_searches: count(section.max_text_searches),
        max_requests: count(section.max_requests),
        caller_share_percent: section.share.get(),
        max_buffered_bytes: section.max_bytes.0,
        min_bytes_per_second: section.min_rate.0,
        body_stall_timeout: section.body_stall,
        response_stall_timeout: section.answer_stall,
        max_unzips: count(section.unpackers),
        max_unpacked: section.max_unpacked.0,
        inline_limit: section.inline.0,
        metrics: metrics_access(section.metrics, secrets),
        tokens: secrets.tokens.clone(),
        sign_in_time: section.sign_in_time,
        operators: section.operators.iter().flatten().cloned().collect(),
        version: VERSION.to_string(),
    }
}

fn metrics_access(metrics: MetricsSetting, secrets: &NodeSecrets) -> MetricsAccess {
    match metrics {
        MetricsSetting::Open => MetricsAccess::Open,
        MetricsSetting::Token => MetricsAccess::Token,
        MetricsSetting::Off => MetricsAccess::Off,
        MetricsSetting::Auto if secrets.tokens.is_some() => MetricsAccess::Token,
        MetricsSetting::Auto => MetricsAccess::Open,
    }
}

fn count(number: NonZeroU32) -> usize {
    usize::try_from(number.get()).unwrap_or(usize::MAX)
}

fn bounds(config: &Config) -> TaskSizeLimits {
    let section = &config.judicator;
    TaskSizeLimits {
        files: count(section.max_files),
        inline_bytes: section.max_inline.0,
        command_bytes: usize::try_from(section.max_command.0).unwrap_or(usize::MAX),
        args: count(section.max_args),
        env: count(section.max_env),
    }
}

/// The default and maximum limits of tasks.
///
/// They include the default limits of cells. These are resolved when a task is added, so that the task shows the limits that
/// apply. The executor applies its own defaults only to tasks stored without a limit.
fn limits(config: &Config) -> LimitPolicy {
    let (default, max) = (&config.limits_default, &config.limits_max);
    let cell = cells(config);
    let cell_defaults = cell.as_ref().map(|cell| cell.default_limits).unwrap_or_default();
    let enforces_processes = |cell: &SandboxOptions| !cell.waived_limits.contains(&WaivableLimit::Processes);
    let processes = cell
        .as_ref()
        .filter(|cell| enforces_processes(cell))
        .and(cell_defaults.processes);
    let space = cell.as_ref().map(|cell| cell.space);
    let configured_files = config.sandbox.open_files.0;
    let open_files = cell
        .as_ref()
        .map(|_| configured_files.unwrap_or(DEFAULT_OPEN_FILES));
    let open_files = open_files.map(|files| files.max(default.open_files.map_or(0, NonZeroU32::get)));
    LimitPolicy {
        default: Limits {
            wall: default.wall,
            cpu: default.cpu,
            memory: or_cell_default(
                default.memory.map(|size| size.0),
                max.memory.0,
                cell_defaults.memory,
            ),
            output: default.output.map(|size| size.0),
            processes: or_cell_default(
                default.processes.map(|number| number.get()),
                max.processes.0,
                processes,
            ),
            file_size: default.file_size.map(|size| size.0),
            open_files: or_cell_default(
                default.open_files.map(|number| number.get()),
                max.open_files.0,
                open_files,
            ),
            stack: default.stack.map(|size| size.0),
            space: or_cell_default(default.space.map(|size| size.0), max.space.0, space),
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
        divide_open_files: open_files.is_some() && !open_files_is_configured(config),
    }
}

/// The resources that one slot of an executor on this machine can give to a task.
pub(crate) fn capacity(config: &Config) -> Capacity {
    MachineResources::read().capacity(MachinePartitioning {
        slots: config.executor.slots.0,
        reserve: reserve(config),
        slot_memory: config.executor.slot_memory.0.map(|size| size.0),
    })
}

/// Memory that tasks must leave free for the rest of the machine.
pub(crate) fn reserve(config: &Config) -> u64 {
    let configured = config.executor.reserve.0.map(|size| size.0);
    configured.unwrap_or_else(|| MachineResources::read().default_memory_reserve())
}

const DEFAULT_OPEN_FILES: u32 = 1024;

fn open_files_is_configured(config: &Config) -> bool {
    let (default, max) = (&config.limits_default, &config.limits_max);
    config.sandbox.open_files.0.is_some() || default.open_files.is_some() || max.open_files.0.is_some()
}

/// The limit on open files of each process of a step that asks for none.
pub(crate) fn open_files(config: &Config) -> u32 {
    let processes = config.limits_default.processes.or(config.sandbox.processes);
    let processes = processes.map_or(LimitPolicy::default().default.processes, |number| {
        Some(number.get())
    });
    let derived = || {
        let share = capacity(config).open_files_for(processes.unwrap_or(1));
        share.min(DEFAULT_OPEN_FILES)
    };
    config.sandbox.open_files.0.unwrap_or_else(derived)
}

/// The configured default, or else the default of a cell. With a configured maximum there is no default of a cell: the maximum
/// is the default.
fn or_cell_default<T, M>(default: Option<T>, max: Option<M>, cell_default: Option<T>) -> Option<T> {
    default.or(cell_default.filter(|_| max.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFlag, ConfigLayers};

    /// Includes the limits of cells where they are enforced, and not where they are waived.
    #[test]
    fn default_limits_are_the_limits_that_are_enforced() {
        let check =
            |set: &[(&str, &str)], memory: Option<u64>, processes: Option<u32>, space: Option<u64>| {
                let flags = set.iter().map(|(key, text)| ConfigFlag {
                    key: key.to_string(),
                    flag: "--set",
                    text: text.to_string(),
                });
                let flags = flags.collect();
                let config = ConfigLayers::gather(None, flags).unwrap().config().unwrap();
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
    fn the_default_configuration_equals_the_defaults_of_the_crates() {
        let config = ConfigLayers::gather(None, Vec::new()).unwrap().config().unwrap();
        assert_eq!(bounds(&config), TaskSizeLimits::default());
        assert_eq!(limits(&config), LimitPolicy::default());
        let secrets = NodeSecrets::load(&config).unwrap();
        assert_eq!(
            format!("{:?}", gateway(&config, &secrets)),
            format!("{:?}", gateway::GatewayOptions::default())
        );
    }
}
