//! Following the output of a task while it runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use judicator::Judicator;
use model::{
    AddTask, AttemptId, AttemptNumber, FollowRequest, OutputEvent, OutputPosition, OutputRead, OutputSource,
    StepName, StreamName, TaskId, TaskStatus,
};
use rpc::{CallError, Calls, OutputEventStream};

use super::fake_output::FakeOutput;
use super::harness::with_deadline;
use super::sqlite_harness::{ScriptedExecutor, SqliteJudicator, new_id, spec};

const COMPILED: OutputSource = OutputSource::new(StepName::Compile, StreamName::Stderr);
const STDOUT: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stdout);
const STDERR: OutputSource = OutputSource::new(StepName::Execute, StreamName::Stderr);

/// A task that an executor holds and whose output it can serve, at a judicator on SQLite.
struct FollowTest {
    _folder: tempfile::TempDir,
    _node: SqliteJudicator,
    judicator: Arc<Judicator>,
    executor: ScriptedExecutor,
    server: FakeOutput,
    id: TaskId,
}

impl FollowTest {
    async fn with_pending_task() -> FollowTest {
        let folder = tempfile::tempdir().unwrap();
        let node = SqliteJudicator::start(folder.path());
        let judicator = node.judicator.clone();
        let id = new_id();
        judicator.add(vec![AddTask::new(id, spec())]).await.unwrap();
        FollowTest {
            executor: ScriptedExecutor::new(&judicator, "e"),
            _folder: folder,
            _node: node,
            judicator,
            server: FakeOutput::default(),
            id,
        }
    }

    async fn connect(&self) -> tokio::task::JoinHandle<()> {
        let ScriptedExecutor { name, session, .. } = &self.executor;
        self.server.connect(&*self.judicator, name, *session).await
    }

    /// The executor has claimed the task and is connected.
    async fn with_running_task() -> (FollowTest, AttemptId) {
        let mut test = FollowTest::with_pending_task().await;
        test.connect().await;
        let attempt = test.executor.claim_one().await;
        test.server.begin(attempt, STDOUT);
        (test, attempt)
    }

    async fn follow(&self, positions: &[(OutputSource, u64)]) -> OutputEventStream {
        let position = |(source, offset): &(OutputSource, u64)| OutputPosition {
            source: *source,
            offset: *offset,
        };
        let request = FollowRequest {
            attempt: None,
            positions: positions.iter().map(position).collect(),
        };
        self.judicator.follow(self.id, request).await.unwrap()
    }
}

async fn next(events: &mut OutputEventStream) -> OutputEvent {
    with_deadline(events.next())
        .await
        .expect("the stream goes on")
        .unwrap()
}

/// Reads until this many bytes of the attempt have come, without gaps from the offset on.
async fn read(events: &mut OutputEventStream, attempt: u32, from: u64, length: usize) -> Vec<u8> {
    let mut found = Vec::new();
    while found.len() < length {
        match next(events).await {
            OutputEvent::Written {
                attempt: AttemptNumber(number),
                at,
                bytes,
            } => {
                assert_eq!((number, at.offset), (attempt, from + found.len() as u64));
                found.extend_from_slice(&bytes);
            }
            other => panic!("{other:?}"),
        }
    }
    found
}

fn content(length: usize) -> Vec<u8> {
    (0..length as u32)
        .flat_map(u32::to_le_bytes)
        .take(length)
        .collect()
}

#[tokio::test]
async fn a_follower_that_comes_before_the_executor_gets_the_first_byte() {
    let mut test = FollowTest::with_pending_task().await;
    let mut events = test.follow(&[(COMPILED, 0), (STDOUT, 0), (STDERR, 0)]).await;
    assert!(events.next().now_or_never().is_none());
    let attempt = test.executor.claim_one().await;
    assert!(events.next().now_or_never().is_none());
    test.server.write(attempt, COMPILED, b"warning");
    test.connect().await;
    assert_eq!(read(&mut events, 1, 0, 7).await, b"warning");
    test.executor.report_status(TaskStatus::Compiling).await;
    test.server.end(attempt, COMPILED, false);
    let ended = OutputEvent::StreamEnded {
        attempt: AttemptNumber(1),
        source: COMPILED,
        truncated: false,
    };
    assert_eq!(next(&mut events).await, ended);
    // Between the steps nothing comes.
    assert!(events.next().now_or_never().is_none());
    test.executor.report_status(TaskStatus::Running).await;
    test.server.write(attempt, STDERR, b"err");
    assert_eq!(read(&mut events, 1, 0, 3).await, b"err");
    test.server.write(attempt, STDOUT, b"out");
    assert_eq!(read(&mut events, 1, 0, 3).await, b"out");
    test.server.end(attempt, STDOUT, true);
    let ended = next(&mut events).await;
    assert!(
        matches!(
            ended,
            OutputEvent::StreamEnded {
                source: STDOUT,
                truncated: true,
                ..
            }
        ),
        "{ended:?}"
    );
    test.executor.finish(&[attempt], 0).await;
    assert!(with_deadline(events.next()).await.is_none());
    let mut late = test.follow(&[(STDOUT, 0)]).await;
    assert!(with_deadline(late.next()).await.is_none());
}

