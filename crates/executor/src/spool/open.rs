//! Opens the spool with the results of an earlier process, and connects them with their files.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::Path;
use std::sync::Arc;

use model::{AttemptEnd, AttemptId, BlobHash, CapturedOutput, TaskForm, TaskResult};

use super::journal::{Journal, JournalFile};
use super::{ResultFiles, Spool, SpoolTable, SpooledEnd};
use crate::outcome::keep_head_only;
use crate::outgoing::{OutgoingFiles, OutgoingFolder};

impl Spool {
    /// Loads the results of an earlier process, adds the attempts that were interrupted when it was killed, and writes all of
    /// them to the journal before it returns. Files in the outgoing folder that no result names are removed.
    pub(crate) fn open(
        path: &Path,
        interrupted: &[(AttemptId, TaskForm)],
        outgoing: &Arc<OutgoingFolder>,
    ) -> io::Result<Spool> {
        let (mut journal, found) = JournalFile::open(path)?;
        // A later record of the same attempt replaces an earlier one.
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|complete| (complete.attempt_id, complete))
            .collect();
        let mut table = SpoolTable::default();
        for (attempt_id, complete) in found {
            let (end, files) = with_files(complete.end, outgoing);
            table
                .unanswered
                .insert(attempt_id, SpooledEnd::new(complete.form, end));
            if let Some(files) = files {
                table.files.insert(attempt_id, ResultFiles::new(files));
            }
        }
        for (attempt_id, form) in interrupted {
            if let Entry::Vacant(entry) = table.unanswered.entry(*attempt_id) {
                let why = "its executor was killed while the task was running";
                entry.insert(SpooledEnd::new(*form, AttemptEnd::Broken(why.into())));
            }
        }
        journal.rewrite(&table.all())?;
        outgoing.start_removals();
        Spool::start(table, journal)
    }
}

/// The end of an attempt of an earlier process, with references to its files. Without its files the attempt has no result.
fn with_files(end: AttemptEnd, outgoing: &Arc<OutgoingFolder>) -> (AttemptEnd, Option<OutgoingFiles>) {
    let AttemptEnd::Result(mut result) = end else {
        return (end, None);
    };
    // Kept until the references below are taken.
    let mut moved = OutgoingFiles::new(outgoing);
    for outcome in [&mut result.compile, &mut result.execute].into_iter().flatten() {
        for output in [&mut outcome.stdout, &mut outcome.stderr] {
            move_long_head(output, outgoing, &mut moved);
        }
    }
    let blobs = named_blobs(&result);
    if blobs.is_empty() {
        return (AttemptEnd::Result(result), None);
    }
    match outgoing.reference(&blobs) {
        Some(files) => (AttemptEnd::Result(result), Some(files)),
        None => {
            let why = "its executor was restarted and has lost a file of its result";
            (AttemptEnd::Broken(why.into()), None)
        }
    }
}

/// Earlier releases kept the whole output in the journal; what is too long for a result becomes a blob.
fn move_long_head(output: &mut CapturedOutput, outgoing: &OutgoingFolder, files: &mut OutgoingFiles) {
    if output.head.len() <= CapturedOutput::MAX_HEAD {
        return;
    }
    let whole = output.head.split_off(0);
    output.head = whole.slice(..CapturedOutput::MAX_HEAD);
    match outgoing.add_bytes(&whole, files) {
        Ok(hash) => output.blob = Some(hash),
        Err(error) => {
            tracing::warn!(%error, "could not keep the long output of a task from an earlier version; only its head is kept");
            keep_head_only(output);
        }
    }
}

/// The blobs that a result names, with their sizes as far as the result has them.
fn named_blobs(result: &TaskResult) -> Vec<(BlobHash, Option<u64>)> {
    let outputs = result.outputs();
    let outputs = outputs.filter_map(|output| Some((output.blob?, Some(output.size))));
    let files = result.files.iter().map(|file| (file.blob, Some(file.size)));
    let judgement = result.judgement.iter();
    let cases = judgement.filter_map(|judgement| Some((judgement.cases.blob()?, None)));
    outputs.chain(files).chain(cases).collect()
}
