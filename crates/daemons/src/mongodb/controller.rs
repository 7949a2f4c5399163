//! Observes mongod and etcd, and carries out the next action.

use std::time::Duration;

use boot::BootConnection;
use error_causes::with_causes;
use tokio::net::TcpStream;

use super::action::{LocalMongod, LoginUser, MemberAction, MemberObservation, next_action};
use super::admin::{MemberRole, MongodClient, MongodCommandError};
use super::local_state::{self, MemberStateFile, MongodLocalState};
use super::record_store::{InitiationLease, RecordStore};
use super::{MongodDaemonOptions, MongodbDaemonError, reconcile};
use crate::status_reporter::StatusReporter;

/// For how long a member that leaves is not elected again; it should be removed within this time.
const NO_REELECTION_WHILE_LEAVING: Duration = Duration::from_secs(60);
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);
const NO_PRIMARY: &str = "the replica set has no primary";

/// After which pause the mongod daemon observes mongod and etcd again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecheckDelay {
    /// At once: the next action may be possible now.
    None,
    /// Shortly: something has to be done that is not possible yet.
    Short,
    /// A little later: mongod refused a change and may accept it then.
    AfterRefusal,
    /// When something changes, or after a few seconds.
    Idle,
}

/// Manages this node's membership in the MongoDB replica set: observes mongod and etcd, decides, and acts. It does not
/// hold the server process, so that both can be awaited at the same time.
pub(crate) struct MemberController {
    pub(crate) options: MongodDaemonOptions,
    pub(crate) record_store: RecordStore,
    pub(crate) mongod: MongodClient,
    pub(crate) status: StatusReporter,
    pub(crate) member: MemberStateFile,
    /// The claim to initiate the replica set, while this node holds it.
    pub(super) claim: Option<InitiationLease>,
    user_is_ready: bool,
    refused_changes: Vec<String>,
}

impl MemberController {
    pub(crate) fn new(
        options: MongodDaemonOptions,
        boot: &BootConnection,
        state: &MongodLocalState,
    ) -> Result<MemberController, MongodbDaemonError> {
        Ok(MemberController {
            record_store: RecordStore::new(&options.etcd),
            mongod: MongodClient::at(&options.address(), options.secret.as_deref())?,
            member: state.member_or_new(&options.set),
            user_is_ready: options.secret.is_none(),
            options,
            status: StatusReporter::new(boot),
            claim: None,
            refused_changes: Vec::new(),
        })
    }

