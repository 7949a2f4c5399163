//! Runs the report loop against a judicator whose answers the test writes, on Tokio's paused clock.
//!
//! The slots have no threads: the test takes attempts from the slot pool and ends them itself. With a paused clock, waiting
//! takes no real time: Tokio advances the clock to the next timer when all tasks wait.

use async_trait::async_trait;
use model::{Assignment, BlobHash, Content, KeptFile, Report, TaskResult, TaskStatus, WorkspacePath};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::fake_judicator::{AnswerReport, FakeBlobDownload, FakeJudicatorCalls, FakeUploads, PendingUpload};
use super::*;
use crate::fixtures;
use crate::outgoing::OutgoingFiles;
use crate::run::RunResult;
use crate::slot_pool::PreparedAttempt;

pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);
pub(super) const SELF_KILL: Duration = Duration::from_secs(12);
/// How long the loop waits for an answer before it drops the report.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
pub(super) const STOP_GRACE: Duration = Duration::from_secs(20);

/// On the paused clock: a test that waits this long fails instead of waiting for ever.
const TOO_LONG: Duration = Duration::from_secs(3600);

/// A test's handle on a running report loop: the test receives and answers its reports, and plays its slots.
pub(super) struct LoopHarness {
    reports: mpsc::UnboundedReceiver<PendingReport>,
    pub(super) uploads: mpsc::UnboundedReceiver<PendingUpload>,
    pub(super) fake_uploads: FakeUploads,
    pub(super) slot_pool: Arc<SlotPool>,
    pub(super) stop: CancellationToken,
    running: JoinHandle<Result<(), ExecutorError>>,
    folder: tempfile::TempDir,
}

/// A report that the report loop under test has sent and that the test has not answered yet.
pub(super) struct PendingReport {
    pub(super) report: Report,
    pub(super) received_at: Instant,
    answer: oneshot::Sender<Result<ReportAnswer, CallError>>,
}

/// The answers of a fake judicator that passes each report to the test and waits for the test's answer.
struct AnswersOfTest {
    reports: mpsc::UnboundedSender<PendingReport>,
}

#[async_trait]
impl AnswerReport for AnswersOfTest {
    async fn answer(&self, report: Report) -> Result<ReportAnswer, CallError> {
        let (answer, answered) = oneshot::channel();
        let _ = self.reports.send(PendingReport {
            report,
            received_at: now(),
            answer,
        });
        match answered.await {
            Ok(answer) => answer,
            // The test has dropped the report: no answer ever arrives.
            Err(_) => std::future::pending().await,
        }
    }
}

impl LoopHarness {
    pub(super) fn start(judicator_location: JudicatorLocation) -> LoopHarness {
        LoopHarness::start_in(tempfile::tempdir().unwrap(), judicator_location)
    }

    /// Starts an executor in the data folder of an earlier one.
    pub(super) fn start_in(folder: tempfile::TempDir, judicator_location: JudicatorLocation) -> LoopHarness {
        LoopHarness::start_with(folder, |options| options.judicator_location = judicator_location)
    }

    /// Starts an executor with other options than usual.
    pub(super) fn start_with(
        folder: tempfile::TempDir,
        change: impl FnOnce(&mut ExecutorOptions),
    ) -> LoopHarness {
        let (sender, reports) = mpsc::unbounded_channel();
        let (fake_uploads, uploads) = FakeUploads::new();
        let judicator = FakeJudicatorCalls {
            answers: AnswersOfTest { reports: sender },
            blob: FakeBlobDownload::Missing,
            uploads: fake_uploads.clone(),
        };
        let mut options = ExecutorOptions {
            slots: 2,
            heartbeat: HEARTBEAT,
            self_kill: SELF_KILL,
            stop_grace: STOP_GRACE,
            ..options(folder.path())
        };
        change(&mut options);
        let report_loop = assemble(options, Arc::new(judicator));
        let (slot_pool, stop) = (report_loop.slot_pool.clone(), CancellationToken::new());
        // The channel of the threads is closed, as there are none.
        let (_, ended) = mpsc::channel(1);
        let threads = SlotThreads {
            threads: Vec::new(),
            ended,
        };
        LoopHarness {
            reports,
            uploads,
            fake_uploads,
            slot_pool,
            running: tokio::spawn(report_loop.run(threads, stop.clone())),
            stop,
            folder,
        }
    }

    /// An executor that runs one attempt, which it has also reported.
    pub(super) async fn with_running_attempt(
        judicator_location: JudicatorLocation,
    ) -> (LoopHarness, PreparedAttempt) {
        let mut harness = LoopHarness::start(judicator_location);
        let first = harness.next_report().await;
        let attempt_id = attempt_id(first.report.session);
        first.answer(assign(&[attempt_id]));
        let attempt = harness.start_attempt().await.expect("the assigned attempt");
        let second = harness.next_report().await;
        assert_eq!(named(&second.report), [attempt_id]);
        second.answer(acknowledge(&[]));
        (harness, attempt)
    }

    /// The next report of a loop that runs.
    pub(super) async fn next_report(&mut self) -> PendingReport {
        let next = tokio::time::timeout(TOO_LONG, self.reports.recv()).await;
        next.expect("the loop sends reports").expect("the loop runs")
    }

    /// The next report; `None` when the loop has ended. Without a timeout: a loop that ends waits for real threads, and the
    /// paused clock would run ahead of them.
    pub(super) async fn next_report_or_end(&mut self) -> Option<PendingReport> {
        self.reports.recv().await
    }

