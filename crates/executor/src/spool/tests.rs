mod results_with_files;

use std::fs::File;
use std::path::Path;
use std::sync::mpsc;

use model::{
    AttemptNumber, CapturedOutput, KeptFile, LeftOutReason, Outcome, OutcomeReason, SessionId, TaskId,
    TaskResult, TaskStatus, WorkspacePath,
};

use super::journal::JournalFile;
use super::*;
use crate::outgoing::OutgoingFolder;

fn complete(output: &[u8]) -> CompletedAttempt {
    let attempt_id = AttemptId {
        task: TaskId(uuid::Uuid::now_v7()),
        session: SessionId(uuid::Uuid::now_v7()),
        attempt: AttemptNumber(2),
    };
    let captured = CapturedOutput {
        truncated: true,
        ..CapturedOutput::small(output.to_vec())
    };
    let outcome = Outcome {
        reason: OutcomeReason::Signalled,
        exit_code: None,
        signal: Some(9),
        wall: Duration::from_micros(1234),
        cpu: Duration::from_micros(99),
        memory: 1 << 30,
        stdout: captured,
        stderr: CapturedOutput::default(),
    };
    let result = TaskResult {
        execute: Some(outcome),
        ..TaskResult::default()
    };
    CompletedAttempt {
        attempt_id,
        form: TaskForm(7),
        end: AttemptEnd::Result(result),
    }
}

/// A generous timeout for writes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn waiting(spool: &Spool) -> Vec<CompletedAttempt> {
    spool.next_batch(usize::MAX, usize::MAX).complete
}

/// The outgoing folder beside the journal.
fn outgoing(path: &Path) -> Arc<OutgoingFolder> {
    OutgoingFolder::open(path.with_file_name("outgoing"), 1 << 30).unwrap()
}

fn open(path: &Path) -> Spool {
    Spool::open(path, &[], &outgoing(path)).unwrap()
}

fn acknowledge(spool: &Spool, attempt_ids: &[AttemptId]) {
    let answer = ReportInstructions {
        delete: attempt_ids.to_vec(),
        ..ReportInstructions::default()
    };
    spool.on_answered(&[], &answer, Instant::now());
}

fn reopen(path: &Path) -> Vec<CompletedAttempt> {
    let spool = open(path);
    spool.close(SOON);
    waiting(&spool)
}

#[test]
fn results_survive_a_restart_until_they_are_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let mut kept = vec![complete(b"\0one"), complete(b"two")];
    kept.push(CompletedAttempt {
        attempt_id: complete(b"").attempt_id,
        form: TaskForm::UNRECORDED,
        end: AttemptEnd::Broken("no room".into()),
    });
    kept.push(CompletedAttempt {
        attempt_id: complete(b"").attempt_id,
        form: TaskForm::UNRECORDED,
        end: AttemptEnd::PlatformFailure("no warden".into()),
    });
    let spool = open(&path);
    for complete in &kept {
        spool.add(complete.clone(), None, Duration::ZERO);
    }
    spool.close(SOON);
    kept.sort_by_key(|complete| complete.attempt_id);
    assert_eq!(reopen(&path), kept);

    let spool = open(&path);
    let attempt_ids: Vec<_> = kept.iter().map(|complete| complete.attempt_id).collect();
    acknowledge(&spool, &attempt_ids[..1]);
    assert!(!spool.contains(&attempt_ids[0]) && spool.contains(&attempt_ids[1]));
    acknowledge(&spool, &attempt_ids[1..]);
    spool.close(SOON);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn an_interrupted_attempt_without_a_result_is_written_to_the_journal_on_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let (ended, cut_short) = (complete(b"ended"), complete(b"").attempt_id);
    let spool = open(&path);
    spool.add(ended.clone(), None, Duration::ZERO);
    spool.close(SOON);
    let interrupted = [ended.attempt_id, cut_short].map(|attempt_id| (attempt_id, TaskForm(9)));
    let _open = Spool::open(&path, &interrupted, &outgoing(&path)).unwrap();
    let found = reopen(&path);
    assert_eq!(found.len(), 2);
    assert!(found.contains(&ended), "{found:?}");
    let is_interrupted = |complete: &CompletedAttempt| {
        (complete.attempt_id, complete.form) == (cut_short, TaskForm(9))
            && matches!(complete.end, AttemptEnd::Broken(_))
    };
    assert!(found.iter().any(is_interrupted), "{found:?}");
}

#[test]
fn a_truncated_record_does_not_affect_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let (first, second) = (complete(b"first"), complete(b"second"));
    let (mut journal, _) = JournalFile::open(&path).unwrap();
    journal.append(&[first.clone(), second]).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(length - 3).unwrap();
    assert_eq!(reopen(&path), [first]);
}

