//! Bulky content: specs and results that are too large to lie in the task's own document, cut into pieces that
//! fit one each. Handing a task out and listing tasks do not touch them.

use std::collections::HashMap;

use futures::TryStreamExt;
use model::TaskId;
use mongodb::bson::{Binary, Bson, Document, doc};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

use super::attempts::COMMAND;
use super::base::{Base, PARTS};
use super::failure::Failure;
use super::field::{Field, binary, task_id, unreadable};
use super::row::{Row, size};

/// Up to this it lies in the task: one read and one write less for each of the many small tasks.
const INLINE: usize = 2 << 10;
/// A document holds at most 16 MiB.
const PART: usize = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Spec,
    Result,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    #[serde(rename = "_id")]
    id: Document,
    bytes: Binary,
}

/// The content itself, if it is small.
pub(super) fn inline(content: &[u8]) -> Option<Binary> {
    (content.len() <= INLINE).then(|| binary(content.to_vec()))
}

/// Nothing if it lies in the task.
pub(super) fn cut(task: TaskId, kind: Kind, content: &[u8]) -> Vec<Part> {
    if content.len() <= INLINE {
        return vec![];
    }
    let pieces = (0..).zip(content.chunks(PART));
    pieces
        .map(|(index, piece)| Part {
            id: part_id(task, kind, index),
            bytes: binary(piece.to_vec()),
        })
        .collect()
}

/// The ids of the pieces of content of this size.
pub(super) fn ids(task: TaskId, kind: Kind, size: usize) -> Vec<Bson> {
    let count = if size <= INLINE { 0 } else { size.div_ceil(PART) };
    (0..).take(count).map(|index| part_id(task, kind, index).into()).collect()
}

/// The content of tasks, whichever place it is in. A row must have been read with the field. Content is written
/// together with what refers to it and never changed, so whoever sees the row can rely on the newest parts.
pub(super) async fn read(
    base: &Base,
    rows: &[Row],
    kind: Kind,
) -> Result<HashMap<TaskId, Vec<u8>>, Failure> {
    let mut found = HashMap::with_capacity(rows.len());
    let mut wanted = vec![];
    for row in rows {
        let id = task_id(row.id);
        let (content, bytes) = match kind {
            Kind::Spec => (&row.spec, Some(row.spec_size)),
            Kind::Result => (&row.result, row.result_size),
        };
        match (content, bytes) {
            (Some(content), _) => drop(found.insert(id, content.bytes.clone())),
            (None, Some(bytes)) => wanted.extend(ids(id, kind, size("task's size", bytes)?)),
            (None, None) => {}
        }
    }
    if wanted.is_empty() {
        return Ok(found);
    }
    let mut parts: Vec<Part> = base
        .collection::<Part>(PARTS)
        .find(doc! { "_id": { "$in": wanted } })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    parts.sort_unstable_by_key(|part| part.id.get_i32("n").unwrap_or(0));
    for part in parts {
        let Some(Bson::Binary(task)) = part.id.get("task") else {
            return Err(unreadable("part of a task", "it has no task"));
        };
        let id = task.to_uuid().map_err(|error| unreadable("part of a task", error))?;
        found.entry(task_id(id)).or_default().extend(part.bytes.bytes);
    }
    Ok(found)
}

fn part_id(task: TaskId, kind: Kind, index: i32) -> Document {
    let kind = match kind {
        Kind::Spec => "spec",
        Kind::Result => "result",
    };
    doc! { "task": task.field(), "kind": kind, "n": index }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_cut_into_the_pieces_that_are_asked_for() {
        let task = TaskId::generate();
        for (size, pieces) in [(0, 0), (INLINE, 0), (INLINE + 1, 1), (PART, 1), (PART + 1, 2)] {
            let content = vec![7; size];
            let parts = cut(task, Kind::Spec, &content);
            assert_eq!(parts.len(), pieces, "{size}");
            let expected: Vec<Bson> = parts.iter().map(|part| part.id.clone().into()).collect();
            assert_eq!(ids(task, Kind::Spec, size), expected, "{size}");
            assert_eq!(inline(&content).is_some(), pieces == 0, "{size}");
        }
    }
}
