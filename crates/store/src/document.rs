//! The encoded form of specs and results, which a store writes and must still be able to read years later.
//!
//! The first byte is the version. A version never changes; a new form is a new version. The store writes the newest
//! version that a value needs and reads all versions up to its newest. The version of a spec is the form of its task
//! (`model::TaskForm`). A newer version than the newest known one belongs to a newer node, so it is no damage.

mod attempts;
mod figures;
mod judgement;
mod judging;
mod labels;
mod raw_bytes;
mod result;
mod spec;
mod tools;

use model::{
    ActivityFigures, AttemptId, AttemptRecord, BlobHash, EncodedEnd, ExecutorTools, Judging, Labels, Limits,
    Report, TaskForm, TaskResult, TaskSpec,
};
use serde::Serialize;

use self::attempts::AttemptDocument;
use self::figures::FiguresDocument;
use self::judging::ProblemContentDocument;
use self::labels::LabelsDocument;
use self::result::{ResultDocumentV1, ResultDocumentV2, ResultDocumentV3};
use self::spec::{
    SpecDocumentV1, SpecDocumentV2, SpecDocumentV3, SpecDocumentV4, SpecDocumentV5, SpecDocumentV6,
};
use self::tools::ToolsDocument;
use crate::StoreError;

/// An executor's report with its results encoded as the store writes them. Encoding happens once, before the
/// transaction, which may be retried. `R` is the form in which the store writes a result.
#[derive(Debug)]
pub(crate) struct EncodedReport<R> {
    pub(crate) report: Report,
    /// The tools of the report, if it has them.
    pub(crate) tools: Option<Vec<u8>>,
    pub(crate) completed: Vec<EncodedAttempt<R>>,
}

/// A completed attempt in an [`EncodedReport`]: a `model::CompletedAttempt` whose result is encoded.
#[derive(Debug)]
pub(crate) struct EncodedAttempt<R> {
    pub(crate) attempt_id: AttemptId,
    pub(crate) form: TaskForm,
    /// The blobs that the result names, each once.
    pub(crate) blobs: Vec<BlobHash>,
    pub(crate) end: EncodedEnd<R>,
}

const NEWEST_RESULT_VERSION: u8 = 3;
/// The version of a result without a judgement.
const UNJUDGED_RESULT_VERSION: u8 = 2;
const PROBLEM_VERSION: u8 = 1;
const ATTEMPTS_VERSION: u8 = 1;
const LABELS_VERSION: u8 = 1;
const TOOLS_VERSION: u8 = 1;
const FIGURES_VERSION: u8 = 1;

pub(crate) fn encode_spec(spec: &TaskSpec) -> Result<Vec<u8>, StoreError> {
    let form = TaskForm::of(spec);
    u8::try_from(form.0)
        .map_err(|_| postcard::Error::SerdeSerCustom)
        .and_then(|version| match form {
            _ if form > TaskForm::WITH_TOOLS => encode(version, &SpecDocumentV6::from(spec)),
            TaskForm::WITH_TOOLS => encode(version, &SpecDocumentV5::from(spec)),
            _ => encode(version, &SpecDocumentV4::from(spec)),
        })
        .map_err(encoding_failed("task"))
}

pub(crate) fn decode_spec(document: &[u8]) -> Result<TaskSpec, StoreError> {
    match document.first() {
        Some(version) if !TaskForm(u32::from(*version)).is_known() => {
            Err(StoreError::NewerForm(TaskForm(u32::from(*version))))
        }
        _ => parse_spec(document)
            .and_then(TaskSpec::try_from)
            .map_err(decoding_failed("task")),
    }
}

pub(crate) fn encode_result(result: &TaskResult) -> Result<Vec<u8>, StoreError> {
    match &result.judgement {
        Some(_) => encode(NEWEST_RESULT_VERSION, &ResultDocumentV3::from(result)),
        None => encode(UNJUDGED_RESULT_VERSION, &ResultDocumentV2::from(result)),
    }
    .map_err(encoding_failed("result"))
}

pub(crate) fn decode_result(document: &[u8]) -> Result<TaskResult, StoreError> {
    match document.first() {
        // A result has the form of its task, so that is a newer form, too.
        Some(version) if *version > NEWEST_RESULT_VERSION => {
            let newer = u32::from(*version - NEWEST_RESULT_VERSION);
            Err(StoreError::NewerForm(TaskForm(TaskForm::NEWEST.0 + newer)))
        }
        _ => parse_result(document)
            .and_then(TaskResult::try_from)
            .map_err(decoding_failed("result")),
    }
}

/// Encodes what a problem decides about the tasks that name it.
pub(crate) fn encode_problem(limits: &Limits, judging: &Judging) -> Result<Vec<u8>, StoreError> {
    let document = ProblemContentDocument::new(limits, judging);
    encode(PROBLEM_VERSION, &document).map_err(encoding_failed("problem"))
}

