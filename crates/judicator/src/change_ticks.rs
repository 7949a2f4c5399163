//! Tells the pages that show tasks that something has changed.

use std::time::Duration;

use futures::StreamExt;
use rpc::ChangeStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The shortest time between two ticks of a stream, however much changes.
const TICK_PAUSE: Duration = Duration::from_millis(500);

/// The change events of the store without what they say, for all calls at this judicator that follow them.
#[derive(Default)]
pub(crate) struct ChangeTicks {
    changes: watch::Sender<u64>,
}

impl ChangeTicks {
    pub(crate) fn on_change(&self) {
        self.changes
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// A tick for each change from now on; changes that follow each other closely are one.
    pub(crate) fn stream(&self) -> ChangeStream {
        let changes = self.changes.subscribe();
        let ticks = futures::stream::unfold((changes, None), |(mut changes, last)| async move {
            if let Some(last) = last {
                sleep_until(last + TICK_PAUSE).await;
            }
            changes.changed().await.ok()?;
            Some((Ok(()), (changes, Some(Instant::now()))))
        });
        ticks.boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_changes_are_two_ticks_a_second() {
        let ticks = ChangeTicks::default();
        ticks.on_change();
        let mut stream = ticks.stream();
        assert!(stream.next().now_or_never().is_none(), "that was before");
        let mut received = 0;
        for _ in 0..1000 {
            ticks.on_change();
            if stream.next().now_or_never().is_some() {
                received += 1;
            }
            advance(Duration::from_millis(10)).await;
        }
        assert!((19..=21).contains(&received), "{received} in 10 seconds");
        // The last change is not lost.
        ticks.on_change();
        assert!(stream.next().await.is_some());
        drop(ticks);
        assert!(stream.next().await.is_none());
    }
}