#[test]
fn a_batch_has_at_least_one_result_and_lists_the_others() {
    let spool = Spool::start(SpoolTable::default(), HangingJournal::new().0).unwrap();
    let mut kept = [(); 3].map(|()| complete(&[7; 1000]));
    kept.iter()
        .for_each(|complete| spool.add(complete.clone(), None, Duration::ZERO));
    kept.sort_by_key(|complete| complete.attempt_id);
    let check = |bytes: usize, results: usize, expected: usize| {
        let batch = spool.next_batch(bytes, results);
        assert_eq!(batch.complete, kept[..expected]);
        let left: Vec<_> = kept[expected..]
            .iter()
            .map(|complete| complete.attempt_id)
            .collect();
        assert_eq!(batch.left_over, left);
    };
    check(0, 0, 1);
    check(2500, 10, 2);
    check(5000, 2, 2);
    check(5000, 3, 3);
}

#[test]
fn a_paused_result_is_listed_and_reported_when_its_pause_is_over() {
    let spool = Spool::start(SpoolTable::default(), HangingJournal::new().0).unwrap();
    let [result, short, long, cancelled] = [(); 4].map(|()| complete(b""));
    let minute = Duration::from_secs(60);
    spool.add(result.clone(), None, Duration::ZERO);
    spool.add(short.clone(), None, minute);
    spool.add(long.clone(), None, 2 * minute);
    spool.add(cancelled.clone(), None, 2 * minute);
    let ordered = |mut complete: Vec<CompletedAttempt>| {
        complete.sort_by_key(|complete| complete.attempt_id);
        complete
    };
    let check = |batch: &[&CompletedAttempt], paused: &[&CompletedAttempt]| {
        let found = spool.next_batch(usize::MAX, usize::MAX);
        assert_eq!(found.complete, ordered(batch.iter().copied().cloned().collect()));
        let paused = ordered(paused.iter().copied().cloned().collect());
        let paused: Vec<_> = paused.iter().map(|complete| complete.attempt_id).collect();
        assert_eq!((found.paused, found.left_over), (paused, vec![]));
    };
    check(&[&result], &[&short, &long, &cancelled]);
    let ends = spool.next_pause_ends().unwrap();
    assert!(!spool.end_pauses_if_over(ends - Duration::from_nanos(1)));
    assert!(spool.end_pauses_if_over(ends));
    assert!(!spool.end_pauses_if_over(ends), "only once");
    check(&[&result, &short], &[&long, &cancelled]);
    acknowledge(&spool, &[cancelled.attempt_id]);
    check(&[&result, &short], &[&long]);
    assert!(spool.end_all_pauses());
    check(&[&result, &short, &long], &[]);
    assert_eq!(spool.next_pause_ends(), None);
}

#[test]
fn the_number_of_paused_results_is_bounded() {
    let spool = Spool::start(SpoolTable::default(), HangingJournal::new().0).unwrap();
    for _ in 0..=MAX_PAUSED {
        spool.add(complete(b""), None, Duration::from_secs(60));
    }
    let batch = spool.next_batch(usize::MAX, usize::MAX);
    assert_eq!((batch.paused.len(), batch.complete.len()), (MAX_PAUSED, 1));
}

/// A journal for tests of the spool on a hanging disk: its writes block until the test resumes them.
pub(crate) struct HangingJournal {
    resume: mpsc::Receiver<()>,
    written: Arc<Mutex<Vec<CompletedAttempt>>>,
}

/// The test's handle on a [`HangingJournal`]: dropping `resume` lets the blocked writes continue.
pub(crate) struct HangingJournalControl {
    pub(crate) resume: mpsc::Sender<()>,
    pub(crate) written: Arc<Mutex<Vec<CompletedAttempt>>>,
}

impl HangingJournal {
    fn new() -> (HangingJournal, HangingJournalControl) {
        let (sender, resume) = mpsc::channel();
        let written = Arc::default();
        let hold = HangingJournalControl {
            resume: sender,
            written: Arc::clone(&written),
        };
        (HangingJournal { resume, written }, hold)
    }
}

impl Journal for HangingJournal {
    fn length(&self) -> u64 {
        self.written.lock().unwrap().len() as u64
    }

    fn append(&mut self, results: &[CompletedAttempt]) -> io::Result<()> {
        // Nothing is ever sent; this returns when the sender is dropped.
        let _ = self.resume.recv();
        self.written.lock().unwrap().extend_from_slice(results);
        Ok(())
    }

    fn rewrite(&mut self, results: &[CompletedAttempt]) -> io::Result<()> {
        let _ = self.resume.recv();
        *self.written.lock().unwrap() = results.to_vec();
        Ok(())
    }
}

/// A spool with a [`HangingJournal`].
pub(crate) fn spool_on_hanging_disk() -> (Spool, HangingJournalControl) {
    let (journal, hold) = HangingJournal::new();
    (Spool::start(SpoolTable::default(), journal).unwrap(), hold)
}

