//! Pools of permits or bytes. Each caller may hold a share of a pool.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::quota_key::QuotaKey;

/// A resource of the gateway of which a quota pool limits the use, such as requests or bytes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitedResource {
    Requests,
    Uploads,
    TextSearches,
    Waiting,
    Bytes,
    Unpacking,
    Loading,
    Connections,
    SignIns,
}

impl LimitedResource {
    #[cfg(test)]
    pub(crate) const ALL: [LimitedResource; 9] = [
        LimitedResource::Requests,
        LimitedResource::Uploads,
        LimitedResource::TextSearches,
        LimitedResource::Waiting,
        LimitedResource::Bytes,
        LimitedResource::Unpacking,
        LimitedResource::Loading,
        LimitedResource::Connections,
        LimitedResource::SignIns,
    ];
}

/// The error for a request that the gateway refuses because the quota pool of a resource is used up.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{}; {}", describe(self), advice(self.resource))]
pub(crate) struct QuotaExceeded {
    pub(crate) resource: LimitedResource,
    pub(crate) limit_kind: QuotaLimit,
    pub(crate) limit: u64,
}

/// Which limit of a gateway quota pool a request exceeded: the share of its caller, or the whole pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuotaLimit {
    /// The share of one caller.
    CallerShare,
    /// The whole pool.
    Total,
}

fn describe(exceeded: &QuotaExceeded) -> String {
    let what = match exceeded.resource {
        LimitedResource::Requests => "too many requests at once",
        LimitedResource::Uploads => "too many uploads at once",
        LimitedResource::TextSearches => "too many text searches at once",
        LimitedResource::Waiting => "too many waiting requests and event streams at once",
        LimitedResource::Bytes => "too many bytes of requests and responses in memory at once",
        LimitedResource::Unpacking => "too many zips to unpack at once",
        LimitedResource::Loading => "too many tasks to read at once",
        LimitedResource::Connections => "too many connections at once",
        LimitedResource::SignIns => "too many sign-ins with tokens that are not valid",
    };
    let limit = exceeded.limit;
    match exceeded.limit_kind {
        QuotaLimit::CallerShare => format!("{what} (limit {limit} for one caller)"),
        QuotaLimit::Total => format!("{what} (limit {limit})"),
    }
}

fn advice(resource: LimitedResource) -> &'static str {
    match resource {
        LimitedResource::Waiting => "try again later, or do not use wait",
        LimitedResource::SignIns => "try again in 10 seconds",
        LimitedResource::Bytes => "try again later, and read responses as they arrive",
        LimitedResource::Requests
        | LimitedResource::Uploads
        | LimitedResource::TextSearches
        | LimitedResource::Unpacking
        | LimitedResource::Loading
        | LimitedResource::Connections => "try again later",
    }
}

/// A limited amount of a gateway resource, such as requests or bytes, of which each caller may hold a share.
pub(crate) struct QuotaPool {
    resource: LimitedResource,
    total: u64,
    caller_share: u64,
    state: Mutex<PoolState>,
}

/// The state of a gateway quota pool: the amounts in use by caller, and the requests that wait for more.
#[derive(Default)]
struct PoolState {
    used: u64,
    /// `used` without the amounts that callers hold beyond their shares. It decides about requests within a share.
    used_within_shares: u64,
    by_key: HashMap<QuotaKey, u64>,
    /// Sorted by rank.
    waiters: Vec<PoolWaiter>,
    /// The highest rank that was served.
    granted_rank: u64,
}

/// A request that waits in the queue of a gateway quota pool for its amount.
struct PoolWaiter {
    /// The lowest rank is served first. Each waiter ranks one higher than the last waiter of the same caller, so that
    /// callers take turns and a caller with many waiters does not delay the others.
    rank: u64,
    key: QuotaKey,
    amount: u64,
    /// The error if the wait times out.
    exceeded: QuotaExceeded,
    granted: oneshot::Sender<QuotaPermit>,
}

