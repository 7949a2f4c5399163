//! The figures that this process counts, in memory until they are saved.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{ActivityFigures, HistoryMinute, LoadSample, OutcomeReason, TaskStatus, UnixTime};
use store::{EndsWithoutResult, WrittenFigures};
use uuid::Uuid;

/// How many minutes are kept while the store fails. Older ones are forgotten.
const MAX_UNSAVED_MINUTES: usize = 120;

/// Counts what this judicator commits, minute by minute, until it is saved in the store.
pub(crate) struct HistoryRecorder {
    /// Names this process among the writers of figures.
    writer: Uuid,
    recorded: Mutex<RecordedMinutes>,
}

/// The minutes whose figures a judicator has in memory.
#[derive(Default)]
struct RecordedMinutes {
    minutes: BTreeMap<HistoryMinute, RecordedMinute>,
    /// The ends that were counted before.
    counted_ends: EndsWithoutResult,
}

/// The figures of one minute that a judicator has in memory: the current minute, or one that is not saved yet.
#[derive(Default)]
struct RecordedMinute {
    figures: ActivityFigures,
    unsaved: UnsavedChange,
    was_saved: bool,
}

/// What a judicator has recorded of a minute since it last saved its figures.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum UnsavedChange {
    #[default]
    Nothing,
    /// Only samples of the load. They are not worth a write of their own every few seconds while nothing happens.
    Load,
    Counts,
}

/// Which figures a judicator saves now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveScope {
    Due,
    /// The process is about to end.
    All,
}

/// A task that has finished with a result, as the history of a judicator counts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinishedRun {
    pub(crate) status: TaskStatus,
    /// The reason of its last step.
    pub(crate) reason: Option<OutcomeReason>,
    /// How long its steps took.
    pub(crate) run_time: Duration,
}

impl Default for HistoryRecorder {
    fn default() -> HistoryRecorder {
        HistoryRecorder {
            writer: Uuid::now_v7(),
            recorded: Mutex::default(),
        }
    }
}

impl HistoryRecorder {
    pub(crate) fn on_added(&self, now: UnixTime, tasks: u64) {
        if tasks > 0 {
            self.lock().figures(now, UnsavedChange::Counts).added += tasks;
        }
    }

    pub(crate) fn on_finished(&self, now: UnixTime, runs: impl IntoIterator<Item = FinishedRun>) {
        let mut runs = runs.into_iter().peekable();
        if runs.peek().is_none() {
            return;
        }
        let mut recorded = self.lock();
        let figures = recorded.figures(now, UnsavedChange::Counts);
        for run in runs {
            *figures.finished.entry(run.status).or_default() += 1;
            figures.run_times.record(run.run_time);
            if let Some(reason) = run.reason.filter(|_| run.status != TaskStatus::Success) {
                *figures.failures.entry(reason).or_default() += 1;
            }
        }
    }

    /// Counts the ends since the last call. `ends` are all of this process.
    pub(crate) fn on_ends(&self, now: UnixTime, ends: EndsWithoutResult) {
        let mut recorded = self.lock();
        let before = std::mem::replace(&mut recorded.counted_ends, ends);
        for (status, all, counted) in [
            (TaskStatus::Cancelled, ends.cancelled, before.cancelled),
            (TaskStatus::SystemError, ends.system_errors, before.system_errors),
        ] {
            let new = all.saturating_sub(counted);
            if new > 0 {
                let figures = recorded.figures(now, UnsavedChange::Counts);
                *figures.finished.entry(status).or_default() += new;
            }
        }
    }

    pub(crate) fn on_load(&self, now: UnixTime, sample: LoadSample) {
        let mut recorded = self.lock();
        let figures = recorded.figures(now, UnsavedChange::Load);
        figures.load.add(&sample.into());
    }

    /// The figures to save now. The caller then calls `on_saved` or `on_not_saved`.
    pub(super) fn begin_saving(&self, now: HistoryMinute, scope: SaveScope) -> Vec<WrittenFigures> {
        let mut recorded = self.lock();
        let due = recorded.minutes.iter_mut().filter(|(minute, recorded)| {
            let is_due = **minute < now || !recorded.was_saved || scope == SaveScope::All;
            match recorded.unsaved {
                UnsavedChange::Nothing => false,
                UnsavedChange::Load => is_due,
                UnsavedChange::Counts => true,
            }
        });
        let save = due.map(|(minute, recorded)| {
            recorded.unsaved = UnsavedChange::Nothing;
            recorded.was_saved = true;
            WrittenFigures {
                minute: *minute,
                writer: self.writer,
                figures: recorded.figures.clone(),
            }
        });
        save.collect()
    }

    /// Forgets the minutes that are over and saved.
    pub(super) fn on_saved(&self, now: HistoryMinute) {
        let is_needed = |minute: &HistoryMinute, recorded: &mut RecordedMinute| {
            *minute >= now || recorded.unsaved > UnsavedChange::Nothing
        };
        self.lock().minutes.retain(is_needed);
    }

    pub(super) fn on_not_saved(&self, figures: &[WrittenFigures]) {
        let mut recorded = self.lock();
        for figures in figures {
            if let Some(minute) = recorded.minutes.get_mut(&figures.minute) {
                minute.unsaved = UnsavedChange::Counts;
            }
        }
    }

    /// The figures in memory. They are newer than those that this process has written to the store.
    pub(crate) fn in_memory(&self) -> Vec<WrittenFigures> {
        let recorded = self.lock();
        let minutes = recorded.minutes.iter();
        let written = minutes.map(|(minute, recorded)| WrittenFigures {
            minute: *minute,
            writer: self.writer,
            figures: recorded.figures.clone(),
        });
        written.collect()
    }

