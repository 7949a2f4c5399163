//! The daemon's life.

use std::time::Duration;

use boot::Tether;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::hello::{self, Heard};
use super::node::Node;
use super::step::Step;
use super::work::Pace;
use super::{MongodbError, Options};
use crate::causes::with_causes;
use crate::server::Server;

/// Runs until `stop`: then mongod is stopped in order, and membership kept. Ends with an error when mongod ended, could
/// not be started, or must not be; boot tries again. Who runs it stops it when boot is gone, and tells boot the error.
pub async fn run(options: Options, tether: Tether, stop: CancellationToken) -> Result<(), MongodbError> {
    let mut node = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        node = Node::prepare(options, tether.clone()) => node?,
    };
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = node.serve() => ended,
    };
    // One that has ended cannot hand over, and boot is to know at once.
    if !matches!(ended, Err(MongodbError::Ended { .. })) {
        node.stop().await;
    }
    ended
}

impl Node {
    /// Until mongod ends, or has to.
    async fn serve(&mut self) -> Result<(), MongodbError> {
        let pid = self.start().await?;
        let limit = Duration::from_secs(1) * self.work.options.tries.max(1);
        let (heard, mut failures) = hello::follow(self.work.local.clone(), pid, limit);
        let silence = tokio::select! {
            ended = self.go_on(heard.clone()) => return ended,
            silence = hello::until_hung(heard, limit) => silence,
            failed = failures.wait() => return Err(failed.into()),
        };
        self.kill().await;
        Err(MongodbError::Hung { silence })
    }

    async fn go_on(&mut self, mut heard: watch::Receiver<Heard>) -> Result<(), MongodbError> {
        let mut failures = 0;
        loop {
            let pace = match self.round().await {
                Err(error) if error.is_transient() => {
                    tracing::debug!(error = with_causes(&error), "looking again");
                    failures += 1;
                    // The first may be of the moment: a primary that has just stepped down, a token that ran out.
                    if failures > 1 {
                        self.work.tell_trouble(&error).await;
                    }
                    Pace::Soon
                }
                done => {
                    failures = 0;
                    done?
                }
            };
            self.rest(pace, &mut heard).await?;
        }
    }

    async fn round(&mut self) -> Result<Pace, MongodbError> {
        let step = tokio::select! {
            how = ended(&mut self.server) => return Err(MongodbError::Ended { how }),
            step = self.work.step() => step?,
        };
        if step == Step::SetAside {
            return self.act(&step).await;
        }
        tokio::select! {
            how = ended(&mut self.server) => Err(MongodbError::Ended { how }),
            done = self.work.act(&step) => done,
        }
    }

    /// Until there may be something to do.
    async fn rest(&mut self, pace: Pace, heard: &mut watch::Receiver<Heard>) -> Result<(), MongodbError> {
        tokio::select! {
            how = ended(&mut self.server) => Err(MongodbError::Ended { how }),
            // That whoever tells of changes is gone is no change.
            Ok(()) = self.records.changed() => Ok(()),
            Ok(()) = heard.changed() => Ok(()),
            () = tokio::time::sleep(pause(pace)) => Ok(()),
        }
    }
}

async fn ended(server: &mut Option<Server>) -> String {
    match server {
        Some(server) => server.ended().await,
        None => std::future::pending().await,
    }
}

fn pause(pace: Pace) -> Duration {
    match pace {
        Pace::Now => Duration::ZERO,
        Pace::Soon => Duration::from_millis(300),
        Pace::Slowly => Duration::from_secs(2),
        Pace::Later => Duration::from_secs(5),
    }
}
