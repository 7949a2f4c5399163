//! Idle timeouts: they end a connection on which no bytes move, but not a slow one.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};

/// The time at which an HTTP client's connection to a gateway last transferred bytes, for its idle timeout.
#[derive(Clone, Debug)]
pub(super) struct TransferProgress(Arc<Mutex<Instant>>);

impl TransferProgress {
    pub(super) fn start() -> TransferProgress {
        TransferProgress(Arc::new(Mutex::new(Instant::now())))
    }

    pub(super) fn record(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if no bytes were transferred for `idle_timeout` before the call ended.
    pub(super) async fn or_idle_timeout<T>(
        &self,
        idle_timeout: Duration,
        call: impl Future<Output = T>,
    ) -> Option<T> {
        let mut call = pin!(call);
        loop {
            let deadline = self.last() + idle_timeout;
            match tokio::time::timeout_at(deadline.into(), &mut call).await {
                Ok(result) => return Some(result),
                Err(_) if self.last() + idle_timeout <= Instant::now() => return None,
                Err(_) => {}
            }
        }
    }

    /// The same stream, which records each chunk that the connection takes from it.
    pub(super) fn recording<S>(self, chunks: S) -> impl Stream<Item = S::Item> + Send + 'static
    where
        S: Stream + Send + 'static,
    {
        chunks.inspect(move |_| self.record())
    }
}

/// Small enough that a slow connection transfers several chunks within the idle timeout.
const CHUNK: usize = 64 << 10;

pub(super) fn chunks(mut bytes: Bytes) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    stream::iter(std::iter::from_fn(move || {
        let chunk = bytes.split_to(CHUNK.min(bytes.len()));
        (!chunk.is_empty()).then_some(Ok(chunk))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn chunks_make_up_the_whole() {
        let whole = Bytes::from(vec![7; CHUNK * 2 + 1]);
        let sizes: Vec<_> = chunks(whole).map(|chunk| chunk.unwrap().len()).collect().await;
        assert_eq!(sizes, [CHUNK, CHUNK, 1]);
    }

    #[tokio::test]
    async fn a_call_ends_with_its_result_or_the_idle_timeout() {
        let idle_timeout = Duration::from_millis(50);
        let never = std::future::pending::<()>();
        assert_eq!(
            TransferProgress::start()
                .or_idle_timeout(idle_timeout, never)
                .await,
            None
        );
        assert_eq!(
            TransferProgress::start()
                .or_idle_timeout(idle_timeout, async { 7 })
                .await,
            Some(7)
        );
    }
}
