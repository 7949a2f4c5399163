//! The executor: reports to a judicator, receives tasks in the answers, and runs them in cells.
//!
//! Reading order follows a task. `report` is the loop that asks for work. `attempt_table` lists the attempts that this
//! executor holds. `fetch` downloads their blobs. `queue` and `slot_pool` pass them to the thread of a slot. `run` writes
//! the task's files, compiles, executes and cleans up; `collect` keeps files of the task. For a task with cases, `run/judge`
//! runs and checks each of them: `compare` has the built-in checks, and `judge_programs` keeps the programs that judge.
//! `spool` keeps each result on disk until a judicator has acknowledged it. What is too long for a result waits in
//! `outgoing` until `uploader` has uploaded it. `live_output` passes on what a task writes while it runs. `attempt_control`
//! stops an attempt and detects a slot that makes no progress.
//! This crate knows nothing of stores, of HTTP or of how a cell is built.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests start tasks that end with them")
)]

mod attempt_control;
mod attempt_table;
mod cache;
mod cell_roots;
mod collect;
mod compare;
mod data_folder;
mod error;
mod fetch;
#[cfg(test)]
mod fixtures;
mod judge_programs;
mod live_output;
mod machine;
mod memory_reserve;
mod options;
mod outcome;
mod outgoing;
mod queue;
mod report;
mod run;
mod slot_pool;
mod spool;
mod tools;
mod upload_queue;
mod uploader;
mod workspace;

use std::sync::Arc;
use std::time::Instant;

use data_folder::ExecutorDataFolder;
use rpc::Calls;
use sandbox::{
    CommandIsolation, EnforcementError, PreparedSandbox, SandboxOptions, WaivableLimit, WardenLauncher,
};
use tokio_util::sync::CancellationToken;

pub use error::ExecutorError;
pub use machine::{MachinePartitioning, MachineResources};
pub use options::{ExecutorOptions, JudicatorLocation};
pub use outcome::{limits_for_sandbox, outcome_from_sandbox};
pub use run::default_environment;
pub use slot_pool::warden_count;

/// The current time of Tokio's clock, which a test can pause and advance.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// An executor that is ready to run tasks: its data folder is locked, its control groups exist, its wardens run.
pub struct ExecutorService {
    report_loop: report::ReportLoop,
    slots: report::SlotThreads,
    prepared_sandbox: Option<PreparedSandbox>,
}

impl ExecutorService {
    /// Locks the data folder, creates the control groups and starts the wardens. The error lists everything that keeps
    /// this machine from running tasks.
    pub async fn prepare(
        options: ExecutorOptions,
        calls: Arc<dyn Calls>,
    ) -> Result<ExecutorService, ExecutorError> {
        let data_folder = ExecutorDataFolder::take_over(&options).await?;
        let prepared_sandbox = match &options.cells {
            Some(plan) => Some(prepare_cells(plan, &data_folder, &options)?),
            None => None,
        };
        if let Some(PreparedSandbox { stuck_groups, .. }) = &prepared_sandbox
            && !stuck_groups.is_empty()
        {
            tracing::error!(
                ?stuck_groups,
                "processes of an earlier executor do not exit after SIGKILL; they hang in the kernel"
            );
        }
        for status in prepared_sandbox
            .iter()
            .flat_map(|prepared_sandbox| &prepared_sandbox.protections)
        {
            match status.missing {
                true => tracing::warn!(
                    protection = status.protection,
                    by = status.enforced_by,
                    "sandbox protection is missing"
                ),
                false => tracing::info!(
                    protection = status.protection,
                    by = status.enforced_by,
                    "sandbox protection is enforced"
                ),
            }
        }
        let isolation = prepared_sandbox
            .as_ref()
            .map_or(CommandIsolation::None, |prepared_sandbox| {
                prepared_sandbox.isolation.clone()
            });
        let started = report::ReportLoop::new(options, data_folder, isolation, calls)
            .and_then(|report_loop| Ok((report_loop.start_slots()?, report_loop)));
        match started {
            Ok((slots, report_loop)) => Ok(ExecutorService {
                report_loop,
                slots,
                prepared_sandbox,
            }),
            Err(error) => {
                remove_sandbox(prepared_sandbox);
                Err(error)
            }
        }
    }

    /// Runs tasks until `stop` is cancelled. Then it returns tasks that have not started, gives running tasks the grace
    /// period to finish, and sends a last report that closes the session.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ExecutorError> {
        let ExecutorService {
            report_loop,
            slots,
            prepared_sandbox,
        } = self;
        let ended = report_loop.run(slots, stop).await;
        remove_sandbox(prepared_sandbox);
        ended
    }
}

/// Prepares the sandbox. If limits cannot be enforced, it also tests whether cells work without them, so that one error
/// lists everything that the operator has to fix.
fn prepare_cells(
    plan: &SandboxOptions,
    data_folder: &ExecutorDataFolder,
    options: &ExecutorOptions,
) -> Result<PreparedSandbox, EnforcementError> {
    let name = data_folder.cgroup_name();
    let missing = match plan.prepare(&name) {
        Err(missing @ EnforcementError::MissingLimits { .. }) => missing,
        prepared => return prepared,
    };
    let without_limits = SandboxOptions {
        waived_limits: WaivableLimit::ALL.to_vec(),
        ..plan.clone()
    };
    let tried = without_limits.prepare(&name).and_then(|prepared_sandbox| {
        let (program, args) = options.warden.clone();
        let launcher = WardenLauncher {
            isolation: prepared_sandbox.isolation.for_warden(0),
            program,
            args,
            lock: None,
            overflow_folder: data_folder.workspaces(),
        };
        let started = launcher.start().map(drop).map_err(EnforcementError::from);
        remove_sandbox(Some(prepared_sandbox));
        started
    });
    Err(match tried {
        Ok(()) => missing,
        Err(cells) => EnforcementError::MissingLimitsAndCells {
            limits: Box::new(missing),
            cells: Box::new(cells),
        },
    })
}

fn remove_sandbox(prepared_sandbox: Option<PreparedSandbox>) {
    if let Some(Err(error)) = prepared_sandbox.map(PreparedSandbox::remove) {
        tracing::warn!(
            why = error_causes::with_causes(&error),
            "could not remove the control groups of this executor"
        );
    }
}
