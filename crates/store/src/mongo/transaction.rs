//! What is written together or not at all.

use std::time::Duration;

use mongodb::ClientSession;
use mongodb::bson::raw::cstr;
use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, doc, serialize_to_raw_document_buf};
use mongodb::error::Error;
use mongodb::options::{ReadConcern, WriteConcern};
use serde::Serialize;

use super::attempts::{COMMAND, random};
use super::base::{Base, LEDGER};
use super::failure::{DUPLICATE_KEY, Failure, TOO_LARGE_FOR_CACHE};
use super::tally::Tally;

/// A command must stay below 16 MiB, whatever it carries.
const COMMAND_BYTES: usize = 12 << 20;
const COMMAND_ITEMS: usize = 2000;
/// Many, so that two processes seldom meet in one.
const STRIPES: u64 = 64;
/// How long members are waited for. After that it is not known whether the write will last.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);

/// Acknowledged when a majority has it on disk.
pub(super) fn durable() -> WriteConcern {
    WriteConcern::builder()
        .w(mongodb::options::Acknowledgment::Majority)
        .journal(true)
        .w_timeout(ACKNOWLEDGED)
        .build()
}

/// Everything that one transaction writes.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    writes: Vec<Write>,
}

#[derive(Debug)]
struct Write {
    verb: Verb,
    collection: &'static str,
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    document: RawDocumentBuf,
    /// How many documents it must meet, where that matters.
    hits: Option<usize>,
}

/// A change of documents that are all as the condition says.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) ids: Vec<Bson>,
    pub(super) condition: Document,
    pub(super) change: Document,
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Insert,
    Update,
    Delete,
}

impl Transaction {
    pub(super) fn insert<T: Serialize>(
        &mut self,
        collection: &'static str,
        documents: impl IntoIterator<Item = T>,
    ) -> Result<(), Failure> {
        let items = documents
            .into_iter()
            .map(|document| serialize_to_raw_document_buf(&document))
            .collect::<Result<_, _>>()
            .map_err(Error::from)?;
        self.push(Verb::Insert, collection, items);
        Ok(())
    }

    /// Each must meet all of its documents: otherwise nothing at all is written.
    pub(super) fn update_alike(
        &mut self,
        collection: &'static str,
        updates: impl IntoIterator<Item = Update>,
    ) -> Result<(), Failure> {
        let mut items = vec![];
        for update in updates {
            let hits = Some(update.ids.len());
            let document = raw([update.into_document()])?;
            items.extend(document.into_iter().map(|document| Item { document, hits }));
        }
        self.push_items(Verb::Update, collection, items);
        Ok(())
    }

    /// Each is `{q: condition, u: change}`, and must meet one document: otherwise nothing at all is written.
    pub(super) fn update(
        &mut self,
        collection: &'static str,
        updates: impl IntoIterator<Item = Document>,
    ) -> Result<(), Failure> {
        let items = raw(updates)?;
        self.push(Verb::Update, collection, items);
        Ok(())
    }

    /// Each is `{q: condition, u: change}`. That it meets no document is fine.
    pub(super) fn update_any(
        &mut self,
        collection: &'static str,
        updates: impl IntoIterator<Item = Document>,
    ) -> Result<(), Failure> {
        let items = raw(updates)?.into_iter();
        let items = items.map(|document| Item { document, hits: None });
        self.push_items(Verb::Update, collection, items.collect());
        Ok(())
    }

    /// Each condition must meet one document.
    pub(super) fn delete_each(
        &mut self,
        collection: &'static str,
        conditions: impl IntoIterator<Item = Document>,
    ) -> Result<(), Failure> {
        let items = deletes(conditions)?;
        self.push(Verb::Delete, collection, items);
        Ok(())
    }

    /// What the conditions meet. That it is gone already is fine.
    pub(super) fn delete_any(
        &mut self,
        collection: &'static str,
        conditions: impl IntoIterator<Item = Document>,
    ) -> Result<(), Failure> {
        let items = deletes(conditions)?.into_iter();
        let items = items.map(|document| Item { document, hits: None });
        self.push_items(Verb::Delete, collection, items.collect());
        Ok(())
    }

    /// Adds the sums to a stripe of the ledger. Another attempt takes another stripe.
    pub(super) fn count(&mut self, tally: &Tally) -> Result<(), Failure> {
        let increments = tally.increments();
        if increments.is_empty() {
            return Ok(());
        }
        let stripe = i64::try_from(random() % STRIPES).unwrap_or(0);
        self.update(
            LEDGER,
            [doc! { "q": { "_id": stripe }, "u": { "$inc": increments }, "upsert": true }],
        )
    }