    fn lock(&self) -> MutexGuard<'_, RecordedMinutes> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordedMinutes {
    /// The figures of the minute of this time, which the caller changes.
    fn figures(&mut self, now: UnixTime, change: UnsavedChange) -> &mut ActivityFigures {
        let minute = HistoryMinute::of(now);
        if !self.minutes.contains_key(&minute) && self.minutes.len() >= MAX_UNSAVED_MINUTES {
            self.minutes.pop_first();
        }
        let recorded = self.minutes.entry(minute).or_default();
        recorded.unsaved = recorded.unsaved.max(change);
        &mut recorded.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> UnixTime {
        HistoryMinute(minute).start().plus(Duration::from_secs(7))
    }

    fn run(status: TaskStatus, reason: OutcomeReason, millis: u64) -> FinishedRun {
        FinishedRun {
            status,
            reason: Some(reason),
            run_time: Duration::from_millis(millis),
        }
    }

    /// The minutes that are saved, with the number of tasks added.
    fn saved(recorder: &HistoryRecorder, now: i64, scope: SaveScope) -> Vec<(i64, u64)> {
        let saved = recorder.begin_saving(HistoryMinute(now), scope);
        let saved = saved.iter();
        saved
            .map(|written| (written.minute.0, written.figures.added))
            .collect()
    }

    #[test]
    fn what_was_committed_is_counted_in_its_minute() {
        let recorder = HistoryRecorder::default();
        recorder.on_added(at(5), 3);
        recorder.on_added(at(5), 0);
        let runs = [
            run(TaskStatus::Success, OutcomeReason::Exited, 5),
            run(TaskStatus::RunFailed, OutcomeReason::TimeLimit, 15),
            run(TaskStatus::CompileFailed, OutcomeReason::Exited, 10),
        ];
        recorder.on_finished(at(5), runs);
        recorder.on_finished(at(6), []);
        let ends = |cancelled, system_errors| EndsWithoutResult {
            cancelled,
            system_errors,
        };
        recorder.on_ends(at(5), ends(2, 0));
        recorder.on_ends(at(6), ends(2, 0));
        recorder.on_ends(at(7), ends(3, 1));
        let [five, seven] = &recorder.in_memory()[..] else {
            panic!("nothing happened in minute 6");
        };
        assert_eq!((five.minute, five.figures.added), (HistoryMinute(5), 3));
        let expected = [
            (TaskStatus::Success, 1),
            (TaskStatus::CompileFailed, 1),
            (TaskStatus::RunFailed, 1),
            (TaskStatus::Cancelled, 2),
        ];
        assert_eq!(five.figures.finished, expected.into());
        let failures = [(OutcomeReason::Exited, 1), (OutcomeReason::TimeLimit, 1)];
        assert_eq!(five.figures.failures, failures.into());
        let run_time = five.figures.run_times.summary().unwrap();
        assert_eq!((run_time.tasks, run_time.mean), (3, Duration::from_millis(10)));
        let expected = [(TaskStatus::Cancelled, 1), (TaskStatus::SystemError, 1)];
        assert_eq!(seven.figures.finished, expected.into());
    }

    #[test]
    fn figures_are_saved_until_their_minute_is_over() {
        use SaveScope::{All, Due};
        let recorder = HistoryRecorder::default();
        recorder.on_added(at(5), 1);
        assert_eq!(saved(&recorder, 5, Due), [(5, 1)]);
        recorder.on_saved(HistoryMinute(5));
        assert_eq!(saved(&recorder, 5, All), []);
        // Each write has all figures of the minute, so one that is repeated counts nothing twice.
        recorder.on_added(at(5), 2);
        recorder.on_added(at(6), 4);
        assert_eq!(saved(&recorder, 6, Due), [(5, 3), (6, 4)]);
        recorder.on_saved(HistoryMinute(6));
        assert_eq!(recorder.in_memory().len(), 1);
        recorder.on_added(at(6), 1);
        let failed = recorder.begin_saving(HistoryMinute(7), Due);
        recorder.on_not_saved(&failed);
        recorder.on_saved(HistoryMinute(7));
        assert_eq!(saved(&recorder, 7, Due), [(6, 5)]);
        recorder.on_saved(HistoryMinute(7));
        assert_eq!(recorder.in_memory(), []);
    }

    #[test]
    fn an_idle_judicator_saves_the_load_about_once_a_minute() {
        let recorder = HistoryRecorder::default();
        let mut saves = 0;
        for sample in 0..60 {
            let minute = 5 + sample / 6;
            recorder.on_load(at(minute), LoadSample::default());
            if !saved(&recorder, minute, SaveScope::Due).is_empty() {
                saves += 1;
                recorder.on_saved(HistoryMinute(minute));
            }
        }
        assert_eq!(saves, 10);
        assert_eq!(saved(&recorder, 14, SaveScope::All), [(14, 0)]);
    }

    #[test]
    fn a_store_that_fails_for_long_does_not_fill_the_memory() {
        let recorder = HistoryRecorder::default();
        for minute in 0..500 {
            recorder.on_added(at(minute), 1);
        }
        let kept = recorder.in_memory();
        assert_eq!(kept.len(), MAX_UNSAVED_MINUTES);
        assert_eq!(kept.last().unwrap().minute, HistoryMinute(499));
    }
}
