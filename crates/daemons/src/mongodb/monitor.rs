//! Monitors the local mongod: whether it answers, and when its replication state changes.

use std::time::Duration;

use supervise::{Component, FailureWatch, Supervisor};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::admin::MongodClient;

/// mongod answers an awaitable `hello` as soon as its state changes, and otherwise after this time.
const HELLO_AWAIT: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// How often the monitor checks whether there was an answer.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// A mongod that neither answers nor uses the CPU for this long is stopped or stuck for good. A mongod that uses the
/// CPU may only be busy, and gets more time.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

/// For how long the mongod of this node has not answered its daemon.
#[derive(Clone, Debug, Default)]
pub(crate) struct MongodResponsiveness {
    silence: Duration,
    /// For how long it has, in addition, used no CPU time.
    idle: Duration,
}

impl MongodResponsiveness {
    /// Counts one check interval without an answer. If more time has passed, the daemon itself was paused.
    fn add_silent_interval(&mut self, used_cpu: bool) {
        self.silence += CHECK_INTERVAL;
        self.idle += CHECK_INTERVAL;
        if used_cpu {
            self.idle = Duration::ZERO;
        }
    }

    fn is_hung(&self, limit: Duration) -> bool {
        self.silence > limit || self.idle >= IDLE_LIMIT
    }
}

/// Monitors mongod until the receivers are dropped. They are notified when mongod's state changes, or when it hangs.
pub(crate) fn start_monitor(
    mongod: MongodClient,
    pid: u32,
    limit: Duration,
) -> (watch::Receiver<MongodResponsiveness>, FailureWatch) {
    let (sender, receiver) = watch::channel(MongodResponsiveness::default());
    let supervisor = Supervisor::new();
    let failures = supervisor.failures();
    let run = async move {
        tokio::select! {
            () = sender.closed() => {}
            () = poll_hello(&mongod, &sender) => {}
            () = count_silence(pid, limit, &sender) => {}
        }
    };
    supervisor.spawn(Component::MongodMonitor, &CancellationToken::new(), run);
    (receiver, failures)
}

/// Returns when mongod hangs, with the time for which it has not answered.
pub(crate) async fn wait_until_hung(
    mut responsiveness: watch::Receiver<MongodResponsiveness>,
    limit: Duration,
) -> Duration {
    let hung = responsiveness.wait_for(|state| state.is_hung(limit)).await;
    match hung.map(|state| state.silence) {
        Ok(silence) => silence,
        // Unreachable: the monitor runs as long as there is a receiver.
        Err(_) => std::future::pending().await,
    }
}

async fn poll_hello(mongod: &MongodClient, sender: &watch::Sender<MongodResponsiveness>) {
    let mut version = None;
    loop {
        let answer = match &version {
            Some(version) => mongod.hello_after(version, HELLO_AWAIT).await,
            None => mongod.hello().await,
        };
        match answer {
            Ok(hello) => {
                let changed = version != hello.topology_version;
                version = hello.topology_version;
                sender.send_if_modified(|state| {
                    *state = MongodResponsiveness::default();
                    changed
                });
                if version.is_none() {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
            Err(_) => {
                version = None;
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

async fn count_silence(pid: u32, limit: Duration, sender: &watch::Sender<MongodResponsiveness>) {
    let mut before = None;
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let now = cpu_ticks(pid);
        sender.send_if_modified(|state| {
            state.add_silent_interval(now.is_none() || now != before);
            state.is_hung(limit)
        });
        before = now;
    }
}

/// The CPU time of all threads of a process, in the kernel's clock ticks. Even an idle mongod uses some within a second
/// or two.
fn cpu_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name, up to the last bracket, may contain anything.
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
    fn a_mongod_that_uses_the_cpu_gets_more_time_to_answer() {
        let check = |used_cpu: &[bool], expected: bool| {
            let mut state = MongodResponsiveness::default();
            used_cpu
                .iter()
                .for_each(|used_cpu| state.add_silent_interval(*used_cpu));
            assert_eq!(state.is_hung(CHECK_INTERVAL * 60), expected, "{used_cpu:?}");
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
    fn used_cpu_time_is_counted() {
        let own = std::process::id();
        let before = cpu_ticks(own).unwrap();
        while cpu_ticks(own) == Some(before) {}
        assert_eq!(cpu_ticks(0), None);
    }
}
