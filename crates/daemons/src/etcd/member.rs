//! A member's life, from the decision how to start it to its end.

mod attend;

use std::time::Duration;

use boot::{Tether, Word};
use tokio_util::sync::CancellationToken;

use super::arguments;
use super::look::look;
use super::notes::Notes;
use super::plan::Refusal;
use super::preflight::{find, preflight};
use super::settle::{Settled, settle};
use super::{EtcdError, Options};
use crate::server::{Server, port};
use attend::attend;

/// Less than boot gives the daemon itself.
const GRACE: Duration = Duration::from_secs(10);

/// Runs until `stop`; then etcd is stopped and the membership kept. Who runs it stops it when boot is gone, and tells
/// boot what went wrong.
pub async fn member(options: Options, tether: Tether, stop: CancellationToken) -> Result<(), EtcdError> {
    live(&options, &tether, stop.cancelled()).await
}

async fn live(
    options: &Options,
    tether: &Tether,
    stopped: impl Future<Output = ()>,
) -> Result<(), EtcdError> {
    preflight(options)?;
    let program = find(&options.program)?;
    let notes = Notes::at(&options.data);
    tokio::pin!(stopped);
    let settled = tokio::select! {
        settled = settle(options, &notes, tether) => settled?,
        () = &mut stopped => return Ok(()),
    };
    let Settled { initial, place } = settled;
    port::check_free(&place.host, options.client_port, "etcd.client_port")?;
    port::check_free(&place.host, options.peer_port, "etcd.peer_port")?;
    let args = arguments::member(options, &place, &notes.data(), &initial);
    let mut server = Server::start("etcd", &program, args, &options.leash)?;
    tether.say(&Word::Server(server.pid()));
    tokio::select! {
        how = server.ended() => Err(explain(options, &notes, how).await),
        error = attend(options, &place, &notes, tether) => {
            server.kill().await;
            Err(error)
        }
        () = stopped => {
            server.stop(GRACE).await;
            Ok(())
        }
    }
}

/// A member that was removed ends as if all were well.
async fn explain(options: &Options, notes: &Notes, how: String) -> EtcdError {
    let Ok(disk) = notes.read() else {
        return EtcdError::Ended { how };
    };
    if disk.left {
        return Refusal::Left.into();
    }
    let cluster = disk.served.map(|served| served.cluster);
    let others = options.access(notes.endpoints()).of(cluster);
    let member = disk.served.and_then(|served| served.member);
    match (member, look(&others).await) {
        (Some(member), Ok(cluster)) if cluster.running.members.iter().all(|other| other.id != member) => {
            EtcdError::Removed
        }
        _ => EtcdError::Ended { how },
    }
}
