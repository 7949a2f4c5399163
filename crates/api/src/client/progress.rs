//! Deadlines that a slow connection meets and a silent one does not.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};

/// When bytes last moved.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Mutex<Instant>>);

impl Progress {
    pub(super) fn start() -> Progress {
        Progress(Arc::new(Mutex::new(Instant::now())))
    }

    pub(super) fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None if nothing moved for `silence` before the call was answered.
    pub(super) async fn unless_silent<T>(
        &self,
        silence: Duration,
        call: impl Future<Output = T>,
    ) -> Option<T> {
        let mut call = pin!(call);
        loop {
            let deadline = self.last() + silence;
            match tokio::time::timeout_at(deadline.into(), &mut call).await {
                Ok(answer) => return Some(answer),
                Err(_) if self.last() + silence <= Instant::now() => return None,
                Err(_) => {}
            }
        }
    }

    /// The stream, noting each part that the connection takes from it.
    pub(super) fn noting<S>(self, parts: S) -> impl Stream<Item = S::Item> + Send + 'static
    where
        S: Stream + Send + 'static,
    {
        parts.inspect(move |_| self.note())
    }
}

/// Small enough that a slow connection takes several in the time that it may be silent.
const PART: usize = 64 << 10;

pub(super) fn parts(mut bytes: Bytes) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    stream::iter(std::iter::from_fn(move || {
        let part = bytes.split_to(PART.min(bytes.len()));
        (!part.is_empty()).then_some(Ok(part))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn parts_make_up_the_whole() {
        let whole = Bytes::from(vec![7; PART * 2 + 1]);
        let sizes: Vec<_> = parts(whole).map(|part| part.unwrap().len()).collect().await;
        assert_eq!(sizes, [PART, PART, 1]);
    }

    #[tokio::test]
    async fn a_call_ends_with_its_answer_or_with_silence() {
        let silence = Duration::from_millis(50);
        let never = std::future::pending::<()>();
        assert_eq!(Progress::start().unless_silent(silence, never).await, None);
        assert_eq!(
            Progress::start().unless_silent(silence, async { 7 }).await,
            Some(7)
        );
    }
}
