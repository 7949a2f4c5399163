//! What a member does beside running mongod: registers, looks, and acts on what it sees.

use std::time::Duration;

use boot::{Tether, Word};
use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::admin::{AdminError, Mongod, Role};
use super::admit::{self, Refusal, cluster_name};
use super::config::SetConfig;
use super::diff::Seat;
use super::etcd::{Etcd, EtcdError, Held};
use super::notes::{self, MemberNote, Notes};
use super::records::{Claim, Initiated, Member, Records};
use super::step::{self, Local, Sight, Step, User};
use super::{MongodbError, Options, tend};
use crate::causes::with_causes;

const RETRY: Duration = Duration::from_secs(1);
/// How long another is waited for when it is asked what it is.
const PROBE: Duration = Duration::from_secs(2);
/// A member that leaves must not become primary again before it was removed.
const FAREWELL: Duration = Duration::from_secs(60);
const CATCH_UP: Duration = Duration::from_secs(5);

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Now,
    /// There is something to do that cannot be done yet.
    Soon,
    /// When something changes, or after a while.
    Later,
}

/// All of a member but the process, so that both can be waited for at once.
pub(crate) struct Work {
    pub(crate) options: Options,
    pub(crate) etcd: Etcd,
    pub(crate) local: Mongod,
    pub(crate) tether: Tether,
    pub(crate) note: MemberNote,
    held: Option<Held>,
    user_is_fine: bool,
    is_ready: bool,
    said: String,
}

impl Work {
    pub(crate) fn new(options: Options, tether: Tether, notes: &Notes) -> Result<Work, MongodbError> {
        Ok(Work {
            etcd: Etcd::new(&options.etcd),
            local: Mongod::at(&options.address(), options.secret.as_deref())?,
            note: notes.incarnation(&options.set),
            user_is_fine: options.secret.is_none(),
            options,
            tether,
            held: None,
            is_ready: false,
            said: String::new(),
        })
    }

