//! Where specs and results are stored: small ones inline in the document of the task, larger ones in a document of
//! their own, and the largest in a GridFS file. Claims and lists read only the document of the task.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, doc};
use mongodb::options::ReadConcern;
use serde::{Deserialize, Serialize};

use super::bson_values::binary;
use super::context::{PARTS, StoreContext, UPLOADS};
use super::failure::MongoFailure;
use super::gridfs;
use super::retry::{COMMAND_TIMEOUT, RetryPolicy};
use super::transaction::Transaction;
use crate::StoreError;

/// Content up to this size is stored inline: that saves a read and a write for each of the many small tasks.
const INLINE_MAX_BYTES: usize = 2 << 10;
/// Content up to this size is one document, written in the transaction of its task. The writes of a transaction must
/// fit into the server's cache several times over.
const DOCUMENT_MAX_BYTES: usize = 1 << 20;

/// The field `spec` or `result` of a MongoDB task document, or `problem` of a problem: the encoded content itself, or where it is stored. Exactly
/// one of the three options is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredContent {
    pub(super) size: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<Binary>,
    /// The id of a [`ContentPartDocument`].
    #[serde(rename = "part", skip_serializing_if = "Option::is_none")]
    pub(super) document: Option<ObjectId>,
    /// The id of a GridFS file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<ObjectId>,
}

/// An encoded spec or result that a MongoDB transaction is about to refer to. If it goes to a file, that file is
/// uploaded already and marked as unclaimed; see `gridfs`.
#[derive(Debug)]
pub(super) struct PreparedContent {
    pub(super) content: StoredContent,
    document: Option<ContentPartDocument>,
}

/// A document of the MongoDB collection `parts`: a spec or result that is too large to be inline in its task.
#[derive(Debug, Serialize, Deserialize)]
struct ContentPartDocument {
    #[serde(rename = "_id")]
    id: ObjectId,
    bytes: Binary,
}

impl PreparedContent {
    pub(super) async fn prepare(
        context: &Arc<StoreContext>,
        bytes: Vec<u8>,
    ) -> Result<PreparedContent, StoreError> {
        let mut prepared = PreparedContent {
            content: StoredContent {
                size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
                bytes: None,
                document: None,
                file: None,
            },
            document: None,
        };
        if bytes.len() <= INLINE_MAX_BYTES {
            prepared.content.bytes = Some(binary(bytes));
        } else if bytes.len() <= DOCUMENT_MAX_BYTES {
            let id = ObjectId::new();
            prepared.content.document = Some(id);
            prepared.document = Some(ContentPartDocument {
                id,
                bytes: binary(bytes),
            });
        } else {
            prepared.content.file = Some(gridfs::write(context, &bytes).await?);
        }
        Ok(prepared)
    }

    #[cfg(test)]
    pub(super) fn for_test() -> PreparedContent {
        let content = StoredContent {
            size: 0,
            bytes: Some(binary(vec![])),
            document: None,
            file: None,
        };
        PreparedContent {
            content,
            document: None,
        }
    }

    /// How many bytes of it the transaction writes. A file is written before.
    pub(super) fn bytes_in_transaction(&self) -> usize {
        let document = self
            .document
            .as_ref()
            .map_or(0, |document| document.bytes.bytes.len());
        document + self.content.bytes.as_ref().map_or(0, |bytes| bytes.bytes.len())
    }

    /// The uploaded file, which is unclaimed until a transaction commits that refers to it.
    pub(super) fn file(&self) -> Option<ObjectId> {
        self.content.file
    }
}

/// Adds the documents of the content to a transaction, and claims its files.
pub(super) fn write<'p>(
    prepared: impl Iterator<Item = &'p PreparedContent> + Clone,
    transaction: &mut Transaction,
) -> Result<(), MongoFailure> {
    transaction.insert(
        PARTS,
        prepared.clone().filter_map(|prepared| prepared.document.as_ref()),
    )?;
    transaction.delete_each(
        UPLOADS,
        prepared
            .filter_map(PreparedContent::file)
            .map(gridfs::claimable_upload),
    )
}

/// Reads the content of several tasks, each with its key. Content that is missing is left out.
pub(super) async fn read<K: Copy + Eq + Hash>(
    context: &Arc<StoreContext>,
    contents: impl IntoIterator<Item = (K, StoredContent)>,
) -> Result<HashMap<K, Vec<u8>>, StoreError> {
    let mut found = HashMap::new();
    let mut documents = HashMap::new();
    let mut size = 0;
    for (id, content) in contents {
        let bytes = u64::try_from(content.size).unwrap_or(0);
        match content {
            StoredContent {
                bytes: Some(bytes), ..
            } => drop(found.insert(id, bytes.bytes)),
            StoredContent {
                document: Some(document),
                ..
            } => {
                documents.insert(document, id);
                size += usize::try_from(bytes).unwrap_or(0);
            }
            StoredContent { file: Some(file), .. } => {
                if let Some(bytes) = read_file(context, file, bytes).await? {
                    found.insert(id, bytes);
                }
            }
            _ => {}
        }
    }
    if !documents.is_empty() {
        let ids: Arc<Vec<_>> = Arc::new(documents.keys().copied().collect());
        let read = RetryPolicy::new("read the content of tasks")
            .with_payload(size)
            .run(|_| read_documents(context.clone(), ids.clone()))
            .await?;
        for document in read {
            if let Some(id) = documents.get(&document.id) {
                found.insert(*id, document.bytes.bytes);
            }
        }
    }
    Ok(found)
}

/// Content is written in the transaction of its task and never changes. So a caller that has read the task can read the
/// content with local read concern.
async fn read_documents(
    context: Arc<StoreContext>,
    ids: Arc<Vec<ObjectId>>,
) -> Result<Vec<ContentPartDocument>, MongoFailure> {
    let documents = context
        .collection::<ContentPartDocument>(PARTS)
        .find(doc! { "_id": { "$in": &*ids } })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    Ok(documents)
}

async fn read_file(
    context: &Arc<StoreContext>,
    file: ObjectId,
    size: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let mut stream = gridfs::stream(context.clone(), file, 0..size);
    loop {
        match stream.try_next().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(Some(bytes)),
            Err(StoreError::Unreadable { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}
