//! A query as a filter.

use model::{Cursor, Order, Query};
use mongodb::bson::{Document, doc};

use crate::mongo::field::Field;

pub(super) fn conditions(query: &Query) -> Document {
    let mut all = vec![];
    if !query.ids.is_empty() {
        let ids: Vec<_> = query.ids.iter().map(Field::field).collect();
        all.push(doc! { "_id": { "$in": ids } });
    }
    if let Some(prefix) = &query.id_prefix {
        all.push(doc! { "_id": { "$gte": prefix.first().field(), "$lte": prefix.last().field() } });
    }
    if let Some(user) = &query.user {
        all.push(doc! { "user": user.field() });
    }
    if let Some(executor) = &query.executor {
        all.push(doc! { "executor": executor.field() });
    }
    if !query.statuses.is_empty() {
        let statuses: Vec<_> = query.statuses.iter().map(Field::field).collect();
        all.push(doc! { "status": { "$in": statuses } });
    }
    if let Some(from) = query.from {
        all.push(doc! { "add_time": { "$gte": from.field() } });
    }
    if let Some(until) = query.until {
        all.push(doc! { "add_time": { "$lt": until.field() } });
    }
    if let Some(cursor) = query.after {
        match query.id_prefix {
            Some(_) => all.push(beyond_id(cursor, query.order)),
            None => all.extend(beyond(cursor, query.order)),
        }
    }
    if let Some(text) = &query.text {
        let part = doc! { "$regex": quoted(text), "$options": "i" };
        all.push(doc! { "$or": [{ "command": part.clone() }, { "compile": part }] });
    }
    if all.is_empty() {
        doc! {}
    } else {
        doc! { "$and": all }
    }
}

/// Two tasks may have the same time, if two judicators added them; then the id decides. The time alone is said
/// first, for an index can begin there.
fn beyond(cursor: Cursor, order: Order) -> [Document; 2] {
    let (from, past) = match order {
        Order::Oldest => ("$gte", "$gt"),
        Order::Newest => ("$lte", "$lt"),
    };
    let (time, id) = (cursor.add_time.field(), cursor.id.field());
    [
        doc! { "add_time": { from: time.clone() } },
        doc! { "$or": [{ "add_time": { past: time.clone() } }, { "add_time": time, "_id": { past: id } }] },
    ]
}

fn beyond_id(cursor: Cursor, order: Order) -> Document {
    let past = match order {
        Order::Oldest => "$gt",
        Order::Newest => "$lt",
    };
    doc! { "_id": { past: cursor.id.field() } }
}

/// As a pattern in which nothing has a meaning of its own.
fn quoted(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // A pattern ends at a zero.
            '\0' => pattern.push_str("\\x{0}"),
            letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => {
                pattern.push('\\');
                pattern.push(letter);
            }
            letter => pattern.push(letter),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_a_wildcard() {
        for (text, expected) in [
            ("g++", "g\\+\\+"),
            ("a.b c", "a\\.b\\ c"),
            ("été", "été"),
            ("\0", "\\x{0}"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
