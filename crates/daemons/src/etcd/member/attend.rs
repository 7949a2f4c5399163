//! What is done beside a running member: wait until it serves, make it a full member, guard it, note its cluster.

use std::time::Duration;

use boot::{Tether, Word};
use tokio::time::Instant;

use super::super::arguments::Place;
use super::super::auth::guard;
use super::super::dial::{DialError, call, cause, dial};
use super::super::look::{Health, health, look};
use super::super::notes::{Notes, Served};
use super::super::options::address;
use super::super::peer::{Connector, ask};
use super::super::plan::Answer;
use super::super::silence::{Server, until_silent};
use super::super::{EtcdError, Options};

/// Between two looks at a member that does not serve yet.
const PAUSE: Duration = Duration::from_secs(1);
/// A member that starts alone serves within a few tenths of a second.
const FIRST_PAUSES: Duration = Duration::from_millis(200);
/// How often the list of members is looked at; it is read from the member's own memory.
const LIST: Duration = Duration::from_secs(5);

/// Returns only when something went wrong.
pub(super) async fn attend(options: &Options, place: &Place, notes: &Notes, tether: &Tether) -> EtcdError {
    if let Err(error) = settle_in(options, place, notes, tether).await {
        return error;
    }
    let own = address(&place.host, options.client_port);
    let access = options.access(Vec::new());
    let tries = options.tries;
    tokio::select! {
        error = follow(options, notes, &own) => error,
        why = until_silent(Server::Member, &access, &own, Duration::from_secs(tries.into())) => {
            let what = "etcd";
            EtcdError::Silent { what, tries, why }
        }
    }
}

async fn settle_in(
    options: &Options,
    place: &Place,
    notes: &Notes,
    tether: &Tether,
) -> Result<(), EtcdError> {
    let own = address(&place.host, options.client_port);
    let health = until_served(options, place, &own, tether).await?;
    notes.serves(Served {
        cluster: health.cluster,
        member: Some(health.member),
    })?;
    if health.learner {
        promote(options, place, notes, &health, tether).await?;
    }
    if let Some(login) = &options.login {
        let deadline = Instant::now() + Duration::from_secs(options.tries.into());
        let access = options.access(vec![own.clone()]);
        while let Err(error) = guard(&access, login, &own).await {
            if error.is_final() || Instant::now() >= deadline {
                return Err(error.into());
            }
            tracing::info!("not guarded yet: {}", cause(&error));
            tokio::time::sleep(PAUSE).await;
        }
    }
    move_in(options, place, &own, health.member).await;
    note_endpoints(options, notes, &own).await?;
    tether.say(&Word::Ready);
    Ok(())
}

