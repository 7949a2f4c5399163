use std::fs::File;
use std::sync::mpsc;

use model::{Attempt, Captured, Outcome, Reason, SessionId, TaskId, TaskResult};

use super::*;

fn complete(output: &[u8]) -> Complete {
    let handout = Handout {
        task: TaskId::generate(),
        session: SessionId::generate(),
        attempt: Attempt(2),
    };
    let captured = Captured {
        bytes: output.to_vec().into(),
        truncated: true,
    };
    let outcome = Outcome {
        reason: Reason::Signalled,
        exit_code: None,
        signal: Some(9),
        wall: Duration::from_micros(1234),
        cpu: Duration::from_micros(99),
        memory: 1 << 30,
        stdout: captured,
        stderr: Captured::default(),
    };
    let result = TaskResult {
        compile: None,
        execute: Some(outcome),
    };
    Complete {
        handout,
        end: End::Result(result),
    }
}

/// Long enough for any write on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn waiting(spool: &Spool) -> Vec<Complete> {
    spool.carry(usize::MAX, usize::MAX).complete
}

fn reopen(path: &Path) -> Vec<Complete> {
    let spool = Spool::open(path, &[]).unwrap();
    spool.close(SOON);
    waiting(&spool)
}

#[test]
fn results_outlive_the_process_until_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let mut kept = vec![complete(b"\0one"), complete(b"two")];
    kept.push(Complete {
        handout: complete(b"").handout,
        end: End::Broken("no room".into()),
    });
    kept.push(Complete {
        handout: complete(b"").handout,
        end: End::PlatformFailure("no warden".into()),
    });
    let spool = Spool::open(&path, &[]).unwrap();
    for complete in &kept {
        spool.keep(complete.clone(), Duration::ZERO);
    }
    spool.close(SOON);
    kept.sort_by_key(|complete| complete.handout);
    assert_eq!(reopen(&path), kept);

    let spool = Spool::open(&path, &[]).unwrap();
    let handouts: Vec<_> = kept.iter().map(|complete| complete.handout).collect();
    spool.on_answered(&handouts[..1]);
    assert!(!spool.contains(&handouts[0]) && spool.contains(&handouts[1]));
    spool.on_answered(&handouts[1..]);
    spool.close(SOON);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn an_interrupted_attempt_is_in_the_journal_at_once_unless_it_has_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let (ended, cut_short) = (complete(b"ended"), complete(b"").handout);
    let spool = Spool::open(&path, &[]).unwrap();
    spool.keep(ended.clone(), Duration::ZERO);
    spool.close(SOON);
    let _open = Spool::open(&path, &[ended.handout, cut_short]).unwrap();
    let found = reopen(&path);
    assert_eq!(found.len(), 2);
    assert!(found.contains(&ended), "{found:?}");
    let is_interrupted =
        |complete: &Complete| complete.handout == cut_short && matches!(complete.end, End::Broken(_));
    assert!(found.iter().any(is_interrupted), "{found:?}");
}

