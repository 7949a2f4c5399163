//! A number of places or bytes, of which each account may take a share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::account::Account;

/// What a pool is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Requests,
    Uploads,
    TextSearches,
    Waiting,
    Bytes,
    Unpacking,
    Loading,
    Connections,
}

impl Resource {
    #[cfg(test)]
    pub(crate) const ALL: [Resource; 8] = [
        Resource::Requests,
        Resource::Uploads,
        Resource::TextSearches,
        Resource::Waiting,
        Resource::Bytes,
        Resource::Unpacking,
        Resource::Loading,
        Resource::Connections,
    ];
}

/// What was asked for is not there.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{}; {}", said(self), advice(self.resource))]
pub(crate) struct Exhausted {
    pub(crate) resource: Resource,
    pub(crate) bound: Bound,
    pub(crate) limit: u64,
}

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The account's own.
    Share,
    Total,
}

fn said(exhausted: &Exhausted) -> String {
    let what = match exhausted.resource {
        Resource::Requests => "too many requests at once",
        Resource::Uploads => "too many uploads at once",
        Resource::TextSearches => "too many searches for a text at once",
        Resource::Waiting => "too many requests that wait and event streams at once",
        Resource::Bytes => "too many bytes of requests and answers at once",
        Resource::Unpacking => "too many zips to unpack at once",
        Resource::Loading => "too many tasks to read at once",
        Resource::Connections => "too many connections at once",
    };
    let limit = exhausted.limit;
    match exhausted.bound {
        Bound::Share => format!("{what} (limit {limit} for one caller)"),
        Bound::Total => format!("{what} (limit {limit})"),
    }
}

fn advice(resource: Resource) -> &'static str {
    match resource {
        Resource::Waiting => "try again later, or ask without waiting",
        Resource::Bytes => "try again later, and read answers as they come",
        Resource::Requests
        | Resource::Uploads
        | Resource::TextSearches
        | Resource::Unpacking
        | Resource::Loading
        | Resource::Connections => "try again later",
    }
}

pub(crate) struct Pool {
    resource: Resource,
    total: u64,
    share: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: u64,
    /// The same without what accounts have beyond their shares: what others are refused for.
    used_in_shares: u64,
    by_account: HashMap<Account, u64>,
    /// In the order of their ranks.
    waiters: Vec<Waiter>,
    /// The highest rank that was granted so far.
    granted_rank: u64,
}

struct Waiter {
    /// The lowest rank comes first. Each waiter ranks one higher than the last one of its own account, so that the
    /// accounts take turns and one with many waiters does not hold up the others.
    rank: u64,
    account: Account,
    amount: u64,
    /// Why it waits.
    exhausted: Exhausted,
    granted: oneshot::Sender<Taken>,
}

/// When a request stops waiting without being served, there may be room for the next one of its account.
struct GrantOnDrop<'a>(&'a Arc<Pool>);

/// Given back when dropped.
pub(crate) struct Taken {
    pool: Arc<Pool>,
    account: Account,
    amount: u64,
}

impl Pool {
    pub(crate) fn new(resource: Resource, total: u64, share_percent: u32) -> Arc<Pool> {
        let share = u128::from(total) * u128::from(share_percent) / 100;
        Arc::new(Pool {
            resource,
            total,
            share: u64::try_from(share).unwrap_or(u64::MAX).clamp(1, total.max(1)),
            state: Mutex::default(),
        })
    }

    pub(crate) fn take(self: &Arc<Pool>, account: &Account, amount: u64) -> Result<Taken, Exhausted> {
        self.lock().take(self, account, 0, amount)?;
        Ok(self.taken(account.clone(), amount))
    }

    /// The same, but not before requests of the same account that wait.
    pub(crate) fn take_in_turn(self: &Arc<Pool>, account: &Account, amount: u64) -> Result<Taken, Exhausted> {
        self.lock().take_in_turn(self, account, amount)?;
        Ok(self.taken(account.clone(), amount))
    }

    /// Waits in turn with the other accounts, but not for ever. Within an account, requests are served in the order
    /// in which they come.
    pub(crate) async fn take_within(
        self: &Arc<Pool>,
        patience: Duration,
        account: &Account,
        amount: u64,
    ) -> Result<Taken, Exhausted> {
        // Dropped after the receiver, so that the waiter is seen to be gone.
        let _grant = GrantOnDrop(self);
        let (granted, exhausted) = {
            let mut state = self.lock();
            match state.take_in_turn(self, account, amount) {
                Ok(()) => {
                    drop(state);
                    return Ok(self.taken(account.clone(), amount));
                }
                Err(exhausted) => (state.wait(account, amount, exhausted), exhausted),
            }
        };
        match timeout(patience, granted).await {
            Ok(Ok(taken)) => Ok(taken),
            _ => Err(exhausted),
        }
    }

    fn taken(self: &Arc<Pool>, account: Account, amount: u64) -> Taken {
        Taken {
            pool: self.clone(),
            account,
            amount,
        }
    }

