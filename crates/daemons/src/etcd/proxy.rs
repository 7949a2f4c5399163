//! A proxy's life: it leads to the members, whoever they are by now.

use std::time::Duration;

use boot::{Tether, Word};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::arguments;
use super::dial::dial;
use super::look::{Cluster, health, look};
use super::notes::{Notes, Served};
use super::options::address;
use super::plan::{Refusal, Waiting};
use super::preflight::{find, preflight_proxy};
use super::silence::{self, until_silent};
use super::{EtcdError, ProxyOptions, Seeds};
use crate::causes::with_causes;
use crate::server::{Server, port};

const PAUSE: Duration = Duration::from_secs(1);
const FIRST_PAUSES: Duration = Duration::from_millis(100);
/// How often it is looked whether the members have changed.
const LIST: Duration = Duration::from_secs(3);
/// A proxy has nothing to put in order.
const GRACE: Duration = Duration::from_secs(3);
const RESOLVE: Duration = Duration::from_secs(3);

/// Runs until `stop`. Who runs it stops it when boot is gone, and tells boot what went wrong.
pub async fn proxy(options: ProxyOptions, tether: Tether, stop: CancellationToken) -> Result<(), EtcdError> {
    live(&options, &tether, stop.cancelled()).await
}

async fn live(
    options: &ProxyOptions,
    tether: &Tether,
    stopped: impl Future<Output = ()>,
) -> Result<(), EtcdError> {
    preflight_proxy(options)?;
    let program = find(&options.program)?;
    port::check_free(&options.host, options.client_port, "etcd.client_port")?;
    let notes = Notes::at(&options.data);
    let listen = address(&options.host, options.client_port);
    tokio::pin!(stopped);
    let mut strangers = Strangers::default();
    let mut endpoints = tokio::select! {
        found = find_members(options, &notes, tether, &mut strangers) => found?,
        () = &mut stopped => return Ok(()),
    };
    loop {
        let access = options.access(endpoints.clone());
        let args = arguments::proxy(&access, &listen, &notes.folder().join("proxy"));
        let mut server = Server::start("etcd grpc-proxy", &program, args, &options.leash)?;
        tether.say(&Word::Server(server.pid()));
        let attended = async {
            until_served(options, &listen).await?;
            tether.say(&Word::Ready);
            let tries = options.tries;
            tokio::select! {
                changed = until_changed(options, &notes, &endpoints, &mut strangers) => changed,
                why = until_silent(silence::Server::Proxy, &access, &listen, Duration::from_secs(tries.into())) => {
                    let what = "etcd grpc-proxy";
                    Err(EtcdError::Silent { what, tries, why })
                }
            }
        };
        tokio::select! {
            how = server.ended() => return Err(EtcdError::Ended { how }),
            changed = attended => match changed {
                Ok(now) => {
                    tracing::info!(?now, "the members have changed");
                    server.stop(GRACE).await;
                    endpoints = now;
                }
                Err(error) => {
                    server.kill().await;
                    return Err(error);
                }
            },
            () = &mut stopped => {
                server.stop(GRACE).await;
                return Ok(());
            }
        }
    }
}

/// The members as they were last seen come first; what was given at the start may be long gone.
async fn find_members(
    options: &ProxyOptions,
    notes: &Notes,
    tether: &Tether,
    strangers: &mut Strangers,
) -> Result<Vec<String>, EtcdError> {
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    let mut doing = String::new();
    let (pinned, cluster) = loop {
        let pinned = notes.cluster()?;
        let waiting = match see_members(options, notes, pinned).await {
            // Whichever it chose, it could not be told afterwards that it should have been the other.
            Ok(cluster) if pinned.is_none() && !cluster.strange.is_empty() => {
                Refusal::TwoClusters.to_string()
            }
            // The proxy itself logs in nowhere; whether the secret is right is better told now than by each user.
            Ok(cluster) => match dial(&options.access(Vec::new()), &cluster.at).await {
                Ok(_) => break (pinned, cluster),
                Err(error) if error.is_final() => return Err(error.into()),
                Err(error) => with_causes(&error),
            },
            Err(waiting) => waiting.to_string(),
        };
        if waiting != doing {
            tracing::info!("{waiting}");
            tether.say(&Word::Doing(waiting.clone()));
            doing.clone_from(&waiting);
        }
        if Instant::now() >= deadline {
            let tries = options.tries;
            return Err(EtcdError::GaveUp { tries, waiting });
        }
        tokio::time::sleep(PAUSE).await;
    };
    if pinned.is_none() {
        notes.serves(Served {
            cluster: cluster.running.cluster,
            member: None,
        })?;
    }
    notes.set_endpoints(&cluster.running.endpoints())?;
    Ok(strangers.left_out(&cluster))
}

