//! Retries requests that fail while etcd elects a leader.
//!
//! An election takes a second or two, in which etcd serves no requests. An operator who removes a lost node must
//! expect one: the lost node may have been the leader.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

/// Longer than an election takes, even if the first vote is split.
const MAX_RETRY_TIME: Duration = Duration::from_secs(6);
const RETRY_INTERVAL: Duration = Duration::from_millis(300);

/// Repeats `attempt` for a few seconds while it fails with an error for which `is_permanent` is false. Use it only
/// for requests that may be made twice.
pub(crate) async fn retry_during_election<T, E: Display>(
    is_permanent: impl Fn(&E) -> bool,
    attempt: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    retry_for(MAX_RETRY_TIME, is_permanent, attempt).await
}

/// The limit counts from the first failure, however long that attempt took.
async fn retry_for<T, E: Display>(
    limit: Duration,
    is_permanent: impl Fn(&E) -> bool,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut deadline = None;
    loop {
        match attempt().await {
            Err(error) if !is_permanent(&error) => {
                let now = Instant::now();
                if now >= *deadline.get_or_insert(now + limit) {
                    return Err(error);
                }
                tracing::debug!("request failed; retrying: {error}");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected` is the final result and the number of attempts. Each attempt takes longer than the retry limit.
    async fn check(answers: &[Result<&str, &str>], expected: (Result<&str, &str>, usize)) {
        let mut count = 0;
        let result = retry_for(
            RETRY_INTERVAL,
            |error: &String| error == "refused",
            async || {
                tokio::time::sleep(RETRY_INTERVAL).await;
                let answer = answers[count.min(answers.len() - 1)];
                count += 1;
                answer.map(str::to_string).map_err(str::to_string)
            },
        )
        .await;
        let result = (result.as_deref().map_err(String::as_str), count);
        assert_eq!(result, expected, "{answers:?}");
    }

    #[tokio::test]
    async fn only_temporary_failures_are_retried_and_not_for_ever() {
        check(&[Ok("done")], (Ok("done"), 1)).await;
        check(&[Err("refused"), Ok("done")], (Err("refused"), 1)).await;
        check(&[Err("no leader"), Ok("done")], (Ok("done"), 2)).await;
        check(&[Err("no leader"), Err("refused")], (Err("refused"), 2)).await;
        check(&[Err("no leader")], (Err("no leader"), 2)).await;
    }
}
