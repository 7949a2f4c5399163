use model::{AttemptNumber, InvalidField, Page, StatusCounts, TaskCounts, TaskQuery, TaskSummary, UnixTime};

use super::ids::{encode_id, parse_executor, parse_group, parse_id, parse_language, parse_user};
use super::task::{encode_labels, parse_labels};
use super::{ParseMessage, parse_known, parse_known_text, parse_text, proto};
use crate::TaskEvent;

impl From<TaskQuery> for proto::Query {
    fn from(query: TaskQuery) -> Self {
        let is_strict = query.language.is_some();
        let order = |wanted: bool| wanted.then(|| query.order.to_string());
        proto::Query {
            ids: query.ids.into_iter().map(|id| encode_id(id.0)).collect(),
            id_prefix: query.id_prefix.map(|prefix| prefix.to_string()),
            user: query.user.map(|user| user.to_string()),
            statuses: query
                .statuses
                .into_iter()
                .map(|status| status.to_string())
                .collect(),
            reasons: query.reasons.iter().map(ToString::to_string).collect(),
            labels: encode_labels(query.labels),
            group: query.group.map(|name| name.to_string()),
            retried: query.retried,
            language: query.language.map(|name| name.to_string()),
            executor: query.executor.map(|name| name.to_string()),
            from: query.from.map(|time| time.0),
            until: query.until.map(|time| time.0),
            text: query.text,
            order: order(!is_strict).unwrap_or_default(),
            strict_order: order(is_strict),
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
            after: query.after.map(|cursor| cursor.to_string()),
        }
    }
}

impl ParseMessage<TaskQuery> for proto::Query {
    fn parse(self) -> Result<TaskQuery, InvalidField> {
        Ok(TaskQuery {
            ids: self
                .ids
                .iter()
                .map(|id| parse_id("id", id))
                .collect::<Result<_, _>>()?,
            id_prefix: self
                .id_prefix
                .map(|prefix| parse_text("id_prefix", &prefix))
                .transpose()?,
            user: self.user.map(parse_user).transpose()?,
            statuses: self
                .statuses
                .iter()
                .map(|status| parse_text("status", status))
                .collect::<Result<_, _>>()?,
            reasons: self
                .reasons
                .iter()
                .map(|reason| parse_text("reason", reason))
                .collect::<Result<_, _>>()?,
            labels: parse_labels(self.labels)?,
            group: self.group.map(parse_group).transpose()?,
            language: self.language.map(parse_language).transpose()?,
            retried: self.retried,
            executor: self.executor.map(parse_executor).transpose()?,
            from: self.from.map(UnixTime),
            until: self.until.map(UnixTime),
            text: self.text,
            order: parse_text("order", self.strict_order.as_ref().unwrap_or(&self.order))?,
            limit: self.limit as usize,
            after: self
                .after
                .map(|cursor| parse_text("after", &cursor))
                .transpose()?,
        })
    }
}

impl From<Page> for proto::Page {
    fn from(page: Page) -> Self {
        proto::Page {
            tasks: page.tasks.into_iter().map(Into::into).collect(),
            next: page.next.map(|cursor| cursor.to_string()),
            incomplete: !page.complete,
        }
    }
}

impl ParseMessage<Page> for proto::Page {
    fn parse(self) -> Result<Page, InvalidField> {
        Ok(Page {
            tasks: parse_known("tasks", self.tasks),
            next: self.next.map(|cursor| parse_text("next", &cursor)).transpose()?,
            complete: !self.incomplete,
        })
    }
}

impl From<TaskCounts> for proto::TaskCounts {
    fn from(counts: TaskCounts) -> Self {
        let count = |(status, tasks): (model::TaskStatus, u64)| proto::Count {
            status: status.to_string(),
            tasks,
        };
        proto::TaskCounts {
            counts: counts.counts.into_iter().map(count).collect(),
            incomplete: !counts.complete,
        }
    }
}

impl ParseMessage<TaskCounts> for proto::TaskCounts {
    fn parse(self) -> Result<TaskCounts, InvalidField> {
        let count =
            |count: proto::Count| Some((parse_known_text("counts.status", &count.status)?, count.tasks));
        Ok(TaskCounts {
            counts: self
                .counts
                .into_iter()
                .filter_map(count)
                .collect::<StatusCounts>(),
            complete: !self.incomplete,
        })
    }
}

impl From<TaskSummary> for proto::Brief {
    fn from(brief: TaskSummary) -> Self {
        proto::Brief {
            id: encode_id(brief.id.0),
            user: brief.user.to_string(),
            priority: brief.priority,
            command: brief.command,
            status: brief.status.to_string(),
            reason: brief.reason.map(|reason| reason.to_string()),
            labels: encode_labels(brief.labels),
            group: brief.group.map(|name| name.to_string()),
            language: brief.language.map(|name| name.to_string()),
            executor: brief.executor.map(|name| name.to_string()),
            attempt: brief.attempt.0,
            add_time: brief.add_time.0,
            start_time: brief.start_time.map(|time| time.0),
            finish_time: brief.finish_time.map(|time| time.0),
        }
    }
}

