//! Following the output of a task at several judicators.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use model::{
    AttemptNumber, FollowRequest, OutputEvent, OutputPosition, OutputSource, StepName, StreamName, TaskId,
};
use rpc::{CallError, Calls, OutputEventStream, RpcClient, serve};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::harness::{FaultyJudicator, FollowCall, client, listen, start, start_without_calls};

const STDOUT: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stdout);

fn written(attempt: u32, offset: u64, text: &str) -> OutputEvent {
    OutputEvent::Written {
        attempt: AttemptNumber(attempt),
        at: OutputPosition {
            source: STDOUT,
            offset,
        },
        bytes: Bytes::copy_from_slice(text.as_bytes()),
    }
}

fn from_offset(offset: u64) -> FollowRequest {
    FollowRequest {
        attempt: None,
        positions: vec![OutputPosition {
            source: STDOUT,
            offset,
        }],
    }
}

async fn with_deadline<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.unwrap()
}

async fn follow(client: &RpcClient, request: FollowRequest) -> OutputEventStream {
    let id = TaskId(uuid::Uuid::now_v7());
    with_deadline(client.follow(id, request)).await.unwrap()
}

async fn next(events: &mut OutputEventStream) -> OutputEvent {
    with_deadline(events.next()).await.unwrap().unwrap()
}

async fn next_call(follows: &mut mpsc::UnboundedReceiver<FollowCall>) -> FollowCall {
    with_deadline(follows.recv()).await.unwrap()
}

/// A fake judicator whose calls of `follow` the test answers.
async fn start_followed() -> (mpsc::UnboundedReceiver<FollowCall>, String) {
    let (judicator, address) = start(None).await;
    (judicator.take_follows(), address)
}

#[tokio::test]
async fn output_comes_from_whichever_judicator_has_it() {
    let (mut a, a_at) = start_followed().await;
    let (mut b, b_at) = start_followed().await;
    // A judicator of an older version, and one that is down, do not disturb.
    let old_at = start_without_calls().await;
    let (_, dead_at) = listen().await;
    let client = client(&[&old_at, &dead_at, &a_at, &b_at], None);
    let mut events = follow(&client, from_offset(3)).await;
    let (a, b) = (next_call(&mut a).await, next_call(&mut b).await);
    assert_eq!((&a.request, &b.request), (&from_offset(3), &from_offset(3)));
    b.events.send(Ok(written(1, 3, "abc"))).unwrap();
    assert_eq!(next(&mut events).await, written(1, 3, "abc"));
    b.events.send(Ok(written(1, 6, "de"))).unwrap();
    assert_eq!(next(&mut events).await, written(1, 6, "de"));
    // The executor has moved to A.
    a.events.send(Ok(written(1, 3, "abcdefg"))).unwrap();
    assert_eq!(next(&mut events).await, written(1, 8, "fg"));
    // The task is done.
    drop(a);
    assert!(with_deadline(events.next()).await.is_none());
}

#[tokio::test]
async fn duplicates_and_earlier_attempts_are_dropped() {
    let (mut a, a_at) = start_followed().await;
    let (mut b, b_at) = start_followed().await;
    let client = client(&[&a_at, &b_at], None);
    let mut events = follow(&client, from_offset(0)).await;
    let (a, b) = (next_call(&mut a).await, next_call(&mut b).await);
    for judicator in [&a, &b] {
        for event in [written(1, 0, "one"), written(1, 3, "two")] {
            judicator.events.send(Ok(event)).unwrap();
        }
    }
    let mut text = String::new();
    while text.len() < 6 {
        if let OutputEvent::Written { bytes, at, .. } = next(&mut events).await {
            assert_eq!(at.offset, text.len() as u64);
            text += std::str::from_utf8(&bytes).unwrap();
        }
    }
    assert_eq!(text, "onetwo");
    a.events.send(Ok(written(2, 0, "again"))).unwrap();
    assert_eq!(next(&mut events).await, written(2, 0, "again"));
    b.events.send(Ok(written(1, 6, "late"))).unwrap();
    b.events.send(Ok(written(2, 0, "again and"))).unwrap();
    assert_eq!(next(&mut events).await, written(2, 5, " and"));
}

