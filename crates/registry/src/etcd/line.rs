//! The line to etcd: one connection at a time, to the next address after every error.

use std::error::Error;
use std::time::{Duration, Instant};

use etcd_client::{Client, Member};

use super::access::{Access, AccessError, Reached, within};

/// How often the members of etcd are asked for.
const REFRESH: Duration = Duration::from_secs(30);
const REFRESH_LIMIT: Duration = Duration::from_secs(1);
/// After one that failed: whoever knows only one member has nobody to turn to should that one go.
const REFRESH_AGAIN: Duration = Duration::from_secs(5);

const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// While etcd cannot be reached it is said once in this time.
const REMIND: Duration = Duration::from_secs(60);

pub(super) struct Line {
    access: Access,
    given: Vec<String>,
    reached: Option<Reached>,
    refresh: Refresh,
    trouble: Option<Trouble>,
}

/// Whether the addresses are those of members, which come and go, or of proxies, which know about that themselves.
#[derive(Clone, Copy)]
enum Refresh {
    Never,
    After(Instant),
}

/// Since the last time that all was well.
struct Trouble {
    pause: Duration,
    told: Instant,
}

impl Line {
    /// To whatever was given, and nothing else.
    pub(super) fn fixed(access: Access) -> Line {
        Line {
            given: access.endpoints.clone(),
            access,
            reached: None,
            refresh: Refresh::Never,
            trouble: None,
        }
    }

    /// To members of etcd: those that were given, and those that join later.
    pub(super) fn to_members(access: Access) -> Line {
        Line {
            refresh: Refresh::After(Instant::now()),
            ..Line::fixed(access)
        }
    }

    /// The connection that is open, or a new one.
    pub(super) async fn client(&mut self) -> Result<Client, AccessError> {
        if let Some(reached) = &self.reached {
            return Ok(reached.client.clone());
        }
        let reached = self.access.reach().await?;
        let client = reached.client.clone();
        self.reached = Some(reached);
        Ok(client)
    }

    /// Hangs up, whatever the error was: a new connection goes to another address and logs in anew. Gives the time
    /// to wait before that.
    pub(super) fn on_error(&mut self, error: &(dyn Error + 'static)) -> Duration {
        if let Some(Reached { endpoint, .. }) = self.reached.take() {
            put_last(&mut self.access.endpoints, &endpoint);
        }
        let now = Instant::now();
        let first = Trouble {
            pause: SHORTEST_PAUSE,
            told: now,
        };
        match &mut self.trouble {
            Some(trouble) => {
                trouble.pause = (trouble.pause * 2).min(LONGEST_PAUSE);
                if now - trouble.told >= REMIND {
                    trouble.told = now;
                    tracing::warn!(error, "still no luck with etcd");
                } else {
                    tracing::debug!(error, "no luck with etcd");
                }
                trouble.pause
            }
            none => {
                tracing::warn!(
                    error,
                    "no luck with etcd: trying again, elsewhere if there is another address"
                );
                none.insert(first).pause
            }
        }
    }

    pub(super) fn on_answer(&mut self) {
        if self.trouble.take().is_some() {
            tracing::info!("etcd answers again");
        }
    }

    /// Learns from time to time who the members are, so that there is somebody to turn to when all that were known
    /// at first have been replaced. It is a courtesy: whatever goes wrong is left for the next time, which is soon then.
    pub(super) async fn refresh_if_due(&mut self) {
        let (Refresh::After(due), Some(reached)) = (self.refresh, &mut self.reached) else {
            return;
        };
        if Instant::now() < due {
            return;
        }
        self.refresh = Refresh::After(Instant::now() + REFRESH);
        match within(REFRESH_LIMIT, reached.client.member_list()).await {
            Ok(answer) => {
                let members: Vec<_> = answer.members().iter().flat_map(addresses).collect();
                let endpoints = merged(&self.access.endpoints, &self.given, &members);
                if endpoints != self.access.endpoints {
                    tracing::debug!(?endpoints, "the members of etcd have changed");
                    self.access.endpoints = endpoints;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "could not ask for the members of etcd");
                self.refresh = Refresh::After(Instant::now() + REFRESH_AGAIN);
            }
        }
    }
}

/// Where a member serves clients. A learner serves nobody yet, and one that was never started has told no address.
fn addresses(member: &Member) -> Vec<String> {
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

/// Members that are known keep their order, new ones follow. What was given stays, at the end, even if no member says
/// that it is there: it may be a name for all of them.
fn merged(known: &[String], given: &[String], members: &[String]) -> Vec<String> {
    let kept = known.iter().filter(|address| members.contains(address));
    let mut all: Vec<String> = Vec::new();
    for address in kept.chain(members).chain(given) {
        if !all.contains(address) {
            all.push(address.clone());
        }
    }
    all
}

fn put_last(endpoints: &mut [String], endpoint: &str) {
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
    fn addresses_follow_the_members() {
        fn check(known: &str, given: &str, members: &str, expected: &str) {
            let merged = merged(&split(known), &split(given), &split(members));
            assert_eq!(merged, split(expected), "{known} / {given} / {members}");
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
    fn the_one_that_failed_is_last() {
        fn check(failed: &str, expected: &str) {
            let mut endpoints = split("a b c");
            put_last(&mut endpoints, failed);
            assert_eq!(endpoints, split(expected), "{failed}");
        }
        check("a", "b c a");
        check("b", "a c b");
        check("c", "a b c");
        check("x", "a b c");
    }

    #[test]
    fn pauses_grow_to_a_limit_and_begin_anew() {
        let error = std::fmt::Error;
        let mut line = Line::fixed(Access {
            endpoints: split("a b"),
            login: None,
            tls: None,
            cluster: None,
        });
        let pauses: Vec<_> = (0..6).map(|_| line.on_error(&error).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        line.on_answer();
        assert_eq!(line.on_error(&error).as_millis(), 100);
    }
}
