use std::sync::Arc;
use std::time::Duration;

use model::{
    Assignment, AttemptEnd, AttemptId, AttemptNumber, CompletedAttempt, ExecutingAttempt, ExecutorInfo,
    InvalidField, Report, ReportAnswer, ReportInstructions, ReportIntent, ReportSeq, UnixTime,
};

use super::ids::{encode_id, parse_executor, parse_id};
use super::task::{parse_form, parse_spec};
use super::{
    ParseMessage, log_left_out, micros, parse_each, parse_known_text, parse_optional, parse_required, proto,
};

impl From<Report> for proto::ReportRequest {
    fn from(report: Report) -> Self {
        proto::ReportRequest {
            executor: report.executor.to_string(),
            session: encode_id(report.session.0),
            seq: report.seq.0,
            acked: report.acked.0,
            succeeds: report.succeeds.map(|session| encode_id(session.0)),
            complete: report.complete.into_iter().map(Into::into).collect(),
            executing: report.executing.into_iter().map(Into::into).collect(),
            vacant: report.vacant,
            slots: report.executor_info.slots,
            host: report.executor_info.host,
            version: report.executor_info.version,
            self_kill: micros(report.executor_info.self_kill),
            leaving: report.intent == ReportIntent::Leave,
            capacity: report.executor_info.capacity.map(Into::into),
            newest_form: report.executor_info.newest_form.0,
            tools: report.executor_info.tools.as_deref().map(Into::into),
            load: report.executor_info.load.map(Into::into),
        }
    }
}

impl ParseMessage<Report> for proto::ReportRequest {
    /// A completed attempt of an unknown form, or with an unknown reason, is taken for one that still executes: its executor
    /// keeps the attempt, and reports it again to a newer judicator.
    fn parse(self) -> Result<Report, InvalidField> {
        let (mut known, mut executing) = (Vec::new(), self.executing);
        for complete in self.complete {
            let handout = complete.handout.clone();
            let is_known = parse_form(complete.form).is_known();
            let parsed = is_known.then(|| complete.parse());
            match parsed {
                Some(Ok(complete)) => known.push(complete),
                unknown => {
                    if let Some(Err(invalid)) = unknown {
                        log_left_out("complete", &invalid);
                    }
                    executing.push(proto::Executing {
                        handout,
                        status: None,
                    });
                }
            }
        }
        Ok(Report {
            executor: parse_executor(self.executor)?,
            session: parse_id("session", &self.session)?,
            seq: ReportSeq(self.seq),
            acked: ReportSeq(self.acked),
            succeeds: self
                .succeeds
                .map(|bytes| parse_id("succeeds", &bytes))
                .transpose()?,
            complete: known,
            executing: parse_each("executing", executing)?,
            vacant: self.vacant,
            executor_info: ExecutorInfo {
                slots: self.slots,
                host: self.host,
                version: self.version,
                self_kill: Duration::from_micros(self.self_kill),
                capacity: self.capacity.map(Into::into),
                newest_form: parse_form(self.newest_form),
                tools: parse_optional("tools", self.tools)?.map(Arc::new),
                load: self.load.map(Into::into),
            },
            intent: if self.leaving {
                ReportIntent::Leave
            } else {
                ReportIntent::Stay
            },
        })
    }
}

impl From<AttemptId> for proto::Handout {
    fn from(id: AttemptId) -> Self {
        proto::Handout {
            task: encode_id(id.task.0),
            session: encode_id(id.session.0),
            attempt: id.attempt.0,
        }
    }
}

impl ParseMessage<AttemptId> for proto::Handout {
    fn parse(self) -> Result<AttemptId, InvalidField> {
        Ok(AttemptId {
            task: parse_id("task", &self.task)?,
            session: parse_id("session", &self.session)?,
            attempt: AttemptNumber(self.attempt),
        })
    }
}

