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
mod home;
mod options;
mod queue;
mod report;
mod run;
mod slots;
mod spool;
mod work;
mod workspace;

use std::sync::Arc;

use rpc::Calls;
use sandbox::{Ground, Isolation};
use tokio_util::sync::CancellationToken;

pub use error::ExecutorError;
pub use options::Options;
pub use run::{outcome_of, sandbox_limits, usual_environment};

/// Runs tasks until told to stop; then gives back what it has not begun, lets what runs end within the grace
/// time, and says goodbye.
pub async fn run(
    options: Options,
    calls: Arc<dyn Calls>,
    stop: CancellationToken,
) -> Result<(), ExecutorError> {
    let home = home::Home::enter(&options).await?;
    let ground = match &options.cells {
        Some(plan) => Some(plan.prepare(&home.group_name())?),
        None => None,
    };
    for statement in ground.iter().flat_map(|ground| &ground.statements) {
        tracing::info!(wall = statement.wall, by = statement.by, "enforced");
    }
    let isolation = ground
        .as_ref()
        .map_or(Isolation::None, |ground| ground.isolation.clone());
    let ended = report::Reporter::new(options, home, isolation, calls)?
        .run(stop)
        .await;
    if let Some(Err(error)) = ground.map(Ground::leave) {
        tracing::warn!(
            why = model::with_causes(&error),
            "could not remove the control groups"
        );
    }
    ended
}
