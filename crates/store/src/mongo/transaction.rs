//! A multi-document transaction: its writes take effect together or not at all.

use std::time::Duration;

use futures::TryStreamExt;
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::raw::cstr;
use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, doc, serialize_to_raw_document_buf};
use mongodb::error::Error;
use mongodb::options::{Hint, ReadConcern, WriteConcern};
use serde::Serialize;

use super::context::{GROUPS, LEDGER, StoreContext};
use super::counters::CounterDeltas;
use super::failure::{DUPLICATE_KEY, MongoFailure, TOO_LARGE_FOR_CACHE};
use super::group_counters::{GroupDeltas, GroupStripe};
use super::retry::{COMMAND_TIMEOUT, random_u64};

/// A command must be smaller than 16 MiB, overhead included.
const MAX_COMMAND_BYTES: usize = 12 << 20;
const MAX_COMMAND_ITEMS: usize = 2000;
/// The number of documents over which the counters in `ledger` are spread. Many, so that two transactions seldom write
/// the same one.
const STRIPES: u64 = 64;
/// How long the server waits for a majority. After that the outcome of the write is unknown.
const WRITE_CONCERN_TIMEOUT: Duration = Duration::from_secs(5);

/// A write is acknowledged when a majority of the members has it in its journal.
pub(super) fn majority_write_concern() -> WriteConcern {
    WriteConcern::builder()
        .w(mongodb::options::Acknowledgment::Majority)
        .journal(true)
        .w_timeout(WRITE_CONCERN_TIMEOUT)
        .build()
}

/// A multi-document MongoDB transaction that is being built: its commands, in their order.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    commands: Vec<TransactionCommand>,
}

/// One command of a MongoDB [`Transaction`].
#[derive(Debug)]
enum TransactionCommand {
    Write(WriteCommand),
    Require(RequiredDocuments),
}

/// Documents that a MongoDB [`Transaction`] reads: each must exist and fulfil the condition.
#[derive(Debug)]
struct RequiredDocuments {
    collection: &'static str,
    ids: Vec<Bson>,
    condition: Document,
}

/// One write command of a MongoDB [`Transaction`]: writes of one kind to one collection.
#[derive(Debug)]
struct WriteCommand {
    kind: WriteKind,
    collection: &'static str,
    items: Vec<WriteItem>,
}

/// The document of one insert, update or delete in a MongoDB transaction. The kind of its [`WriteCommand`] says which.
#[derive(Debug)]
struct WriteItem {
    document: RawDocumentBuf,
    /// How many documents it must match. If not set, any number will do.
    expected_matches: Option<usize>,
}

/// One update of a MongoDB transaction that makes the same change to several documents. Each of them must fulfil the
/// condition.
#[derive(Debug)]
pub(super) struct GroupedUpdate {
    pub(super) ids: Vec<Bson>,
    pub(super) condition: Document,
    pub(super) change: Document,
}

/// The MongoDB command that a [`WriteCommand`] of a transaction is sent as.
#[derive(Clone, Copy, Debug)]
enum WriteKind {
    Insert,
    Update,
    Delete,
}

impl Transaction {
    pub(super) fn insert<T: Serialize>(
        &mut self,
        collection: &'static str,
        documents: impl IntoIterator<Item = T>,
    ) -> Result<(), MongoFailure> {
        let items = documents
            .into_iter()
            .map(|document| serialize_to_raw_document_buf(&document))
            .collect::<Result<_, _>>()
            .map_err(Error::from)?;
        self.push_required(WriteKind::Insert, collection, items);
        Ok(())
    }

    /// Each update must match all of its documents; otherwise the transaction fails.
    pub(super) fn update_grouped(
        &mut self,
        collection: &'static str,
        updates: impl IntoIterator<Item = GroupedUpdate>,
    ) -> Result<(), MongoFailure> {
        let mut items = vec![];
        for update in updates {
            let expected_matches = Some(update.ids.len());
            let document = to_raw([update.into_document()])?;
            items.extend(document.into_iter().map(|document| WriteItem {
                document,
                expected_matches,
            }));
        }
        self.push_items(WriteKind::Update, collection, items);
        Ok(())
    }

    /// The same for updates whose documents may be missing.
    pub(super) fn update_grouped_if_present(
        &mut self,
        collection: &'static str,
        updates: impl IntoIterator<Item = GroupedUpdate>,
    ) -> Result<(), MongoFailure> {
        self.update_if_present(collection, updates.into_iter().map(GroupedUpdate::into_document))
    }

    /// Each update is `{q: condition, u: change}` and must match one document; otherwise the transaction fails.
    pub(super) fn update(
        &mut self,
        collection: &'static str,
        updates: impl IntoIterator<Item = Document>,
    ) -> Result<(), MongoFailure> {
        let items = to_raw(updates)?;
        self.push_required(WriteKind::Update, collection, items);
        Ok(())
    }