impl From<CompletedAttempt> for proto::Complete {
    fn from(complete: CompletedAttempt) -> Self {
        let platform_failure = matches!(complete.end, AttemptEnd::PlatformFailure(_));
        let end = match complete.end {
            AttemptEnd::Result(result) => proto::complete::End::Result(result.into()),
            AttemptEnd::Broken(why) | AttemptEnd::PlatformFailure(why) => proto::complete::End::Broken(why),
        };
        proto::Complete {
            handout: Some(complete.attempt_id.into()),
            end: Some(end),
            platform_failure,
            form: complete.form.0,
        }
    }
}

impl ParseMessage<CompletedAttempt> for proto::Complete {
    fn parse(self) -> Result<CompletedAttempt, InvalidField> {
        let end = match self.end {
            Some(proto::complete::End::Result(result)) => AttemptEnd::Result(result.parse()?),
            Some(proto::complete::End::Broken(why)) if self.platform_failure => {
                AttemptEnd::PlatformFailure(why)
            }
            Some(proto::complete::End::Broken(why)) => AttemptEnd::Broken(why),
            None => return Err(InvalidField::new("end", "is missing")),
        };
        Ok(CompletedAttempt {
            attempt_id: parse_required("handout", self.handout)?,
            form: parse_form(self.form),
            end,
        })
    }
}

impl From<ExecutingAttempt> for proto::Executing {
    fn from(executing: ExecutingAttempt) -> Self {
        proto::Executing {
            handout: Some(executing.attempt_id.into()),
            status: executing.status.map(|status| status.to_string()),
        }
    }
}

impl ParseMessage<ExecutingAttempt> for proto::Executing {
    /// A status that only newer versions know is no new status. The rest of the report counts.
    fn parse(self) -> Result<ExecutingAttempt, InvalidField> {
        Ok(ExecutingAttempt {
            attempt_id: parse_required("handout", self.handout)?,
            status: self
                .status
                .and_then(|status| parse_known_text("executing.status", &status)),
        })
    }
}

