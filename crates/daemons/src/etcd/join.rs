//! Makes a place in a living cluster: removes what is left of an earlier life, adds this node as a learner.

use std::time::Duration;

use boot::{Tether, Word};
use etcd_client::MemberAddOptions;
use registry::etcd::Access;
use tokio::time::Instant;

use super::arguments::Place;
use super::dial::{DialError, call, cause, dial};
use super::look::{Cluster, health, listed, look};
use super::notes::{Notes, Served};
use super::options::address;
use super::plan::{Founder, Joining, Listed, Refusal, Standing, Waiting, next_step};
use super::preflight::is_loopback;
use super::{EtcdError, Objection, Options};

const PAUSE: Duration = Duration::from_secs(1);
/// How often in a row a member with this node's name must be silent before it is taken for dead: a moment's
/// disturbance is no proof.
const LOOKS: u32 = 3;

/// Returns the members to start with, this node among them.
pub(crate) async fn join(
    options: &Options,
    place: &Place,
    notes: &Notes,
    clients: &[String],
    tether: &Tether,
) -> Result<Vec<Founder>, EtcdError> {
    let joiner = Joiner {
        options,
        me: Founder::new(&options.name, &address(&place.host, options.peer_port)),
        place,
        notes,
        access: options.access(clients.to_vec()),
    };
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    let mut silent_looks = 0;
    let mut doing = String::new();
    loop {
        let waiting = match joiner.attempt(&mut silent_looks).await? {
            Attempt::Added(members) => return Ok(members),
            Attempt::Again => continue,
            Attempt::Wait(waiting) => waiting,
        };
        if waiting != doing {
            tracing::info!("joining: {waiting}");
            tether.say(&Word::Doing(waiting.clone()));
            doing.clone_from(&waiting);
        }
        if Instant::now() >= deadline {
            return Err(EtcdError::GaveUp {
                tries: options.tries,
                waiting,
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

enum Attempt {
    Added(Vec<Founder>),
    /// A step was made; the next one needs a new look.
    Again,
    Wait(String),
}

/// This node, and the cluster as it reaches it.
struct Joiner<'a> {
    options: &'a Options,
    me: Founder,
    place: &'a Place,
    notes: &'a Notes,
    access: Access,
}

impl Joiner<'_> {
    async fn attempt(&self, silent_looks: &mut u32) -> Result<Attempt, EtcdError> {
        let cluster = match look(&self.access).await {
            Ok(cluster) => cluster,
            Err(silent) => return Ok(Attempt::Wait(Waiting::Silent(silent).to_string())),
        };
        self.admit(&cluster)?;
        match self.step(&cluster, silent_looks).await {
            Ok(attempt) => Ok(attempt),
            Err(StepError::Dial(error)) if !error.is_final() => Ok(Attempt::Wait(in_words(&error, &cluster))),
            Err(StepError::Dial(error)) => Err(error.into()),
            Err(StepError::Etcd(error)) => Err(error),
        }
    }

    /// Before anything is changed there.
    fn admit(&self, cluster: &Cluster) -> Result<(), EtcdError> {
        let theirs = cluster.running.cluster;
        if let Some(served) = self.notes.read()?.served
            && served.cluster != theirs
        {
            let ours = served.cluster;
            return Err(Refusal::AnotherCluster { ours, theirs }.into());
        }
        if !self.place.ip.is_loopback() {
            return Ok(());
        }
        let mut members = cluster.running.members.iter();
        match members.find(|member| !is_loopback(&member.peer)) {
            Some(other) => Err(Refusal::Loopback {
                ours: self.me.peer.clone(),
                theirs: other.peer.clone(),
            }
            .into()),
            None => Ok(()),
        }
    }

    async fn step(&self, cluster: &Cluster, silent_looks: &mut u32) -> Result<Attempt, StepError> {
        let Joiner { me, access, .. } = self;
        // A wrong secret is told here in the words that it deserves.
        dial(access, &cluster.at).await?;
        let through = access.at(vec![cluster.at.clone()]);
        match self.options.admission.ask(through).await {
            Ok(()) => {}
            Err(Objection::Refused(why)) => return Err(StepError::Etcd(EtcdError::NotAdmitted { why })),
            Err(Objection::Unknown(why)) => return Ok(Attempt::Wait(why)),
        }
        match next_step(me, &standings(me, access, cluster).await) {
            Joining::Refuse(refusal) => Err(StepError::Etcd(refusal.into())),
            Joining::Remove(id) => {
                let remains = cluster.running.members.iter().find(|member| member.id == id);
                if remains.is_some_and(|member| member.peer != me.peer) && *silent_looks < LOOKS {
                    *silent_looks += 1;
                    return Ok(Attempt::Wait(format!(
                        "the member {} at another address does not answer; looking again before it is removed",
                        me.name
                    )));
                }
                remove_remains(access, cluster, id).await
            }
            Joining::Add => add(me, access, cluster, self.notes).await,
        }
    }
}

/// Only those that could be this node in an earlier life are asked.
async fn standings(me: &Founder, access: &Access, cluster: &Cluster) -> Vec<(Listed, Standing)> {
    let mut standings = Vec::new();
    for member in &cluster.running.members {
        let related = member.name == me.name || member.peer == me.peer;
        let standing = match &member.client {
            Some(client) if related => match health(access, client).await {
                // Whoever answers at an address that was once its own need not be the member.
                Ok((health, _)) if health.member == member.id => Standing::Alive,
                _ => Standing::Dead,
            },
            Some(_) => Standing::Alive,
            None => Standing::Dead,
        };
        standings.push((member.clone(), standing));
    }
    standings
}

enum StepError {
    Dial(DialError),
    Etcd(EtcdError),
}

impl From<DialError> for StepError {
    fn from(error: DialError) -> StepError {
        StepError::Dial(error)
    }
}

async fn remove_remains(access: &Access, cluster: &Cluster, id: u64) -> Result<Attempt, StepError> {
    tracing::info!(
        member = format!("{id:x}"),
        "removes what is left of this node's earlier life"
    );
    let mut client = dial(access, &cluster.at).await?;
    match call(&cluster.at, "remove a member", client.member_remove(id)).await {
        Err(error) if !error.says("member not found") => Err(error.into()),
        _ => Ok(Attempt::Again),
    }
}

async fn add(me: &Founder, access: &Access, cluster: &Cluster, notes: &Notes) -> Result<Attempt, StepError> {
    let mut client = dial(access, &cluster.at).await?;
    let peer = format!("{}://{}", access.scheme(), me.peer);
    let learner = MemberAddOptions::new().with_is_learner();
    let added = call(
        &cluster.at,
        "add a member",
        client.member_add([peer], Some(learner)),
    )
    .await?;
    // From here on this node belongs to that cluster and to no other.
    let served = Served {
        cluster: cluster.running.cluster,
        member: None,
    };
    notes
        .serves(served)
        .map_err(|error| StepError::Etcd(error.into()))?;
    notes
        .set_endpoints(&cluster.running.endpoints())
        .map_err(|error| StepError::Etcd(error.into()))?;
    let members = added.member_list().iter().map(listed).map(|member| match member {
        own if own.peer == me.peer => me.clone(),
        // etcd wants a name for everyone and compares only the addresses.
        unstarted if unstarted.name.is_empty() => {
            Founder::new(&format!("unstarted-{:x}", unstarted.id), &unstarted.peer)
        }
        other => Founder::new(&other.name, &other.peer),
    });
    let members: Vec<Founder> = members.collect();
    tracing::info!(?members, "added to the cluster as a learner");
    Ok(Attempt::Added(members))
}

/// etcd's own words, with what to do about them.
fn in_words(error: &DialError, cluster: &Cluster) -> String {
    let why = cause(error);
    if error.says("too many learner") {
        let learner = cluster.running.members.iter().find(|member| member.learner);
        let peer = learner.map_or("another node", |member| &member.peer);
        return format!(
            "{peer} is joining, and one at a time can; if it never will, `conclave remove {peer}`"
        );
    }
    if error.says("unhealthy cluster") || error.says("not enough started members") {
        return format!(
            "the cluster does not take a new member as long as one of its own does not answer ({why}); bring that one \
             back, or `conclave remove` it"
        );
    }
    format!("etcd at {} says: {why}", cluster.at)
}
