//! A connection to etcd that moves to the next endpoint after every error.

use std::error::Error;
use std::time::{Duration, Instant};

use etcd_client::{Client, Member};

use super::access::{EndpointConnection, EtcdAccess, EtcdAccessError, with_timeout};

/// How often the list of etcd members is read again.
const MEMBER_REFRESH_INTERVAL: Duration = Duration::from_secs(30);
const MEMBER_REFRESH_TIMEOUT: Duration = Duration::from_secs(1);
/// After a failed refresh. It is short, because a node that knows only one member is lost when that member goes.
const MEMBER_REFRESH_RETRY: Duration = Duration::from_secs(5);

const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How often an outage that continues is logged as a warning.
const OUTAGE_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The registry's connection to etcd, which moves to the next endpoint after every error.
pub(super) struct EtcdConnection {
    access: EtcdAccess,
    /// The endpoints from the configuration.
    configured: Vec<String>,
    current: Option<EndpointConnection>,
    refresh: MemberRefresh,
    outage: Option<Outage>,
}

/// When the registry's etcd connection reads the list of etcd members, to learn their endpoints. Never if the endpoints
/// are proxies, which follow the members themselves.
#[derive(Clone, Copy)]
enum MemberRefresh {
    Never,
    After(Instant),
}

/// The errors in a row on the registry's etcd connection since the last answer: the next pause and the last log.
struct Outage {
    pause: Duration,
    logged: Instant,
}

impl EtcdConnection {
    /// Connects to the configured endpoints only.
    pub(super) fn fixed(access: EtcdAccess) -> EtcdConnection {
        EtcdConnection {
            configured: access.endpoints.clone(),
            access,
            current: None,
            refresh: MemberRefresh::Never,
            outage: None,
        }
    }

    /// Connects to etcd members: the configured ones, and those that join later.
    pub(super) fn to_members(access: EtcdAccess) -> EtcdConnection {
        EtcdConnection {
            refresh: MemberRefresh::After(Instant::now()),
            ..EtcdConnection::fixed(access)
        }
    }

    /// The client of the open connection, or of a new one.
    pub(super) async fn client(&mut self) -> Result<Client, EtcdAccessError> {
        if let Some(current) = &self.current {
            return Ok(current.client.clone());
        }
        let current = self.access.connect_to_any().await?;
        let client = current.client.clone();
        self.current = Some(current);
        Ok(client)
    }

    /// Closes the connection after any error. The next one goes to another endpoint and logs in again. Returns how long
    /// to wait before that.
    pub(super) fn on_error(&mut self, error: &(dyn Error + 'static)) -> Duration {
        if let Some(EndpointConnection { endpoint, .. }) = self.current.take() {
            move_to_end(&mut self.access.endpoints, &endpoint);
        }
        let now = Instant::now();
        let first = Outage {
            pause: MIN_PAUSE,
            logged: now,
        };
        match &mut self.outage {
            Some(outage) => {
                outage.pause = (outage.pause * 2).min(MAX_PAUSE);
                if now - outage.logged >= OUTAGE_LOG_INTERVAL {
                    outage.logged = now;
                    tracing::warn!(error, "etcd requests still fail");
                } else {
                    tracing::debug!(error, "etcd request failed");
                }
                outage.pause
            }
            none => {
                tracing::warn!(error, "etcd request failed; retrying on the next endpoint");
                none.insert(first).pause
            }
        }
    }

    pub(super) fn on_answer(&mut self) {
        if self.outage.take().is_some() {
            tracing::info!("etcd answers again");
        }
    }

    /// Reads the list of members from time to time, so that this node still reaches etcd when all members that it knew
    /// at first have been replaced. A failure is not an error for the caller: the refresh is tried again soon.
    pub(super) async fn refresh_members_if_due(&mut self) {
        let (MemberRefresh::After(due), Some(current)) = (self.refresh, &mut self.current) else {
            return;
        };
        if Instant::now() < due {
            return;
        }
        self.refresh = MemberRefresh::After(Instant::now() + MEMBER_REFRESH_INTERVAL);
        match with_timeout(MEMBER_REFRESH_TIMEOUT, current.client.member_list()).await {
            Ok(answer) => {
                let members: Vec<_> = answer.members().iter().flat_map(client_addresses).collect();
                let endpoints = merge_endpoints(&self.access.endpoints, &self.configured, &members);
                if endpoints != self.access.endpoints {
                    tracing::debug!(?endpoints, "the etcd members have changed");
                    self.access.endpoints = endpoints;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "could not list the etcd members");
                self.refresh = MemberRefresh::After(Instant::now() + MEMBER_REFRESH_RETRY);
            }
        }
    }
}

/// The client addresses of a member. A learner does not serve clients, and a member that has never started has
/// published no address.
fn client_addresses(member: &Member) -> Vec<String> {
    if member.is_learner() {
        return Vec::new();
    }
    member
        .client_urls()
        .iter()
        .filter_map(|url| url.split_once("://"))
        .map(|(_, address)| address.trim_end_matches('/').to_owned())
        .collect()
}

/// Known members keep their order, and new members follow. The configured endpoints stay at the end even if no member
/// has that address: one of them may be a DNS name for all members.
fn merge_endpoints(known: &[String], configured: &[String], members: &[String]) -> Vec<String> {
    let kept = known.iter().filter(|address| members.contains(address));
    let mut all: Vec<String> = Vec::new();
    for address in kept.chain(members).chain(configured) {
        if !all.contains(address) {
            all.push(address.clone());
        }
    }
    all
}

fn move_to_end(endpoints: &mut [String], endpoint: &str) {
    if let Some(at) = endpoints.iter().position(|known| known == endpoint) {
        endpoints[at..].rotate_left(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn endpoints_follow_the_members() {
        fn check(known: &str, configured: &str, members: &str, expected: &str) {
            let merged = merge_endpoints(&split(known), &split(configured), &split(members));
            assert_eq!(merged, split(expected), "{known} / {configured} / {members}");
        }
        check("a", "a", "a", "a");
        check("a", "a", "a b c", "a b c");
        check("b c a", "a", "a b c", "b c a");
        check("a b c", "a", "d e f", "d e f a");
        check("d e a", "a", "e d", "d e a");
        check("c b a", "a", "a b", "b a");
        check("all", "all", "a b", "a b all");
        check("a b", "a b", "", "a b");
    }

    #[test]
    fn the_endpoint_that_failed_moves_to_the_end() {
        fn check(failed: &str, expected: &str) {
            let mut endpoints = split("a b c");
            move_to_end(&mut endpoints, failed);
            assert_eq!(endpoints, split(expected), "{failed}");
        }
        check("a", "b c a");
        check("b", "a c b");
        check("c", "a b c");
        check("x", "a b c");
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_reset_after_an_answer() {
        let error = std::fmt::Error;
        let mut connection = EtcdConnection::fixed(EtcdAccess {
            endpoints: split("a b"),
            login: None,
            tls: None,
            cluster_id: None,
        });
        let pauses: Vec<_> = (0..6).map(|_| connection.on_error(&error).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        connection.on_answer();
        assert_eq!(connection.on_error(&error).as_millis(), 100);
    }
}
