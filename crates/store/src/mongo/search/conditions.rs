//! The conditions of a query as MongoDB filters.

use model::{SearchCursor, SortOrder, TaskQuery};
use mongodb::bson::{Document, doc};

use crate::mongo::bson_values::ToBson;
use crate::mongo::task_document::label_texts;
use crate::search::{SearchIndex, is_ordered_by_id};

/// The MongoDB filters of a task search, except for its text. Some bound the scan of the index, and the server checks
/// the others on each document.
pub(super) struct SearchConditions {
    pub(super) index_conditions: Vec<Document>,
    pub(super) residual_conditions: Vec<Document>,
}

impl SearchConditions {
    pub(super) fn new(query: &TaskQuery, index: &SearchIndex) -> SearchConditions {
        let (mut index_conditions, mut residual_conditions) = (vec![], vec![]);
        let mut require = |in_index: bool, condition: Document| match in_index {
            true => index_conditions.push(condition),
            false => residual_conditions.push(condition),
        };
        if !query.ids.is_empty() {
            let ids: Vec<_> = query.ids.iter().map(ToBson::to_bson).collect();
            require(*index == SearchIndex::Ids, doc! { "_id": { "$in": ids } });
        }
        if let Some(prefix) = &query.id_prefix {
            let range = doc! { "$gte": prefix.first().to_bson(), "$lte": prefix.last().to_bson() };
            require(*index == SearchIndex::IdRange, doc! { "_id": range });
        }
        if let Some(user) = &query.user {
            let in_index = matches!(index, SearchIndex::User | SearchIndex::Group | SearchIndex::Label);
            require(in_index, doc! { "user": user.to_bson() });
        }
        if let Some(group) = &query.group {
            require(*index == SearchIndex::Group, doc! { "group": group.to_bson() });
        }
        for (position, label) in label_texts(&query.labels).into_iter().enumerate() {
            let in_index = *index == SearchIndex::Label && position == 0;
            require(in_index, doc! { "labels": label });
        }
        if !query.reasons.is_empty() {
            let reasons: Vec<_> = query.reasons.iter().map(ToBson::to_bson).collect();
            require(false, doc! { "reason": { "$in": reasons } });
        }
        if let Some(language) = &query.language {
            // `ROOT/LANGUAGE`, or `+ROOT/LANGUAGE ` and more; no name has a slash or a blank.
            let named = format!("^[^/]*/{}( |$)", escape_regex(language.as_str()));
            require(false, doc! { "needs": { "$regex": named } });
        }
        match query.retried {
            Some(true) => require(false, doc! { "retried": true }),
            Some(false) => require(false, doc! { "retried": { "$ne": true } }),
            None => {}
        }
        if let Some(executor) = &query.executor {
            require(
                *index == SearchIndex::Executor,
                doc! { "executor": executor.to_bson() },
            );
        }
        match index {
            SearchIndex::Statuses(statuses) => {
                let statuses: Vec<_> = statuses.iter().map(ToBson::to_bson).collect();
                require(true, doc! { "status": { "$in": statuses } });
            }
            SearchIndex::All => {}
            _ if query.statuses.is_empty() => {}
            _ => {
                let statuses: Vec<_> = query.statuses.iter().map(ToBson::to_bson).collect();
                require(false, doc! { "status": { "$in": statuses } });
            }
        }
        // Every index but the one over ids ends with the add time.
        let in_order = *index != SearchIndex::IdRange;
        if let Some(from) = query.from {
            require(in_order, doc! { "add_time": { "$gte": from.to_bson() } });
        }
        if let Some(until) = query.until {
            require(in_order, doc! { "add_time": { "$lt": until.to_bson() } });
        }
        index_conditions.extend(after(query));
        SearchConditions {
            index_conditions,
            residual_conditions,
        }
    }
}

/// A regular expression that matches this text only.
fn escape_regex(text: &str) -> String {
    let mut escaped = String::with_capacity(2 * text.len());
    for character in text.chars() {
        if !character.is_alphanumeric() {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// The condition for tasks behind the query's cursor.
pub(super) fn after(query: &TaskQuery) -> Option<Document> {
    let (from, time_operator) = match query.order {
        SortOrder::Oldest => ("$gte", "$gt"),
        SortOrder::Newest => ("$lte", "$lt"),
    };
    let cursor = query.after?;
    Some(beyond(query, cursor, from, (time_operator, time_operator)))
}

/// The condition for tasks up to `end`, inclusive.
pub(super) fn up_to(end: SearchCursor, query: &TaskQuery) -> Document {
    let (until, before) = match query.order {
        SortOrder::Oldest => ("$lte", "$lt"),
        SortOrder::Newest => ("$gte", "$gt"),
    };
    beyond(query, end, until, (before, until))
}

/// Two judicators may add tasks with the same add time; the id then decides the order. The condition on the time alone
/// is redundant, but the server can use it as a bound of the index scan.
fn beyond(
    query: &TaskQuery,
    cursor: SearchCursor,
    time_bound: &str,
    (time_operator, id_operator): (&str, &str),
) -> Document {
    let (time, id) = (cursor.add_time.to_bson(), cursor.id.to_bson());
    match is_ordered_by_id(query) {
        true => doc! { "_id": { id_operator: id } },
        false => doc! { "$and": [
            { "add_time": { time_bound: time.clone() } },
            { "$or": [{ "add_time": { time_operator: time.clone() } }, { "add_time": time, "_id": { id_operator: id } }] },
        ] },
    }
}
