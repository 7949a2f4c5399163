use std::time::{Duration, Instant};

/// Waits until the condition gives a value; panics with what was awaited when the time is over.
pub async fn await_that<T>(what: &str, within: Duration, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(begun.elapsed() < within, "waited {within:?} in vain: {what}");
        // Outside processes cannot wake us: asking again is the only way to see that something is so.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