#[test]
fn a_record_cut_off_takes_no_other_along() {
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
fn a_report_carries_one_result_at_least_and_names_the_others() {
    let spool = Spool::start(Table::default(), Hanging::new().0).unwrap();
    let mut kept = [(); 3].map(|()| complete(&[7; 1000]));
    kept.iter()
        .for_each(|complete| spool.keep(complete.clone(), Duration::ZERO));
    kept.sort_by_key(|complete| complete.handout);
    let check = |bytes: usize, results: usize, expected: usize| {
        let carried = spool.carry(bytes, results);
        assert_eq!(carried.complete, kept[..expected]);
        let left: Vec<_> = kept[expected..].iter().map(|complete| complete.handout).collect();
        assert_eq!(carried.left, left);
    };
    check(0, 0, 1);
    check(2500, 10, 2);
    check(5000, 2, 2);
    check(5000, 3, 3);
}

#[test]
fn what_pauses_is_named_and_carried_only_when_its_pause_is_over() {
    let spool = Spool::start(Table::default(), Hanging::new().0).unwrap();
    let [result, short, long, cancelled] = [(); 4].map(|()| complete(b""));
    let minute = Duration::from_secs(60);
    spool.keep(result.clone(), Duration::ZERO);
    spool.keep(short.clone(), minute);
    spool.keep(long.clone(), 2 * minute);
    spool.keep(cancelled.clone(), 2 * minute);
    let ordered = |mut complete: Vec<Complete>| {
        complete.sort_by_key(|complete| complete.handout);
        complete
    };
    let check = |carried: &[&Complete], paused: &[&Complete]| {
        let found = spool.carry(usize::MAX, usize::MAX);
        assert_eq!(
            found.complete,
            ordered(carried.iter().copied().cloned().collect())
        );
        let paused = ordered(paused.iter().copied().cloned().collect());
        let paused: Vec<_> = paused.iter().map(|complete| complete.handout).collect();
        assert_eq!((found.paused, found.left), (paused, vec![]));
    };
    check(&[&result], &[&short, &long, &cancelled]);
    let ends = spool.next_pause_ends().unwrap();
    assert!(!spool.end_pauses_if_over(ends - Duration::from_nanos(1)));
    assert!(spool.end_pauses_if_over(ends));
    assert!(!spool.end_pauses_if_over(ends), "once");
    check(&[&result, &short], &[&long, &cancelled]);
    spool.on_answered(&[cancelled.handout]);
    check(&[&result, &short], &[&long]);
    assert!(spool.end_all_pauses());
    check(&[&result, &short, &long], &[]);
    assert_eq!(spool.next_pause_ends(), None);
}

#[test]
fn a_bounded_number_pauses() {
    let spool = Spool::start(Table::default(), Hanging::new().0).unwrap();
    for _ in 0..=MOST_PAUSED {
        spool.keep(complete(b""), Duration::from_secs(60));
    }
    let carried = spool.carry(usize::MAX, usize::MAX);
    assert_eq!((carried.paused.len(), carried.complete.len()), (MOST_PAUSED, 1));
}

/// What an earlier version of the executor makes of it: a loss that uses up an attempt, and no end of the journal.
#[test]
fn a_platform_failure_reads_as_broken_without_what_is_behind_its_document() {
    let failure = Complete {
        end: End::PlatformFailure("no warden".into()),
        ..complete(b"")
    };
    let broken = Complete {
        end: End::Broken("no warden".into()),
        ..failure.clone()
    };
    let [failure, broken] = [failure, broken].map(|complete| record::encode(&complete));
    let body = |record: &[u8]| record[12..].to_vec();
    assert_eq!(body(&failure), [body(&broken), vec![1]].concat());
}

/// A disk that takes nothing until it is let go.
pub(crate) struct Hanging {
    go_on: mpsc::Receiver<()>,
    written: Arc<Mutex<Vec<Complete>>>,
}

/// The disk goes on when `go_on` is dropped.
pub(crate) struct Hold {
    pub(crate) go_on: mpsc::Sender<()>,
    pub(crate) written: Arc<Mutex<Vec<Complete>>>,
}

impl Hanging {
    fn new() -> (Hanging, Hold) {
        let (sender, go_on) = mpsc::channel();
        let written = Arc::default();
        let hold = Hold {
            go_on: sender,
            written: Arc::clone(&written),
        };
        (Hanging { go_on, written }, hold)
    }
}

impl Journal for Hanging {
    fn length(&self) -> u64 {
        self.written.lock().unwrap().len() as u64
    }

    fn append(&mut self, results: &[Complete]) -> io::Result<()> {
        // Nothing is ever sent: this returns when the other end is dropped.
        let _ = self.go_on.recv();
        self.written.lock().unwrap().extend_from_slice(results);
        Ok(())
    }

    fn rewrite(&mut self, results: &[Complete]) -> io::Result<()> {
        let _ = self.go_on.recv();
        *self.written.lock().unwrap() = results.to_vec();
        Ok(())
    }
}

/// A spool on such a disk.
pub(crate) fn hanging() -> (Spool, Hold) {
    let (journal, hold) = Hanging::new();
    (Spool::start(Table::default(), journal).unwrap(), hold)
}

#[test]
fn nobody_waits_for_a_disk_that_hangs_and_what_is_unanswered_is_written_later() {
    let (spool, hold) = hanging();
    let (first, second, third) = (complete(b"1"), complete(b"2"), complete(b"3"));
    spool.keep(first.clone(), Duration::ZERO);
    spool.keep(second.clone(), Duration::ZERO);
    spool.on_answered(&[first.handout]);
    assert_eq!(waiting(&spool), std::slice::from_ref(&second));
    spool.keep(third.clone(), Duration::ZERO);
    // The first end stands.
    let given_up = Complete {
        end: End::Broken("given up".into()),
        ..third.clone()
    };
    spool.keep(given_up, Duration::ZERO);
    spool.close(Duration::ZERO);
    let Hold { go_on, written } = hold;
    drop(go_on);
    spool.close(SOON);
    let found = written.lock().unwrap().clone();
    assert!(found.contains(&second) && found.contains(&third), "{found:?}");
}

#[test]
fn results_that_a_hanging_disk_has_in_hand_are_counted_as_lost() {
    let (spool, hold) = hanging();
    let (first, second) = (complete(b"1"), complete(b"2"));
    spool.keep(first.clone(), Duration::ZERO);
    let taken = |spool: &Spool| spool.shared.table().unwritten.is_empty();
    let deadline = Instant::now() + SOON;
    while !taken(&spool) {
        assert!(Instant::now() < deadline, "the writer takes nothing");
        std::thread::yield_now();
    }
    assert_eq!(spool.close(Duration::ZERO), 1);
    spool.keep(second, Duration::ZERO);
    assert_eq!(spool.close(Duration::ZERO), 2);
    // A judicator has it.
    spool.on_answered(&[first.handout]);
    assert_eq!(spool.close(Duration::ZERO), 1);
    drop(hold.go_on);
    assert_eq!(spool.close(SOON), 0);
}

/// A disk that refuses so many writes.
struct Refusing {
    left: usize,
    refused: mpsc::Sender<()>,
    written: Arc<Mutex<Vec<Complete>>>,
}

impl Journal for Refusing {
    fn length(&self) -> u64 {
        self.written.lock().unwrap().len() as u64
    }

    fn append(&mut self, results: &[Complete]) -> io::Result<()> {
        if self.left > 0 {
            self.left -= 1;
            let _ = self.refused.send(());
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.written.lock().unwrap().extend_from_slice(results);
        Ok(())
    }

    fn rewrite(&mut self, _: &[Complete]) -> io::Result<()> {
        unreachable!()
    }
}

#[test]
fn a_disk_that_refused_is_tried_once_more_at_the_end() {
    let check = |refusals: usize, lost: usize| {
        let (refused, on_refused) = mpsc::channel();
        let written = Arc::default();
        let journal = Refusing {
            left: refusals,
            refused,
            written: Arc::clone(&written),
        };
        let spool = Spool::start(Table::default(), journal).unwrap();
        spool.keep(complete(b"1"), Duration::ZERO);
        on_refused.recv_timeout(SOON).unwrap();
        assert_eq!(spool.close(SOON), lost);
        assert_eq!(written.lock().unwrap().len(), 1 - lost);
    };
    check(1, 0);
    // It does not hold up the end.
    check(usize::MAX, 1);
}
