//! Listens to the local mongod: whether it answers, and when something about it has changed.

use std::time::Duration;

use supervise::{Component, Failures, Supervisor};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::admin::Mongod;

/// mongod answers as soon as something has changed, and otherwise after this.
const AWAIT: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(500);

/// How often it is looked whether there was an answer.
const LOOK: Duration = Duration::from_secs(1);
/// One that gives no answer and does not run either is stopped, or stuck for good. One that runs may only be busy,
/// and has more time.
const STANDSTILL: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// For how long it has not answered.
    silence: Duration,
    /// For how long it has, besides, used no time of a processor.
    standstill: Duration,
}

impl Heard {
    /// One look later, there was no answer. More time may have passed, but then we were paused ourselves.
    fn nothing(&mut self, has_run: bool) {
        self.silence += LOOK;
        self.standstill += LOOK;
        if has_run {
            self.standstill = Duration::ZERO;
        }
    }

    fn is_hung(&self, limit: Duration) -> bool {
        self.silence > limit || self.standstill >= STANDSTILL
    }
}

/// Listens until the receivers are gone. They see a change when mongod has one, or when it hangs.
pub(crate) fn follow(mongod: Mongod, pid: u32, limit: Duration) -> (watch::Receiver<Heard>, Failures) {
    let (sender, receiver) = watch::channel(Heard::default());
    let supervisor = Supervisor::new();
    let failures = supervisor.failures();
    let run = async move {
        tokio::select! {
            () = sender.closed() => {}
            () = listen(&mongod, &sender) => {}
            () = count(pid, limit, &sender) => {}
        }
    };
    supervisor.spawn(Component::MongodMonitor, &CancellationToken::new(), run);
    (receiver, failures)
}

/// Returns when mongod has not answered for so long, or has come to a standstill. Tells for how long it was silent.
pub(crate) async fn until_hung(mut heard: watch::Receiver<Heard>, limit: Duration) -> Duration {
    let hung = heard.wait_for(|heard| heard.is_hung(limit)).await;
    match hung.map(|heard| heard.silence) {
        Ok(silence) => silence,
        // Whoever listens does so for as long as it is heard.
        Err(_) => std::future::pending().await,
    }
}

async fn listen(mongod: &Mongod, sender: &watch::Sender<Heard>) {
    let mut version = None;
    loop {
        let answer = match &version {
            Some(version) => mongod.hello_after(version, AWAIT).await,
            None => mongod.hello().await,
        };
        match answer {
            Ok(hello) => {
                let changed = version != hello.version;
                version = hello.version;
                sender.send_if_modified(|heard| {
                    *heard = Heard::default();
                    changed
                });
                if version.is_none() {
                    tokio::time::sleep(RETRY).await;
                }
            }
            Err(_) => {
                version = None;
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn count(pid: u32, limit: Duration, sender: &watch::Sender<Heard>) {
    let mut before = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let ran = processor_time(pid);
        sender.send_if_modified(|heard| {
            heard.nothing(ran.is_none() || ran != before);
            heard.is_hung(limit)
        });
        before = ran;
    }
}

/// In the kernel's ticks, all threads together. An idle mongod uses some within a second or two.
fn processor_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last bracket may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields
        .split_whitespace()
        .skip(11)
        .map(|field| field.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_runs_has_more_time_than_one_that_stands_still() {
        let check = |runs: &[bool], expected: bool| {
            let mut heard = Heard::default();
            runs.iter().for_each(|has_run| heard.nothing(*has_run));
            assert_eq!(heard.is_hung(LOOK * 60), expected, "{runs:?}");
        };
        check(&[], false);
        check(&[false; 4], false);
        check(&[false; 5], true);
        check(
            &[false, false, false, false, true, false, false, false, false],
            false,
        );
        check(&[true; 60], false);
        check(&[true; 61], true);
    }

    #[test]
    fn time_on_a_processor_is_seen() {
        let own = std::process::id();
        let begun = processor_time(own).unwrap();
        while processor_time(own) == Some(begun) {}
        assert_eq!(processor_time(0), None);
    }
}