    /// Durable when it returns. If a condition did not hold, nothing is written.
    pub(super) async fn commit(self, base: &Base) -> Result<(), Failure> {
        // Causal consistency would have the server wait for a time it is already at.
        let mut session = base.client.start_session().causal_consistency(false).await?;
        session
            .start_transaction()
            .read_concern(ReadConcern::local())
            .write_concern(durable())
            .max_commit_time(COMMAND)
            .await?;
        for write in self.writes {
            if let Err(failure) = write.run(base, &mut session).await {
                // The server forgets it by itself too, if this does not reach it.
                let _ = session.abort_transaction().await;
                return Err(failure);
            }
        }
        session.commit_transaction().await?;
        if let Some(time) = session.operation_time() {
            base.acknowledged(time);
        }
        Ok(())
    }

    fn push(&mut self, verb: Verb, collection: &'static str, documents: Vec<RawDocumentBuf>) {
        let items = documents.into_iter().map(|document| Item {
            document,
            hits: Some(1),
        });
        self.push_items(verb, collection, items.collect());
    }

    fn push_items(&mut self, verb: Verb, collection: &'static str, items: Vec<Item>) {
        if !items.is_empty() {
            self.writes.push(Write {
                verb,
                collection,
                items,
            });
        }
    }
}

impl Update {
    fn into_document(self) -> Document {
        let Update {
            ids,
            mut condition,
            change,
        } = self;
        condition.insert("_id", doc! { "$in": ids });
        // Or the server would weigh the other indexes that the condition speaks of.
        doc! { "q": condition, "u": change, "multi": true, "hint": "_id_" }
    }
}

impl Write {
    async fn run(self, base: &Base, session: &mut ClientSession) -> Result<(), Failure> {
        let (verb, list) = match self.verb {
            Verb::Insert => (cstr!("insert"), cstr!("documents")),
            Verb::Update => (cstr!("update"), cstr!("updates")),
            Verb::Delete => (cstr!("delete"), cstr!("deletes")),
        };
        for piece in pieces(self.items) {
            let expected: Option<usize> = piece.iter().map(|item| item.hits).sum();
            let mut array = RawArrayBuf::new();
            piece.into_iter().for_each(|item| array.push(item.document));
            let mut command = RawDocumentBuf::new();
            command.append(verb, self.collection);
            command.append(list, array);
            command.append(cstr!("maxTimeMS"), COMMAND.as_millis() as i64);
            let reply = base
                .database
                .run_raw_command(command)
                .session(&mut *session)
                .await?;
            check(&reply)?;
            let hit = reply.get_i32("n").ok().and_then(|n| usize::try_from(n).ok());
            if expected.is_some() && hit != expected {
                return Err(Failure::Overtaken);
            }
        }
        Ok(())
    }
}

/// A write that failed is told within an answer that is otherwise good.
fn check(reply: &Document) -> Result<(), Failure> {
    let Some(error) = reply
        .get_array("writeErrors")
        .ok()
        .and_then(|errors| errors.first())
    else {
        return Ok(());
    };
    let code = error.as_document().and_then(|error| error.get_i32("code").ok());
    Err(match code {
        Some(DUPLICATE_KEY) => Failure::Overtaken,
        Some(TOO_LARGE_FOR_CACHE) => Failure::TooLarge,
        _ => Failure::Database(Error::custom(error.to_string())),
    })
}

fn deletes(conditions: impl IntoIterator<Item = Document>) -> Result<Vec<RawDocumentBuf>, Failure> {
    raw(conditions
        .into_iter()
        .map(|condition| doc! { "q": condition, "limit": 1 }))
}

fn raw(documents: impl IntoIterator<Item = Document>) -> Result<Vec<RawDocumentBuf>, Failure> {
    documents
        .into_iter()
        .map(|document| RawDocumentBuf::try_from(&document))
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::Database(Error::from(error)))
}

/// Cut so that each fits a command.
fn pieces(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut pieces = vec![];
    let (mut piece, mut bytes) = (vec![], 0);
    for item in items {
        let size = item.document.as_bytes().len();
        if !piece.is_empty() && (bytes + size > COMMAND_BYTES || piece.len() == COMMAND_ITEMS) {
            pieces.push(std::mem::take(&mut piece));
            bytes = 0;
        }
        bytes += size;
        piece.push(item);
    }
    pieces.push(piece);
    pieces
}

#[cfg(test)]
mod tests {
    use mongodb::bson::rawdoc;

    use super::*;

    #[test]
    fn commands_stay_small() {
        let check = |sizes: &[usize], expected: &[usize]| {
            let items = sizes.iter().map(|size| Item {
                document: rawdoc! { "x": "x".repeat(*size) },
                hits: Some(1),
            });
            let found: Vec<_> = pieces(items.collect()).iter().map(Vec::len).collect();
            assert_eq!(found, expected, "{sizes:?}");
        };
        check(&[1, 1, 1], &[3]);
        check(&[5 << 20, 5 << 20, 5 << 20], &[2, 1]);
        check(&[13 << 20, 1], &[1, 1]);
        check(&[1; COMMAND_ITEMS + 1], &[COMMAND_ITEMS, 1]);
    }
}
