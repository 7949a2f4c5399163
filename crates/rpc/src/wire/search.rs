use model::{Attempt, Brief, Invalid, Moment, Page, Query};

use super::ids::{executor_in, id_in, id_out, user_in};
use super::{Incoming, each, proto, text};
use crate::Event;

impl From<Query> for proto::Query {
    fn from(query: Query) -> Self {
        proto::Query {
            ids: query.ids.into_iter().map(|id| id_out(id.0)).collect(),
            id_prefix: query.id_prefix.map(|prefix| prefix.to_string()),
            user: query.user.map(|user| user.to_string()),
            statuses: query
                .statuses
                .into_iter()
                .map(|status| status.to_string())
                .collect(),
            executor: query.executor.map(|name| name.to_string()),
            from: query.from.map(|time| time.0),
            until: query.until.map(|time| time.0),
            text: query.text,
            order: query.order.to_string(),
            limit: u32::try_from(query.limit).unwrap_or(u32::MAX),
            after: query.after.map(|cursor| cursor.to_string()),
        }
    }
}

impl Incoming<Query> for proto::Query {
    fn read(self) -> Result<Query, Invalid> {
        Ok(Query {
            ids: self
                .ids
                .iter()
                .map(|id| id_in("id", id))
                .collect::<Result<_, _>>()?,
            id_prefix: self
                .id_prefix
                .map(|prefix| text("id_prefix", &prefix))
                .transpose()?,
            user: self.user.map(user_in).transpose()?,
            statuses: self
                .statuses
                .iter()
                .map(|status| text("status", status))
                .collect::<Result<_, _>>()?,
            executor: self.executor.map(executor_in).transpose()?,
            from: self.from.map(Moment),
            until: self.until.map(Moment),
            text: self.text,
            order: text("order", &self.order)?,
            limit: self.limit as usize,
            after: self.after.map(|cursor| text("after", &cursor)).transpose()?,
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

impl Incoming<Page> for proto::Page {
    fn read(self) -> Result<Page, Invalid> {
        Ok(Page {
            tasks: each("tasks", self.tasks)?,
            next: self.next.map(|cursor| text("next", &cursor)).transpose()?,
            complete: !self.incomplete,
        })
    }
}

impl From<Brief> for proto::Brief {
    fn from(brief: Brief) -> Self {
        proto::Brief {
            id: id_out(brief.id.0),
            user: brief.user.to_string(),
            priority: brief.priority,
            command: brief.command,
            status: brief.status.to_string(),
            executor: brief.executor.map(|name| name.to_string()),
            attempt: brief.attempt.0,
            add_time: brief.add_time.0,
            start_time: brief.start_time.map(|time| time.0),
            finish_time: brief.finish_time.map(|time| time.0),
        }
    }
}

impl Incoming<Brief> for proto::Brief {
    fn read(self) -> Result<Brief, Invalid> {
        Ok(Brief {
            id: id_in("id", &self.id)?,
            user: user_in(self.user)?,
            priority: self.priority,
            command: self.command,
            status: text("status", &self.status)?,
            executor: self.executor.map(executor_in).transpose()?,
            attempt: Attempt(self.attempt),
            add_time: Moment(self.add_time),
            start_time: self.start_time.map(Moment),
            finish_time: self.finish_time.map(Moment),
        })
    }
}

impl From<Event> for proto::Event {
    fn from(event: Event) -> Self {
        proto::Event {
            id: id_out(event.id.0),
            status: event.status.to_string(),
            executor: event.executor.map(|name| name.to_string()),
            time: event.time.0,
        }
    }
}

impl Incoming<Event> for proto::Event {
    fn read(self) -> Result<Event, Invalid> {
        Ok(Event {
            id: id_in("id", &self.id)?,
            status: text("status", &self.status)?,
            executor: self.executor.map(executor_in).transpose()?,
            time: Moment(self.time),
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{ExecutorName, Order, Status, TaskId, UserName};

    use super::*;

    #[test]
    fn a_search_survives_the_wire() {
        let mut query = Query {
            ids: vec![TaskId::generate()],
            id_prefix: Some("01890a5d-ac".parse().unwrap()),
            user: Some(UserName::new("ada").unwrap()),
            statuses: vec![Status::Running, Status::Success],
            executor: Some(ExecutorName::new("e-1").unwrap()),
            from: Some(Moment(1)),
            until: Some(Moment(2)),
            text: Some("g++".into()),
            order: Order::Oldest,
            limit: 7,
            after: None,
        };
        query.after = Some(model::Cursor {
            add_time: Moment(3),
            id: TaskId::generate(),
            fingerprint: query.fingerprint(),
        });
        let sent: proto::Query = query.clone().into();
        assert_eq!(Incoming::<Query>::read(sent), Ok(query));
    }

    #[test]
    fn a_page_says_whether_it_is_complete() {
        for complete in [true, false] {
            let page = Page {
                complete,
                ..Page::default()
            };
            let sent: proto::Page = page.clone().into();
            assert_eq!(Incoming::<Page>::read(sent), Ok(page));
        }
    }
}
