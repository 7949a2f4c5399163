//! Problems: the collection `problems`. Large ones are stored like the specs of tasks; see `content`.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use model::{
    BlobHash, JudgeProblem, ProblemEditor, ProblemName, ProblemRef, ProblemSummary, UnixTime, UserName,
};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Document, RawDocumentBuf, deserialize_from_slice, doc};
use mongodb::options::{Hint, ReadConcern};
use serde::{Deserialize, Serialize};

use super::MongoStore;
use super::blobs;
use super::bson_values::{ToBson, binary, blob_hash, to_u32, unreadable};
use super::content::{self, PreparedContent, StoredContent};
use super::context::{BLOBS, META, PARTS, PROBLEMS, StoreContext, UPLOADS};
use super::failure::MongoFailure;
use super::gridfs;
use super::retry::{COMMAND_TIMEOUT, RetryPolicy};
use super::schema::PROBLEMS_BY_OWNER_INDEX;
use super::transaction::Transaction;
use crate::document::{decode_problem, encode_problem};
use crate::{ProblemBounds, ProblemStore, StoreError};

/// The document of `meta` that every new problem writes. So two transactions that each add one conflict, and the bounds on
/// their number hold.
const LAST_ADDED: &str = "problems";
/// About how much a reference to a blob adds to the payload of a transaction.
const BLOB_REF_BYTES: usize = 128;

#[async_trait]
impl ProblemStore for MongoStore {
    async fn put_problem(
        &self,
        problem: JudgeProblem,
        editor: ProblemEditor,
        bounds: ProblemBounds,
    ) -> Result<JudgeProblem, StoreError> {
        let put = Arc::new(PreparedProblem::prepare(&self.context, problem).await?);
        let (editor, payload) = (Arc::new(editor), put.payload_bytes());
        let stored = RetryPolicy::new("put a problem")
            .with_payload(payload)
            .run(|_| write(self.context.clone(), put.clone(), editor.clone(), bounds))
            .await;
        // Deletes the file of a problem that was refused.
        self.file_cleaner
            .discard(put.content.file().into_iter().collect());
        stored
    }

    async fn problem(&self, name: ProblemName) -> Result<Option<JudgeProblem>, StoreError> {
        let name = Arc::new(name);
        RetryPolicy::new("read a problem")
            .run(|_| read(self.context.clone(), name.clone()))
            .await
    }

    async fn problems(&self) -> Result<Vec<ProblemSummary>, StoreError> {
        RetryPolicy::new("list problems")
            .run(|_| list(self.context.clone()))
            .await
    }

    async fn remove_problem(&self, name: ProblemName, editor: ProblemEditor) -> Result<bool, StoreError> {
        let (name, editor) = (Arc::new(name), Arc::new(editor));
        RetryPolicy::new("remove a problem")
            .run(|_| remove(self.context.clone(), name.clone(), editor.clone()))
            .await
    }
}

/// A document of the MongoDB collection `problems`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ProblemDocument {
    #[serde(rename = "_id")]
    name: String,
    owner: String,
    title: String,
    cases: i64,
    update_time: i64,
    /// The call that has written it. A later call requires it, and a try that is repeated recognises its own write.
    put: ObjectId,
    /// Each once. Retention keeps them.
    blobs: Vec<Binary>,
    problem: StoredContent,
}

/// The fields of a [`ProblemDocument`] that a list of problems has.
#[derive(Deserialize)]
struct ProblemSummaryFields {
    #[serde(rename = "_id")]
    name: String,
    owner: String,
    title: String,
    cases: i64,
    update_time: i64,
}

/// A problem that the MongoDB store is about to put, with its content ready to be written.
struct PreparedProblem {
    put: ObjectId,
    problem: JudgeProblem,
    /// Each once.
    blobs: Vec<BlobHash>,
    content: PreparedContent,
}

impl PreparedProblem {
    async fn prepare(
        context: &Arc<StoreContext>,
        problem: JudgeProblem,
    ) -> Result<PreparedProblem, StoreError> {
        let encoded = encode_problem(&problem.limits, &problem.judging)?;
        Ok(PreparedProblem {
            put: ObjectId::new(),
            blobs: problem.blobs(),
            content: PreparedContent::prepare(context, encoded).await?,
            problem,
        })
    }

    fn payload_bytes(&self) -> usize {
        self.content.bytes_in_transaction() + self.blobs.len() * BLOB_REF_BYTES
    }

    fn document(&self, owner: &UserName) -> ProblemDocument {
        let ProblemSummary {
            name,
            title,
            cases,
            update_time,
            ..
        } = self.problem.summary();
        ProblemDocument {
            name: name.to_string(),
            owner: owner.to_string(),
            title,
            cases: cases.into(),
            update_time: update_time.0,
            put: self.put,
            blobs: self.blobs.iter().map(|hash| binary(hash.0.to_vec())).collect(),
            problem: self.content.content.clone(),
        }
    }
}