/// A member answers nobody until there is a majority, so this waits for the others too.
async fn until_served(
    options: &Options,
    place: &Place,
    own: &str,
    tether: &Tether,
) -> Result<Health, EtcdError> {
    let begun = Instant::now();
    let deadline = begun + Duration::from_secs(options.tries.into());
    let access = options.access(Vec::new());
    let mut doing = String::new();
    loop {
        let why = match health(&access, own).await {
            Ok((health, _)) if health.leader != 0 => return Ok(health),
            Ok(_) => "it has no leader".to_string(),
            Err(error) => cause(&error),
        };
        if Instant::now() >= deadline {
            return Err(EtcdError::NotServing {
                tries: options.tries,
                why: silent_peers(options, place).await.unwrap_or(why),
            });
        }
        if begun.elapsed() < PAUSE * 2 {
            tokio::time::sleep(FIRST_PAUSES).await;
            continue;
        }
        let waiting = silent_peers(options, place).await.unwrap_or(why);
        if waiting != doing {
            tracing::info!("etcd does not serve yet: {waiting}");
            tether.say(&Word::Doing(format!("etcd does not serve yet: {waiting}")));
            doing = waiting;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Which members etcd waits for, as far as that can be seen from outside.
async fn silent_peers(options: &Options, place: &Place) -> Option<String> {
    let tls = options.tls.as_ref().map(Connector::new).transpose().ok()?;
    let own = address(&place.host, options.peer_port);
    let Answer::Runs(running) = ask(&own, tls.as_ref()).await else {
        return None;
    };
    let mut silent = Vec::new();
    for member in running.members.iter().filter(|member| member.peer != own) {
        if let Answer::Silent(why) = ask(&member.peer, tls.as_ref()).await {
            silent.push(format!("{} at {} ({why})", member.name, member.peer));
        }
    }
    if silent.is_empty() {
        return None;
    }
    Some(format!(
        "of its {} members these do not answer: {}",
        running.members.len(),
        silent.join(", ")
    ))
}

/// Through the others: a learner answers no such question itself.
async fn promote(
    options: &Options,
    place: &Place,
    notes: &Notes,
    health: &Health,
    tether: &Tether,
) -> Result<(), EtcdError> {
    let member = health.member;
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    tether.say(&Word::Doing("catching up with the cluster".to_string()));
    loop {
        // Asked for anew each time: a learner learns only as it catches up where the others serve.
        let access = options
            .access(others(options, place, notes).await)
            .of(Some(health.cluster));
        let waiting = match look(&access).await {
            Err(silent) => super::super::plan::Waiting::Silent(silent).to_string(),
            Ok(cluster) => {
                let place = cluster.running.members.iter().find(|listed| listed.id == member);
                match place {
                    None => return Err(EtcdError::Removed),
                    Some(place) if !place.learner => return Ok(()),
                    Some(_) => {}
                }
                // A member that does not lead would pass this on without saying who asks, and be refused.
                let at = cluster.leader.as_ref().unwrap_or(&cluster.at);
                let promoted = match dial(&access, at).await {
                    Ok(mut client) => call(at, "promote this node", client.member_promote(member)).await,
                    Err(error) => Err(error),
                };
                match promoted {
                    Ok(_) => {
                        tracing::info!("a full member from now on");
                        return Ok(());
                    }
                    Err(error) if error.is_final() => return Err(error.into()),
                    Err(error) => cause(&error),
                }
            }
        };
        if Instant::now() >= deadline {
            let tries = options.tries;
            return Err(EtcdError::GaveUp { tries, waiting });
        }
        tracing::info!("not a full member yet: {waiting}");
        tokio::time::sleep(FIRST_PAUSES).await;
    }
}

/// Tells the others this member's address for peers where it is a new one. It serves without, but is not found by
/// whoever starts next; so a failure is only told, and the next start tries again.
async fn move_in(options: &Options, place: &Place, own: &str, member: u64) {
    let access = options.access(vec![own.to_string()]);
    let peer = address(&place.host, options.peer_port);
    let moved = async {
        let Ok(cluster) = look(&access).await else {
            return Ok(());
        };
        let listed = cluster.running.members.iter().find(|listed| listed.id == member);
        if listed.is_none_or(|listed| listed.peer == peer) {
            return Ok(());
        }
        tracing::info!("this member is at {peer} from now on");
        let mut client = dial(&access, own).await?;
        let url = format!("{}://{peer}", access.scheme());
        call(own, "change a member", client.member_update(member, [url]))
            .await
            .map(drop)
    };
    if let Err(error) = moved.await {
        let error: DialError = error;
        tracing::warn!(
            "the others do not know this member's new address {peer} yet: {}",
            cause(&error)
        );
    }
}

/// All who are known to serve clients: by the notes, and by what this member was told when it joined.
async fn others(options: &Options, place: &Place, notes: &Notes) -> Vec<String> {
    let mut clients = notes.endpoints();
    let tls = options.tls.as_ref().map(Connector::new).transpose();
    let own = address(&place.host, options.peer_port);
    if let Ok(tls) = tls
        && let Answer::Runs(running) = ask(&own, tls.as_ref()).await
    {
        clients.extend(running.endpoints());
    }
    clients.sort();
    clients.dedup();
    clients
}

async fn follow(options: &Options, notes: &Notes, own: &str) -> EtcdError {
    loop {
        tokio::time::sleep(LIST).await;
        if let Err(error) = note_endpoints(options, notes, own).await {
            return error;
        }
    }
}

/// Where nobody answers, what is known stays.
async fn note_endpoints(options: &Options, notes: &Notes, own: &str) -> Result<(), EtcdError> {
    let mut asked = vec![own.to_string()];
    asked.extend(notes.endpoints().into_iter().filter(|known| known != own));
    if let Ok(cluster) = look(&options.access(asked).of(notes.cluster()?)).await {
        notes.set_endpoints(&cluster.running.endpoints())?;
    }
    Ok(())
}
