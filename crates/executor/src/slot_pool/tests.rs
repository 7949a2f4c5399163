use model::{Content, ReportInstructions, SessionId, TaskForm, TaskResult};

use super::*;
use crate::fixtures::{attempt_id, spec};

/// What a test needs to take the place of the slots' threads.
impl SlotPool {
    /// The next attempt, like a free slot takes it, but without waiting.
    pub(crate) fn try_next_attempt(&self) -> Option<PreparedAttempt> {
        self.lock_queue().queue.pop_for_slot()
    }

    /// Waits for an attempt like a slot does.
    fn next_attempt(&self) -> Option<PreparedAttempt> {
        match self.next_work(&mut { u64::MAX })? {
            SlotWork::Attempt(prepared) => Some(*prepared),
            SlotWork::RootsChanged => None,
        }
    }

    /// Ends an attempt like a slot does: with its result, or without one.
    pub(crate) fn finish_attempt(&self, prepared: &PreparedAttempt, result: Option<RunResult>) {
        let end = result.ok_or(RunFailure::Revoked);
        let cause = self.on_attempt_end(prepared, end, Duration::ZERO);
        self.lock_queue().queue.on_slot_free();
        self.send_event(SlotEvent::AttemptEnded(prepared.attempt_id, cause));
    }

    /// The deadline that was last sent to the wardens.
    pub(crate) fn warden_deadline(&self) -> Option<Instant> {
        self.wardens().deadline
    }
}

/// A [`SlotPool`] for tests, whose threads are not started, and the events that it sends.
pub(crate) struct SlotPoolFixture {
    pub(crate) slot_pool: Arc<SlotPool>,
    events: mpsc::UnboundedReceiver<(Instant, SlotEvent)>,
    _folder: tempfile::TempDir,
}

impl SlotPoolFixture {
    pub(crate) fn new() -> SlotPoolFixture {
        let folder = tempfile::tempdir().unwrap();
        let outgoing = OutgoingFolder::open(folder.path().join("outgoing"), 1 << 20).unwrap();
        let setup = SlotPoolSetup {
            slots: 1,
            work: folder.path().to_path_buf(),
            cache: BlobCache::open(folder.path().join("cache"), 1 << 20).unwrap(),
            spool: Spool::open(&folder.path().join("spool"), &[], &outgoing).unwrap(),
            outgoing,
            process_marker: ("CONCLAVE_EXECUTOR".into(), "test".into()),
            keep_output: 1 << 20,
            keep_limits: KeepLimits {
                files: 10,
                bytes: 1 << 20,
                entries: 1000,
            },
            shell: "sh",
            roots: CellRoots::new(
                roots::RootStore::open(&folder.path().join("roots")),
                None,
                CommandIsolation::None,
            ),
            reserve: 0,
            cpus: Vec::new(),
            judge_without_cells: false,
            launcher: WardenLauncher {
                isolation: CommandIsolation::None,
                program: "/bin/false".into(),
                args: Vec::new(),
                lock: None,
                overflow_folder: folder.path().to_path_buf(),
            },
        };
        let (sender, events) = mpsc::unbounded_channel();
        SlotPoolFixture {
            slot_pool: SlotPool::new(setup, sender),
            events,
            _folder: folder,
        }
    }

    fn prepared(&self, stall: Duration) -> PreparedAttempt {
        PreparedAttempt {
            attempt_id: attempt_id(SessionId(uuid::Uuid::now_v7())),
            spec: spec(Content::empty()),
            platform_losses: 0,
            control: Arc::new(AttemptControl::new(TaskForm::CURRENT, stall)),
            _pins: self.slot_pool.cache.pins(),
        }
    }

    /// The attempts that were given back since the last call.
    fn given_back(&mut self) -> Vec<AttemptId> {
        let events = std::iter::from_fn(|| self.events.try_recv().ok());
        let ended = events.filter_map(|(_, event)| match event {
            SlotEvent::AttemptEnded(attempt_id, AttemptEndCause::NoResult) => Some(attempt_id),
            _ => None,
        });
        ended.collect()
    }
}

/// An operator may allow larger outputs than the outgoing folder can hold.
#[test]
fn no_more_output_is_captured_than_can_be_kept() {
    let mut fixture = SlotPoolFixture::new();
    let outgoing = fixture.slot_pool.outgoing.limit();
    let mut check = |keep_output: u64, output_limit: Option<u64>, expected: u64| {
        let slot_pool = Arc::get_mut(&mut fixture.slot_pool).expect("no thread has it");
        slot_pool.keep_output = keep_output;
        assert_eq!(slot_pool.max_captured_bytes(output_limit), expected);
    };
    check(1000, None, 1000);
    check(1000, Some(10), 10);
    check(1000, Some(outgoing / 4), outgoing / 4);
    check(1000, Some(500 << 30), outgoing / 4);
    check(outgoing, None, outgoing);
    check(outgoing, Some(500 << 30), outgoing);
}