    /// Each update is `{q: condition, u: change}` and may match no document.
    pub(super) fn update_if_present(
        &mut self,
        collection: &'static str,
        updates: impl IntoIterator<Item = Document>,
    ) -> Result<(), MongoFailure> {
        let items = to_raw(updates)?.into_iter();
        let items = items.map(|document| WriteItem {
            document,
            expected_matches: None,
        });
        self.push_items(WriteKind::Update, collection, items.collect());
        Ok(())
    }

    /// Each condition must match one document; otherwise the transaction fails.
    pub(super) fn delete_each(
        &mut self,
        collection: &'static str,
        conditions: impl IntoIterator<Item = Document>,
    ) -> Result<(), MongoFailure> {
        let items = deletes(conditions)?;
        self.push_required(WriteKind::Delete, collection, items);
        Ok(())
    }

    /// Each condition may match no document.
    pub(super) fn delete_if_present(
        &mut self,
        collection: &'static str,
        conditions: impl IntoIterator<Item = Document>,
    ) -> Result<(), MongoFailure> {
        let items = deletes(conditions)?.into_iter();
        let items = items.map(|document| WriteItem {
            document,
            expected_matches: None,
        });
        self.push_items(WriteKind::Delete, collection, items.collect());
        Ok(())
    }

    /// All of these documents must exist and fulfil the condition; otherwise the transaction fails. They are only read, so
    /// transactions that need the same documents do not conflict.
    pub(super) fn require(&mut self, collection: &'static str, ids: Vec<Bson>, condition: Document) {
        if !ids.is_empty() {
            self.commands.push(TransactionCommand::Require(RequiredDocuments {
                collection,
                ids,
                condition,
            }));
        }
    }

    /// Adds to the counters in a random stripe of the ledger, so that a retry after a conflict writes another stripe.
    pub(super) fn add_to_counters(&mut self, deltas: &CounterDeltas) -> Result<(), MongoFailure> {
        let increments = deltas.increments();
        if increments.is_empty() {
            return Ok(());
        }
        self.update(
            LEDGER,
            [doc! { "q": { "_id": random_stripe() }, "u": { "$inc": increments }, "upsert": true }],
        )
    }

    /// Writes a stripe of the ledger without changing its counters. See `blobs::remove_unused`, which waits for transactions
    /// by writing the stripes.
    pub(super) fn touch_ledger(&mut self) -> Result<(), MongoFailure> {
        self.update(
            LEDGER,
            [doc! { "q": { "_id": random_stripe() }, "u": { "$set": { "touched": ObjectId::new() } } }],
        )
    }

    /// Adds to the counters of groups.
    pub(super) fn add_to_groups(
        &mut self,
        deltas: &GroupDeltas,
        stripe: GroupStripe,
    ) -> Result<(), MongoFailure> {
        self.update(GROUPS, deltas.updates(stripe))
    }

    /// Returns when the transaction is durable. If a condition does not hold, nothing is written.
    pub(super) async fn commit(self, context: &StoreContext) -> Result<(), MongoFailure> {
        // Causal consistency would only add a wait: all reads and writes go to the primary.
        let mut session = context.client.start_session().causal_consistency(false).await?;
        session
            .start_transaction()
            .read_concern(ReadConcern::local())
            .write_concern(majority_write_concern())
            .max_commit_time(COMMAND_TIMEOUT)
            .await?;
        for command in self.commands {
            if let Err(failure) = command.run(context, &mut session).await {
                // If the abort does not reach the server, the server aborts the transaction after a while.
                let _ = session.abort_transaction().await;
                return Err(failure);
            }
        }
        session.commit_transaction().await?;
        if let Some(time) = session.operation_time() {
            context.record_commit_time(time);
        }
        Ok(())
    }

    fn push_required(&mut self, kind: WriteKind, collection: &'static str, documents: Vec<RawDocumentBuf>) {
        let items = documents.into_iter().map(|document| WriteItem {
            document,
            expected_matches: Some(1),
        });
        self.push_items(kind, collection, items.collect());
    }

    fn push_items(&mut self, kind: WriteKind, collection: &'static str, items: Vec<WriteItem>) {
        if !items.is_empty() {
            self.commands.push(TransactionCommand::Write(WriteCommand {
                kind,
                collection,
                items,
            }));
        }
    }
}

impl GroupedUpdate {
    fn into_document(self) -> Document {
        let GroupedUpdate {
            ids,
            mut condition,
            change,
        } = self;
        condition.insert("_id", doc! { "$in": ids });
        // Without the hint the query planner would try the indexes over the other fields of the condition.
        doc! { "q": condition, "u": change, "multi": true, "hint": "_id_" }
    }
}

impl TransactionCommand {
    async fn run(self, context: &StoreContext, session: &mut ClientSession) -> Result<(), MongoFailure> {
        match self {
            TransactionCommand::Write(write) => write.run(context, session).await,
            TransactionCommand::Require(required) => required.check(context, session).await,
        }
    }
}

