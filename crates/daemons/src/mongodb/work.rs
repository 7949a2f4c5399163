//! What a member does beside running mongod: registers, looks, and acts on what it sees.

use std::time::Duration;

use boot::Tether;
use tokio::net::TcpStream;

use super::admin::{AdminError, Mongod, Role};
use super::etcd::{Etcd, Held};
use super::notes::{self, MemberNote, Notes};
use super::step::{self, Local, Sight, Step, User};
use super::telling::Telling;
use super::{MongodbError, Options, tend};
use crate::causes::with_causes;

/// A member that leaves must not become primary again before it was removed.
const FAREWELL: Duration = Duration::from_secs(60);
const CATCH_UP: Duration = Duration::from_secs(5);
const NO_PRIMARY: &str = "the replica set has no primary";

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Now,
    /// There is something to do that cannot be done yet.
    Soon,
    /// What there is to do was refused. A little later it may be taken.
    Slowly,
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
    pub(super) held: Option<Held>,
    user_is_fine: bool,
    telling: Telling,
    refusals: Vec<String>,
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
            telling: Telling::default(),
            refusals: Vec::new(),
        })
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
            address: &self.options.address(),
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
                if !self.telling.is_ready() {
                    // It may be in vain: whoever has another secret is never let in.
                    let records = self.etcd.read().await?;
                    self.refuse_if_secret_is_strange(&records).await?;
                }
                Ok(Pace::Later)
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
                self.say_ready();
                Ok(Pace::Later)
            }
            Step::Bide => {
                self.settle().await?;
                self.say(NO_PRIMARY);
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

    /// In the confirmed set, with the data: whoever needs mongod may start.
    async fn settle(&mut self) -> Result<(), MongodbError> {
        if self.note.replica_set.is_none() {
            self.note.replica_set = self.local.config().await?.and_then(|config| config.id());
            notes::write_member(&self.options.data, &self.note)?;
        }
        if !self.telling.is_ready() {
            tracing::info!("mongod is a member of the replica set and has the data");
            self.say_ready();
        }
        Ok(())
    }

    /// Lets others claim, if we hold the claim.
    pub(crate) async fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            self.etcd.release(held).await;
        }
    }

    /// Says what keeps it, or what is wrong, once.
    pub(crate) fn say(&mut self, doing: &str) {
        if let Some(word) = self.telling.doing(doing) {
            tracing::info!("{doing}");
            self.tether.say(&word);
        }
    }

    /// Takes back what was said.
    fn say_ready(&mut self) {
        if let Some(word) = self.telling.ready() {
            self.tether.say(&word);
        }
    }

    /// Why looking, or what is to be done, fails again and again.
    pub(crate) async fn tell_trouble(&mut self, error: &MongodbError) {
        let trouble = match error {
            MongodbError::Etcd(error) => format!("waiting for etcd: {}", with_causes(error)),
            error => with_causes(error),
        };
        // Without etcd nobody else would tell.
        let told = match self.local.hello().await {
            Ok(hello) if hello.role == Role::Secondary && !hello.has_primary => {
                format!("{NO_PRIMARY}; {trouble}")
            }
            _ => trouble,
        };
        self.say(&told);
    }

    /// What mongod did not take of what is to be changed in the set. All is well where there is nothing.
    pub(crate) fn tell_refusals(&mut self, refusals: Vec<String>) {
        for refusal in refusals.iter().filter(|refusal| !self.refusals.contains(refusal)) {
            tracing::warn!("{refusal}");
        }
        match refusals.is_empty() {
            true => self.say_ready(),
            false => self.say(&refusals.join("; ")),
        }
        self.refusals = refusals;
    }

    async fn look_at_local(&self) -> Result<Local, MongodbError> {
        let Some(config) = self.local.config().await? else {
            return Ok(Local::Blank);
        };
        let hello = self.local.hello().await?;
        Ok(Local::In {
            set: config.set().to_string(),
            id: config.id().unwrap_or_default(),
            role: hello.role,
            has_primary: hello.has_primary,
            seats: config.seats(),
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
}