    /// Answers reports until one carries results.
    pub(super) async fn next_report_with_results(&mut self) -> PendingReport {
        loop {
            let pending = self.next_report().await;
            if !pending.report.complete.is_empty() {
                return pending;
            }
            pending.answer(acknowledge(&[]));
        }
    }

    /// Whether a report has reached the judicator that the test has not seen.
    pub(super) async fn has_unseen_report(&mut self) -> bool {
        tokio::task::yield_now().await;
        !self.reports.is_empty()
    }

    /// Takes the next attempt as a free slot does, if there is one.
    pub(super) async fn start_attempt(&mut self) -> Option<PreparedAttempt> {
        // The loop handles the answer as soon as the test waits, before any timer fires.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let attempt = self.slot_pool.try_next_attempt()?;
        let started = SlotEvent::AttemptStarted(attempt.attempt_id, TaskStatus::Running);
        self.slot_pool.send_event(started);
        Some(attempt)
    }

    pub(super) fn finish(&self, attempt: &PreparedAttempt) {
        let result = RunResult {
            result: TaskResult::default(),
            files: OutgoingFiles::new(&self.slot_pool.outgoing),
        };
        self.slot_pool.finish_attempt(attempt, Some(result));
    }

    /// Asserts that the wardens' deadline is `SELF_KILL` after a report was sent. The loop leaves out small extensions.
    #[track_caller]
    pub(super) fn assert_deadline_counts_from(&self, sent_at: Instant) {
        let deadline = self.slot_pool.warden_deadline().expect("a deadline");
        let latest = sent_at + SELF_KILL;
        let allowed = latest - SELF_KILL / 10..=latest;
        assert!(
            allowed.contains(&deadline),
            "{:?} after {allowed:?}",
            deadline - *allowed.start()
        );
    }

    /// Ends an attempt with a result that names a blob with this content.
    pub(super) fn finish_with_file(&self, attempt: &PreparedAttempt, content: &str) -> BlobHash {
        let outgoing = &self.slot_pool.outgoing;
        let mut files = OutgoingFiles::new(outgoing);
        let blob = outgoing.add_bytes(content.as_bytes(), &mut files).unwrap();
        let file = KeptFile {
            path: WorkspacePath::new("out").unwrap(),
            size: content.len() as u64,
            blob,
            executable: false,
        };
        let result = TaskResult {
            execute: Some(fixtures::outcome()),
            files: vec![file],
            ..TaskResult::default()
        };
        self.slot_pool
            .finish_attempt(attempt, Some(RunResult { result, files }));
        blob
    }

    /// The next upload that reaches the judicator.
    pub(super) async fn next_upload(&mut self) -> PendingUpload {
        let next = tokio::time::timeout(TOO_LONG, self.uploads.recv()).await;
        next.expect("an upload").expect("the judicator runs")
    }

    /// Waits for the end of the loop, which must send no further report.
    pub(super) async fn end(mut self) -> Result<(), ExecutorError> {
        let further = self.next_report_or_end().await;
        assert!(further.is_none(), "a report after the last one");
        self.running.await.expect("no panic")
    }

    /// Answers reports until the loop has ended, and returns the last report and the data folder.
    pub(super) async fn end_answering(mut self) -> (Report, tempfile::TempDir) {
        let mut last = None;
        while let Some(pending) = self.next_report_or_end().await {
            last = Some(pending.answer(acknowledge(&[])));
        }
        self.running.await.expect("no panic").unwrap();
        (last.expect("a report"), self.folder)
    }
}

impl PendingReport {
    /// Answers the report. An answer to a report that the loop has dropped is lost.
    pub(super) fn answer(self, answer: ReportAnswer) -> Report {
        let _ = self.answer.send(Ok(answer));
        self.report
    }

    pub(super) fn fail(self, error: CallError) -> Report {
        let _ = self.answer.send(Err(error));
        self.report
    }

    /// Waits, without an answer, until the loop drops the report.
    pub(super) async fn time_out(mut self) -> Report {
        tokio::time::timeout(TOO_LONG, self.answer.closed())
            .await
            .expect("the loop drops the report");
        self.report
    }

    /// Whether the loop still waits for the answer.
    pub(super) fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }
}

/// An answer that assigns a small task for each of the attempts.
pub(super) fn assign(attempt_ids: &[AttemptId]) -> ReportAnswer {
    let assignment = |attempt_id: &AttemptId| Assignment {
        attempt_id: *attempt_id,
        spec: fixtures::spec(Content::empty()),
        platform_losses: 0,
    };
    ReportAnswer::Done(ReportInstructions {
        assign: attempt_ids.iter().map(assignment).collect(),
        ..ReportInstructions::default()
    })
}

/// An answer that acknowledges the results of these attempts.
pub(super) fn acknowledge(attempt_ids: &[AttemptId]) -> ReportAnswer {
    ReportAnswer::Done(ReportInstructions {
        delete: attempt_ids.to_vec(),
        ..ReportInstructions::default()
    })
}

/// The attempts that a report names as executing.
pub(super) fn named(report: &Report) -> Vec<AttemptId> {
    report
        .executing
        .iter()
        .map(|attempt| attempt.attempt_id)
        .collect()
}

/// The attempts whose results a report carries.
pub(super) fn completed(report: &Report) -> Vec<AttemptId> {
    report.complete.iter().map(|attempt| attempt.attempt_id).collect()
}
