//! Listens to the local mongod: whether it answers, and when something about it has changed.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::admin::Mongod;

/// mongod answers as soon as something has changed, and otherwise after this.
const AWAIT: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(500);

/// What one attempt counts for at most. More time than it can take has passed only if we were paused ourselves.
const LONGEST: Duration = Duration::from_secs(7);

#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// For how long it has not answered.
    pub(crate) silence: Duration,
}

/// Listens until the receiver is gone.
pub(crate) fn follow(mongod: Mongod) -> watch::Receiver<Heard> {
    let (sender, receiver) = watch::channel(Heard::default());
    tokio::spawn(async move {
        tokio::select! {
            () = sender.closed() => {}
            () = listen(&mongod, &sender) => {}
        }
    });
    receiver
}

async fn listen(mongod: &Mongod, sender: &watch::Sender<Heard>) {
    let mut version = None;
    loop {
        let asked = Instant::now();
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
                sender.send_if_modified(|heard| {
                    heard.silence += asked.elapsed().min(LONGEST);
                    false
                });
            }
        }
    }
}
