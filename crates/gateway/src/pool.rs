//! A number of places or bytes, of which each account may take a share.

use std::collections::HashMap;
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
    Waiting,
    Bytes,
    Unpacking,
    Connections,
}

impl Resource {
    #[cfg(test)]
    pub(crate) const ALL: [Resource; 5] = [
        Resource::Requests,
        Resource::Waiting,
        Resource::Bytes,
        Resource::Unpacking,
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
        Resource::Waiting => "too many requests that wait and event streams at once",
        Resource::Bytes => "too many bytes of requests and answers at once",
        Resource::Unpacking => "too many zips to unpack at once",
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
        Resource::Requests | Resource::Unpacking | Resource::Connections => "try again later",
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
    by_account: HashMap<Account, u64>,
    waiters: Vec<Waiter>,
}

struct Waiter {
    /// How many of its account waited before it. The lowest rank comes first, so that the accounts take turns and
    /// one with many waiters does not hold up the others.
    rank: usize,
    account: Account,
    amount: u64,
    granted: oneshot::Sender<Taken>,
}

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

    /// Waits in turn with the other accounts, but not for ever.
    pub(crate) async fn take_within(
        self: &Arc<Pool>,
        patience: Duration,
        account: &Account,
        amount: u64,
    ) -> Result<Taken, Exhausted> {
        let (granted, exhausted) = {
            let mut state = self.lock();
            match state.take(self, account, 0, amount) {
                Ok(()) => {
                    drop(state);
                    return Ok(self.taken(account.clone(), amount));
                }
                Err(exhausted) => (state.wait(account, amount), exhausted),
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
            state.give_back(account, amount);
            state.grant(self)
        };
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
    /// `own` is what the one who asks has already. Whoever has nothing beside that may go beyond a bound: a single
    /// request that is allowed by its own limits is never refused for ever.
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
        if self.used.saturating_add(more) > pool.total && self.used > own {
            return Err(exhausted(Bound::Total, pool.total));
        }
        self.used += more;
        match self.by_account.get_mut(account) {
            Some(amount) => *amount += more,
            None => drop(self.by_account.insert(account.clone(), more)),
        }
        Ok(())
    }

    fn give_back(&mut self, account: &Account, amount: u64) {
        self.used -= amount;
        if let Some(by_account) = self.by_account.get_mut(account) {
            *by_account -= amount;
            if *by_account == 0 {
                self.by_account.remove(account);
            }
        }
    }

    fn wait(&mut self, account: &Account, amount: u64) -> oneshot::Receiver<Taken> {
        self.waiters.retain(|waiter| !waiter.granted.is_closed());
        let rank = self.waiters.iter().filter(|waiter| waiter.account == *account);
        let rank = rank.count();
        let (granted, receiver) = oneshot::channel();
        let after = self.waiters.partition_point(|waiter| waiter.rank <= rank);
        self.waiters.insert(
            after,
            Waiter {
                rank,
                account: account.clone(),
                amount,
                granted,
            },
        );
        receiver
    }

    /// Takes for all waiters for whom there is room now.
    fn grant(&mut self, pool: &Pool) -> Vec<Waiter> {
        let waiters = std::mem::take(&mut self.waiters);
        let (granted, waiters) = waiters
            .into_iter()
            .filter(|waiter| !waiter.granted.is_closed())
            .partition(|waiter| self.take(pool, &waiter.account, 0, waiter.amount).is_ok());
        self.waiters = waiters;
        granted
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
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures::FutureExt;

    use super::*;

    fn account(number: u8) -> Account {
        Account::from(IpAddr::from(Ipv4Addr::new(10, 0, 0, number)))
    }

    fn bound(result: Result<Taken, Exhausted>) -> Option<(Bound, u64)> {
        result.err().map(|exhausted| (exhausted.bound, exhausted.limit))
    }

    #[test]
    fn an_account_takes_its_share_and_leaves_the_rest_to_others() {
        let pool = Pool::new(Resource::Requests, 5, 50);
        let first = [pool.take(&account(1), 1), pool.take(&account(1), 1)];
        assert_eq!(bound(pool.take(&account(1), 1)), Some((Bound::Share, 2)));
        let others = [
            pool.take(&account(2), 1),
            pool.take(&account(2), 1),
            pool.take(&account(3), 1),
        ];
        assert!(first.iter().chain(&others).all(Result::is_ok));
        assert_eq!(bound(pool.take(&account(4), 1)), Some((Bound::Total, 5)));
        // The own share is named first: there is no use in waiting for others.
        assert_eq!(bound(pool.take(&account(1), 1)), Some((Bound::Share, 2)));
        drop(first);
        assert!(pool.take(&account(1), 1).is_ok());
        drop(others);
        assert_eq!(pool.lock().used, 0);
        assert!(pool.lock().by_account.is_empty());
    }

    #[test]
    fn shares_are_a_percentage_and_at_least_one() {
        let check = |total: u64, percent: u32, share: u64| {
            assert_eq!(Pool::new(Resource::Bytes, total, percent).share, share);
        };
        check(512, 50, 256);
        check(1, 50, 1);
        check(3, 50, 1);
        check(7, 100, 7);
        check(u64::MAX, 100, u64::MAX);
        check(100, 250, 100);
    }

    #[test]
    fn a_request_alone_may_go_beyond_the_bounds() {
        let pool = Pool::new(Resource::Bytes, 100, 50);
        let mut alone = pool.take(&account(1), 60).unwrap();
        assert!(alone.grow(60).is_ok());
        assert_eq!(bound(pool.take(&account(1), 1)), Some((Bound::Share, 50)));
        assert_eq!(bound(pool.take(&account(2), 1)), Some((Bound::Total, 100)));
        alone.shrink_to(30);
        let other = pool.take(&account(1), 20).unwrap();
        assert!(alone.grow(1).is_err());
        drop(other);
        assert!(alone.grow(60).is_ok());
        assert_eq!(alone.amount(), 90);
    }

    #[tokio::test]
    async fn waiting_accounts_take_turns() {
        let pool = Pool::new(Resource::Unpacking, 1, 100);
        let held = pool.take(&account(1), 1).unwrap();
        let wait = |number: u8| {
            let pool = pool.clone();
            Box::pin(async move {
                let patience = Duration::from_secs(60);
                pool.take_within(patience, &account(number), 1).await.unwrap()
            })
        };
        let mut crowd: Vec<_> = (0..3).map(|_| wait(1)).collect();
        for waiting in &mut crowd {
            assert!(waiting.now_or_never().is_none());
        }
        let mut other = wait(2);
        assert!((&mut other).now_or_never().is_none());
        drop(held);
        let first = (&mut crowd[0]).now_or_never().expect("the first of the crowd");
        assert!((&mut other).now_or_never().is_none());
        drop(first);
        let theirs = other.now_or_never().expect("the other account's turn");
        assert!((&mut crowd[1]).now_or_never().is_none());
        // A waiter that is gone does not keep its turn.
        drop(crowd.remove(1));
        drop(theirs);
        assert!((&mut crowd[1]).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_wait_ends() {
        let pool = Pool::new(Resource::Unpacking, 1, 100);
        let held = pool.take(&account(1), 1).unwrap();
        let patience = Duration::from_millis(10);
        let late = pool.take_within(patience, &account(2), 1).await;
        assert_eq!(bound(late), Some((Bound::Total, 1)));
        drop(held);
        assert_eq!(pool.lock().used, 0);
    }
}
