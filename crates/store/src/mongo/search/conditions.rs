//! A query as a filter.

use model::{Cursor, Order, Query};
use mongodb::bson::{Document, doc};

use crate::mongo::field::Field;
use crate::search::{Way, in_order_of_ids};

/// What an index finds, and what has to be checked task by task; the text is left to the caller.
pub(super) struct Conditions {
    pub(super) along: Vec<Document>,
    pub(super) checks: Vec<Document>,
}

impl Conditions {
    pub(super) fn of(query: &Query, way: &Way) -> Conditions {
        let (mut along, mut checks) = (vec![], vec![]);
        let mut require = |on_the_way: bool, condition: Document| match on_the_way {
            true => along.push(condition),
            false => checks.push(condition),
        };
        if !query.ids.is_empty() {
            let ids: Vec<_> = query.ids.iter().map(Field::field).collect();
            require(*way == Way::Ids, doc! { "_id": { "$in": ids } });
        }
        if let Some(prefix) = &query.id_prefix {
            let range = doc! { "$gte": prefix.first().field(), "$lte": prefix.last().field() };
            require(*way == Way::IdRange, doc! { "_id": range });
        }
        if let Some(user) = &query.user {
            require(*way == Way::User, doc! { "user": user.field() });
        }
        if let Some(executor) = &query.executor {
            require(*way == Way::Executor, doc! { "executor": executor.field() });
        }
        match way {
            Way::Statuses(statuses) => {
                let statuses: Vec<_> = statuses.iter().map(Field::field).collect();
                require(true, doc! { "status": { "$in": statuses } });
            }
            Way::All => {}
            _ if query.statuses.is_empty() => {}
            _ => {
                let statuses: Vec<_> = query.statuses.iter().map(Field::field).collect();
                require(false, doc! { "status": { "$in": statuses } });
            }
        }
        // Every index but the one over ids ends in the add time.
        let in_order = *way != Way::IdRange;
        if let Some(from) = query.from {
            require(in_order, doc! { "add_time": { "$gte": from.field() } });
        }
        if let Some(until) = query.until {
            require(in_order, doc! { "add_time": { "$lt": until.field() } });
        }
        along.extend(after(query));
        Conditions { along, checks }
    }
}

/// Behind the cursor.
pub(super) fn after(query: &Query) -> Option<Document> {
    let (from, past) = match query.order {
        Order::Oldest => ("$gte", "$gt"),
        Order::Newest => ("$lte", "$lt"),
    };
    let cursor = query.after?;
    Some(beyond(query, cursor, from, (past, past)))
}

/// Up to this one, and with it.
pub(super) fn up_to(end: Cursor, query: &Query) -> Document {
    let (until, before) = match query.order {
        Order::Oldest => ("$lte", "$lt"),
        Order::Newest => ("$gte", "$gt"),
    };
    beyond(query, end, until, (before, until))
}

/// Two tasks may have the same time, if two judicators added them; then the id decides. The time alone is said
/// first, for an index can begin there.
fn beyond(query: &Query, cursor: Cursor, time_alone: &str, (past, past_id): (&str, &str)) -> Document {
    let (time, id) = (cursor.add_time.field(), cursor.id.field());
    match in_order_of_ids(query) {
        true => doc! { "_id": { past_id: id } },
        false => doc! { "$and": [
            { "add_time": { time_alone: time.clone() } },
            { "$or": [{ "add_time": { past: time.clone() } }, { "add_time": time, "_id": { past_id: id } }] },
        ] },
    }
}
