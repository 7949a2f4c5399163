//! A member of the replica set, step by step: prepared, started, and led on by what it sees.
//!
//! [`run`](super::run) is made of these; they can be taken one by one, to look at what a crash leaves between two.

use std::time::Duration;

use boot::{Tether, Word};
use tokio::sync::watch;

use super::admin::Role;
use super::etcd::follow;
use super::notes::{self, Notes};
use super::records::Records;
use super::step::Step;
use super::work::{Pace, Work};
use super::{MongodbError, Options, arguments, preflight, secret};
use crate::causes::with_causes;
use crate::server::{Server, port};

/// A stop is to be quick: whoever is not caught up within this is so by the time of the next election.
const CATCH_UP: Duration = Duration::from_secs(2);
/// Long enough for the stop; after a restart it may be primary again.
const REST: Duration = Duration::from_secs(20);
/// mongod ends within a second or two of being told.
const GRACE: Duration = Duration::from_secs(8);

/// Dropping it kills mongod.
pub struct Node {
    pub(crate) work: Work,
    pub(crate) server: Option<Server>,
    pub(crate) records: watch::Receiver<Records>,
}

impl Node {
    /// Returns when mongod may be started: checks that this node belongs here, registers it, and waits until the
    /// set is rid of whoever had its address before it.
    pub async fn prepare(options: Options, tether: Tether) -> Result<Node, MongodbError> {
        preflight(&options)?;
        let notes = Notes::read(&options.data)?;
        let mut work = Work::new(options, tether, &notes)?;
        work.register(&notes).await?;
        let mut records = follow(&work.options.etcd);
        if !work.note.started {
            work.outwait_predecessor(&notes, &mut records).await?;
        }
        Ok(Node {
            work,
            server: None,
            records,
        })
    }

    /// Returns when mongod serves, and tells its process id.
    pub async fn start(&mut self) -> Result<u32, MongodbError> {
        let work = &mut self.work;
        let program = preflight::program(&work.options)?;
        port::check_free(&work.options.host, work.options.port, "mongodb.port")?;
        // From here on the folder has something to forget.
        work.note.started = true;
        notes::write_member(&work.options.data, &work.note)?;
        let key = match &work.options.secret {
            Some(secret) => Some(notes::write_key(&work.options.data, &secret::key(secret))?),
            None => None,
        };
        work.say("starting mongod");
        let args = arguments::of(&work.options, key);
        let server = Server::start("mongod", &program, args, &work.options.leash)?;
        let pid = server.pid();
        work.tether.say(&Word::Server(pid));
        let server = self.server.insert(server);
        let silence = Duration::from_secs(1) * work.options.tries.max(1);
        tokio::select! {
            how = server.ended() => Err(MongodbError::Ended { how }),
            served = tokio::time::timeout(silence, work.serves()) => match served {
                Ok(()) => Ok(pid),
                Err(_) => {
                    self.kill().await;
                    Err(MongodbError::Hung { silence })
                }
            },
        }
    }

    /// Looks, and decides what is to be done.
    pub async fn step(&mut self) -> Result<Step, MongodbError> {
        self.work.step().await
    }

    /// Does it.
    pub async fn act(&mut self, step: &Step) -> Result<Pace, MongodbError> {
        if *step == Step::SetAside {
            // Not under a mongod that writes to it.
            self.kill().await;
        }
        self.work.act(step).await
    }

    pub(crate) async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill().await;
        }
    }

    /// Membership and registration are kept. A primary hands over first, so that nobody has to notice its absence.
    pub async fn stop(mut self) {
        let Some(server) = self.server.take() else {
            return;
        };
        self.work.let_go().await;
        if let Ok(hello) = self.work.local.hello().await
            && hello.role == Role::Primary
            && let Err(error) = self.work.local.step_down(CATCH_UP, REST).await
        {
            tracing::info!(error = with_causes(&error), "mongod stops as primary");
        }
        server.stop(GRACE).await;
    }
}