async fn serve_at(address: &str, judicator: Arc<FaultyJudicator>) -> CancellationToken {
    let bind = async {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let (listener, stop) = (with_deadline(bind).await, CancellationToken::new());
    tokio::spawn(serve(listener, judicator, None, stop.clone()));
    stop
}

#[tokio::test]
async fn a_restart_of_a_judicator_continues_at_the_offset() {
    let (_a, a_at) = start_followed().await;
    let (listener, b_at) = listen().await;
    drop(listener);
    let judicator = Arc::new(FaultyJudicator::default());
    let mut follows = judicator.take_follows();
    let stop = serve_at(&b_at, judicator.clone()).await;
    let client = client(&[&a_at, &b_at], None);
    let mut events = follow(&client, from_offset(0)).await;
    let b = next_call(&mut follows).await;
    b.events.send(Ok(written(7, 0, "before"))).unwrap();
    assert_eq!(next(&mut events).await, written(7, 0, "before"));
    stop.cancel();
    // The stop does not look like the end of the task.
    b.events.closed().await;
    assert!(events.next().now_or_never().is_none());
    serve_at(&b_at, judicator).await;
    let again = next_event_with_call(&mut events, &mut follows).await;
    let expected = FollowRequest {
        attempt: Some(AttemptNumber(7)),
        ..from_offset(6)
    };
    assert_eq!(again.request, expected);
    again.events.send(Ok(written(7, 6, "after"))).unwrap();
    assert_eq!(next(&mut events).await, written(7, 6, "after"));
}

/// The client opens streams only while somebody reads its events.
async fn next_event_with_call(
    events: &mut OutputEventStream,
    follows: &mut mpsc::UnboundedReceiver<FollowCall>,
) -> FollowCall {
    with_deadline(async {
        tokio::select! {
            event = events.next() => panic!("{event:?}"),
            call = follows.recv() => call.unwrap(),
        }
    })
    .await
}

#[tokio::test]
async fn a_judicator_that_joins_is_followed_and_one_that_leaves_is_not() {
    let (mut a, a_at) = start_followed().await;
    let (mut b, b_at) = start_followed().await;
    let (list, judicators) = watch::channel(vec![a_at.clone()]);
    let client = RpcClient::new(judicators, None);
    let mut events = follow(&client, from_offset(0)).await;
    let first = next_call(&mut a).await;
    list.send_replace(vec![b_at]);
    let second = next_event_with_call(&mut events, &mut b).await;
    with_deadline(async {
        tokio::select! {
            event = events.next() => panic!("{event:?}"),
            () = first.events.closed() => {}
        }
    })
    .await;
    second.events.send(Ok(written(1, 0, "x"))).unwrap();
    assert_eq!(next(&mut events).await, written(1, 0, "x"));
}

#[tokio::test]
async fn an_error_about_the_task_is_returned() {
    let (judicator, address) = start(None).await;
    let id = TaskId(uuid::Uuid::now_v7());
    judicator.fault.send_replace(Some(CallError::NoTask(id)));
    let client = client(&[&address], None);
    // Another judicator would say the same, so the client does not try for long.
    let followed = tokio::time::timeout(Duration::from_secs(15), client.follow(id, from_offset(0))).await;
    assert_eq!(followed.unwrap().err(), Some(CallError::NoTask(id)));
}

/// Streams that nobody reads leave room for others on the same connection.
#[tokio::test]
async fn hundreds_of_followers_share_a_connection() {
    let (mut follows, address) = start_followed().await;
    let client = client(&[&address], None);
    let mut followers = Vec::new();
    for _ in 0..500 {
        followers.push(follow(&client, from_offset(0)).await);
    }
    for events in &mut followers {
        let call = next_call(&mut follows).await;
        call.events.send(Ok(written(1, 0, "x"))).unwrap();
        assert_eq!(next(events).await, written(1, 0, "x"));
    }
    client.stats().await.unwrap();
}

/// Bytes of an event that count when they are dropped, which is when they were sent.
struct SentBytes {
    bytes: Vec<u8>,
    sent: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for SentBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SentBytes {
    fn drop(&mut self) {
        self.sent.fetch_add(self.bytes.len(), Ordering::SeqCst);
    }
}

/// A gateway may have thousands of such followers.
#[tokio::test]
async fn little_is_sent_to_a_follower_that_never_reads() {
    let (mut judicator, address) = start_followed().await;
    let client = client(&[&address], None);
    let _events = follow(&client, from_offset(0)).await;
    let call = next_call(&mut judicator).await;
    let sent = Arc::new(AtomicUsize::new(0));
    let length = 8 << 10;
    for index in 0..128 {
        let bytes = Bytes::from_owner(SentBytes {
            bytes: vec![b'x'; length],
            sent: sent.clone(),
        });
        let event = OutputEvent::Written {
            attempt: AttemptNumber(1),
            at: OutputPosition {
                source: STDOUT,
                offset: index * length as u64,
            },
            bytes,
        };
        call.events.send(Ok(event)).unwrap();
    }
    // Other calls pass meanwhile. When many of them have, nothing more is sent.
    let (mut last, mut unchanged) = (0, 0);
    while last == 0 || unchanged < 20 {
        with_deadline(client.check()).await.unwrap();
        let now = sent.load(Ordering::SeqCst);
        unchanged = if now == last { unchanged + 1 } else { 0 };
        last = now;
    }
    assert!(last <= 96 << 10, "{last} bytes were sent");
}
