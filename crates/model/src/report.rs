//! The report: how work is handed out, and how its results come back.
//!
//! One report at a time for each executor, numbered by `seq`. Every part of handling one is safe to repeat,
//! so a report that is lost, doubled or answered twice loses nothing and commits nothing twice.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Attempt, Capacity, ExecutorName, Moment, Seq, SessionId, Status, TaskId, TaskResult, TaskSpec};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub executor: ExecutorName,
    pub session: SessionId,
    pub seq: Seq,
    /// The last answer that came back; 0 for none.
    pub acked: Seq,
    /// The session that lived before on the same data folder, whose processes are known to be gone.
    pub succeeds: Option<SessionId>,
    pub complete: Vec<Complete>,
    /// Every other task that the executor has, whether it runs already or not.
    pub executing: Vec<Executing>,
    /// How many more tasks it can take.
    pub vacant: u32,
    pub presence: Presence,
    pub intent: Intent,
}

/// One attempt in full: which task, in which session, for the how-manieth time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handout {
    pub task: TaskId,
    pub session: SessionId,
    pub attempt: Attempt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    /// May be of an earlier session of this executor, found in its spool.
    pub handout: Handout,
    pub end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are the large one")]
pub enum End {
    Result(TaskResult),
    /// It came to nothing, and the task itself may be the cause: its slot hung, or its executor was killed. This uses
    /// up one of the task's attempts.
    Broken(String),
    /// The executor could not run it, by no fault of the task. Another may.
    PlatformFailure(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executing {
    pub handout: Handout,
    /// `Compiling` or `Running` once a step has begun.
    pub status: Option<Status>,
}

/// What an executor says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    pub slots: u32,
    pub host: String,
    pub version: String,
    /// Out of touch for so long, it stops its tasks by itself. Below the lease, or attempts would overlap.
    pub self_kill: Duration,
    /// What a slot can give to a task. None from an executor of an older version.
    pub capacity: Option<Capacity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    Stay,
    /// This is the session's last report: what it still holds is given back.
    Leave,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportAnswer {
    Done(Answer),
    /// A later report of this session was answered already; this one changed nothing.
    Stale,
    /// The session has ended. The executor drops what it runs and begins a new one.
    Ended,
    /// Another live session has this executor's name.
    Occupied {
        host: String,
        since: Moment,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Answer {
    /// Completed ones that are settled and may be forgotten; executing ones that must be killed.
    pub delete: Vec<Handout>,
    pub assign: Vec<Assignment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub handout: Handout,
    pub spec: TaskSpec,
    /// How many attempts before this one ended as [`End::PlatformFailure`].
    pub platform_losses: u32,
}

/// A task that the store says a session holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    pub handout: Handout,
    /// The report in whose answer it was handed out.
    pub given: Seq,
}

/// What becomes of the holdings that a report does not name.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settled {
    /// The executor had them and has them no more.
    pub release: Vec<Handout>,
    /// Handed out in an answer that never arrived: handed out again.
    pub assign: Vec<Handout>,
}

/// Step 4 of a report, over what the store says the session holds after steps 1 to 3.
pub fn settle(held: &[Holding], report: &Report) -> Settled {
    let named: BTreeSet<_> = report
        .executing
        .iter()
        .map(|executing| executing.handout)
        .chain(report.complete.iter().map(|complete| complete.handout))
        .collect();
    let mut settled = Settled::default();
    for holding in held.iter().filter(|holding| !named.contains(&holding.handout)) {
        // A leaving executor will not run what it has not even received.
        if holding.given <= report.acked || report.intent == Intent::Leave {
            settled.release.push(holding.handout);
        } else {
            settled.assign.push(holding.handout);
        }
    }
    settled
}

/// How a store judges a report's session before anything else is done: step 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The session's own next report, or a repeat of its last.
    Goes,
    /// A new session; the one before it, if it is still live, is over.
    Opens,
    Refused(ReportAnswer),
}

/// The session that a store has under an executor's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSession {
    pub session: SessionId,
    pub seq: Seq,
    pub live: bool,
    pub host: String,
    pub since: Moment,
}