    /// Nothing is written anywhere before all that could speak against it was looked at.
    pub(crate) async fn register(&mut self, notes: &Notes) -> Result<(), MongodbError> {
        let member = Member {
            address: self.options.address(),
            incarnation: self.note.incarnation.clone(),
        };
        let name = self.options.name.clone();
        loop {
            let records = match self.etcd.read().await {
                Ok(records) => records,
                Err(error @ EtcdError::Record(_)) => return Err(error.into()),
                Err(error) => {
                    self.say(&format!("waiting for etcd: {}", with_causes(&error)));
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
            admit::by_records(&self.options, notes, &records)?;
            self.refuse_if_name_is_taken(&records).await?;
            self.refuse_if_secret_is_strange(&records).await?;
            let folder = &self.options.data;
            notes::make_folders(folder)?;
            notes::write_member(folder, &self.note)?;
            notes::write_cluster(folder, &cluster_name(&records))?;
            if records.members.get(&name) == Some(&member) {
                return Ok(());
            }
            match self.etcd.register(&name, &member, &records).await {
                Ok(true) => {
                    let Member { address, incarnation } = &member;
                    tracing::info!(%address, %incarnation, "registered");
                    return Ok(());
                }
                // Somebody wrote it meanwhile, or we do not know whether we did: look again.
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(error = with_causes(&error), "could not register yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// A data folder that begins anew must not be taken for the one that was there before it: until the set is rid
    /// of that one, mongod is not started. That needs a primary; without one we wait.
    pub(crate) async fn outwait_predecessor(&mut self, records: &mut watch::Receiver<Records>) {
        let address = self.options.address();
        let is_there = |records: &Records| {
            // Before a set was confirmed, none has more than one member, and that one is its own.
            records.initiated.is_some()
                && records
                    .left
                    .values()
                    .any(|left| left.address == address && !left.gone)
        };
        // What was followed last may be older than our own registration.
        loop {
            match self.etcd.read().await {
                Ok(now) if !is_there(&now) => return,
                Ok(_) => self.say(&format!(
                    "waiting until the replica set has removed the member that had {address} before its data was lost"
                )),
                Err(error) => self.say(&format!("waiting for etcd: {}", with_causes(&error))),
            }
            let _ = tokio::time::timeout(RETRY, records.changed()).await;
        }
    }

    /// Returns when the local mongod answers.
    pub(crate) async fn serves(&self) {
        let address = self.options.address();
        loop {
            // The driver takes its time between two attempts; this does not.
            while TcpStream::connect(&address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            if self.local.hello().await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn step(&mut self) -> Result<Step, MongodbError> {
        let records = self.etcd.read().await?;
        let local = self.look_at_local().await?;
        let user = self.look_at_user(&local).await?;
        if self.held.as_ref().is_some_and(|held| !held.is_ours()) {
            tracing::info!("the claim to initiate was lost");
            self.held = None;
        }
        if records.initiated.is_some() {
            self.let_go().await;
        }
        let sight = Sight {
            set: &self.options.set,
            incarnation: &self.note.incarnation,
            confirmed: self.note.replica_set.as_deref(),
            records: &records,
            local: &local,
            user,
            holds_claim: self.held.is_some(),
        };
        Ok(step::next(&sight))
    }

    pub(crate) async fn act(&mut self, step: &Step) -> Result<Pace, MongodbError> {
        match step {
            Step::Wait(what) => {
                self.say(what);
                // A claim has to be renewed.
                Ok(if self.held.is_some() {
                    Pace::Soon
                } else {
                    Pace::Later
                })
            }
            Step::Claim => self.claim().await,
            Step::Initiate => self.initiate().await,
            Step::MakeUser => {
                let secret = self.options.secret.clone().unwrap_or_default();
                self.local.make_user(&secret).await?;
                Ok(Pace::Now)
            }
            Step::Confirm => self.confirm().await,
            Step::Serve => {
                self.settle().await?;
                Ok(Pace::Later)
            }
            Step::Tend => {
                self.settle().await?;
                tend::round(self).await
            }
            Step::StepDown => {
                self.say("handing over before leaving");
                self.local.step_down(CATCH_UP, FAREWELL).await?;
                Ok(Pace::Soon)
            }
            Step::SetAside => {
                let aside = notes::set_aside(&self.options.data, &self.note.incarnation)?;
                Err(MongodbError::SetAside { aside })
            }
            Step::Refuse(why) => {
                let config = self.local.config().await?;
                let found = config.map(|config| config.set().to_string()).unwrap_or_default();
                Err(why.refusal(&self.options, found).into())
            }
        }
    }

    async fn claim(&mut self) -> Result<Pace, MongodbError> {
        self.say("claiming to initiate the replica set");
        let claim = Claim {
            name: self.options.name.clone(),
            incarnation: self.note.incarnation.clone(),
        };
        self.held = self.etcd.claim(&claim, self.options.lease).await?;
        Ok(Pace::Now)
    }

    async fn initiate(&mut self) -> Result<Pace, MongodbError> {
        self.say("initiating the replica set");
        let records = self.etcd.read().await?;
        if let Some(obstacle) = self.obstacle(&records).await {
            self.say(&format!("initiating the replica set: {obstacle}"));
            return Ok(Pace::Soon);
        }
        if !self.held.as_ref().is_some_and(Held::is_ours) {
            return Ok(Pace::Soon);
        }
        let seat = Seat {
            address: self.options.address(),
            name: Some(self.options.name.clone()),
            incarnation: Some(self.note.incarnation.clone()),
            votes: 1,
        };
        self.local
            .initiate(&SetConfig::first(&self.options.set, &seat))
            .await?;
        tracing::info!(set = self.options.set, "replica set initiated");
        Ok(Pace::Now)
    }

    /// Whoever is registered has to say that it is in no set. One that does not answer may be in one.
    async fn obstacle(&self, records: &Records) -> Option<String> {
        let asked =
            records.members.iter().map(
                async |(name, member)| match self.config_at(&member.address).await {
                    Ok(None) => None,
                    Ok(Some(_)) => Some(format!(
                        "{name} is in a replica set already; waiting for it to go on"
                    )),
                    Err(error) => Some(format!(
                        "waiting for {name} to say that it is in none: {}",
                        with_causes(&error)
                    )),
                },
            );
        join_all(asked).await.into_iter().flatten().next()
    }

    async fn config_at(&self, address: &str) -> Result<Option<SetConfig>, AdminError> {
        Mongod::at(address, self.options.secret.as_deref())?
            .config()
            .await
    }

    async fn confirm(&mut self) -> Result<Pace, MongodbError> {
        let Some(id) = self.local.config().await?.and_then(|config| config.id()) else {
            return Ok(Pace::Soon);
        };
        let initiated = Initiated {
            set: self.options.set.clone(),
            by: self.options.name.clone(),
            id,
        };
        if self.etcd.confirm(&initiated).await? {
            tracing::info!(set = initiated.set, id = initiated.id, "replica set confirmed");
        }
        self.let_go().await;
        Ok(Pace::Now)
    }

    /// In the confirmed set, with the data: whoever needs mongod may start.
    async fn settle(&mut self) -> Result<(), MongodbError> {
        if self.note.replica_set.is_none() {
            self.note.replica_set = self.local.config().await?.and_then(|config| config.id());
            notes::write_member(&self.options.data, &self.note)?;
        }
        if !self.is_ready {
            self.is_ready = true;
            tracing::info!("mongod is a member of the replica set and has the data");
            self.tether.say(&Word::Ready);
        }
        Ok(())
    }

    /// Lets others claim, if we hold the claim.
    pub(crate) async fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            self.etcd.release(held).await;
        }
    }

    /// Says what keeps it, once, and only until it is ready.
    pub(crate) fn say(&mut self, doing: &str) {
        if self.said != doing {
            tracing::info!("{doing}");
            self.said = doing.to_string();
            if !self.is_ready {
                self.tether.say(&Word::Doing(doing.to_string()));
            }
        }
    }

    async fn look_at_local(&self) -> Result<Local, MongodbError> {
        let Some(config) = self.local.config().await? else {
            return Ok(Local::Blank);
        };
        Ok(Local::In {
            set: config.set().to_string(),
            id: config.id().unwrap_or_default(),
            role: self.local.hello().await?.role,
        })
    }

    async fn look_at_user(&mut self, local: &Local) -> Result<User, MongodbError> {
        let Some(secret) = self.options.secret.as_deref().filter(|_| !self.user_is_fine) else {
            return Ok(User::Fine);
        };
        let has_data = |role: &Role| matches!(role, Role::Primary | Role::Secondary);
        if !matches!(local, Local::In { role, .. } if has_data(role)) {
            return Ok(User::Missing);
        }
        if !self.local.has_user(secret).await? {
            return Ok(User::Missing);
        }
        match self.local.check_login(secret).await {
            Ok(()) => {
                self.user_is_fine = true;
                Ok(User::Fine)
            }
            Err(AdminError::Login { .. }) => Ok(User::Strange),
            Err(error) => Err(error.into()),
        }
    }

    /// Two nodes of one name would take the registration from each other for ever.
    async fn refuse_if_name_is_taken(&self, records: &Records) -> Result<(), MongodbError> {
        let Some(other) = records.members.get(&self.options.name) else {
            return Ok(());
        };
        if other.incarnation == self.note.incarnation || other.address == self.options.address() {
            return Ok(());
        }
        let answer = tokio::time::timeout(PROBE, TcpStream::connect(&other.address)).await;
        match answer {
            Ok(Ok(_)) => Err(Refusal::Name {
                name: self.options.name.clone(),
                address: other.address.clone(),
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// A member that does not let us in would not let our mongod in either. The first that answers decides.
    async fn refuse_if_secret_is_strange(&self, records: &Records) -> Result<(), MongodbError> {
        if records.initiated.is_none() {
            return Ok(());
        }
        let others = records
            .members
            .iter()
            .filter(|(name, _)| **name != self.options.name);
        let asked = others.map(async |(_, member)| {
            let address = member.address.clone();
            match self.config_at(&address).await {
                Err(AdminError::Login { .. }) => Some(Err(Refusal::Secret { address })),
                Err(_) => None,
                Ok(_) => Some(Ok(())),
            }
        });
        let answers = join_all(asked).await;
        Ok(answers.into_iter().flatten().next().unwrap_or(Ok(()))?)
    }
}
