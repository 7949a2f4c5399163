//! Patience with an etcd that elects a leader.
//!
//! Meanwhile it does nothing for anybody, which takes a second or two; and a node that has just died, for which an
//! operator takes it out of the cluster, may have been the leader.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

/// Longer than an election takes, also if the first vote is split.
const LONGEST: Duration = Duration::from_secs(6);
const PAUSE: Duration = Duration::from_millis(300);

/// Tries again for a while what failed for no lasting reason. Only for what may be done twice.
pub(crate) async fn outlast<T, E: Display>(
    lasts: impl Fn(&E) -> bool,
    attempt: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    outlast_for(LONGEST, lasts, attempt).await
}

/// From the first failure on, however long it took to fail.
async fn outlast_for<T, E: Display>(
    longest: Duration,
    lasts: impl Fn(&E) -> bool,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut deadline = None;
    loop {
        match attempt().await {
            Err(error) if !lasts(&error) => {
                let now = Instant::now();
                if now >= *deadline.get_or_insert(now + longest) {
                    return Err(error);
                }
                tracing::debug!("trying again: {error}");
                tokio::time::sleep(PAUSE).await;
            }
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came of it, after how many attempts. Each takes longer than is waited.
    async fn check(answers: &[Result<&str, &str>], expected: (Result<&str, &str>, usize)) {
        let mut count = 0;
        let ended = outlast_for(
            PAUSE,
            |error: &String| error == "refused",
            async || {
                tokio::time::sleep(PAUSE).await;
                let answer = answers[count.min(answers.len() - 1)];
                count += 1;
                answer.map(str::to_string).map_err(str::to_string)
            },
        )
        .await;
        let ended = (ended.as_deref().map_err(String::as_str), count);
        assert_eq!(ended, expected, "{answers:?}");
    }

    #[tokio::test]
    async fn what_does_not_last_is_outlasted() {
        check(&[Ok("done")], (Ok("done"), 1)).await;
        check(&[Err("refused"), Ok("done")], (Err("refused"), 1)).await;
        check(&[Err("no leader"), Ok("done")], (Ok("done"), 2)).await;
        check(&[Err("no leader"), Err("refused")], (Err("refused"), 2)).await;
        check(&[Err("no leader")], (Err("no leader"), 2)).await;
    }
}
