//! One life of the executor towards the judicators: its number, the reports' numbers, whom it succeeds.

use std::io;
use std::time::{Duration, Instant};

use model::{ExecutorName, Intent, Presence, Report, Seq, SessionId};

use crate::home::Home;

pub(super) struct Session {
    pub(super) id: SessionId,
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
    pub(super) fn open(home: &Home) -> io::Result<Session> {
        let session = Session::after(home.former_sessions.clone());
        session.remember(home)?;
        Ok(session)
    }

    /// The session was ended without us: begin another, which knows that the old one is over. It is begun even if
    /// it cannot be written down: then a next life has to wait for its lease, and that is all.
    pub(super) fn renew(&mut self, home: &Home) -> io::Result<()> {
        *self = Session::after(vec![self.id]);
        self.remember(home)
    }

    fn after(former: Vec<SessionId>) -> Session {
        Session {
            id: SessionId::generate(),
            seq: Seq(0),
            acked: Seq(0),
            former,
            candidate: 0,
            occupied_since: None,
        }
    }

    fn remember(&self, home: &Home) -> io::Result<()> {
        let all: Vec<_> = self.former.iter().copied().chain([self.id]).collect();
        home.remember_sessions(&all)
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

    pub(super) fn on_answered(&mut self, home: &Home, intent: Intent) -> io::Result<()> {
        self.acked = self.seq;
        self.occupied_since = None;
        if intent == Intent::Leave {
            return home.remember_sessions(&[]);
        }
        if !self.former.is_empty() {
            self.former.clear();
            return home.remember_sessions(&[self.id]);
        }
        Ok(())
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
