//! Reports to a judicator, is given tasks, and runs them in cells.
//!
//! Reading order follows a task: `report` asks for work, `slots` keeps the table of what is here, `fetch` brings
//! the blobs, `queue` and `work` pass it to a slot's thread, `run` lays it out, compiles, executes and cleans up, `spool`
//! keeps the result on disk until a judicator has answered for it. `control` notices a slot that does not go on.
//! This room knows nothing of stores, HTTP or how a cell is built.

mod cache;
mod control;
mod error;
mod fetch;
#[cfg(test)]
mod fixtures;
mod home;
mod machine;
mod options;
mod queue;
mod report;
mod reserve;
mod run;
mod slots;
mod spool;
mod work;
mod workspace;

use std::sync::Arc;

use rpc::Calls;
use sandbox::{CellPlan, Ground, Isolation, Launcher, Wall, WallError};
use tokio_util::sync::CancellationToken;

pub use error::ExecutorError;
pub use machine::{Division, Machine};
pub use options::{Contact, Options};
pub use run::{outcome_of, sandbox_limits, usual_environment};
pub use work::WARDENS_OF_SLOT;

/// An executor that can run tasks: its folder is locked, its control groups are made, its wardens are started.
pub struct Executor {
    reporter: report::Reporter,
    slots: report::SlotThreads,
    ground: Option<Ground>,
}

impl Executor {
    /// Makes everything ready. The error names all that keeps tasks from being run on this machine.
    pub async fn prepare(options: Options, calls: Arc<dyn Calls>) -> Result<Executor, ExecutorError> {
        let home = home::Home::enter(&options).await?;
        let ground = match &options.cells {
            Some(plan) => Some(prepare_cells(plan, &home, &options)?),
            None => None,
        };
        if let Some(Ground { remains, .. }) = &ground
            && !remains.is_empty()
        {
            tracing::error!(
                ?remains,
                "processes in control groups of an earlier executor were sent SIGKILL and hang in the kernel"
            );
        }
        for statement in ground.iter().flat_map(|ground| &ground.statements) {
            match statement.missing {
                true => tracing::warn!(wall = statement.wall, by = statement.by, "a wall is missing"),
                false => tracing::info!(wall = statement.wall, by = statement.by, "enforced"),
            }
        }
        let isolation = ground
            .as_ref()
            .map_or(Isolation::None, |ground| ground.isolation.clone());
        let started = report::Reporter::new(options, home, isolation, calls)
            .and_then(|reporter| Ok((reporter.start_slots()?, reporter)));
        match started {
            Ok((slots, reporter)) => Ok(Executor {
                reporter,
                slots,
                ground,
            }),
            Err(error) => {
                leave(ground);
                Err(error)
            }
        }
    }

    /// Runs tasks until told to stop; then gives back what it has not begun, lets what runs end within the grace
    /// time, and says goodbye.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ExecutorError> {
        let Executor {
            reporter,
            slots,
            ground,
        } = self;
        let ended = reporter.run(slots, stop).await;
        leave(ground);
        ended
    }
}

/// Where limits are missing, it is tried whether cells can be made without them, so that the operator learns of
/// everything at once.
fn prepare_cells(plan: &CellPlan, home: &home::Home, options: &Options) -> Result<Ground, WallError> {
    let name = home.group_name();
    let missing = match plan.prepare(&name) {
        Err(missing @ WallError::Missing { .. }) => missing,
        prepared => return prepared,
    };
    let without_limits = CellPlan {
        without: Wall::ALL.to_vec(),
        ..plan.clone()
    };
    let tried = without_limits.prepare(&name).and_then(|ground| {
        let (program, args) = options.warden.clone();
        let launcher = Launcher {
            isolation: ground.isolation.of_warden(0),
            program,
            args,
            lock: None,
        };
        let started = launcher.start().map(drop).map_err(WallError::from);
        leave(Some(ground));
        started
    });
    Err(match tried {
        Ok(()) => missing,
        Err(cells) => WallError::Both {
            limits: Box::new(missing),
            cells: Box::new(cells),
        },
    })
}

fn leave(ground: Option<Ground>) {
    if let Some(Err(error)) = ground.map(Ground::leave) {
        tracing::warn!(
            why = model::with_causes(&error),
            "could not remove the control groups"
        );
    }
}
