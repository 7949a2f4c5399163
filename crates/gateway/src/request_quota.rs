//! The share of the gateway's resources that one request holds: a permit, and bytes in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::Extensions;

use crate::quota_key::QuotaKey;
use crate::quota_pool::{QuotaExceeded, QuotaPermit, QuotaPool};
use crate::request_error::RequestError;

/// How long a request waits for memory, for a thread that unpacks a zip, or for a permit to load a task.
pub(crate) const QUOTA_WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Smaller amounts are not counted: even one for each permit does not fill the memory.
pub(crate) const UNCOUNTED_BYTES: u64 = 64 << 10;

/// A body up to this size needs no permit while it arrives: even one for each connection does not fill the memory.
pub(crate) const SMALL_BODY_BYTES: u64 = 16 << 10;

/// The share of the gateway's quota pools that an HTTP request holds: a permit, and bytes in memory. They are released
/// when the last clone is dropped. Work on another thread holds a clone, because it continues after the client has
/// closed the connection.
#[derive(Clone)]
pub(crate) struct RequestQuota(Arc<RequestQuotaState>);

/// The permit and the bytes of an HTTP request to the gateway, which the clones of its `RequestQuota` share.
struct RequestQuotaState {
    key: QuotaKey,
    permit: Mutex<RequestPermit>,
    /// The bytes of the body and of the files unpacked from it, later the bytes of the response.
    bytes: Mutex<Option<QuotaPermit>>,
    bytes_pool: Arc<QuotaPool>,
}

/// The quota permit of an HTTP request to the gateway, for the phase that it is in: receiving or working.
enum RequestPermit {
    /// The body is arriving. The request acquires its permit from `work` when the body is complete, so that slow
    /// clients take no permits from requests that can be processed. A small body needs no permit while it arrives.
    Receiving {
        _upload: Option<QuotaPermit>,
        work: Arc<QuotaPool>,
    },
    /// The request is being processed.
    Working { _permit: QuotaPermit },
}

impl RequestQuota {
    pub(crate) fn new(key: QuotaKey, permit: QuotaPermit, bytes: Arc<QuotaPool>) -> RequestQuota {
        RequestQuota::with(key, RequestPermit::Working { _permit: permit }, bytes)
    }

    /// For a request whose body is read completely before it is processed.
    pub(crate) fn receiving(
        key: QuotaKey,
        upload: Option<QuotaPermit>,
        work: Arc<QuotaPool>,
        bytes: Arc<QuotaPool>,
    ) -> RequestQuota {
        let permit = RequestPermit::Receiving {
            _upload: upload,
            work,
        };
        RequestQuota::with(key, permit, bytes)
    }

    fn with(key: QuotaKey, permit: RequestPermit, bytes: Arc<QuotaPool>) -> RequestQuota {
        RequestQuota(Arc::new(RequestQuotaState {
            key,
            permit: Mutex::new(permit),
            bytes: Mutex::new(None),
            bytes_pool: bytes,
        }))
    }

    /// The quota that `limit_requests` has put into the extensions of the request.
    pub(crate) fn from_extensions(extensions: &Extensions) -> Result<RequestQuota, RequestError> {
        extensions.get().cloned().ok_or(RequestError::Panicked)
    }

    pub(crate) fn key(&self) -> &QuotaKey {
        &self.0.key
    }

    /// Replaces the permit for the upload by a permit for processing. Called when the body is complete.
    pub(crate) fn start_work(&self) -> Result<(), QuotaExceeded> {
        let mut permit = lock(&self.0.permit);
        if let RequestPermit::Receiving { work, .. } = &*permit {
            let acquired = work.acquire(&self.0.key, 1)?;
            *permit = RequestPermit::Working { _permit: acquired };
        }
        Ok(())
    }

    /// Replaces the permit of the request, and releases the bytes of its body.
    pub(crate) fn switch_permit(&self, permit: QuotaPermit) {
        let old = std::mem::replace(
            &mut *lock(&self.0.permit),
            RequestPermit::Working { _permit: permit },
        );
        let bytes = lock(&self.0.bytes).take();
        drop((old, bytes));
    }

    pub(crate) fn charged_bytes(&self) -> u64 {
        lock(&self.0.bytes).as_ref().map_or(0, QuotaPermit::amount)
    }

    /// Charges more bytes, or fails without waiting.
    pub(crate) fn charge(&self, more: u64) -> Result<(), QuotaExceeded> {
        let mut bytes = lock(&self.0.bytes);
        match &mut *bytes {
            Some(bytes) => bytes.grow(more),
            None => {
                *bytes = Some(self.0.bytes_pool.acquire(&self.0.key, more)?);
                Ok(())
            }
        }
    }

    /// Releases bytes that are no longer in memory.
    pub(crate) fn refund(&self, less: u64) {
        if let Some(bytes) = &mut *lock(&self.0.bytes) {
            bytes.shrink_to(bytes.amount().saturating_sub(less));
        }
    }

    /// Sets the charged bytes to `size`, or fails without waiting.
    pub(crate) fn set_charge(&self, size: u64) -> Result<(), QuotaExceeded> {
        match size.checked_sub(self.charged_bytes()) {
            Some(0) => Ok(()),
            // Nothing is charged yet, so this response must not overtake waiting responses of the same caller.
            Some(more) if more == size => {
                let acquired = self.0.bytes_pool.acquire_in_turn(&self.0.key, size)?;
                *lock(&self.0.bytes) = Some(acquired);
                Ok(())
            }
            Some(more) => self.charge(more),
            None => {
                if let Some(bytes) = &mut *lock(&self.0.bytes) {
                    bytes.shrink_to(size);
                }
                Ok(())
            }
        }
    }

    /// Sets the charged bytes to `size`, and waits for them. Nothing is charged during the wait.
    pub(crate) async fn set_charge_within(&self, timeout: Duration, size: u64) -> Result<(), QuotaExceeded> {
        // A request that waits holds no bytes, so that requests cannot deadlock.
        drop(lock(&self.0.bytes).take());
        let pool = &self.0.bytes_pool;
        let acquired = pool.acquire_within(timeout, &self.0.key, size).await?;
        *lock(&self.0.bytes) = Some(acquired);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
