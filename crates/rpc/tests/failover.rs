//! Which judicator a client asks when one of them cannot do a call: real servers in this process, each with its flaw.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use model::{
    Add, Added, BlobHash, Counts, ExecutorName, ExecutorState, JudicatorState, Page, Query, Report,
    ReportAnswer, SessionId, Stats, Task, TaskId,
};
use rpc::{ByteStream, CallError, Calls, Client, EventStream, HintStream, Ready, Secret, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Answers `stats`, `check`, `put_blob` and `get_blob`, each as its flaw says.
#[derive(Default)]
struct FakeJudicator {
    flaw: watch::Sender<Option<CallError>>,
    stats: AtomicU32,
    checks: AtomicU32,
    /// Bytes of endless blobs.
    produced: Arc<AtomicU32>,
}

const ENDLESS: BlobHash = BlobHash([9; 32]);
static PART: [u8; 64 << 10] = [7; 64 << 10];

impl FakeJudicator {
    fn answer<T>(&self, well: T) -> Result<T, CallError> {
        match &*self.flaw.borrow() {
            Some(flaw) => Err(flaw.clone()),
            None => Ok(well),
        }
    }

    fn asked(&self) -> u32 {
        self.stats.load(Ordering::SeqCst)
    }
}

fn unused<T>() -> Result<T, CallError> {
    Err(CallError::Internal("not for this test".into()))
}

#[async_trait]
impl Calls for FakeJudicator {
    async fn stats(&self) -> Result<Stats, CallError> {
        self.stats.fetch_add(1, Ordering::SeqCst);
        self.answer(Stats {
            counts: Counts::new(),
            executors: 1,
            slots: 1,
            held: 0,
            tasks_per_second: 0.0,
            window: Duration::from_secs(1),
        })
    }
    async fn check(&self) -> Result<Ready, CallError> {
        self.checks.fetch_add(1, Ordering::SeqCst);
        self.answer(Ready { executors: 1 })
    }
    async fn put_blob(&self, _: BlobHash, bytes: ByteStream) -> Result<u64, CallError> {
        let parts: Vec<_> = bytes.collect().await;
        let sizes = parts.into_iter().map(|part| part.map(|part| part.len() as u64));
        let size = sizes.sum::<Result<u64, _>>()?;
        self.answer(size)
    }
    async fn add(&self, _: Vec<Add>) -> Result<Vec<Added>, CallError> {
        unused()
    }
    async fn cancel(&self, _: TaskId) -> Result<Task, CallError> {
        unused()
    }
    async fn get(&self, id: TaskId, wait: Option<Duration>) -> Result<Task, CallError> {
        self.stats.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(wait.unwrap_or_default()).await;
        Err(CallError::NoTask(id))
    }
    async fn search(&self, _: Query) -> Result<Page, CallError> {
        unused()
    }
    async fn events(&self, _: TaskId) -> Result<EventStream, CallError> {
        unused()
    }
    async fn report(&self, _: Report) -> Result<ReportAnswer, CallError> {
        unused()
    }
    async fn watch(&self, _: ExecutorName, _: SessionId) -> Result<HintStream, CallError> {
        unused()
    }
    async fn executors(&self) -> Result<Vec<ExecutorState>, CallError> {
        unused()
    }
    async fn judicators(&self) -> Result<Vec<JudicatorState>, CallError> {
        unused()
    }
    async fn has_blobs(&self, _: Vec<BlobHash>) -> Result<Vec<Option<u64>>, CallError> {
        unused()
    }
    /// Begins well; a flaw shows after the first byte.
    async fn get_blob(&self, hash: BlobHash) -> Result<ByteStream, CallError> {
        self.stats.fetch_add(1, Ordering::SeqCst);
        if hash == ENDLESS {
            let produced = self.produced.clone();
            let part = move || {
                produced.fetch_add(PART.len() as u32, Ordering::SeqCst);
                Ok(Bytes::from_static(&PART))
            };
            return Ok(stream::repeat_with(part).boxed());
        }
        let bytes = [
            Ok(Bytes::from_static(b"1")),
            self.answer(Bytes::from_static(b"2")),
        ];
        Ok(stream::iter(bytes).boxed())
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

async fn start(secret: Option<Secret>) -> (Arc<FakeJudicator>, String) {
    let (listener, address) = listen().await;
    let judicator = Arc::new(FakeJudicator::default());
    tokio::spawn(serve(
        listener,
        judicator.clone(),
        secret,
        CancellationToken::new(),
    ));
    (judicator, address)
}

/// A server that knows none of the calls, as one of another version may not know a new one.
async fn start_without_calls() -> String {
    let (listener, address) = listen().await;
    let server = Server::builder().add_routes(Routes::default());
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

fn client(addresses: &[&str], secret: Option<Secret>) -> Client {
    let addresses = addresses.iter().map(ToString::to_string).collect();
    Client::new(watch::channel(addresses).1, secret)
}

/// A client chooses where it begins at random: several of them begin everywhere.
const CLIENTS: usize = 12;

#[tokio::test]
async fn a_judicator_that_cannot_do_it_loses_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let secret = |word: &str| {
        let path = folder.path().join(word);
        std::fs::write(&path, word).unwrap();
        Secret::load(&path).unwrap()
    };
    let ours = secret("the-secret-of-this-cluster");
    let (good, good_at) = start(Some(ours.clone())).await;
    let (_, strange_at) = start(Some(secret("a-secret-of-another-one"))).await;
    let (full, full_at) = start(Some(ours.clone())).await;
    full.flaw.send_replace(Some(CallError::Full("no room".into())));
    let (broken, broken_at) = start(Some(ours.clone())).await;
    broken
        .flaw
        .send_replace(Some(CallError::Internal("damaged".into())));
    let (busy, busy_at) = start(Some(ours.clone())).await;
    busy.flaw.send_replace(Some(CallError::Busy("much to do".into())));
    let old_at = start_without_calls().await;
    for (what, address) in [
        ("another secret", &strange_at),
        ("no such call", &old_at),
        ("full", &full_at),
        ("internal error", &broken_at),
        ("busy", &busy_at),
    ] {
        for _ in 0..CLIENTS {
            let client = client(&[address, &good_at], Some(ours.clone()));
            for _ in 0..3 {
                client
                    .stats()
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let bytes = stream::iter([Ok(Bytes::from_static(b"1234"))]).boxed();
            let put = client.put_blob(BlobHash([1; 32]), bytes).await;
            assert_eq!(put, Ok(4), "{what}");
        }
    }
    assert_eq!(good.asked() as usize, 5 * 3 * CLIENTS);
    // Not asked for every call: once by those that began with it.
    for judicator in [&full, &broken] {
        assert!(judicator.asked() as usize <= CLIENTS, "{}", judicator.asked());
    }
}

#[tokio::test]
async fn a_wrong_request_is_not_taken_elsewhere() {
    let (first, first_at) = start(None).await;
    let (second, second_at) = start(None).await;
    let client = client(&[&first_at, &second_at], None);
    for _ in 0..3 {
        let answer = client.get(TaskId::generate(), None).await;
        assert!(matches!(answer, Err(CallError::NoTask(_))), "{answer:?}");
    }
    let mut asked = [first.asked(), second.asked()];
    asked.sort_unstable();
    assert_eq!(asked, [0, 3]);
}

#[tokio::test]
async fn a_stream_that_fails_midway_is_fetched_elsewhere_next_time() {
    let (broken, broken_at) = start(None).await;
    broken
        .flaw
        .send_replace(Some(CallError::Internal("bad disk".into())));
    let (_, good_at) = start(None).await;
    for _ in 0..CLIENTS {
        let client = client(&[&broken_at, &good_at], None);
        let mut failures = 0;
        loop {
            let parts: Vec<_> = client.get_blob(BlobHash([1; 32])).await.unwrap().collect().await;
            if parts.iter().all(Result::is_ok) {
                break;
            }
            failures += 1;
            assert!(failures < 2, "the same judicator was asked again");
        }
    }
    // So some clients did begin with it.
    assert!(broken.asked() > 0);
}

#[tokio::test]
async fn blobs_that_nobody_reads_hold_up_no_other_call() {
    let (judicator, address) = start(None).await;
    let client = client(&[&address], None);
    let mut unread = Vec::new();
    for _ in 0..32 {
        unread.push(client.get_blob(ENDLESS).await.unwrap());
    }
    // More than a connection's window has room for by default.
    let filled = async {
        while judicator.produced.load(Ordering::SeqCst) < 6 << 20 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), filled)
        .await
        .unwrap();
    client.stats().await.unwrap();
    // Nor other blobs.
    let mut other = client.get_blob(ENDLESS).await.unwrap();
    assert!(other.next().await.unwrap().is_ok());
    let whole = client.get_blob(BlobHash([1; 32])).await.unwrap();
    assert_eq!(whole.count().await, 2);
}

#[tokio::test]
async fn a_caller_who_hangs_up_during_a_wait_says_nothing_about_the_judicator() {
    let (first, first_at) = start(None).await;
    let (second, second_at) = start(None).await;
    let client = client(&[&first_at, &second_at], None);
    for _ in 0..3 {
        let wait = client.get(TaskId::generate(), Some(Duration::from_secs(60)));
        let hung_up = tokio::time::timeout(Duration::from_millis(1500), wait).await;
        assert!(hung_up.is_err());
    }
    let mut asked = [first.asked(), second.asked()];
    asked.sort_unstable();
    assert_eq!(asked, [0, 3]);
}

#[tokio::test]
async fn when_all_refuse_the_most_telling_error_is_returned() {
    let (full, full_at) = start(None).await;
    full.flaw.send_replace(Some(CallError::Full("no room".into())));
    let (stopping, stopping_at) = start(None).await;
    stopping
        .flaw
        .send_replace(Some(CallError::Unavailable("stopping".into())));
    // Nobody listens there any more.
    let (_, dead_at) = listen().await;
    let addresses = [&*full_at, &*stopping_at, &*dead_at];
    for begin in 0..CLIENTS {
        let mut addresses = addresses;
        addresses.rotate_left(begin % 3);
        let client = client(&addresses, None);
        let expected = CallError::Full(format!("judicator {full_at}: no room"));
        assert_eq!(client.stats().await.unwrap_err(), expected);
        // Again, when all were left: each is asked all the same.
        assert_eq!(client.stats().await.unwrap_err(), expected);
    }
    let none = client(&[], None);
    assert!(matches!(none.stats().await, Err(CallError::Unavailable(_))));
}

#[tokio::test]
async fn a_client_comes_back_when_its_judicator_works_again() {
    let (first, first_at) = start(None).await;
    let (second, second_at) = start(None).await;
    let client = client(&[&first_at, &second_at], None);
    client.stats().await.unwrap();
    let (home, other) = match first.asked() {
        1 => (first, second),
        _ => (second, first),
    };
    home.flaw.send_replace(Some(CallError::Full("no room".into())));
    client.stats().await.unwrap();
    assert_eq!((home.asked(), other.asked()), (2, 1));
    // It is probed after its pauses, and found to be full still; no call waits for that.
    await_that(&client, || home.checks.load(Ordering::SeqCst) >= 1).await;
    assert_eq!(home.asked(), 2);
    home.flaw.send_replace(None);
    await_that(&client, || home.asked() > 2).await;
}

/// Makes calls until it is so; each has to be done by some judicator.
async fn await_that(client: &Client, is_so: impl Fn() -> bool) {
    let calls = async {
        while !is_so() {
            client.stats().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), calls)
        .await
        .unwrap();
}
