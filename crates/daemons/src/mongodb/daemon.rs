//! The mongod daemon as separate operations: prepare, start mongod, next action, execute, stop.
//!
//! [`run`](super::run) calls them in a loop. Tests call them one by one to see what a crash between two leaves behind.

use std::time::Duration;

use boot::BootConnection;
use error_causes::with_causes;
use tokio::sync::watch;

use super::action::MemberAction;
use super::admin::MemberRole;
use super::controller::{MemberController, RecheckDelay};
use super::local_state::{self, MongodLocalState};
use super::record_store::watch_records;
use super::records::ReplicaSetRecords;
use super::{MongodDaemonOptions, MongodbDaemonError, arguments, preflight, secret};
use crate::server::{ServerProcess, port};

/// Short, because a stop has to be quick. A secondary that lags behind by more catches up before the next election.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);
/// Longer than the stop takes; after a restart the member may become primary again.
const NO_REELECTION: Duration = Duration::from_secs(20);
/// mongod ends within a second or two of SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// The daemon of a replica set member: the mongod process, and the controller of its membership. Dropping it kills
/// mongod.
pub struct MongodDaemon {
    pub(crate) controller: MemberController,
    pub(crate) server: Option<ServerProcess>,
    pub(crate) records: watch::Receiver<ReplicaSetRecords>,
}

impl MongodDaemon {
    /// Returns when mongod may be started: checks that this node's data belongs to the cluster, registers the node, and
    /// waits until the replica set has removed the member that had this node's address before.
    pub async fn prepare(
        options: MongodDaemonOptions,
        boot: BootConnection,
    ) -> Result<MongodDaemon, MongodbDaemonError> {
        preflight::preflight(&options)?;
        let state = MongodLocalState::read(&options.data)?;
        let mut controller = MemberController::new(options, &boot, &state)?;
        controller.register(&state).await?;
        let mut records = watch_records(&controller.options.etcd);
        if !controller.member.started {
            controller
                .wait_until_predecessor_removed(&state, &mut records)
                .await?;
        }
        Ok(MongodDaemon {
            controller,
            server: None,
            records,
        })
    }

    /// Returns the process id of mongod when it serves.
    pub async fn start(&mut self) -> Result<u32, MongodbDaemonError> {
        let controller = &mut self.controller;
        let options = &controller.options;
        let program = preflight::find_program(options)?;
        port::check_free(&options.host, options.port, "mongodb.port")?;
        // Written before the start: from here on the folder may hold data that could be lost.
        controller.member.started = true;
        local_state::write_member(&options.data, &controller.member)?;
        let key = match &options.secret {
            Some(secret) => {
                let content = secret::key_file_content(secret);
                Some(local_state::write_key(&options.data, &content)?)
            }
            None => None,
        };
        controller.status.activity("starting mongod");
        let args = arguments::of(options, key);
        let server = ServerProcess::start("mongod", &program, args, &options.parent_death_wrapper)?;
        let pid = server.pid();
        controller.status.server_pid(pid);
        let server = self.server.insert(server);
        let limit = Duration::from_secs(1) * options.tries.max(1);
        tokio::select! {
            exit = server.wait() => Err(MongodbDaemonError::Exited { exit }),
            served = tokio::time::timeout(limit, controller.wait_until_serving()) => match served {
                Ok(()) => Ok(pid),
                Err(_) => {
                    self.kill().await;
                    Err(MongodbDaemonError::Hung { silence: limit })
                }
            },
        }
    }

    /// Observes, and decides what to do next.
    pub async fn next_action(&mut self) -> Result<MemberAction, MongodbDaemonError> {
        self.controller.next_action().await
    }

    pub async fn execute(&mut self, action: &MemberAction) -> Result<RecheckDelay, MongodbDaemonError> {
        if *action == MemberAction::SetDataAside {
            // The data must not be moved while mongod writes to it.
            self.kill().await;
        }
        self.controller.execute(action).await
    }

    pub(crate) async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill().await;
        }
    }

    /// Stops mongod. Membership and registration are kept. A primary steps down first, so that the others elect a new
    /// one without waiting for the election timeout.
    pub async fn stop(mut self) {
        let Some(server) = self.server.take() else {
            return;
        };
        self.controller.release_claim().await;
        let mongod = &self.controller.mongod;
        if let Ok(hello) = mongod.hello().await
            && hello.role == MemberRole::Primary
            && let Err(error) = mongod.step_down(CATCH_UP_TIMEOUT, NO_REELECTION).await
        {
            tracing::info!(
                error = with_causes(&error),
                "could not step down; mongod stops as primary"
            );
        }
        server.stop(STOP_TIMEOUT).await;
    }
}