    /// Returns when the local mongod answers.
    pub(crate) async fn wait_until_serving(&self) {
        let address = self.options.address();
        loop {
            // The driver pauses for long between two attempts to connect, so a plain connection is tried first.
            while TcpStream::connect(&address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            if self.mongod.hello().await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn next_action(&mut self) -> Result<MemberAction, MongodbDaemonError> {
        let records = self.record_store.read().await?;
        let local = self.observe_local_mongod().await?;
        let user = self.observe_login_user(&local).await?;
        if self.claim.as_ref().is_some_and(|claim| !claim.is_held()) {
            tracing::info!("lost the claim to initiate the replica set");
            self.claim = None;
        }
        if records.initiated.is_some() {
            self.release_claim().await;
        }
        let observed = MemberObservation {
            options: &self.options,
            incarnation: &self.member.incarnation,
            confirmed: self.member.replica_set.as_deref(),
            records: &records,
            local: &local,
            user,
            holds_claim: self.claim.is_some(),
        };
        Ok(next_action(&observed))
    }

    pub(crate) async fn execute(
        &mut self,
        action: &MemberAction,
    ) -> Result<RecheckDelay, MongodbDaemonError> {
        match action {
            MemberAction::Wait(what) => {
                self.status.activity(what);
                if !self.status.has_been_ready() {
                    // With another secret the node would wait in vain: the others would never let it in.
                    let records = self.record_store.read().await?;
                    self.refuse_if_secret_is_wrong(&records).await?;
                }
                Ok(RecheckDelay::Idle)
            }
            MemberAction::ClaimInitiation => self.claim_initiation().await,
            MemberAction::Initiate => self.initiate().await,
            MemberAction::CreateUser => {
                let secret = self.options.secret.clone().unwrap_or_default();
                self.mongod.create_user(&secret).await?;
                Ok(RecheckDelay::None)
            }
            MemberAction::ConfirmSet => self.confirm_set().await,
            MemberAction::ServeAsSecondary => {
                self.enter_service().await?;
                self.status.ready();
                Ok(RecheckDelay::Idle)
            }
            MemberAction::ServeWithoutPrimary => {
                self.enter_service().await?;
                self.status.activity(NO_PRIMARY);
                Ok(RecheckDelay::Idle)
            }
            MemberAction::ReconcileAsPrimary => {
                self.enter_service().await?;
                reconcile::reconcile_once(self).await
            }
            MemberAction::StepDown => {
                self.status.activity("stepping down as primary before leaving");
                self.mongod
                    .step_down(CATCH_UP_TIMEOUT, NO_REELECTION_WHILE_LEAVING)
                    .await?;
                Ok(RecheckDelay::Short)
            }
            MemberAction::SetDataAside => {
                let aside = local_state::move_data_aside(&self.options.data, &self.member.incarnation)?;
                Err(MongodbDaemonError::MovedAside { aside })
            }
            MemberAction::Refuse(refusal) => Err(refusal.clone().into()),
        }
    }

    /// The member is in the confirmed set and has the data: records that, and reports that services which need mongod
    /// may start.
    async fn enter_service(&mut self) -> Result<(), MongodbDaemonError> {
        if self.member.replica_set.is_none() {
            self.member.replica_set = self.mongod.config().await?.and_then(|config| config.id());
            local_state::write_member(&self.options.data, &self.member)?;
        }
        if !self.status.has_been_ready() {
            tracing::info!("mongod is a member of the replica set and has the data");
            self.status.ready();
        }
        Ok(())
    }

    /// Lets other nodes claim, if this node holds the claim.
    pub(crate) async fn release_claim(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.record_store.release(claim).await;
        }
    }

    /// Reports an error that has occurred several times in a row.
    pub(crate) async fn report_failure(&mut self, error: &MongodbDaemonError) {
        let failure = match error {
            MongodbDaemonError::Etcd(error) => format!("waiting for etcd: {}", with_causes(error)),
            error => with_causes(error),
        };
        // Without etcd there is no next action, so a missing primary is reported here.
        let report = match self.mongod.hello().await {
            Ok(hello) if hello.role == MemberRole::Secondary && !hello.has_primary => {
                format!("{NO_PRIMARY}; {failure}")
            }
            _ => failure,
        };
        self.status.activity(&report);
    }

    /// Reports the config changes that mongod refused; without any, the member is ready.
    pub(crate) fn report_refused_changes(&mut self, refused: Vec<String>) {
        for change in refused
            .iter()
            .filter(|change| !self.refused_changes.contains(change))
        {
            tracing::warn!("{change}");
        }
        match refused.is_empty() {
            true => self.status.ready(),
            false => self.status.activity(&refused.join("; ")),
        }
        self.refused_changes = refused;
    }

    async fn observe_local_mongod(&self) -> Result<LocalMongod, MongodbDaemonError> {
        let Some(config) = self.mongod.config().await? else {
            return Ok(LocalMongod::Uninitiated);
        };
        let hello = self.mongod.hello().await?;
        Ok(LocalMongod::InSet {
            set: config.set_name().to_string(),
            id: config.id().unwrap_or_default(),
            role: hello.role,
            has_primary: hello.has_primary,
            entries: config.entries(),
        })
    }

    async fn observe_login_user(&mut self, local: &LocalMongod) -> Result<LoginUser, MongodbDaemonError> {
        let Some(secret) = self.options.secret.as_deref().filter(|_| !self.user_is_ready) else {
            return Ok(LoginUser::Ready);
        };
        let has_data = |role: &MemberRole| matches!(role, MemberRole::Primary | MemberRole::Secondary);
        if !matches!(local, LocalMongod::InSet { role, .. } if has_data(role)) {
            return Ok(LoginUser::Missing);
        }
        if !self.mongod.has_user(secret).await? {
            return Ok(LoginUser::Missing);
        }
        match self.mongod.check_login(secret).await {
            Ok(()) => {
                self.user_is_ready = true;
                Ok(LoginUser::Ready)
            }
            Err(MongodCommandError::Login { .. }) => Ok(LoginUser::OtherSecret),
            Err(error) => Err(error.into()),
        }
    }
}
