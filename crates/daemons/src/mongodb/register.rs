//! Coming in: what speaks against it is looked at first, then the node is registered.

use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::MongodbError;
use super::admin::AdminError;
use super::admit::{self, Refusal, Seating, cluster_name};
use super::config::SetConfig;
use super::etcd::EtcdError;
use super::notes::{self, Notes};
use super::records::{Incarnation, Left, Member, Records};
use super::work::Work;
use crate::causes::with_causes;

const RETRY: Duration = Duration::from_secs(1);
/// How long another is waited for when it is asked whether it is there.
const PROBE: Duration = Duration::from_secs(2);

impl Work {
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
            // Whoever has left runs on only until the set is rid of it.
            if records.members.get(&name) == Some(&member) || records.left.contains_key(&member.incarnation) {
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
    pub(crate) async fn outwait_predecessor(
        &mut self,
        notes: &Notes,
        records: &mut watch::Receiver<Records>,
    ) -> Result<(), MongodbError> {
        loop {
            // What was followed last may be older than our own registration.
            match self.obstacle_to_starting(notes).await {
                Ok(None) => return Ok(()),
                Ok(Some(obstacle)) => self.say(&obstacle),
                Err(MongodbError::Etcd(error)) => {
                    self.say(&format!("waiting for etcd: {}", with_causes(&error)));
                }
                Err(error) => return Err(error),
            }
            let _ = tokio::time::timeout(RETRY, records.changed()).await;
        }
    }

    /// What etcd knows of predecessors is not all: it may have been set up anew. The others' configs tell the rest.
    async fn obstacle_to_starting(&mut self, notes: &Notes) -> Result<Option<String>, MongodbError> {
        let records = self.etcd.read().await?;
        let address = self.options.address();
        let configs = self.configs_of_others(&records).await?;
        // Nobody else can let us in either.
        if records.initiated.is_some() && configs.is_empty() {
            return Ok(Some(
                "waiting for a member of the replica set to answer".to_string(),
            ));
        }
        // Before a set was confirmed, none has more than one member, and that one is its own.
        let is_marked = |left: &Left| left.address == address && !left.gone;
        let mut is_there = records.initiated.is_some() && records.left.values().any(is_marked);
        let seats = configs.iter().flat_map(SetConfig::seats);
        for seat in seats.filter(|seat| seat.address == address) {
            match admit::by_seat(&self.note.incarnation, &seat, &records) {
                Seating::Fine => continue,
                Seating::Taken => {}
                Seating::Lost(incarnation) => {
                    let left = Left {
                        name: seat.name.unwrap_or_else(|| self.options.name.clone()),
                        address: address.clone(),
                        gone: false,
                    };
                    self.etcd.mark_left(&incarnation, &left).await?;
                }
                Seating::Mistaken => {
                    self.note.incarnation = Incarnation::random();
                    self.register(notes).await?;
                }
            }
            is_there = true;
        }
        Ok(is_there.then(|| {
            format!("waiting until the replica set has removed the member that had {address} before its data was lost")
        }))
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

    pub(super) async fn refuse_if_secret_is_strange(&self, records: &Records) -> Result<(), MongodbError> {
        match records.initiated {
            Some(_) => self.configs_of_others(records).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Of those that answer and are in a set. Where nobody accepts our secret and somebody refuses it, our mongod
    /// would not be let in either.
    async fn configs_of_others(&self, records: &Records) -> Result<Vec<SetConfig>, MongodbError> {
        let others = records
            .members
            .iter()
            .filter(|(name, _)| **name != self.options.name);
        let asked = others.map(async |(_, member)| (&member.address, self.config_at(&member.address).await));
        let mut configs = Vec::new();
        let (mut is_accepted, mut refused_by) = (false, None);
        for (address, answer) in join_all(asked).await {
            match answer {
                Ok(config) => {
                    is_accepted = true;
                    configs.extend(config);
                }
                Err(AdminError::Login { .. }) => refused_by = Some(address.clone()),
                Err(_) => {}
            }
        }
        match refused_by {
            // Until there is a set, nobody can tell whose secret is the right one.
            Some(address) if !is_accepted && records.initiated.is_some() => {
                Err(Refusal::Secret { address }.into())
            }
            _ => Ok(configs),
        }
    }
}