impl From<ReportAnswer> for proto::ReportAnswer {
    fn from(answer: ReportAnswer) -> Self {
        use proto::report_answer::Answer as Wire;
        let answer = match answer {
            ReportAnswer::Done(answer) => Wire::Done(proto::Handled {
                delete: answer.delete.into_iter().map(Into::into).collect(),
                upload_again: answer.upload_again.into_iter().map(Into::into).collect(),
                assign: answer.assign.into_iter().map(Into::into).collect(),
                drain: answer.drain.map(Into::into),
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

impl ParseMessage<ReportAnswer> for proto::ReportAnswer {
    fn parse(self) -> Result<ReportAnswer, InvalidField> {
        use proto::report_answer::Answer as Wire;
        Ok(match self.answer {
            Some(Wire::Done(handled)) => ReportAnswer::Done(ReportInstructions {
                delete: parse_each("delete", handled.delete)?,
                upload_again: parse_each("upload_again", handled.upload_again)?,
                assign: parse_each("assign", handled.assign)?,
                drain: parse_optional("drain", handled.drain)?,
            }),
            Some(Wire::Stale(_)) => ReportAnswer::Stale,
            Some(Wire::Ended(_)) => ReportAnswer::Ended,
            Some(Wire::Occupied(other)) => ReportAnswer::Occupied {
                host: other.host,
                since: UnixTime(other.since),
            },
            None => return Err(InvalidField::new("answer", "is missing")),
        })
    }
}

impl From<Assignment> for proto::Assignment {
    fn from(assignment: Assignment) -> Self {
        proto::Assignment {
            handout: Some(assignment.attempt_id.into()),
            spec: Some(assignment.spec.into()),
            platform_losses: assignment.platform_losses,
        }
    }
}

impl ParseMessage<Assignment> for proto::Assignment {
    fn parse(self) -> Result<Assignment, InvalidField> {
        Ok(Assignment {
            attempt_id: parse_required("handout", self.handout)?,
            spec: parse_spec(self.spec)?,
            platform_losses: self.platform_losses,
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{SessionId, TaskForm, TaskId};

    use super::*;

    #[test]
    fn an_attempt_end_is_unchanged_and_an_older_judicator_parses_a_platform_failure_as_broken() {
        let why = || "no warden".to_string();
        let complete = |end| CompletedAttempt {
            attempt_id: AttemptId {
                task: TaskId(uuid::Uuid::now_v7()),
                session: SessionId(uuid::Uuid::now_v7()),
                attempt: AttemptNumber(2),
            },
            form: TaskForm::CURRENT,
            end,
        };
        for end in [AttemptEnd::Broken(why()), AttemptEnd::PlatformFailure(why())] {
            let sent = complete(end);
            let read: CompletedAttempt = proto::Complete::from(sent.clone()).parse().unwrap();
            assert_eq!(read, sent);
        }
        let without_field = proto::Complete {
            platform_failure: false,
            ..complete(AttemptEnd::PlatformFailure(why())).into()
        };
        let read: CompletedAttempt = without_field.parse().unwrap();
        assert_eq!(read.end, AttemptEnd::Broken(why()));
    }

    /// An older judicator must neither end such an attempt nor make its executor stop it.
    #[test]
    fn a_completed_attempt_of_an_unknown_form_still_executes() {
        let attempt_id = AttemptId {
            task: TaskId(uuid::Uuid::now_v7()),
            session: SessionId(uuid::Uuid::now_v7()),
            attempt: AttemptNumber(1),
        };
        let complete = |form| proto::Complete {
            handout: Some(attempt_id.into()),
            end: Some(proto::complete::End::Result(proto::TaskResult::default())),
            platform_failure: false,
            form,
        };
        let request = proto::ReportRequest {
            executor: "e".into(),
            session: encode_id(attempt_id.session.0),
            complete: vec![complete(TaskForm::NEWEST.0), complete(TaskForm::NEWEST.0 + 1)],
            ..proto::ReportRequest::default()
        };
        let report = request.parse().unwrap();
        assert_eq!(report.complete.len(), 1);
        assert_eq!(
            report.executing,
            [ExecutingAttempt {
                attempt_id,
                status: None
            }]
        );
        assert_eq!(report.executor_info.newest_form, TaskForm::UNRECORDED);
    }

    /// One word of a newer version must not cost the executor its lease.
    #[test]
    fn an_unknown_status_or_reason_leaves_the_rest_of_the_report() {
        let session = SessionId(uuid::Uuid::now_v7());
        let attempt_id = |number| AttemptId {
            task: TaskId(uuid::Uuid::from_u128(number)),
            session,
            attempt: AttemptNumber(1),
        };
        let executing = |number, status: &str| proto::Executing {
            handout: Some(attempt_id(number).into()),
            status: Some(status.into()),
        };
        let complete = |number, reason: &str| proto::Complete {
            handout: Some(attempt_id(number).into()),
            end: Some(proto::complete::End::Result(proto::TaskResult {
                execute: Some(proto::Outcome {
                    reason: reason.into(),
                    ..proto::Outcome::default()
                }),
                ..proto::TaskResult::default()
            })),
            platform_failure: false,
            form: TaskForm::NEWEST.0,
        };
        let request = proto::ReportRequest {
            executor: "e".into(),
            session: encode_id(session.0),
            seq: 7,
            executing: vec![executing(1, "running"), executing(2, "hibernating")],
            complete: vec![complete(3, "exited"), complete(4, "moon_phase")],
            ..proto::ReportRequest::default()
        };
        let report = request.parse().unwrap();
        assert_eq!((report.seq, report.complete.len()), (ReportSeq(7), 1));
        assert_eq!(report.complete[0].attempt_id, attempt_id(3));
        let expected = [(1, Some(model::TaskStatus::Running)), (2, None), (4, None)];
        let expected = expected.map(|(number, status)| ExecutingAttempt {
            attempt_id: attempt_id(number),
            status,
        });
        assert_eq!(report.executing, expected);
    }
}
