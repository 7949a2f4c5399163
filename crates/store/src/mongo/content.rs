//! Specs and results: small ones lie in the task's own document, larger ones in a document of their own, and what
//! does not fit one in a file. Handing a task out and listing tasks do not touch the larger ones.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use model::TaskId;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, doc};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

use super::attempts::{COMMAND, Patience};
use super::base::{Base, PARTS, UPLOADS};
use super::failure::Failure;
use super::field::binary;
use super::files;
use super::transaction::Transaction;
use crate::StoreError;

/// Up to this it lies in the task: one read and one write less for each of the many small tasks.
const INLINE: usize = 2 << 10;
/// Up to this it is one document, written in the task's transaction. What a transaction writes must fit the
/// server's cache several times over.
const PART: usize = 1 << 20;

/// Where content lies, as a field of the task: one of the three places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) size: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<Binary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<ObjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<ObjectId>,
}

/// Content to be referred to by a transaction. A file is there already, marked as nobody's.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) content: Content,
    part: Option<Part>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Part {
    #[serde(rename = "_id")]
    id: ObjectId,
    bytes: Binary,
}

impl Prepared {
    pub(super) async fn of(base: &Arc<Base>, bytes: Vec<u8>) -> Result<Prepared, StoreError> {
        let mut prepared = Prepared {
            content: Content {
                size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
                bytes: None,
                part: None,
                file: None,
            },
            part: None,
        };
        if bytes.len() <= INLINE {
            prepared.content.bytes = Some(binary(bytes));
        } else if bytes.len() <= PART {
            let id = ObjectId::new();
            prepared.content.part = Some(id);
            prepared.part = Some(Part {
                id,
                bytes: binary(bytes),
            });
        } else {
            prepared.content.file = Some(files::write(base, &bytes).await?);
        }
        Ok(prepared)
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Prepared {
        let content = Content {
            size: 0,
            bytes: Some(binary(vec![])),
            part: None,
            file: None,
        };
        Prepared { content, part: None }
    }

    /// What the transaction writes of it now.
    pub(super) fn weight(&self) -> usize {
        let part = self.part.as_ref().map_or(0, |part| part.bytes.bytes.len());
        part + self.content.bytes.as_ref().map_or(0, |bytes| bytes.bytes.len())
    }

    /// A file that is nobody's as long as no transaction has taken it.
    pub(super) fn file(&self) -> Option<ObjectId> {
        self.content.file
    }
}

/// Writes what does not lie in the tasks, and takes over the files.
pub(super) fn write<'p>(
    prepared: impl Iterator<Item = &'p Prepared> + Clone,
    transaction: &mut Transaction,
) -> Result<(), Failure> {
    transaction.insert(
        PARTS,
        prepared.clone().filter_map(|prepared| prepared.part.as_ref()),
    )?;
    transaction.delete_each(UPLOADS, prepared.filter_map(Prepared::file).map(files::marked))
}

/// The content of several tasks. What cannot be found is not in the answer.
pub(super) async fn read(
    base: &Arc<Base>,
    contents: impl IntoIterator<Item = (TaskId, Content)>,
) -> Result<HashMap<TaskId, Vec<u8>>, StoreError> {
    let mut found = HashMap::new();
    let mut parts = HashMap::new();
    let mut size = 0;
    for (id, content) in contents {
        let bytes = u64::try_from(content.size).unwrap_or(0);
        match content {
            Content {
                bytes: Some(bytes), ..
            } => drop(found.insert(id, bytes.bytes)),
            Content { part: Some(part), .. } => {
                parts.insert(part, id);
                size += usize::try_from(bytes).unwrap_or(0);
            }
            Content { file: Some(file), .. } => {
                if let Some(bytes) = read_file(base, file, bytes).await? {
                    found.insert(id, bytes);
                }
            }
            _ => {}
        }
    }
    if !parts.is_empty() {
        let ids: Arc<Vec<_>> = Arc::new(parts.keys().copied().collect());
        let read = Patience::with("read the content of tasks")
            .for_bytes(size)
            .persist(|_| read_parts(base.clone(), ids.clone()))
            .await?;
        for part in read {
            if let Some(id) = parts.get(&part.id) {
                found.insert(*id, part.bytes.bytes);
            }
        }
    }
    Ok(found)
}

/// Content is written together with what refers to it and never changed, so whoever sees the task can rely on the
/// newest that the primary has.
async fn read_parts(base: Arc<Base>, ids: Arc<Vec<ObjectId>>) -> Result<Vec<Part>, Failure> {
    let parts = base
        .collection::<Part>(PARTS)
        .find(doc! { "_id": { "$in": &*ids } })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND)
        .await?
        .try_collect()
        .await?;
    Ok(parts)
}

async fn read_file(base: &Arc<Base>, file: ObjectId, size: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let mut pieces = files::stream(base.clone(), file, size);
    loop {
        match pieces.try_next().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => return Ok(Some(bytes)),
            Err(StoreError::Unreadable { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