#[tokio::test]
async fn a_follower_that_comes_late_reads_what_has_left_the_ring() {
    let (test, attempt) = FollowTest::with_running_task().await;
    let content = content(2 << 20);
    test.server.write(attempt, STDOUT, &content);
    let mut first = test.follow(&[(STDOUT, 0)]).await;
    assert!(read(&mut first, 1, 0, content.len()).await == content);
    let sent = test.server.bytes_sent.load(Ordering::SeqCst);
    assert_eq!(sent, content.len() as u64, "one follower needs each byte once");
    let mut late = test.follow(&[(STDOUT, 100)]).await;
    assert!(read(&mut late, 1, 100, content.len() - 100).await == content[100..]);
    // Both are at the end now, and the next bytes are read once.
    let before = test.server.bytes_sent.load(Ordering::SeqCst);
    test.server.write(attempt, STDOUT, b"more");
    for events in [&mut first, &mut late] {
        assert_eq!(read(events, 1, content.len() as u64, 4).await, b"more");
    }
    assert_eq!(test.server.bytes_sent.load(Ordering::SeqCst) - before, 4);
}

#[tokio::test]
async fn nothing_is_read_after_the_last_follower_has_left() {
    let (test, attempt) = FollowTest::with_running_task().await;
    test.server.begin(attempt, STDERR);
    let sources = [(STDOUT, 0), (STDERR, 0)];
    let (mut one, mut other) = (test.follow(&sources).await, test.follow(&sources).await);
    for events in [&mut one, &mut other] {
        assert!(events.next().now_or_never().is_none());
    }
    let wait_for = async |count: usize| {
        with_deadline(async {
            while test.server.open_reads() != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    };
    wait_for(2).await;
    drop(one);
    test.server.write(attempt, STDOUT, b"x");
    assert_eq!(read(&mut other, 1, 0, 1).await, b"x");
    assert!(other.next().now_or_never().is_none());
    wait_for(2).await;
    drop(other);
    wait_for(0).await;
    test.server.write(attempt, STDOUT, &[0; 1000]);
    assert_eq!(test.server.bytes_sent.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_follower_continues_when_the_executor_connects_again() {
    let (test, attempt) = FollowTest::with_running_task().await;
    let mut events = test.follow(&[(STDOUT, 0)]).await;
    test.server.write(attempt, STDOUT, b"one");
    assert_eq!(read(&mut events, 1, 0, 3).await, b"one");
    // A new connection replaces the earlier one, which ends.
    let replaced = test.connect().await;
    let second = test.connect().await;
    with_deadline(replaced).await.unwrap();
    test.server.write(attempt, STDOUT, b"two");
    assert_eq!(read(&mut events, 1, 3, 3).await, b"two");
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    test.server.write(attempt, STDOUT, b"three");
    assert!(events.next().now_or_never().is_none());
    test.connect().await;
    assert_eq!(read(&mut events, 1, 6, 5).await, b"three");
}

#[tokio::test]
async fn the_next_attempt_is_followed_from_its_beginning() {
    let (mut test, first) = FollowTest::with_running_task().await;
    let mut events = test.follow(&[(STDOUT, 0)]).await;
    test.executor.report_status(TaskStatus::Running).await;
    test.server.write(first, STDOUT, b"first");
    assert_eq!(read(&mut events, 1, 0, 5).await, b"first");
    test.executor.give_back().await;
    test.server.write(first, STDOUT, b"lost");
    let second = test.executor.claim_one().await;
    assert_eq!(second.attempt, AttemptNumber(2));
    test.server.write(second, STDOUT, b"second");
    assert_eq!(read(&mut events, 2, 0, 6).await, b"second");
    // A follower that was at an offset of the first attempt begins again, too.
    let request = FollowRequest {
        attempt: Some(AttemptNumber(1)),
        positions: vec![OutputPosition {
            source: STDOUT,
            offset: 3,
        }],
    };
    let mut other = test.judicator.follow(test.id, request).await.unwrap();
    assert_eq!(read(&mut other, 2, 0, 6).await, b"second");
    test.judicator.cancel(test.id).await.unwrap();
    for events in [&mut events, &mut other] {
        assert!(with_deadline(events.next()).await.is_none());
    }
}

/// The executor may serve output before it has received the attempt.
#[tokio::test]
async fn an_attempt_that_the_executor_does_not_know_yet_is_asked_for_again() {
    let mut test = FollowTest::with_pending_task().await;
    test.connect().await;
    let mut events = test.follow(&[(STDOUT, 0)]).await;
    let attempt = test.executor.claim_one().await;
    let write = async {
        while test.server.most_open.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        test.server.write(attempt, STDOUT, b"now");
    };
    let (found, ()) = with_deadline(async { tokio::join!(read(&mut events, 1, 0, 3), write) }).await;
    assert_eq!(found, b"now");
}

#[tokio::test]
async fn many_followers_share_one_reader_and_slow_ones_do_not_disturb() {
    const FOLLOWERS: usize = 200;
    let (test, attempt) = FollowTest::with_running_task().await;
    let content = content(2 << 20);
    // These never read. One of them asks for an offset that the stream never reaches.
    let _far = test.follow(&[(STDOUT, 1 << 40)]).await;
    let mut idle = test.follow(&[(STDOUT, 0)]).await;
    assert!(idle.next().now_or_never().is_none());
    let mut followers = Vec::new();
    for _ in 0..FOLLOWERS {
        let mut events = test.follow(&[(STDOUT, 0)]).await;
        let expected = content.clone();
        followers.push(tokio::spawn(async move {
            assert!(read(&mut events, 1, 0, expected.len()).await == expected);
            events
        }));
    }
    for piece in content.chunks(16 << 10) {
        test.server.write(attempt, STDOUT, piece);
        tokio::task::yield_now().await;
    }
    let mut streams = Vec::new();
    for follower in followers {
        streams.push(with_deadline(follower).await.unwrap());
    }
    // One read at the end, and the bounded number of those behind the ring.
    assert!(test.server.most_open.load(Ordering::SeqCst) <= 1 + 8);
    // The one that stood still gets everything, too.
    assert!(read(&mut idle, 1, 0, content.len()).await == content);
    let sent = test.server.bytes_sent.load(Ordering::SeqCst);
    println!(
        "{sent} bytes were read for {FOLLOWERS} followers of {} bytes",
        content.len()
    );
    assert!(sent < (content.len() * FOLLOWERS / 4) as u64);
    test.server.end(attempt, STDOUT, false);
    for events in &mut streams {
        assert!(matches!(next(events).await, OutputEvent::StreamEnded { .. }));
    }
}

/// Followers ask for an offset that the stream never reaches, and one of them is the first that learns of the end.
#[tokio::test]
async fn the_end_of_a_stream_is_seen_also_when_another_follower_is_beyond_it() {
    let (test, attempt) = FollowTest::with_running_task().await;
    test.server.write(attempt, STDOUT, b"abc");
    test.server.end(attempt, STDOUT, false);
    let ended = OutputEvent::StreamEnded {
        attempt: AttemptNumber(1),
        source: STDOUT,
        truncated: false,
    };
    let mut beyond = test.follow(&[(STDOUT, 1000)]).await;
    let _never_reads = test.follow(&[(STDOUT, 1000)]).await;
    assert_eq!(next(&mut beyond).await, ended);
    for offset in [0, 3] {
        let mut events = test.follow(&[(STDOUT, offset)]).await;
        let rest = 3 - offset as usize;
        assert_eq!(read(&mut events, 1, offset, rest).await.len(), rest);
        assert_eq!(next(&mut events).await, ended);
    }
}

/// One follower has read the stream and keeps the ring at its end.
#[tokio::test]
async fn a_follower_behind_the_ring_reads_up_to_the_end() {
    let (test, attempt) = FollowTest::with_running_task().await;
    let written = content(1 << 20);
    test.server.write(attempt, STDOUT, &written);
    let mut first = test.follow(&[(STDOUT, 0)]).await;
    assert_eq!(read(&mut first, 1, 0, written.len()).await, written);
    // The only follower needs one chunk of the ring, so the next one reads the others for itself.
    let mut second = test.follow(&[(STDOUT, 0)]).await;
    assert_eq!(read(&mut second, 1, 0, written.len()).await, written);
    let sent = test.server.bytes_sent.load(Ordering::SeqCst);
    assert_eq!(sent, (2 * written.len() - OutputRead::MAX_BYTES) as u64);
    test.server.end(attempt, STDOUT, true);
    for events in [&mut first, &mut second] {
        assert!(matches!(
            next(events).await,
            OutputEvent::StreamEnded { truncated: true, .. }
        ));
    }
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused() {
    let test = FollowTest::with_pending_task().await;
    let at = OutputPosition {
        source: STDOUT,
        offset: 0,
    };
    let request = |positions: &[OutputPosition]| FollowRequest {
        attempt: None,
        positions: positions.to_vec(),
    };
    let missing = new_id();
    let refused = test.judicator.follow(missing, request(&[at])).await;
    assert_eq!(refused.err(), Some(CallError::NoTask(missing)));
    let twice = test.judicator.follow(test.id, request(&[at, at])).await;
    assert!(matches!(twice.err(), Some(CallError::Invalid(_))));
}