pub(crate) fn decode_problem(document: &[u8]) -> Result<(Limits, Judging), StoreError> {
    let parse = |document| match split_version(document)? {
        (PROBLEM_VERSION, rest) => postcard::from_bytes::<ProblemContentDocument<'_>>(rest)?.try_into(),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    };
    match document.first() {
        // Its tasks would have a newer form.
        Some(version) if *version > PROBLEM_VERSION => {
            let newer = u32::from(*version - PROBLEM_VERSION);
            Err(StoreError::NewerForm(TaskForm(TaskForm::NEWEST.0 + newer)))
        }
        _ => parse(document).map_err(decoding_failed("problem")),
    }
}

/// Encodes the attempts of a task that have ended.
pub(crate) fn encode_attempts(attempts: &[AttemptRecord]) -> Result<Vec<u8>, StoreError> {
    let documents: Vec<_> = attempts.iter().map(AttemptDocument::from).collect();
    encode(ATTEMPTS_VERSION, &documents).map_err(encoding_failed("list of attempts"))
}

pub(crate) fn decode_attempts(document: &[u8]) -> Result<Vec<AttemptRecord>, StoreError> {
    let parse = |document| match split_version(document)? {
        (ATTEMPTS_VERSION, rest) => postcard::from_bytes::<Vec<AttemptDocument>>(rest),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    };
    parse(document)
        .and_then(|attempts| attempts.into_iter().map(AttemptRecord::try_from).collect())
        .map_err(decoding_failed("list of attempts"))
}

/// Encodes labels for lists, which do not read the spec.
pub(crate) fn encode_labels(labels: &Labels) -> Result<Vec<u8>, StoreError> {
    encode(LABELS_VERSION, &LabelsDocument::from(labels)).map_err(encoding_failed("labels"))
}

pub(crate) fn decode_labels(document: &[u8]) -> Result<Labels, StoreError> {
    let parse = |document| match split_version(document)? {
        (LABELS_VERSION, rest) => postcard::from_bytes::<LabelsDocument>(rest),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    };
    parse(document)
        .and_then(Labels::try_from)
        .map_err(decoding_failed("labels"))
}

/// Encodes the tools that an executor has reported.
pub(crate) fn encode_tools(tools: &ExecutorTools) -> Result<Vec<u8>, StoreError> {
    encode(TOOLS_VERSION, &ToolsDocument::from(tools)).map_err(encoding_failed("executor's tools"))
}

/// Tools in a newer version are read as none: tasks that need them are left to newer nodes.
pub(crate) fn decode_tools(document: &[u8]) -> Result<ExecutorTools, StoreError> {
    let parse = |document| match split_version(document)? {
        (TOOLS_VERSION, rest) => postcard::from_bytes::<ToolsDocument<'_>>(rest)?.try_into(),
        (0, _) => Err(postcard::Error::DeserializeBadEncoding),
        (_, _) => Ok(ExecutorTools::default()),
    };
    parse(document).map_err(decoding_failed("executor's tools"))
}

/// Encodes the figures that a judicator keeps of a minute.
pub(crate) fn encode_figures(figures: &ActivityFigures) -> Result<Vec<u8>, StoreError> {
    encode(FIGURES_VERSION, &FiguresDocument::from(figures)).map_err(encoding_failed("figures of a minute"))
}

/// Figures in a newer version are read as none: they are for people, and the newer judicators show them.
pub(crate) fn decode_figures(document: &[u8]) -> Result<ActivityFigures, StoreError> {
    let parse = |document| match split_version(document)? {
        (FIGURES_VERSION, rest) => postcard::from_bytes::<FiguresDocument<'_>>(rest)?.try_into(),
        (0, _) => Err(postcard::Error::DeserializeBadEncoding),
        (_, _) => Ok(ActivityFigures::default()),
    };
    parse(document).map_err(decoding_failed("figures of a minute"))
}

fn encode(version: u8, document: &impl Serialize) -> postcard::Result<Vec<u8>> {
    postcard::to_extend(document, vec![version])
}

fn encoding_failed(what: &'static str) -> impl Fn(postcard::Error) -> StoreError {
    move |source| StoreError::Encode { what, source }
}

fn decoding_failed(what: &'static str) -> impl Fn(postcard::Error) -> StoreError {
    move |source| StoreError::Decode { what, source }
}

/// The caller has checked that the version is known. All forms since version 6 have its body.
fn parse_spec(document: &[u8]) -> postcard::Result<SpecDocumentV6<'_>> {
    let v4 = match split_version(document)? {
        (0, _) => return Err(postcard::Error::DeserializeBadEncoding),
        (1, rest) => postcard::from_bytes::<SpecDocumentV1>(rest)
            .map(|v1| SpecDocumentV3::from(SpecDocumentV2::from(v1)).into()),
        (2, rest) => postcard::from_bytes::<SpecDocumentV2>(rest).map(|v2| SpecDocumentV3::from(v2).into()),
        (3, rest) => postcard::from_bytes::<SpecDocumentV3>(rest).map(SpecDocumentV4::from),
        (4, rest) => postcard::from_bytes::<SpecDocumentV4>(rest),
        (5, rest) => return postcard::from_bytes::<SpecDocumentV5>(rest).map(SpecDocumentV6::from),
        (_, rest) => return postcard::from_bytes(rest),
    };
    v4.map(|v4| SpecDocumentV5::from(v4).into())
}

fn parse_result(document: &[u8]) -> postcard::Result<ResultDocumentV3<'_>> {
    match split_version(document)? {
        (NEWEST_RESULT_VERSION, rest) => postcard::from_bytes(rest),
        (UNJUDGED_RESULT_VERSION, rest) => {
            postcard::from_bytes::<ResultDocumentV2>(rest).map(ResultDocumentV3::from)
        }
        (1, rest) => {
            postcard::from_bytes::<ResultDocumentV1>(rest).map(|v1| ResultDocumentV2::from(v1).into())
        }
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

fn split_version(document: &[u8]) -> postcard::Result<(u8, &[u8])> {
    match document.split_first() {
        Some((version, rest)) => Ok((*version, rest)),
        None => Err(postcard::Error::DeserializeUnexpectedEnd),
    }
}

#[cfg(test)]
mod tests;