    fn give_back(self: &Arc<Pool>, account: &Account, amount: u64) {
        let granted = {
            let mut state = self.lock();
            state.give_back(self, account, amount);
            state.grant(self)
        };
        self.hand_over(granted);
    }

    fn hand_over(self: &Arc<Pool>, granted: Vec<Waiter>) {
        for waiter in granted {
            let taken = self.taken(waiter.account, waiter.amount);
            // One that has stopped waiting gives it back at once: outside the lock, which that needs.
            drop(waiter.granted.send(taken));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// `own` is what the request has already. A request may go beyond a bound if nothing else is taken: a single
    /// request that is allowed by its own limits is never refused for ever. What it has beyond its share is not held
    /// against other accounts, which still have theirs; so all together have at most the total and that.
    fn take(&mut self, pool: &Pool, account: &Account, own: u64, more: u64) -> Result<(), Exhausted> {
        let exhausted = |bound, limit| Exhausted {
            resource: pool.resource,
            bound,
            limit,
        };
        let by_account = self.by_account.get(account).copied().unwrap_or(0);
        if by_account.saturating_add(more) > pool.share && by_account > own {
            return Err(exhausted(Bound::Share, pool.share));
        }
        let after = by_account.saturating_add(more);
        let used = if after > pool.share {
            self.used
        } else {
            self.used_in_shares
        };
        if used.saturating_add(more) > pool.total && self.used > own {
            return Err(exhausted(Bound::Total, pool.total));
        }
        self.set(pool, account, after);
        Ok(())
    }

    fn set(&mut self, pool: &Pool, account: &Account, amount: u64) {
        let before = self.by_account.get(account).copied().unwrap_or(0);
        self.used = self.used - before + amount;
        self.used_in_shares = self.used_in_shares - before.min(pool.share) + amount.min(pool.share);
        match self.by_account.get_mut(account) {
            _ if amount == 0 => drop(self.by_account.remove(account)),
            Some(by_account) => *by_account = amount,
            None => drop(self.by_account.insert(account.clone(), amount)),
        }
    }

    fn take_in_turn(&mut self, pool: &Pool, account: &Account, amount: u64) -> Result<(), Exhausted> {
        let mut waiters = self.waiters.iter();
        match waiters.find(|waiter| waiter.account == *account && !waiter.granted.is_closed()) {
            Some(waiter) => Err(waiter.exhausted),
            None => self.take(pool, account, 0, amount),
        }
    }

    fn give_back(&mut self, pool: &Pool, account: &Account, amount: u64) {
        let by_account = self.by_account.get(account).copied().unwrap_or(0);
        self.set(pool, account, by_account - amount);
    }

    fn wait(&mut self, account: &Account, amount: u64, exhausted: Exhausted) -> oneshot::Receiver<Taken> {
        self.waiters.retain(|waiter| !waiter.granted.is_closed());
        let own = self.waiters.iter().filter(|waiter| waiter.account == *account);
        // Above every rank that was granted: an account that was just served does not come before the others again.
        let before = own.map(|waiter| waiter.rank).fold(self.granted_rank, u64::max);
        let rank = before + 1;
        let (granted, receiver) = oneshot::channel();
        let after = self.waiters.partition_point(|waiter| waiter.rank <= rank);
        self.waiters.insert(
            after,
            Waiter {
                rank,
                account: account.clone(),
                amount,
                exhausted,
                granted,
            },
        );
        receiver
    }

    /// Takes for all waiters for whom there is room now. A small request does not overtake a large one of its account:
    /// the large one might never find enough room at once.
    fn grant(&mut self, pool: &Pool) -> Vec<Waiter> {
        let mut granted = Vec::new();
        let mut blocked = HashSet::<Account>::new();
        for waiter in std::mem::take(&mut self.waiters) {
            if waiter.granted.is_closed() {
                continue;
            }
            let has_room = !blocked.contains(&waiter.account)
                && self.take(pool, &waiter.account, 0, waiter.amount).is_ok();
            if has_room {
                self.granted_rank = self.granted_rank.max(waiter.rank);
                granted.push(waiter);
            } else {
                blocked.insert(waiter.account.clone());
                self.waiters.push(waiter);
            }
        }
        granted
    }
}

impl Drop for GrantOnDrop<'_> {
    fn drop(&mut self) {
        let granted = self.0.lock().grant(self.0);
        self.0.hand_over(granted);
    }
}

impl Taken {
    pub(crate) fn amount(&self) -> u64 {
        self.amount
    }

    pub(crate) fn grow(&mut self, more: u64) -> Result<(), Exhausted> {
        let mut state = self.pool.lock();
        state.take(&self.pool, &self.account, self.amount, more)?;
        drop(state);
        self.amount += more;
        Ok(())
    }

    pub(crate) fn shrink_to(&mut self, amount: u64) {
        if let Some(surplus) = self.amount.checked_sub(amount) {
            self.amount = amount;
            self.pool.give_back(&self.account, surplus);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.pool.give_back(&self.account, self.amount);
    }
}

#[cfg(test)]
mod tests;
