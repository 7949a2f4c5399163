use std::time::Duration;

use model::{
    Answer, Assignment, Attempt, Complete, End, Executing, Handout, Intent, Invalid, Moment, Presence,
    Report, ReportAnswer, Seq,
};

use super::ids::{executor_in, id_in, id_out};
use super::task::spec_in;
use super::{Incoming, each, micros, proto, required, text};

impl From<Report> for proto::ReportRequest {
    fn from(report: Report) -> Self {
        proto::ReportRequest {
            executor: report.executor.to_string(),
            session: id_out(report.session.0),
            seq: report.seq.0,
            acked: report.acked.0,
            succeeds: report.succeeds.map(|session| id_out(session.0)),
            complete: report.complete.into_iter().map(Into::into).collect(),
            executing: report.executing.into_iter().map(Into::into).collect(),
            vacant: report.vacant,
            slots: report.presence.slots,
            host: report.presence.host,
            version: report.presence.version,
            self_kill: micros(report.presence.self_kill),
            leaving: report.intent == Intent::Leave,
            capacity: report.presence.capacity.map(Into::into),
        }
    }
}

impl Incoming<Report> for proto::ReportRequest {
    fn read(self) -> Result<Report, Invalid> {
        Ok(Report {
            executor: executor_in(self.executor)?,
            session: id_in("session", &self.session)?,
            seq: Seq(self.seq),
            acked: Seq(self.acked),
            succeeds: self.succeeds.map(|bytes| id_in("succeeds", &bytes)).transpose()?,
            complete: each("complete", self.complete)?,
            executing: each("executing", self.executing)?,
            vacant: self.vacant,
            presence: Presence {
                slots: self.slots,
                host: self.host,
                version: self.version,
                self_kill: Duration::from_micros(self.self_kill),
                capacity: self.capacity.map(Into::into),
            },
            intent: if self.leaving { Intent::Leave } else { Intent::Stay },
        })
    }
}

impl From<Handout> for proto::Handout {
    fn from(handout: Handout) -> Self {
        proto::Handout {
            task: id_out(handout.task.0),
            session: id_out(handout.session.0),
            attempt: handout.attempt.0,
        }
    }
}

impl Incoming<Handout> for proto::Handout {
    fn read(self) -> Result<Handout, Invalid> {
        Ok(Handout {
            task: id_in("task", &self.task)?,
            session: id_in("session", &self.session)?,
            attempt: Attempt(self.attempt),
        })
    }
}

impl From<Complete> for proto::Complete {
    fn from(complete: Complete) -> Self {
        let platform_failure = matches!(complete.end, End::PlatformFailure(_));
        let end = match complete.end {
            End::Result(result) => proto::complete::End::Result(result.into()),
            End::Broken(why) | End::PlatformFailure(why) => proto::complete::End::Broken(why),
        };
        proto::Complete {
            handout: Some(complete.handout.into()),
            end: Some(end),
            platform_failure,
        }
    }
}

impl Incoming<Complete> for proto::Complete {
    fn read(self) -> Result<Complete, Invalid> {
        let end = match self.end {
            Some(proto::complete::End::Result(result)) => End::Result(result.read()?),
            Some(proto::complete::End::Broken(why)) if self.platform_failure => End::PlatformFailure(why),
            Some(proto::complete::End::Broken(why)) => End::Broken(why),
            None => return Err(Invalid::new("end", "is missing")),
        };
        Ok(Complete {
            handout: required("handout", self.handout)?,
            end,
        })
    }
}

impl From<Executing> for proto::Executing {
    fn from(executing: Executing) -> Self {
        proto::Executing {
            handout: Some(executing.handout.into()),
            status: executing.status.map(|status| status.to_string()),
        }
    }
}

impl Incoming<Executing> for proto::Executing {
    fn read(self) -> Result<Executing, Invalid> {
        Ok(Executing {
            handout: required("handout", self.handout)?,
            status: self.status.map(|status| text("status", &status)).transpose()?,
        })
    }
}

impl From<ReportAnswer> for proto::ReportAnswer {
    fn from(answer: ReportAnswer) -> Self {
        use proto::report_answer::Answer as Wire;
        let answer = match answer {
            ReportAnswer::Done(answer) => Wire::Done(proto::Handled {
                delete: answer.delete.into_iter().map(Into::into).collect(),
                assign: answer.assign.into_iter().map(Into::into).collect(),
            }),
            ReportAnswer::Stale => Wire::Stale(proto::Nothing {}),
            ReportAnswer::Ended => Wire::Ended(proto::Nothing {}),
            ReportAnswer::Occupied { host, since } => {
                Wire::Occupied(proto::Occupied { host, since: since.0 })
            }
        };
        proto::ReportAnswer { answer: Some(answer) }
    }
}

impl Incoming<ReportAnswer> for proto::ReportAnswer {
    fn read(self) -> Result<ReportAnswer, Invalid> {
        use proto::report_answer::Answer as Wire;
        Ok(match self.answer {
            Some(Wire::Done(handled)) => ReportAnswer::Done(Answer {
                delete: each("delete", handled.delete)?,
                assign: each("assign", handled.assign)?,
            }),
            Some(Wire::Stale(_)) => ReportAnswer::Stale,
            Some(Wire::Ended(_)) => ReportAnswer::Ended,
            Some(Wire::Occupied(other)) => ReportAnswer::Occupied {
                host: other.host,
                since: Moment(other.since),
            },
            None => return Err(Invalid::new("answer", "is missing")),
        })
    }
}

impl From<Assignment> for proto::Assignment {
    fn from(assignment: Assignment) -> Self {
        proto::Assignment {
            handout: Some(assignment.handout.into()),
            spec: Some(assignment.spec.into()),
            platform_losses: assignment.platform_losses,
        }
    }
}

impl Incoming<Assignment> for proto::Assignment {
    fn read(self) -> Result<Assignment, Invalid> {
        Ok(Assignment {
            handout: required("handout", self.handout)?,
            spec: spec_in(self.spec)?,
            platform_losses: self.platform_losses,
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{SessionId, TaskId};

    use super::*;

    #[test]
    fn ends_survive_the_wire_and_an_older_judicator_reads_a_platform_failure_as_broken() {
        let why = || "no warden".to_string();
        let complete = |end| Complete {
            handout: Handout {
                task: TaskId::generate(),
                session: SessionId::generate(),
                attempt: Attempt(2),
            },
            end,
        };
        for end in [End::Broken(why()), End::PlatformFailure(why())] {
            let sent = complete(end);
            let read: Complete = proto::Complete::from(sent.clone()).read().unwrap();
            assert_eq!(read, sent);
        }
        let without_field = proto::Complete {
            platform_failure: false,
            ..complete(End::PlatformFailure(why())).into()
        };
        let read: Complete = without_field.read().unwrap();
        assert_eq!(read.end, End::Broken(why()));
    }
}