#[test]
fn an_attempt_killed_for_memory_is_a_platform_failure_and_causes_no_backoff() {
    let fixture = SlotPoolFixture::new();
    let short = "the machine was short of memory";
    let check = |failure: RunFailure, stuck: bool| {
        let prepared = fixture.prepared(Duration::ZERO);
        prepared.control.fail_as_platform(short.into()).unwrap();
        if stuck {
            prepared.control.on_operation("end the command");
            assert!(prepared.control.check_progress(Instant::now()).is_some());
            assert!(prepared.control.stuck_reason().is_some());
        }
        let cause = fixture
            .slot_pool
            .on_attempt_end(&prepared, Err(failure), Duration::ZERO);
        assert!(matches!(cause, AttemptEndCause::KilledForMemory));
        fixture.slot_pool.spool.end_all_pauses();
        let kept = fixture.slot_pool.spool.next_batch(1 << 20, 100).complete;
        let end = kept
            .into_iter()
            .find(|complete| complete.attempt_id == prepared.attempt_id);
        assert_eq!(
            end.map(|end| end.end),
            Some(AttemptEnd::PlatformFailure(short.into()))
        );
    };
    for stuck in [false, true] {
        check(RunFailure::Revoked, stuck);
        check(RunFailure::WardenLost("the warden died".into()), stuck);
        check(RunFailure::ExecutorFailure("could not write x".into()), stuck);
    }
}

/// Otherwise one user's tasks in a broken root would keep the executor from running the tasks of others.
#[test]
fn an_unusable_root_is_a_platform_failure_and_causes_no_backoff() {
    let fixture = SlotPoolFixture::new();
    let prepared = fixture.prepared(Duration::ZERO);
    let failure = || RunFailure::UnusableRoot("the root is gone".into());
    let cause = fixture
        .slot_pool
        .on_attempt_end(&prepared, Err(failure()), Duration::ZERO);
    assert!(matches!(cause, AttemptEndCause::UnusableRoot));
    fixture.slot_pool.spool.end_all_pauses();
    let spooled = fixture.slot_pool.spool.next_batch(1 << 20, 100).complete;
    let ends: Vec<_> = spooled.into_iter().map(|complete| complete.end).collect();
    assert_eq!(ends, [AttemptEnd::PlatformFailure("the root is gone".into())]);
}

#[test]
fn the_files_of_a_result_are_uploaded_only_while_the_spool_has_it() {
    let fixture = SlotPoolFixture::new();
    let slot_pool = &fixture.slot_pool;
    let prepared = fixture.prepared(Duration::ZERO);
    let mut files = OutgoingFiles::new(&slot_pool.outgoing);
    let hash = slot_pool.outgoing.add_bytes(b"content", &mut files).unwrap();
    // Like a result that was revoked after it was put into the spool.
    slot_pool.add_uploads_if_wanted(prepared.attempt_id, [hash]);
    assert_eq!(slot_pool.uploads.needed_by(&hash), []);
    let complete = CompletedAttempt {
        attempt_id: prepared.attempt_id,
        form: TaskForm::CURRENT,
        end: AttemptEnd::Result(TaskResult::default()),
    };
    slot_pool.spool_end(complete, Some(files), Duration::ZERO);
    assert_eq!(slot_pool.uploads.needed_by(&hash), [prepared.attempt_id]);

    let answer = ReportInstructions {
        delete: vec![prepared.attempt_id],
        ..ReportInstructions::default()
    };
    let dropped = slot_pool.spool.on_answered(&[], &answer, now());
    assert!(
        slot_pool.outgoing.has_references(&hash),
        "until its upload has ended"
    );
    drop(dropped);
    assert!(!slot_pool.outgoing.has_references(&hash));
}

#[test]
fn while_memory_is_low_no_attempt_starts_and_new_ones_are_given_back() {
    let mut fixture = SlotPoolFixture::new();
    let slot_pool = fixture.slot_pool.clone();
    let before = fixture.prepared(Duration::ZERO);
    let starts_later = before.attempt_id;
    slot_pool.enqueue(before);
    slot_pool.reserve.on_memory_low(&slot_pool);
    // The pool is closed so that `next_attempt` does not block: a free slot gets no attempt.
    slot_pool.close();
    assert!(slot_pool.next_attempt().is_none());
    let prepared = fixture.prepared(Duration::ZERO);
    let attempt_id = prepared.attempt_id;
    slot_pool.enqueue(prepared);
    assert_eq!(fixture.given_back(), [attempt_id]);
    let prepared = fixture.prepared(Duration::ZERO);
    let attempt_id = prepared.attempt_id;
    slot_pool.put_back(prepared);
    assert_eq!(fixture.given_back(), [attempt_id]);

    slot_pool.reserve.on_memory_recovered(&slot_pool);
    assert_eq!(
        slot_pool.next_attempt().map(|prepared| prepared.attempt_id),
        Some(starts_later)
    );
}

#[test]
fn a_waiting_slot_is_woken_when_memory_recovers() {
    let fixture = SlotPoolFixture::new();
    let slot_pool = fixture.slot_pool.clone();
    slot_pool.enqueue(fixture.prepared(Duration::ZERO));
    slot_pool.reserve.on_memory_low(&slot_pool);
    let (sender, began) = std::sync::mpsc::channel();
    let slot = std::thread::spawn({
        let slot_pool = slot_pool.clone();
        move || sender.send(slot_pool.next_attempt().is_some())
    });
    let none = began.recv_timeout(Duration::from_millis(50));
    assert!(none.is_err(), "an attempt started while memory was low");
    slot_pool.reserve.on_memory_recovered(&slot_pool);
    assert_eq!(began.recv_timeout(Duration::from_secs(60)), Ok(true));
    slot.join().unwrap().unwrap();
}