/// A problem of the MongoDB store that a call replaces or removes.
struct ExistingProblem {
    document: ProblemDocument,
    owner: UserName,
}

async fn write(
    context: Arc<StoreContext>,
    put: Arc<PreparedProblem>,
    editor: Arc<ProblemEditor>,
    bounds: ProblemBounds,
) -> Result<JudgeProblem, MongoFailure> {
    let name = &put.problem.name;
    let existing = find_changeable(&context, name, &editor).await?;
    let owner = match &existing {
        Some(existing) => existing.owner.clone(),
        None => put.problem.owner.clone(),
    };
    let stored = JudgeProblem {
        owner: owner.clone(),
        ..put.problem.clone()
    };
    if existing
        .as_ref()
        .is_some_and(|existing| existing.document.put == put.put)
    {
        // An earlier try has written it, and its reply was lost.
        return Ok(stored);
    }
    let document = put.document(&owner);
    let mut transaction = Transaction::default();
    match &existing {
        Some(existing) => {
            let kept: BTreeSet<_> = put.blobs.iter().copied().collect();
            release(existing, &kept, &mut transaction)?;
            let replaced = doc! { "_id": name.as_str(), "put": existing.document.put };
            transaction.delete_each(PROBLEMS, [replaced])?;
        }
        None => count_new(&context, &owner, bounds, &mut transaction).await?,
    }
    check_blobs(&context, &put.blobs).await?;
    transaction.insert(PROBLEMS, [&document])?;
    content::write(std::iter::once(&put.content), &mut transaction)?;
    blobs::require(put.blobs.iter(), &mut transaction);
    // So that `blobs::remove_unused` waits for the transaction.
    transaction.touch_ledger()?;
    transaction.commit(&context).await?;
    Ok(stored)
}

async fn remove(
    context: Arc<StoreContext>,
    name: Arc<ProblemName>,
    editor: Arc<ProblemEditor>,
) -> Result<bool, MongoFailure> {
    let Some(existing) = find_changeable(&context, &name, &editor).await? else {
        return Ok(false);
    };
    let mut transaction = Transaction::default();
    release(&existing, &BTreeSet::new(), &mut transaction)?;
    let removed = doc! { "_id": name.as_str(), "put": existing.document.put };
    transaction.delete_each(PROBLEMS, [removed])?;
    transaction.commit(&context).await?;
    Ok(true)
}

/// Removes the content of a problem that is replaced or removed. Makes retention look whether its blobs are still used,
/// except those that the new version names.
fn release(
    existing: &ExistingProblem,
    kept: &BTreeSet<BlobHash>,
    transaction: &mut Transaction,
) -> Result<(), MongoFailure> {
    let ProblemDocument { blobs, problem, .. } = &existing.document;
    let mut released = BTreeSet::new();
    for hash in blobs {
        released.insert(blob_hash(hash)?);
    }
    released.retain(|hash| !kept.contains(hash));
    transaction.update_grouped_if_present(BLOBS, blobs::examination_updates(&released))?;
    let document = problem.document.map(|id| doc! { "_id": id });
    transaction.delete_if_present(PARTS, document)?;
    transaction.update(UPLOADS, problem.file.map(gridfs::schedule_deletion))
}

/// The problem of this name. Refuses an editor who may not change it.
async fn find_changeable(
    context: &StoreContext,
    name: &ProblemName,
    editor: &ProblemEditor,
) -> Result<Option<ExistingProblem>, MongoFailure> {
    let found: Option<RawDocumentBuf> = context
        .collection(PROBLEMS)
        .find_one(doc! { "_id": name.as_str() })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let document: ProblemDocument =
        deserialize_from_slice(found.as_bytes()).map_err(|error| unreadable_problem(name, error))?;
    let owner = UserName::new(&*document.owner).map_err(|error| unreadable_problem(name, error))?;
    match editor.may_change(&owner) {
        true => Ok(Some(ExistingProblem { document, owner })),
        false => Err(MongoFailure::Refused(StoreError::NotOwner(ProblemRef {
            name: name.clone(),
            owner,
        }))),
    }
}

