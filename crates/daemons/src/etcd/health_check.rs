//! Detects a server whose process runs but no longer answers.

use std::time::{Duration, Instant};

use registry::etcd::EtcdAccess;

use super::client::{REQUEST_TIMEOUT, root_cause};
use super::cluster_view::query_status;
use super::peer::{PeerTlsConnector, get};

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The most that one failed check counts. If a check took longer than this, the daemon itself was paused.
const MAX_PER_CHECK: Duration = Duration::from_secs(10);

/// The total time of an etcd server's failed health checks since it last answered, and the limit. A very long check
/// counts only in part, because then the daemon itself was paused.
struct UnansweredTime {
    limit: Duration,
    total: Duration,
}

impl UnansweredTime {
    fn with_limit(limit: Duration) -> UnansweredTime {
        UnansweredTime {
            limit,
            total: Duration::ZERO,
        }
    }

    fn reset(&mut self) {
        self.total = Duration::ZERO;
    }

    /// Adds a failed check and returns whether the limit is reached. It takes at least three checks: a single one may
    /// have failed because the daemon itself was paused.
    fn add_failed_check(&mut self, duration: Duration) -> bool {
        self.total += duration.min(MAX_PER_CHECK).min(self.limit / 3);
        self.total >= self.limit / 3 * 3
    }
}

/// Which kind of etcd server the etcd daemon's health check asks: a member or a proxy.
#[derive(Clone, Copy)]
pub(crate) enum CheckedServer {
    Member,
    Proxy,
}

/// Returns, with the reason, when the server at `at` has not answered for `limit`.
pub(crate) async fn wait_until_unresponsive(
    server: CheckedServer,
    access: &EtcdAccess,
    at: &str,
    limit: Duration,
) -> String {
    let mut unanswered = UnansweredTime::with_limit(limit);
    loop {
        let started = Instant::now();
        let result = match server {
            CheckedServer::Member => check_member(access, at).await,
            CheckedServer::Proxy => check_proxy(access, at).await,
        };
        tokio::time::sleep(CHECK_INTERVAL).await;
        match result {
            Ok(()) => unanswered.reset(),
            Err(reason) if unanswered.add_failed_check(started.elapsed()) => return reason,
            Err(_) => {}
        }
    }
}

/// A member answers a status request also while the cluster has no majority.
async fn check_member(access: &EtcdAccess, at: &str) -> Result<(), String> {
    let answer = query_status(access, at).await;
    answer.map(drop).map_err(|error| root_cause(&error))
}

/// The proxy forwards etcd requests to members, which may be down. It answers an HTTP request for an unknown path
/// itself, with "not found".
async fn check_proxy(access: &EtcdAccess, at: &str) -> Result<(), String> {
    let query = async {
        let tls = access.tls.as_ref().map(PeerTlsConnector::new).transpose()?;
        get("/", at, tls.as_ref()).await
    };
    match tokio::time::timeout(REQUEST_TIMEOUT, query).await {
        Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
        Err(_) => Err("timed out".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_the_daemon_does_not_count_as_a_hanging_server() {
        let seconds = Duration::from_secs;
        for (limit, checks, reached) in [
            (60, &[3600][..], false),
            (60, &[3600, 3600, 3600, 3600, 3600], false),
            (60, &[4; 14], false),
            (60, &[4; 15], true),
            (3, &[3600, 3600], false),
            (3, &[3, 3, 3], true),
            (1, &[2, 2], false),
            (1, &[2, 2, 2], true),
        ] {
            let mut unanswered = UnansweredTime::with_limit(seconds(limit));
            let mut is_reached = false;
            for duration in checks {
                assert!(!is_reached, "{limit} {checks:?}");
                is_reached = unanswered.add_failed_check(seconds(*duration));
            }
            assert_eq!(is_reached, reached, "{limit} {checks:?}");
            unanswered.reset();
            assert!(!unanswered.add_failed_check(seconds(1)), "{limit} {checks:?}");
        }
    }
}