/// A guard that serves other waiters of a gateway quota pool when a request ends its wait. The request may have blocked
/// smaller requests of its caller.
struct GrantOnDrop<'a>(&'a Arc<QuotaPool>);

/// An amount that a request has acquired from a gateway quota pool. Dropping it releases the amount.
pub(crate) struct QuotaPermit {
    pool: Arc<QuotaPool>,
    key: QuotaKey,
    amount: u64,
}

impl QuotaPool {
    pub(crate) fn new(resource: LimitedResource, total: u64, share_percent: u32) -> Arc<QuotaPool> {
        let caller_share = u128::from(total) * u128::from(share_percent) / 100;
        Arc::new(QuotaPool {
            resource,
            total,
            caller_share: u64::try_from(caller_share)
                .unwrap_or(u64::MAX)
                .clamp(1, total.max(1)),
            state: Mutex::default(),
        })
    }

    pub(crate) fn acquire(
        self: &Arc<QuotaPool>,
        key: &QuotaKey,
        amount: u64,
    ) -> Result<QuotaPermit, QuotaExceeded> {
        self.lock().acquire(self, key, 0, amount)?;
        Ok(self.permit(key.clone(), amount))
    }

    /// Like `acquire`, but fails if requests of the same caller are waiting.
    pub(crate) fn acquire_in_turn(
        self: &Arc<QuotaPool>,
        key: &QuotaKey,
        amount: u64,
    ) -> Result<QuotaPermit, QuotaExceeded> {
        self.lock().acquire_in_turn(self, key, amount)?;
        Ok(self.permit(key.clone(), amount))
    }

