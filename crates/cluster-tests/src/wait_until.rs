use std::time::{Duration, Instant};

/// Polls the condition until it returns a value, and returns that. Panics with `what` when `within` is over.
pub async fn wait_until<T>(what: &str, within: Duration, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(begun.elapsed() < within, "waited {within:?} in vain for {what}");
        // Other processes cannot wake the test, so the harness has to poll.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
