//! Notices a server that runs but answers no more.

use std::time::{Duration, Instant};

use registry::etcd::Access;

use super::dial::{ANSWER, cause};
use super::look::health;
use super::peer::{Connector, get};

const PAUSE: Duration = Duration::from_secs(1);

/// What one question counts for at most. More time than it can take has passed only if we were paused ourselves.
const LONGEST: Duration = Duration::from_secs(10);

/// For how long in all there was no answer.
struct Silence {
    limit: Duration,
    so_far: Duration,
}

impl Silence {
    fn of(limit: Duration) -> Silence {
        Silence {
            limit,
            so_far: Duration::ZERO,
        }
    }

    fn ends(&mut self) {
        self.so_far = Duration::ZERO;
    }

    /// Whether that was too long. It never is after one question: that may have been our own pause.
    fn lasts(&mut self, asked_for: Duration) -> bool {
        self.so_far += asked_for.min(LONGEST).min(self.limit / 3);
        self.so_far >= self.limit / 3 * 3
    }
}

/// Who is asked.
#[derive(Clone, Copy)]
pub(crate) enum Server {
    Member,
    Proxy,
}

/// Returns when the server at `at` has not answered for so long, and tells why.
pub(crate) async fn until_silent(server: Server, access: &Access, at: &str, limit: Duration) -> String {
    let mut silence = Silence::of(limit);
    loop {
        let asked = Instant::now();
        let answer = match server {
            Server::Member => ask_member(access, at).await,
            Server::Proxy => ask_proxy(access, at).await,
        };
        tokio::time::sleep(PAUSE).await;
        match answer {
            Ok(()) => silence.ends(),
            Err(why) if silence.lasts(asked.elapsed()) => return why,
            Err(_) => {}
        }
    }
}

/// It needs no majority to answer this.
async fn ask_member(access: &Access, at: &str) -> Result<(), String> {
    let answer = health(access, at).await;
    answer.map(drop).map_err(|error| cause(&error))
}

/// It passes on whatever members should answer, so it is asked for something that it does not have, by HTTP: that it is
/// not there it tells by itself.
async fn ask_proxy(access: &Access, at: &str) -> Result<(), String> {
    let asked = async {
        let tls = access.tls.as_ref().map(Connector::new).transpose()?;
        get("/", at, tls.as_ref()).await
    };
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(answer) => answer.map(drop).map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_our_own_is_not_taken_for_silence() {
        let seconds = Duration::from_secs;
        for (limit, questions, too_long) in [
            (60, &[3600][..], false),
            (60, &[3600, 3600, 3600, 3600, 3600], false),
            (60, &[4; 14], false),
            (60, &[4; 15], true),
            (3, &[3600, 3600], false),
            (3, &[3, 3, 3], true),
            (1, &[2, 2], false),
            (1, &[2, 2, 2], true),
        ] {
            let mut silence = Silence::of(seconds(limit));
            let mut lasted = false;
            for asked_for in questions {
                assert!(!lasted, "{limit} {questions:?}");
                lasted = silence.lasts(seconds(*asked_for));
            }
            assert_eq!(lasted, too_long, "{limit} {questions:?}");
            silence.ends();
            assert!(!silence.lasts(seconds(1)), "{limit} {questions:?}");
        }
    }
}