pub fn standing(known: Option<&KnownSession>, report: &Report) -> Standing {
    let opens = report.seq == Seq(1);
    match known {
        Some(known) if known.session == report.session => {
            if report.seq < known.seq {
                Standing::Refused(ReportAnswer::Stale)
            } else if known.live {
                Standing::Goes
            } else {
                Standing::Refused(ReportAnswer::Ended)
            }
        }
        // Only a first report opens a session: a later one is of a session that was ended meanwhile.
        _ if !opens => Standing::Refused(ReportAnswer::Ended),
        Some(known) if known.live && report.succeeds != Some(known.session) => {
            Standing::Refused(ReportAnswer::Occupied {
                host: known.host.clone(),
                since: known.since,
            })
        }
        _ => Standing::Opens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(session: SessionId, seq: u64, acked: u64) -> Report {
        Report {
            executor: ExecutorName::new("e").unwrap(),
            session,
            seq: Seq(seq),
            acked: Seq(acked),
            succeeds: None,
            complete: vec![],
            executing: vec![],
            vacant: 1,
            presence: Presence {
                slots: 1,
                host: "h".into(),
                version: "v".into(),
                self_kill: Duration::from_secs(7),
                capacity: None,
            },
            intent: Intent::Stay,
        }
    }

    fn known(session: SessionId, seq: u64, live: bool) -> KnownSession {
        KnownSession {
            session,
            seq: Seq(seq),
            live,
            host: "other".into(),
            since: Moment(7),
        }
    }

    #[test]
    fn unnamed_holdings_are_released_or_handed_out_again() {
        let session = SessionId::generate();
        let hold = |given| Holding {
            handout: Handout {
                task: TaskId::generate(),
                session,
                attempt: Attempt(1),
            },
            given: Seq(given),
        };
        let (named, forgotten, lost) = (hold(2), hold(3), hold(4));
        let mut report = report(session, 5, 3);
        report.executing = vec![Executing {
            handout: named.handout,
            status: None,
        }];
        let held = [named, forgotten, lost];
        assert_eq!(
            settle(&held, &report),
            Settled {
                release: vec![forgotten.handout],
                assign: vec![lost.handout]
            }
        );
        report.intent = Intent::Leave;
        assert_eq!(
            settle(&held, &report),
            Settled {
                release: vec![forgotten.handout, lost.handout],
                assign: vec![]
            }
        );
    }

    #[test]
    fn sessions_are_fenced() {
        let (mine, other) = (SessionId::generate(), SessionId::generate());
        let stale = Standing::Refused(ReportAnswer::Stale);
        let ended = Standing::Refused(ReportAnswer::Ended);
        let occupied = Standing::Refused(ReportAnswer::Occupied {
            host: "other".into(),
            since: Moment(7),
        });
        let check = |known: Option<KnownSession>, seq, expected: &Standing| {
            assert_eq!(
                &standing(known.as_ref(), &report(mine, seq, 0)),
                expected,
                "{known:?} {seq}"
            );
        };
        check(None, 1, &Standing::Opens);
        check(None, 2, &ended);
        check(Some(known(mine, 3, true)), 4, &Standing::Goes);
        check(Some(known(mine, 3, true)), 3, &Standing::Goes);
        check(Some(known(mine, 3, true)), 2, &stale);
        check(Some(known(mine, 3, false)), 4, &ended);
        check(Some(known(mine, 3, false)), 2, &stale);
        check(Some(known(other, 3, true)), 1, &occupied);
        check(Some(known(other, 3, true)), 4, &ended);
        check(Some(known(other, 3, false)), 1, &Standing::Opens);
        let successor = Report {
            succeeds: Some(other),
            ..report(mine, 1, 0)
        };
        assert_eq!(
            standing(Some(&known(other, 3, true)), &successor),
            Standing::Opens
        );
    }
}
