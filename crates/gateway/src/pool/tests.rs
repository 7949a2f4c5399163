use std::net::{IpAddr, Ipv4Addr};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::*;

fn account(number: u8) -> Account {
    Account::from(IpAddr::from(Ipv4Addr::new(10, 0, 0, number)))
}

fn wait(pool: &Arc<Pool>, number: u8, amount: u64) -> BoxFuture<'static, Taken> {
    let pool = pool.clone();
    Box::pin(async move {
        let patience = Duration::from_secs(60);
        let taken = pool.take_within(patience, &account(number), amount).await;
        taken.unwrap()
    })
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
    alone.shrink_to(30);
    let other = pool.take(&account(1), 20).unwrap();
    assert!(alone.grow(1).is_err());
    drop(other);
    assert!(alone.grow(60).is_ok());
    assert_eq!(alone.amount(), 90);
}

#[test]
fn what_is_beyond_a_share_is_not_held_against_others() {
    let pool = Pool::new(Resource::Bytes, 100, 50);
    let mut alone = pool.take(&account(1), 120).unwrap();
    let other = pool.take(&account(2), 50).unwrap();
    // All shares are taken now, and nobody else goes beyond his own.
    assert_eq!(bound(pool.take(&account(3), 1)), Some((Bound::Total, 100)));
    assert!(alone.grow(1).is_err());
    drop(other);
    assert_eq!(bound(pool.take(&account(2), 51)), Some((Bound::Total, 100)));
    assert!(alone.grow(1).is_ok());
    drop(alone);
    let state = pool.lock();
    assert_eq!((state.used, state.used_in_shares), (0, 0));
}

#[tokio::test]
async fn waiting_accounts_take_turns() {
    let pool = Pool::new(Resource::Unpacking, 1, 100);
    let held = pool.take(&account(1), 1).unwrap();
    let wait = |number: u8| wait(&pool, number, 1);
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
async fn requests_of_one_account_are_served_in_the_order_in_which_they_come() {
    let pool = Pool::new(Resource::Unpacking, 1, 100);
    let held = pool.take(&account(1), 1).unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| wait(&pool, 1, 1)).collect();
    for waiting in &mut waiting {
        assert!(waiting.now_or_never().is_none());
    }
    drop(held);
    let first = (&mut waiting[0]).now_or_never().expect("the first");
    drop(first);
    let second = (&mut waiting[1]).now_or_never().expect("the second");
    let mut last = wait(&pool, 1, 1);
    assert!((&mut last).now_or_never().is_none());
    drop(second);
    assert!((&mut last).now_or_never().is_none());
    let third = (&mut waiting[2]).now_or_never().expect("the third");
    drop(third);
    assert!(last.now_or_never().is_some());
}

#[tokio::test]
async fn an_account_that_comes_back_at_once_does_not_hold_up_others() {
    let pool = Pool::new(Resource::Unpacking, 1, 100);
    let mut held = pool.take(&account(1), 1).unwrap();
    let mut other = wait(&pool, 2, 1);
    let mut turns = 0;
    loop {
        let mut again = wait(&pool, 1, 1);
        assert!((&mut again).now_or_never().is_none());
        if turns == 0 {
            assert!((&mut other).now_or_never().is_none());
        }
        drop(held);
        if (&mut other).now_or_never().is_some() {
            break;
        }
        held = again.now_or_never().expect("one of them is served");
        turns += 1;
        assert!(turns < 3);
    }
}

#[tokio::test]
async fn small_requests_do_not_overtake_a_large_one_of_their_account() {
    let pool = Pool::new(Resource::Bytes, 10, 100);
    let (six, four) = (
        pool.take(&account(1), 6).unwrap(),
        pool.take(&account(1), 4).unwrap(),
    );
    let mut large = wait(&pool, 1, 10);
    assert!((&mut large).now_or_never().is_none());
    drop(four);
    let mut small = wait(&pool, 1, 1);
    assert!((&mut small).now_or_never().is_none());
    assert_eq!(bound(pool.take_in_turn(&account(1), 1)), Some((Bound::Share, 10)));
    // Another account does not wait for them.
    assert!(wait(&pool, 2, 1).now_or_never().is_some());
    drop(six);
    assert!((&mut small).now_or_never().is_none());
    let all = large.now_or_never().expect("the large one is first");
    drop(all);
    assert!(small.now_or_never().is_some());
    assert_eq!(pool.lock().used, 0);
}

#[tokio::test]
async fn when_a_large_request_gives_up_the_small_ones_behind_it_are_served() {
    let pool = Pool::new(Resource::Bytes, 10, 100);
    let held = pool.take(&account(1), 6).unwrap();
    let (mut large, mut small) = (wait(&pool, 1, 10), wait(&pool, 1, 1));
    assert!((&mut large).now_or_never().is_none());
    assert!((&mut small).now_or_never().is_none());
    drop(large);
    assert!(small.now_or_never().is_some());
    drop(held);
    assert_eq!(pool.lock().used, 0);
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