impl RequiredDocuments {
    async fn check(self, context: &StoreContext, session: &mut ClientSession) -> Result<(), MongoFailure> {
        for ids in self.ids.chunks(MAX_COMMAND_ITEMS) {
            let mut condition = self.condition.clone();
            condition.insert("_id", doc! { "$in": ids.to_vec() });
            let mut cursor = context
                .collection::<Document>(self.collection)
                .find(condition)
                .projection(doc! { "_id": 1 })
                .hint(Hint::Name("_id_".into()))
                .batch_size(MAX_COMMAND_ITEMS as u32 + 1)
                .max_time(COMMAND_TIMEOUT)
                .session(&mut *session)
                .await?;
            let found: Vec<Document> = cursor.stream(session).try_collect().await?;
            if found.len() != ids.len() {
                return Err(MongoFailure::Conflict);
            }
        }
        Ok(())
    }
}

impl WriteCommand {
    async fn run(self, context: &StoreContext, session: &mut ClientSession) -> Result<(), MongoFailure> {
        let (kind, list) = match self.kind {
            WriteKind::Insert => (cstr!("insert"), cstr!("documents")),
            WriteKind::Update => (cstr!("update"), cstr!("updates")),
            WriteKind::Delete => (cstr!("delete"), cstr!("deletes")),
        };
        for batch in split_into_commands(self.items) {
            let expected: Option<usize> = batch.iter().map(|item| item.expected_matches).sum();
            let mut array = RawArrayBuf::new();
            batch.into_iter().for_each(|item| array.push(item.document));
            let mut command = RawDocumentBuf::new();
            command.append(kind, self.collection);
            command.append(list, array);
            command.append(cstr!("maxTimeMS"), COMMAND_TIMEOUT.as_millis() as i64);
            let reply = context
                .database
                .run_raw_command(command)
                .session(&mut *session)
                .await?;
            check_write_errors(&reply)?;
            let matched = reply.get_i32("n").ok().and_then(|n| usize::try_from(n).ok());
            if expected.is_some() && matched != expected {
                return Err(MongoFailure::Conflict);
            }
        }
        Ok(())
    }
}

fn random_stripe() -> i64 {
    i64::try_from(random_u64() % STRIPES).unwrap_or(0)
}

/// Creates the missing stripes of the ledger. A stripe must exist before `blobs::remove_unused` can write it.
pub(super) async fn create_ledger(context: &StoreContext) -> Result<(), MongoFailure> {
    let stripes = (0..STRIPES).filter_map(|stripe| i64::try_from(stripe).ok());
    let upserts: Vec<_> = stripes
        .map(|stripe| doc! { "q": { "_id": stripe }, "u": { "$setOnInsert": { "tally": {} } }, "upsert": true })
        .collect();
    let command = doc! { "update": LEDGER, "updates": upserts, "writeConcern": { "w": "majority" } };
    check_write_errors(&context.database.run_command(command).await?)
}

/// The server reports failed writes in a reply whose status is ok.
fn check_write_errors(reply: &Document) -> Result<(), MongoFailure> {
    let Some(error) = reply
        .get_array("writeErrors")
        .ok()
        .and_then(|errors| errors.first())
    else {
        return Ok(());
    };
    let error_code = error.as_document().and_then(|error| error.get_i32("code").ok());
    Err(match error_code {
        Some(DUPLICATE_KEY) => MongoFailure::Conflict,
        Some(TOO_LARGE_FOR_CACHE) => MongoFailure::TransactionTooLarge,
        _ => MongoFailure::Database(Error::custom(error.to_string())),
    })
}

fn deletes(conditions: impl IntoIterator<Item = Document>) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    to_raw(
        conditions
            .into_iter()
            .map(|condition| doc! { "q": condition, "limit": 1 }),
    )
}

fn to_raw(documents: impl IntoIterator<Item = Document>) -> Result<Vec<RawDocumentBuf>, MongoFailure> {
    documents
        .into_iter()
        .map(|document| RawDocumentBuf::try_from(&document))
        .collect::<Result<_, _>>()
        .map_err(|error| MongoFailure::Database(Error::from(error)))
}

/// Splits the writes so that each part fits into one command.
fn split_into_commands(items: Vec<WriteItem>) -> Vec<Vec<WriteItem>> {
    let mut batches = vec![];
    let (mut batch, mut bytes) = (vec![], 0);
    for item in items {
        let size = item.document.as_bytes().len();
        if !batch.is_empty() && (bytes + size > MAX_COMMAND_BYTES || batch.len() == MAX_COMMAND_ITEMS) {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(item);
    }
    batches.push(batch);
    batches
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    #[test]
    fn commands_stay_below_the_size_limit() {
        let check = |sizes: &[usize], expected: &[usize]| {
            let items = sizes.iter().map(|size| WriteItem {
                document: rawdoc! { "x": "x".repeat(*size) },
                expected_matches: Some(1),
            });
            let found: Vec<_> = split_into_commands(items.collect())
                .iter()
                .map(Vec::len)
                .collect();
            assert_eq!(found, expected, "{sizes:?}");
        };
        check(&[1, 1, 1], &[3]);
        check(&[5 << 20, 5 << 20, 5 << 20], &[2, 1]);
        check(&[13 << 20, 1], &[1, 1]);
        check(&[1; MAX_COMMAND_ITEMS + 1], &[MAX_COMMAND_ITEMS, 1]);
    }
}
