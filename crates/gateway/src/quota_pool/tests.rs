use std::net::{IpAddr, Ipv4Addr};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::*;

fn key(number: u8) -> QuotaKey {
    QuotaKey::from(IpAddr::from(Ipv4Addr::new(10, 0, 0, number)))
}

fn wait(pool: &Arc<QuotaPool>, number: u8, amount: u64) -> BoxFuture<'static, QuotaPermit> {
    let pool = pool.clone();
    Box::pin(async move {
        let wait_timeout = Duration::from_secs(60);
        let permit = pool.acquire_within(wait_timeout, &key(number), amount).await;
        permit.unwrap()
    })
}

fn reached_limit(result: Result<QuotaPermit, QuotaExceeded>) -> Option<(QuotaLimit, u64)> {
    result.err().map(|exceeded| (exceeded.limit_kind, exceeded.limit))
}

#[test]
fn a_caller_can_hold_its_share_and_the_rest_is_for_others() {
    let pool = QuotaPool::new(LimitedResource::Requests, 5, 50);
    let first = [pool.acquire(&key(1), 1), pool.acquire(&key(1), 1)];
    assert_eq!(
        reached_limit(pool.acquire(&key(1), 1)),
        Some((QuotaLimit::CallerShare, 2))
    );
    let others = [
        pool.acquire(&key(2), 1),
        pool.acquire(&key(2), 1),
        pool.acquire(&key(3), 1),
    ];
    assert!(first.iter().chain(&others).all(Result::is_ok));
    assert_eq!(
        reached_limit(pool.acquire(&key(4), 1)),
        Some((QuotaLimit::Total, 5))
    );
    // The caller's share is reported first, because waiting for other callers does not help.
    assert_eq!(
        reached_limit(pool.acquire(&key(1), 1)),
        Some((QuotaLimit::CallerShare, 2))
    );
    drop(first);
    assert!(pool.acquire(&key(1), 1).is_ok());
    drop(others);
    assert_eq!(pool.lock().used, 0);
    assert!(pool.lock().by_key.is_empty());
}

#[test]
fn shares_are_a_percentage_and_at_least_one() {
    let check = |total: u64, percent: u32, caller_share: u64| {
        assert_eq!(
            QuotaPool::new(LimitedResource::Bytes, total, percent).caller_share,
            caller_share
        );
    };
    check(512, 50, 256);
    check(1, 50, 1);
    check(3, 50, 1);
    check(7, 100, 7);
    check(u64::MAX, 100, u64::MAX);
    check(100, 250, 100);
}

#[test]
fn a_request_alone_may_exceed_the_limits() {
    let pool = QuotaPool::new(LimitedResource::Bytes, 100, 50);
    let mut alone = pool.acquire(&key(1), 60).unwrap();
    assert!(alone.grow(60).is_ok());
    assert_eq!(
        reached_limit(pool.acquire(&key(1), 1)),
        Some((QuotaLimit::CallerShare, 50))
    );
    alone.shrink_to(30);
    let other = pool.acquire(&key(1), 20).unwrap();
    assert!(alone.grow(1).is_err());
    drop(other);
    assert!(alone.grow(60).is_ok());
    assert_eq!(alone.amount(), 90);
}

#[test]
fn an_amount_beyond_a_share_is_not_counted_against_other_callers() {
    let pool = QuotaPool::new(LimitedResource::Bytes, 100, 50);
    let mut alone = pool.acquire(&key(1), 120).unwrap();
    let other = pool.acquire(&key(2), 50).unwrap();
    // All shares are in use, so no other caller can exceed its share.
    assert_eq!(
        reached_limit(pool.acquire(&key(3), 1)),
        Some((QuotaLimit::Total, 100))
    );
    assert!(alone.grow(1).is_err());
    drop(other);
    assert_eq!(
        reached_limit(pool.acquire(&key(2), 51)),
        Some((QuotaLimit::Total, 100))
    );
    assert!(alone.grow(1).is_ok());
    drop(alone);
    let state = pool.lock();
    assert_eq!((state.used, state.used_within_shares), (0, 0));
}

#[tokio::test]
async fn waiting_callers_take_turns() {
    let pool = QuotaPool::new(LimitedResource::Unpacking, 1, 100);
    let held = pool.acquire(&key(1), 1).unwrap();
    let wait = |number: u8| wait(&pool, number, 1);
    let mut waiters: Vec<_> = (0..3).map(|_| wait(1)).collect();
    for waiting in &mut waiters {
        assert!(waiting.now_or_never().is_none());
    }
    let mut other = wait(2);
    assert!((&mut other).now_or_never().is_none());
    drop(held);
    let first = (&mut waiters[0])
        .now_or_never()
        .expect("the first waiter of caller 1");
    assert!((&mut other).now_or_never().is_none());
    drop(first);
    let second = other.now_or_never().expect("the waiter of caller 2");
    assert!((&mut waiters[1]).now_or_never().is_none());
    // A waiter that was dropped loses its turn.
    drop(waiters.remove(1));
    drop(second);
    assert!((&mut waiters[1]).now_or_never().is_some());
}

#[tokio::test]
async fn requests_of_one_caller_are_served_in_order() {
    let pool = QuotaPool::new(LimitedResource::Unpacking, 1, 100);
    let held = pool.acquire(&key(1), 1).unwrap();
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
async fn a_caller_that_returns_at_once_does_not_delay_others() {
    let pool = QuotaPool::new(LimitedResource::Unpacking, 1, 100);
    let mut held = pool.acquire(&key(1), 1).unwrap();
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
async fn small_requests_do_not_overtake_a_large_one_of_their_caller() {
    let pool = QuotaPool::new(LimitedResource::Bytes, 10, 100);
    let (six, four) = (
        pool.acquire(&key(1), 6).unwrap(),
        pool.acquire(&key(1), 4).unwrap(),
    );
    let mut large = wait(&pool, 1, 10);
    assert!((&mut large).now_or_never().is_none());
    drop(four);
    let mut small = wait(&pool, 1, 1);
    assert!((&mut small).now_or_never().is_none());
    assert_eq!(
        reached_limit(pool.acquire_in_turn(&key(1), 1)),
        Some((QuotaLimit::CallerShare, 10))
    );
    // Requests of another caller are served at once.
    assert!(wait(&pool, 2, 1).now_or_never().is_some());
    drop(six);
    assert!((&mut small).now_or_never().is_none());
    let all = large.now_or_never().expect("the large one is first");
    drop(all);
    assert!(small.now_or_never().is_some());
    assert_eq!(pool.lock().used, 0);
}

#[tokio::test]
async fn small_requests_are_served_when_the_large_one_before_them_gives_up() {
    let pool = QuotaPool::new(LimitedResource::Bytes, 10, 100);
    let held = pool.acquire(&key(1), 6).unwrap();
    let (mut large, mut small) = (wait(&pool, 1, 10), wait(&pool, 1, 1));
    assert!((&mut large).now_or_never().is_none());
    assert!((&mut small).now_or_never().is_none());
    drop(large);
    assert!(small.now_or_never().is_some());
    drop(held);
    assert_eq!(pool.lock().used, 0);
}

#[tokio::test]
async fn a_wait_times_out() {
    let pool = QuotaPool::new(LimitedResource::Unpacking, 1, 100);
    let held = pool.acquire(&key(1), 1).unwrap();
    let wait_timeout = Duration::from_millis(10);
    let late = pool.acquire_within(wait_timeout, &key(2), 1).await;
    assert_eq!(reached_limit(late), Some((QuotaLimit::Total, 1)));
    drop(held);
    assert_eq!(pool.lock().used, 0);
}