/// Refuses a further problem of this owner if there are enough. The transaction fails if another one adds a problem at the
/// same time.
async fn count_new(
    context: &StoreContext,
    owner: &UserName,
    bounds: ProblemBounds,
    transaction: &mut Transaction,
) -> Result<(), MongoFailure> {
    let last = context
        .collection::<Document>(META)
        .find_one(doc! { "_id": LAST_ADDED })
        .read_concern(ReadConcern::local())
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let revision = last.and_then(|last| last.get_i64("revision").ok()).unwrap_or(0);
    let problems = context.collection::<Document>(PROBLEMS);
    let count = async |condition: Document, index: &str| -> Result<u32, MongoFailure> {
        let count = problems
            .count_documents(condition)
            .hint(Hint::Name(index.into()))
            .read_concern(ReadConcern::local())
            .max_time(COMMAND_TIMEOUT)
            .await?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    };
    let own = count(doc! { "owner": owner.to_bson() }, PROBLEMS_BY_OWNER_INDEX).await?;
    let all = count(doc! {}, "_id_").await?;
    bounds.check(owner, own, all)?;
    transaction.update(
        META,
        // No document has revision 0, so the upsert inserts one, or fails if another call has inserted it meanwhile.
        [doc! {
            "q": { "_id": LAST_ADDED, "revision": revision },
            "u": { "$inc": { "revision": 1_i64 } },
            "upsert": revision == 0,
        }],
    )
}

/// Refuses blobs that are missing, with the same errors as for a task.
async fn check_blobs(context: &StoreContext, hashes: &[BlobHash]) -> Result<(), MongoFailure> {
    if hashes.is_empty() {
        return Ok(());
    }
    let found = blobs::find(context, hashes).await?;
    let missing = hashes.iter().find(|hash| !found.intact.contains_key(hash));
    match missing.map(|hash| (hash, found.unreadable.get(hash))) {
        None => Ok(()),
        Some((hash, Some(problem))) => Err(unreadable("blob", format!("{hash}: {problem}"))),
        Some((hash, None)) => Err(MongoFailure::Refused(StoreError::BlobNotFound(*hash))),
    }
}

async fn read(
    context: Arc<StoreContext>,
    name: Arc<ProblemName>,
) -> Result<Option<JudgeProblem>, MongoFailure> {
    let found: Option<RawDocumentBuf> = context
        .collection(PROBLEMS)
        .find_one(doc! { "_id": name.as_str() })
        .projection(doc! { "blobs": 0 })
        .max_time(COMMAND_TIMEOUT)
        .await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let unreadable = |problem: String| unreadable_problem(&name, problem);
    let fields: ProblemSummaryFields =
        deserialize_from_slice(found.as_bytes()).map_err(|error| unreadable(error.to_string()))?;
    let StoredProblemContent { problem } =
        deserialize_from_slice(found.as_bytes()).map_err(|error| unreadable(error.to_string()))?;
    let ProblemSummary {
        name,
        owner,
        title,
        update_time,
        ..
    } = fields.summary()?;
    let mut read = content::read(&context, [((), problem)]).await?;
    // The problem was replaced or removed meanwhile.
    let encoded = read.remove(&()).ok_or(MongoFailure::Conflict)?;
    let (limits, judging) = decode_problem(&encoded).map_err(|error| unreadable(error.to_string()))?;
    Ok(Some(JudgeProblem {
        name,
        owner,
        title,
        limits,
        judging,
        update_time,
    }))
}

/// The field of a [`ProblemDocument`] that says where its content is.
#[derive(Deserialize)]
struct StoredProblemContent {
    problem: StoredContent,
}

async fn list(context: Arc<StoreContext>) -> Result<Vec<ProblemSummary>, MongoFailure> {
    let found: Vec<RawDocumentBuf> = context
        .collection(PROBLEMS)
        .find(doc! {})
        .projection(doc! { "owner": 1, "title": 1, "cases": 1, "update_time": 1 })
        .sort(doc! { "_id": 1 })
        .max_time(COMMAND_TIMEOUT)
        .await?
        .try_collect()
        .await?;
    let summary = |document: &RawDocumentBuf| {
        let fields: Result<ProblemSummaryFields, _> = deserialize_from_slice(document.as_bytes());
        let summary = match fields {
            Ok(fields) => fields
                .summary()
                .map_err(|failure| failure.into_error("read it").to_string()),
            Err(error) => Err(error.to_string()),
        };
        let id = || document.get("_id").ok().flatten();
        let record = |problem: &String| {
            context
                .unreadable_rows
                .record(format_args!("problem {:?}", id()), problem);
        };
        summary.inspect_err(record).ok()
    };
    Ok(found.iter().filter_map(summary).collect())
}

impl ProblemSummaryFields {
    fn summary(self) -> Result<ProblemSummary, MongoFailure> {
        let name = ProblemName::new(self.name).map_err(|error| unreadable("problem", error))?;
        let owner = UserName::new(self.owner).map_err(|error| unreadable_problem(&name, error))?;
        Ok(ProblemSummary {
            name,
            owner,
            title: self.title,
            cases: to_u32("number of cases", self.cases)?,
            update_time: UnixTime(self.update_time),
        })
    }
}

fn unreadable_problem(name: &ProblemName, problem: impl std::fmt::Display) -> MongoFailure {
    unreadable("problem", format!("{name}: {problem}"))
}