async fn see_members(options: &ProxyOptions, notes: &Notes, pinned: Option<u64>) -> Result<Cluster, Waiting> {
    let mut known = notes.endpoints();
    let seen = match known.is_empty() {
        true => None,
        false => look(&options.access(known.clone()).of(pinned)).await.ok(),
    };
    let cluster = match seen {
        Some(cluster) => cluster,
        None => {
            known.extend(seeds(options).await?);
            known.dedup();
            let access = options.access(known.clone()).of(pinned);
            look(&access).await.map_err(Waiting::Silent)?
        }
    };
    let listed = cluster.running.endpoints();
    if pinned.is_none() && !cluster.strange.is_empty() || listed.iter().all(|at| known.contains(at)) {
        return Ok(cluster);
    }
    // It named members that nobody has asked yet: another cluster may be where they were.
    let access = options.access(listed).of(Some(cluster.running.cluster));
    look(&access).await.map_err(Waiting::Silent)
}

/// Where another cluster answers than the one that this node belongs to.
#[derive(Default)]
struct Strangers(Vec<(String, u64)>);

impl Strangers {
    /// The members without them. It is said once about each: they may stay for long.
    fn left_out(&mut self, cluster: &Cluster) -> Vec<String> {
        for (at, theirs) in &cluster.strange {
            if !self.0.iter().any(|known| known == &(at.clone(), *theirs)) {
                let ours = cluster.running.cluster;
                tracing::warn!(
                    "etcd at {at} belongs to another cluster ({theirs:x}) than this node ({ours:x}) and is left out"
                );
            }
        }
        self.0.clone_from(&cluster.strange);
        let mut endpoints = cluster.running.endpoints();
        endpoints.retain(|at| !cluster.strange.iter().any(|(strange, _)| strange == at));
        endpoints
    }
}

async fn seeds(options: &ProxyOptions) -> Result<Vec<String>, Waiting> {
    match &options.seeds {
        Seeds::At(addresses) => Ok(addresses.clone()),
        Seeds::Behind { name, client_port } => {
            let unresolved = |why: String| Waiting::Unresolved {
                name: name.clone(),
                why,
            };
            let seen = tokio::time::timeout(RESOLVE, options.resolver.service(name))
                .await
                .map_err(|_| unresolved("no answer in time".to_string()))?
                .map_err(|error| unresolved(error.to_string()))?;
            Ok(seen
                .iter()
                .map(|ip| address(&ip.to_string(), *client_port))
                .collect())
        }
    }
}

async fn until_served(options: &ProxyOptions, listen: &str) -> Result<(), EtcdError> {
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    let access = options.access(Vec::new());
    loop {
        let why = match health(&access, listen).await {
            Ok(_) => return Ok(()),
            Err(error) => super::dial::cause(&error),
        };
        if Instant::now() >= deadline {
            let tries = options.tries;
            return Err(EtcdError::NotServing { tries, why });
        }
        tokio::time::sleep(FIRST_PAUSES).await;
    }
}

/// Returns other members than these. As long as nobody answers, nothing is known to have changed.
async fn until_changed(
    options: &ProxyOptions,
    notes: &Notes,
    current: &[String],
    strangers: &mut Strangers,
) -> Result<Vec<String>, EtcdError> {
    let pinned = notes.cluster()?;
    loop {
        tokio::time::sleep(LIST).await;
        let Ok(cluster) = see_members(options, notes, pinned).await else {
            continue;
        };
        notes.set_endpoints(&cluster.running.endpoints())?;
        let now = strangers.left_out(&cluster);
        if !now.is_empty() && now != current {
            return Ok(now);
        }
    }
}