    /// Waits until the amount is available. Callers take turns; the requests of one caller are served in order.
    pub(crate) async fn acquire_within(
        self: &Arc<QuotaPool>,
        wait_timeout: Duration,
        key: &QuotaKey,
        amount: u64,
    ) -> Result<QuotaPermit, QuotaExceeded> {
        // Declared before the receiver and so dropped after it: `grant` then sees that this waiter is gone.
        let _grant = GrantOnDrop(self);
        let (granted, exceeded) = {
            let mut state = self.lock();
            match state.acquire_in_turn(self, key, amount) {
                Ok(()) => {
                    drop(state);
                    return Ok(self.permit(key.clone(), amount));
                }
                Err(exceeded) => (state.wait(key, amount, exceeded), exceeded),
            }
        };
        match timeout(wait_timeout, granted).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(exceeded),
        }
    }

    fn permit(self: &Arc<QuotaPool>, key: QuotaKey, amount: u64) -> QuotaPermit {
        QuotaPermit {
            pool: self.clone(),
            key,
            amount,
        }
    }

    fn release(self: &Arc<QuotaPool>, key: &QuotaKey, amount: u64) {
        let granted = {
            let mut state = self.lock();
            state.release(self, key, amount);
            state.grant(self)
        };
        self.deliver(granted);
    }

    fn deliver(self: &Arc<QuotaPool>, granted: Vec<PoolWaiter>) {
        for waiter in granted {
            let permit = self.permit(waiter.key, waiter.amount);
            // If the receiver is gone, this drops the permit, which needs the lock; so it is not held here.
            drop(waiter.granted.send(permit));
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    /// `own` is the amount that the request already holds. A request may exceed a limit if nothing else is in use:
    /// otherwise a large request would be refused for ever. The amount beyond its share is not counted against other
    /// callers, which keep their shares; so the amount in use is at most the total plus that amount.
    fn acquire(
        &mut self,
        pool: &QuotaPool,
        key: &QuotaKey,
        own: u64,
        more: u64,
    ) -> Result<(), QuotaExceeded> {
        let exceeded = |limit_kind, limit| QuotaExceeded {
            resource: pool.resource,
            limit_kind,
            limit,
        };
        let by_key = self.by_key.get(key).copied().unwrap_or(0);
        if by_key.saturating_add(more) > pool.caller_share && by_key > own {
            return Err(exceeded(QuotaLimit::CallerShare, pool.caller_share));
        }
        let after = by_key.saturating_add(more);
        let used = if after > pool.caller_share {
            self.used
        } else {
            self.used_within_shares
        };
        if used.saturating_add(more) > pool.total && self.used > own {
            return Err(exceeded(QuotaLimit::Total, pool.total));
        }
        self.set(pool, key, after);
        Ok(())
    }

    fn set(&mut self, pool: &QuotaPool, key: &QuotaKey, amount: u64) {
        let before = self.by_key.get(key).copied().unwrap_or(0);
        self.used = self.used - before + amount;
        self.used_within_shares =
            self.used_within_shares - before.min(pool.caller_share) + amount.min(pool.caller_share);
        match self.by_key.get_mut(key) {
            _ if amount == 0 => drop(self.by_key.remove(key)),
            Some(by_key) => *by_key = amount,
            None => drop(self.by_key.insert(key.clone(), amount)),
        }
    }

    fn acquire_in_turn(
        &mut self,
        pool: &QuotaPool,
        key: &QuotaKey,
        amount: u64,
    ) -> Result<(), QuotaExceeded> {
        let mut waiters = self.waiters.iter();
        match waiters.find(|waiter| waiter.key == *key && !waiter.granted.is_closed()) {
            Some(waiter) => Err(waiter.exceeded),
            None => self.acquire(pool, key, 0, amount),
        }
    }

    fn release(&mut self, pool: &QuotaPool, key: &QuotaKey, amount: u64) {
        let by_key = self.by_key.get(key).copied().unwrap_or(0);
        self.set(pool, key, by_key - amount);
    }

    fn wait(
        &mut self,
        key: &QuotaKey,
        amount: u64,
        exceeded: QuotaExceeded,
    ) -> oneshot::Receiver<QuotaPermit> {
        self.waiters.retain(|waiter| !waiter.granted.is_closed());
        let own = self.waiters.iter().filter(|waiter| waiter.key == *key);
        // Higher than every rank that was served: a caller that was just served does not precede the others again.
        let before = own.map(|waiter| waiter.rank).fold(self.granted_rank, u64::max);
        let rank = before + 1;
        let (granted, receiver) = oneshot::channel();
        let after = self.waiters.partition_point(|waiter| waiter.rank <= rank);
        self.waiters.insert(
            after,
            PoolWaiter {
                rank,
                key: key.clone(),
                amount,
                exceeded,
                granted,
            },
        );
        receiver
    }

    /// Acquires the amounts of all waiters that fit now. A small request does not overtake a large one of its caller,
    /// because the large one might never fit then.
    fn grant(&mut self, pool: &QuotaPool) -> Vec<PoolWaiter> {
        let mut granted = Vec::new();
        let mut blocked = HashSet::<QuotaKey>::new();
        for waiter in std::mem::take(&mut self.waiters) {
            if waiter.granted.is_closed() {
                continue;
            }
            let has_room =
                !blocked.contains(&waiter.key) && self.acquire(pool, &waiter.key, 0, waiter.amount).is_ok();
            if has_room {
                self.granted_rank = self.granted_rank.max(waiter.rank);
                granted.push(waiter);
            } else {
                blocked.insert(waiter.key.clone());
                self.waiters.push(waiter);
            }
        }
        granted
    }
}

impl Drop for GrantOnDrop<'_> {
    fn drop(&mut self) {
        let granted = self.0.lock().grant(self.0);
        self.0.deliver(granted);
    }
}

impl QuotaPermit {
    pub(crate) fn amount(&self) -> u64 {
        self.amount
    }

    pub(crate) fn grow(&mut self, more: u64) -> Result<(), QuotaExceeded> {
        let mut state = self.pool.lock();
        state.acquire(&self.pool, &self.key, self.amount, more)?;
        drop(state);
        self.amount += more;
        Ok(())
    }

    pub(crate) fn shrink_to(&mut self, amount: u64) {
        if let Some(surplus) = self.amount.checked_sub(amount) {
            self.amount = amount;
            self.pool.release(&self.key, surplus);
        }
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.pool.release(&self.key, self.amount);
    }
}

#[cfg(test)]
mod tests;
