//! One life of the executor towards the judicators: its number, the reports' numbers, whom it succeeds.

use std::io;
use std::time::{Duration, Instant};

use model::{ExecutorName, Intent, Presence, Report, Seq, SessionId};

use crate::home::SessionFile;

pub(super) struct Session {
    pub(super) id: SessionId,
    file: SessionFile,
    seq: Seq,
    acked: Seq,
    /// Sessions of this folder that a judicator may still take for alive, the last one last.
    former: Vec<SessionId>,
    /// Which of them is to be succeeded; the judicator knows one of them at the most.
    candidate: usize,
    occupied_since: Option<Instant>,
}

pub(super) enum Occupied {
    TryAgain,
    Refused,
}

impl Session {
    /// In the file when this returns: whatever happens then, the next life knows whom it succeeds.
    pub(super) fn open(file: SessionFile, former: Vec<SessionId>) -> io::Result<Session> {
        let session = Session::after(former, file);
        session.file.write(&session.all())?;
        Ok(session)
    }

    /// The session was ended without us: begin another, which knows that the old one is over. Its first report does not
    /// wait for the disk. A next life that does not find it in the file has to wait for its lease, and that is all.
    pub(super) fn renew(&mut self) {
        *self = Session::after(vec![self.id], self.file.clone());
        self.file.write_soon(self.all());
    }

    fn after(former: Vec<SessionId>, file: SessionFile) -> Session {
        Session {
            id: SessionId::generate(),
            file,
            seq: Seq(0),
            acked: Seq(0),
            former,
            candidate: 0,
            occupied_since: None,
        }
    }

    fn all(&self) -> Vec<SessionId> {
        self.former.iter().copied().chain([self.id]).collect()
    }

    /// Returns when the file says what it should.
    pub(super) async fn written(&self) {
        self.file.written().await;
    }

    /// The next report, with nothing in it yet. Until the first is answered it stays the first: only that one
    /// can open a session.
    pub(super) fn next_report(&mut self, executor: ExecutorName, presence: Presence) -> Report {
        if self.acked > Seq(0) || self.seq == Seq(0) {
            self.seq = self.seq.next();
        }
        Report {
            executor,
            session: self.id,
            seq: self.seq,
            acked: self.acked,
            succeeds: self.former.iter().rev().nth(self.candidate).copied(),
            complete: Vec::new(),
            executing: Vec::new(),
            vacant: 0,
            presence,
            intent: Intent::Stay,
        }
    }

    /// The file may lag behind: a former session that is named once more is over, and naming it does nothing.
    pub(super) fn on_answered(&mut self, intent: Intent) {
        self.acked = self.seq;
        self.occupied_since = None;
        if intent == Intent::Leave {
            self.file.write_soon(Vec::new());
        } else if !self.former.is_empty() {
            self.former.clear();
            self.file.write_soon(vec![self.id]);
        }
    }

    /// The name belongs to a session that is not the one we named: it may be another of ours.
    pub(super) fn on_occupied(&mut self, patience: Duration) -> Occupied {
        let since = *self.occupied_since.get_or_insert_with(Instant::now);
        self.candidate = if self.former.is_empty() {
            0
        } else {
            (self.candidate + 1) % self.former.len()
        };
        if since.elapsed() < patience {
            Occupied::TryAgain
        } else {
            Occupied::Refused
        }
    }
}
