//! The session of this executor process: its id, the sequence numbers of its reports, and the session that it succeeds.

use std::io;
use std::time::{Duration, Instant};

use model::{ExecutorInfo, ExecutorName, Report, ReportIntent, ReportSeq, SessionId};

use crate::data_folder::SessionFile;
use crate::now;

/// The session of this executor process, under which it reports to judicators: its id and its report numbers. It also
/// knows the earlier sessions that it succeeds.
pub(super) struct ReportSession {
    pub(super) id: SessionId,
    file: SessionFile,
    seq: ReportSeq,
    acked: ReportSeq,
    /// Earlier sessions of this data folder that a judicator may still consider live, the newest last.
    previous: Vec<SessionId>,
    /// The index, from the newest, of the previous session that reports name; the judicator knows at most one of them.
    candidate: usize,
    occupied_since: Option<Instant>,
}

/// What the report loop does when the judicator says that another session uses this executor's name.
pub(super) enum NameConflict {
    TryAgain,
    GiveUp,
}

impl ReportSession {
    /// Starts a session and writes it to the file first, so that the next process always knows which session it succeeds.
    pub(super) fn open(file: SessionFile, previous: Vec<SessionId>) -> io::Result<ReportSession> {
        let session = ReportSession::succeeding(previous, file);
        session.file.write(&session.all())?;
        Ok(session)
    }

    /// Starts another session after a judicator has expired this one. The file is written in the background: a next
    /// process that does not find the new session there only has to wait for its lease to end.
    pub(super) fn renew(&mut self) {
        *self = ReportSession::succeeding(vec![self.id], self.file.clone());
        self.file.write_in_background(self.all());
    }

    fn succeeding(previous: Vec<SessionId>, file: SessionFile) -> ReportSession {
        ReportSession {
            id: SessionId(uuid::Uuid::now_v7()),
            file,
            seq: ReportSeq(0),
            acked: ReportSeq(0),
            previous,
            candidate: 0,
            occupied_since: None,
        }
    }

    fn all(&self) -> Vec<SessionId> {
        self.previous.iter().copied().chain([self.id]).collect()
    }

    /// Returns when the session file is up to date.
    pub(super) async fn wait_until_written(&self) {
        self.file.wait_until_written().await;
    }

    /// The header of the next report. The sequence number stays 1 until that report is answered, because only report 1
    /// can open a session.
    pub(super) fn next_report(&mut self, executor: ExecutorName, executor_info: ExecutorInfo) -> Report {
        if self.acked > ReportSeq(0) || self.seq == ReportSeq(0) {
            self.seq = self.seq.next();
        }
        Report {
            executor,
            session: self.id,
            seq: self.seq,
            acked: self.acked,
            succeeds: self.previous.iter().rev().nth(self.candidate).copied(),
            complete: Vec::new(),
            executing: Vec::new(),
            vacant: 0,
            executor_info,
            intent: ReportIntent::Stay,
        }
    }

    /// The session file may lag behind: to succeed a session that has already ended has no effect.
    pub(super) fn on_answered(&mut self, intent: ReportIntent) {
        self.acked = self.seq;
        self.occupied_since = None;
        if intent == ReportIntent::Leave {
            self.file.write_in_background(Vec::new());
        } else if !self.previous.is_empty() {
            self.previous.clear();
            self.file.write_in_background(vec![self.id]);
        }
    }

    /// The name belongs to a session other than the one that the report succeeds. It may be another previous session, so
    /// the next report names that.
    pub(super) fn on_occupied(&mut self, max_wait: Duration) -> NameConflict {
        let since = *self.occupied_since.get_or_insert_with(now);
        self.candidate = if self.previous.is_empty() {
            0
        } else {
            (self.candidate + 1) % self.previous.len()
        };
        if now() - since < max_wait {
            NameConflict::TryAgain
        } else {
            NameConflict::GiveUp
        }
    }
}