#[test]
fn the_table_works_while_the_disk_hangs_and_unacknowledged_results_are_written_later() {
    let (spool, hold) = spool_on_hanging_disk();
    let (first, second, third) = (complete(b"1"), complete(b"2"), complete(b"3"));
    spool.add(first.clone(), None, Duration::ZERO);
    spool.add(second.clone(), None, Duration::ZERO);
    acknowledge(&spool, &[first.attempt_id]);
    assert_eq!(waiting(&spool), std::slice::from_ref(&second));
    spool.add(third.clone(), None, Duration::ZERO);
    // The first end of an attempt is kept.
    let given_up = CompletedAttempt {
        end: AttemptEnd::Broken("given up".into()),
        ..third.clone()
    };
    spool.add(given_up, None, Duration::ZERO);
    spool.close(Duration::ZERO);
    let HangingJournalControl { resume, written } = hold;
    drop(resume);
    spool.close(SOON);
    let found = written.lock().unwrap().clone();
    assert!(found.contains(&second) && found.contains(&third), "{found:?}");
}

#[test]
fn results_in_a_hanging_write_count_as_not_written() {
    let (spool, hold) = spool_on_hanging_disk();
    let (first, second) = (complete(b"1"), complete(b"2"));
    spool.add(first.clone(), None, Duration::ZERO);
    let taken = |spool: &Spool| spool.shared.table().unwritten.is_empty();
    let deadline = Instant::now() + SOON;
    while !taken(&spool) {
        assert!(Instant::now() < deadline, "the writer has not started");
        std::thread::yield_now();
    }
    assert_eq!(spool.close(Duration::ZERO), 1);
    spool.add(second, None, Duration::ZERO);
    assert_eq!(spool.close(Duration::ZERO), 2);
    // A judicator has acknowledged it.
    acknowledge(&spool, &[first.attempt_id]);
    assert_eq!(spool.close(Duration::ZERO), 1);
    drop(hold.resume);
    assert_eq!(spool.close(SOON), 0);
}

/// A journal for tests of the spool on a failing disk: its first writes fail.
struct FailingJournal {
    left: usize,
    refused: mpsc::Sender<()>,
    written: Arc<Mutex<Vec<CompletedAttempt>>>,
}

impl Journal for FailingJournal {
    fn length(&self) -> u64 {
        self.written.lock().unwrap().len() as u64
    }

    fn append(&mut self, results: &[CompletedAttempt]) -> io::Result<()> {
        if self.left > 0 {
            self.left -= 1;
            let _ = self.refused.send(());
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.lock().unwrap().extend_from_slice(results);
        Ok(())
    }

    fn rewrite(&mut self, _: &[CompletedAttempt]) -> io::Result<()> {
        unreachable!()
    }
}

#[test]
fn a_failed_write_is_retried_once_when_the_spool_is_closed() {
    let check = |refusals: usize, lost: usize| {
        let (refused, on_refused) = mpsc::channel();
        let written = Arc::default();
        let journal = FailingJournal {
            left: refusals,
            refused,
            written: Arc::clone(&written),
        };
        let spool = Spool::start(SpoolTable::default(), journal).unwrap();
        spool.add(complete(b"1"), None, Duration::ZERO);
        on_refused.recv_timeout(SOON).unwrap();
        assert_eq!(spool.close(SOON), lost);
        assert_eq!(written.lock().unwrap().len(), 1 - lost);
    };
    check(1, 0);
    // A failing disk does not block the close.
    check(usize::MAX, 1);
}

#[test]
fn a_replaced_end_is_the_one_that_the_next_process_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let spool = open(&path);
    let first = complete(b"first");
    spool.add(first.clone(), None, Duration::ZERO);
    let broken = || AttemptEnd::Broken("lost".into());
    assert!(spool.replace(&first.attempt_id, |_| broken()));
    assert!(!spool.replace(&complete(b"").attempt_id, |_| broken()));
    spool.close(SOON);
    let expected = CompletedAttempt {
        end: broken(),
        ..first
    };
    assert_eq!(reopen(&path), [expected]);
}

/// The bound on a report: heads and the list of files are bounded, so the largest result fits.
#[test]
fn the_largest_result_fits_into_a_report_of_1_mib() {
    let largest = CapturedOutput {
        head: vec![7; CapturedOutput::MAX_HEAD].into(),
        size: u64::MAX,
        blob: Some(BlobHash([7; 32])),
        truncated: true,
    };
    let outcome = Outcome {
        stdout: largest.clone(),
        stderr: largest,
        ..crate::fixtures::outcome()
    };
    let file = |number: usize| KeptFile {
        path: WorkspacePath::new(format!("{number:0>255}")).unwrap(),
        size: u64::MAX,
        blob: BlobHash([7; 32]),
        executable: true,
    };
    let files = (512 << 10) / (255 + crate::collect::LISTED_FILE_BYTES);
    let result = TaskResult {
        compile: Some(outcome.clone()),
        execute: Some(outcome),
        files: (0..files).map(file).collect(),
        ..TaskResult::default()
    };
    let end = AttemptEnd::Result(result);
    assert!(report_bytes(&end) <= 800 << 10, "{}", report_bytes(&end));
    let encoded = record::encode(&CompletedAttempt { end, ..complete(b"") });
    assert!(encoded.len() < 1 << 20, "{}", encoded.len());
}