impl ParseMessage<TaskSummary> for proto::Brief {
    fn parse(self) -> Result<TaskSummary, InvalidField> {
        Ok(TaskSummary {
            id: parse_id("id", &self.id)?,
            user: parse_user(self.user)?,
            priority: self.priority,
            command: self.command,
            status: parse_text("status", &self.status)?,
            reason: self
                .reason
                .and_then(|reason| parse_known_text("tasks.reason", &reason)),
            labels: parse_labels(self.labels)?,
            group: self.group.map(parse_group).transpose()?,
            language: self.language.map(parse_language).transpose()?,
            executor: self.executor.map(parse_executor).transpose()?,
            attempt: AttemptNumber(self.attempt),
            add_time: UnixTime(self.add_time),
            start_time: self.start_time.map(UnixTime),
            finish_time: self.finish_time.map(UnixTime),
        })
    }
}

impl From<TaskEvent> for proto::Event {
    fn from(event: TaskEvent) -> Self {
        proto::Event {
            id: encode_id(event.id.0),
            status: event.status.to_string(),
            executor: event.executor.map(|name| name.to_string()),
            time: event.time.0,
        }
    }
}

impl ParseMessage<TaskEvent> for proto::Event {
    fn parse(self) -> Result<TaskEvent, InvalidField> {
        Ok(TaskEvent {
            id: parse_id("id", &self.id)?,
            status: parse_text("status", &self.status)?,
            executor: self.executor.map(parse_executor).transpose()?,
            time: UnixTime(self.time),
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{ExecutorName, SortOrder, TaskId, TaskStatus, UserName};

    use super::*;

    #[test]
    fn a_query_is_unchanged_by_encoding_and_parsing() {
        let mut query = TaskQuery {
            ids: vec![TaskId(uuid::Uuid::now_v7())],
            id_prefix: Some("01890a5d-ac".parse().unwrap()),
            user: Some(UserName::new("ada").unwrap()),
            statuses: vec![TaskStatus::Running, TaskStatus::Success],
            reasons: vec![model::OutcomeReason::TimeLimit],
            labels: model::Labels::new([("a".to_string(), "b".to_string())].into()).unwrap(),
            group: Some(model::GroupName::new("sweep").unwrap()),
            language: Some(model::LanguageName::new("c++").unwrap()),
            retried: Some(false),
            executor: Some(ExecutorName::new("e-1").unwrap()),
            from: Some(UnixTime(1)),
            until: Some(UnixTime(2)),
            text: Some("g++".into()),
            order: SortOrder::Oldest,
            limit: 7,
            after: None,
        };
        query.after = Some(model::SearchCursor {
            add_time: UnixTime(3),
            id: TaskId(uuid::Uuid::now_v7()),
            fingerprint: query.fingerprint(),
        });
        let sent: proto::Query = query.clone().into();
        // Judicators that do not know languages must refuse the query, not leave the condition out.
        assert_eq!(
            (sent.order.as_str(), sent.strict_order.as_deref()),
            ("", Some("oldest"))
        );
        assert_eq!(ParseMessage::<TaskQuery>::parse(sent), Ok(query.clone()));
        query.language = None;
        let sent: proto::Query = query.clone().into();
        assert_eq!(
            (sent.order.as_str(), sent.strict_order.as_deref()),
            ("oldest", None)
        );
        assert_eq!(ParseMessage::<TaskQuery>::parse(sent), Ok(query));
    }

    #[test]
    fn counts_keep_their_complete_flag() {
        for complete in [true, false] {
            let counts = TaskCounts {
                counts: [(TaskStatus::Pending, 7)].into(),
                complete,
            };
            let sent: proto::TaskCounts = counts.clone().into();
            assert_eq!(ParseMessage::<TaskCounts>::parse(sent), Ok(counts));
        }
    }

    #[test]
    fn a_page_keeps_its_complete_flag() {
        for complete in [true, false] {
            let page = Page {
                complete,
                ..Page::default()
            };
            let sent: proto::Page = page.clone().into();
            assert_eq!(ParseMessage::<Page>::parse(sent), Ok(page));
        }
    }

    #[test]
    fn a_row_that_a_newer_version_sent_does_not_spoil_the_page() {
        let brief = |number, status: &str, reason: &str| proto::Brief {
            id: encode_id(uuid::Uuid::from_u128(number)),
            user: "ada".into(),
            status: status.into(),
            reason: Some(reason.into()),
            ..proto::Brief::default()
        };
        let sent = proto::Page {
            tasks: vec![
                brief(1, "run_failed", "time_limit"),
                brief(2, "hibernating", "time_limit"),
                brief(3, "run_failed", "moon_phase"),
            ],
            ..proto::Page::default()
        };
        let page = ParseMessage::<Page>::parse(sent).unwrap();
        let rows: Vec<_> = page
            .tasks
            .iter()
            .map(|task| (task.id.0.as_u128(), task.reason))
            .collect();
        assert_eq!(rows, [(1, Some(model::OutcomeReason::TimeLimit)), (3, None)]);
    }
}
