//! What one request holds of the gateway: its place, and the bytes that it keeps in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::Extensions;

use crate::account::Account;
use crate::pool::{Exhausted, Pool, Taken};
use crate::refusal::Refusal;

/// How long a request waits for room in memory, or for a thread that unpacks.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Less than this is not counted: as many bytes for each place do not fill the memory.
pub(crate) const UNCOUNTED: u64 = 64 << 10;

/// A body up to this size needs no place while it comes: as many bytes for each connection do not fill the memory.
pub(crate) const SMALL_BODY: u64 = 16 << 10;

/// Given back when the last clone is dropped. Work on another thread holds a clone, since it goes on when the client
/// has closed its connection.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Held>);

struct Held {
    account: Account,
    place: Mutex<Place>,
    /// Of the body and of what is unpacked from it, then of the answer.
    bytes: Mutex<Option<Taken>>,
    pool: Arc<Pool>,
}

enum Place {
    /// The body is still coming. The request has its place in `work` once the body is there: a client that sends slowly
    /// takes no place from requests that can be answered. A small body has no place meanwhile.
    Receiving {
        _upload: Option<Taken>,
        work: Arc<Pool>,
    },
    Working {
        _place: Taken,
    },
}

impl Admission {
    pub(crate) fn new(account: Account, place: Taken, bytes: Arc<Pool>) -> Admission {
        Admission::with(account, Place::Working { _place: place }, bytes)
    }

    /// For a request whose body is read as a whole before anything is done with it.
    pub(crate) fn receiving(
        account: Account,
        upload: Option<Taken>,
        work: Arc<Pool>,
        bytes: Arc<Pool>,
    ) -> Admission {
        let place = Place::Receiving {
            _upload: upload,
            work,
        };
        Admission::with(account, place, bytes)
    }

    fn with(account: Account, place: Place, bytes: Arc<Pool>) -> Admission {
        Admission(Arc::new(Held {
            account,
            place: Mutex::new(place),
            bytes: Mutex::new(None),
            pool: bytes,
        }))
    }

    /// Every route that reads a body is behind `admit`.
    pub(crate) fn of(extensions: &Extensions) -> Result<Admission, Refusal> {
        extensions.get().cloned().ok_or(Refusal::Panicked)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.0.account
    }

    /// The body is there: the request leaves its place among the uploads and takes one among those that work.
    pub(crate) fn start_work(&self) -> Result<(), Exhausted> {
        let mut place = lock(&self.0.place);
        if let Place::Receiving { work, .. } = &*place {
            let taken = work.take(&self.0.account, 1)?;
            *place = Place::Working { _place: taken };
        }
        Ok(())
    }

    /// The request goes on in this place and leaves the one that it had. Its body is done with.
    pub(crate) fn move_to(&self, place: Taken) {
        let old = std::mem::replace(&mut *lock(&self.0.place), Place::Working { _place: place });
        let bytes = lock(&self.0.bytes).take();
        drop((old, bytes));
    }

    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.0.bytes).as_ref().map_or(0, Taken::amount)
    }

    /// More bytes come into memory, at once or not at all.
    pub(crate) fn charge(&self, more: u64) -> Result<(), Exhausted> {
        let mut bytes = lock(&self.0.bytes);
        match &mut *bytes {
            Some(bytes) => bytes.grow(more),
            None => {
                *bytes = Some(self.0.pool.take(&self.0.account, more)?);
                Ok(())
            }
        }
    }

    /// As many bytes are no longer in memory.
    pub(crate) fn discharge(&self, less: u64) {
        if let Some(bytes) = &mut *lock(&self.0.bytes) {
            bytes.shrink_to(bytes.amount().saturating_sub(less));
        }
    }

    /// What is in memory now is this much and nothing else.
    pub(crate) fn recharge(&self, size: u64) -> Result<(), Exhausted> {
        match size.checked_sub(self.bytes()) {
            Some(0) => Ok(()),
            // Nothing is charged yet, so this answer waits behind answers of the same account that wait for room.
            Some(more) if more == size => {
                let taken = self.0.pool.take_in_turn(&self.0.account, size)?;
                *lock(&self.0.bytes) = Some(taken);
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

    /// The same for what will be in memory once there is room for it; until then nothing is.
    pub(crate) async fn recharge_within(&self, patience: Duration, size: u64) -> Result<(), Exhausted> {
        // Nobody waits for others and has what others wait for.
        drop(lock(&self.0.bytes).take());
        let pool = &self.0.pool;
        let taken = pool.take_within(patience, &self.0.account, size).await?;
        *lock(&self.0.bytes) = Some(taken);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
