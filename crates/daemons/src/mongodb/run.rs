//! The main loop of the mongod daemon.

use std::time::Duration;

use boot::BootConnection;
use error_causes::with_causes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::action::MemberAction;
use super::controller::RecheckDelay;
use super::daemon::MongodDaemon;
use super::monitor::{self, MongodResponsiveness};
use super::{MongodDaemonOptions, MongodbDaemonError};
use crate::server::ServerProcess;

/// Runs until `stop`; then mongod is stopped in order, and the membership kept. Returns an error if mongod ended, could
/// not be started, or must not be started; boot then restarts the daemon. The caller cancels `stop` when boot is gone,
/// and reports the error to boot.
pub async fn run(
    options: MongodDaemonOptions,
    boot: BootConnection,
    stop: CancellationToken,
) -> Result<(), MongodbDaemonError> {
    let mut daemon = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        prepared = MongodDaemon::prepare(options, boot) => prepared?,
    };
    let result = tokio::select! {
        () = stop.cancelled() => Ok(()),
        result = daemon.serve() => result,
    };
    // A mongod that has exited cannot step down, and boot has to know at once.
    if !matches!(result, Err(MongodbDaemonError::Exited { .. })) {
        daemon.stop().await;
    }
    result
}

impl MongodDaemon {
    /// Starts mongod and manages it. Returns only with an error.
    async fn serve(&mut self) -> Result<(), MongodbDaemonError> {
        let pid = self.start().await?;
        let limit = Duration::from_secs(1) * self.controller.options.tries.max(1);
        let (responsiveness, mut failures) =
            monitor::start_monitor(self.controller.mongod.clone(), pid, limit);
        let silence = tokio::select! {
            result = self.manage(responsiveness.clone()) => return result,
            silence = monitor::wait_until_hung(responsiveness, limit) => silence,
            failed = failures.wait() => return Err(failed.into()),
        };
        self.kill().await;
        Err(MongodbDaemonError::Hung { silence })
    }

    async fn manage(
        &mut self,
        mut responsiveness: watch::Receiver<MongodResponsiveness>,
    ) -> Result<(), MongodbDaemonError> {
        let mut failures = 0;
        loop {
            let delay = match self.observe_and_act().await {
                Err(error) if error.is_transient() => {
                    tracing::debug!(error = with_causes(&error), "could not observe or act; retrying");
                    failures += 1;
                    // A single failure may be momentary: a primary has just stepped down, or a token has expired.
                    if failures > 1 {
                        self.controller.report_failure(&error).await;
                    }
                    RecheckDelay::Short
                }
                result => {
                    failures = 0;
                    result?
                }
            };
            self.wait_for_change(delay, &mut responsiveness).await?;
        }
    }

    async fn observe_and_act(&mut self) -> Result<RecheckDelay, MongodbDaemonError> {
        let action = tokio::select! {
            exit = server_exit(&mut self.server) => return Err(MongodbDaemonError::Exited { exit }),
            action = self.controller.next_action() => action?,
        };
        if action == MemberAction::SetDataAside {
            return self.execute(&action).await;
        }
        tokio::select! {
            exit = server_exit(&mut self.server) => Err(MongodbDaemonError::Exited { exit }),
            result = self.controller.execute(&action) => result,
        }
    }

    /// Returns after the delay, or earlier if the records in etcd or mongod's state have changed.
    async fn wait_for_change(
        &mut self,
        delay: RecheckDelay,
        responsiveness: &mut watch::Receiver<MongodResponsiveness>,
    ) -> Result<(), MongodbDaemonError> {
        tokio::select! {
            exit = server_exit(&mut self.server) => Err(MongodbDaemonError::Exited { exit }),
            // An error means that the sender is gone, which is not a change.
            Ok(()) = self.records.changed() => Ok(()),
            Ok(()) = responsiveness.changed() => Ok(()),
            () = tokio::time::sleep(duration(delay)) => Ok(()),
        }
    }
}

async fn server_exit(server: &mut Option<ServerProcess>) -> String {
    match server {
        Some(server) => server.wait().await,
        None => std::future::pending().await,
    }
}

fn duration(delay: RecheckDelay) -> Duration {
    match delay {
        RecheckDelay::None => Duration::ZERO,
        RecheckDelay::Short => Duration::from_millis(300),
        RecheckDelay::AfterRefusal => Duration::from_secs(2),
        RecheckDelay::Idle => Duration::from_secs(5),
    }
}
