//! Takes a member out of the list.

use std::time::Duration;

use registry::etcd::Access;
use tokio::time::Instant;

use super::EtcdError;
use super::dial::{DialError, call, dial};

/// etcd makes no change until its members have been connected for five seconds, and none while it elects a leader.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(300);

/// Through any of the addresses, until one has done it. Whoever is in the list no more is removed.
pub(crate) async fn expel(access: &Access, member: u64) -> Result<(), EtcdError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut failure = None;
        for at in &access.endpoints {
            match remove(access, at, member).await {
                Err(error) if error.is_final() => return Err(error.into()),
                Err(error) => failure = Some(error),
                Ok(()) => return Ok(()),
            }
        }
        match failure {
            None => return Err(EtcdError::NobodyElse { tried: Vec::new() }),
            Some(error) if Instant::now() >= deadline => return Err(error.into()),
            Some(error) => tracing::info!("not removed yet: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn remove(access: &Access, at: &str, member: u64) -> Result<(), DialError> {
    let mut client = dial(access, at).await?;
    match call(at, "remove a member", client.member_remove(member)).await {
        Err(error) if !error.says("member not found") => Err(error),
        _ => Ok(()),
    }
}
