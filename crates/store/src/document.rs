//! The encoded form of specs and results, which a store writes and must still be able to read years later.
//!
//! The first byte is the version. A version never changes; a new form is a new version. The store writes the newest
//! version and reads all of them.

mod raw_bytes;
mod result;
mod spec;

use model::{AttemptId, EncodedEnd, Report, TaskResult, TaskSpec};
use serde::Serialize;

use self::result::ResultDocument;
use self::spec::{SpecDocumentV1, SpecDocumentV2, SpecDocumentV3};
use crate::StoreError;

/// An executor's report with its results encoded as the store writes them. Encoding happens once, before the
/// transaction, which may be retried. `R` is the form in which the store writes a result.
#[derive(Debug)]
pub(crate) struct EncodedReport<R> {
    pub(crate) report: Report,
    pub(crate) completed: Vec<EncodedAttempt<R>>,
}

/// A completed attempt in an [`EncodedReport`]: a `model::CompletedAttempt` whose result is encoded.
#[derive(Debug)]
pub(crate) struct EncodedAttempt<R> {
    pub(crate) attempt_id: AttemptId,
    pub(crate) end: EncodedEnd<R>,
}

const NEWEST_SPEC_VERSION: u8 = 3;
const NEWEST_RESULT_VERSION: u8 = 1;

pub(crate) fn encode_spec(spec: &TaskSpec) -> Result<Vec<u8>, StoreError> {
    encode(NEWEST_SPEC_VERSION, &SpecDocumentV3::from(spec))
        .map_err(|source| StoreError::Encode { what: "task", source })
}

pub(crate) fn decode_spec(document: &[u8]) -> Result<TaskSpec, StoreError> {
    parse_spec(document)
        .and_then(TaskSpec::try_from)
        .map_err(|source| StoreError::Decode { what: "task", source })
}

pub(crate) fn encode_result(result: &TaskResult) -> Result<Vec<u8>, StoreError> {
    encode(NEWEST_RESULT_VERSION, &ResultDocument::from(result)).map_err(|source| StoreError::Encode {
        what: "result",
        source,
    })
}

pub(crate) fn decode_result(document: &[u8]) -> Result<TaskResult, StoreError> {
    parse_result(document)
        .and_then(TaskResult::try_from)
        .map_err(|source| StoreError::Decode {
            what: "result",
            source,
        })
}

fn encode(version: u8, document: &impl Serialize) -> postcard::Result<Vec<u8>> {
    postcard::to_extend(document, vec![version])
}

fn parse_spec(document: &[u8]) -> postcard::Result<SpecDocumentV3<'_>> {
    match split_version(document)? {
        (NEWEST_SPEC_VERSION, rest) => postcard::from_bytes(rest),
        (2, rest) => postcard::from_bytes::<SpecDocumentV2>(rest).map(SpecDocumentV3::from),
        (1, rest) => postcard::from_bytes::<SpecDocumentV1>(rest).map(|v1| SpecDocumentV2::from(v1).into()),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

fn parse_result(document: &[u8]) -> postcard::Result<ResultDocument<'_>> {
    match split_version(document)? {
        (NEWEST_RESULT_VERSION, rest) => postcard::from_bytes(rest),
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
mod tests {
    use std::time::Duration;

    use ::bytes::Bytes;
    use model::{
        BlobHash, CapturedOutput, CompileStep, Content, ExecuteStep, Limits, NetworkName, Outcome,
        OutcomeReason, StepCommand, TaskFile, UserName, WorkspacePath,
    };

    use super::*;

    fn spec() -> TaskSpec {
        let limits = Limits {
            wall: Some(Duration::from_millis(1500)),
            cpu: None,
            memory: Some(u64::MAX),
            output: Some(0),
            processes: Some(7),
            file_size: Some(1 << 40),
            open_files: Some(u32::MAX),
            stack: Some(8 << 20),
            space: Some(3),
        };
        let file = |content| TaskFile {
            content,
            executable: true,
        };
        TaskSpec {
            user: UserName::new("Ada Lovelace").unwrap(),
            priority: -3,
            compile: Some(CompileStep {
                command: StepCommand::Argv(vec!["cc".into(), "a b".into()]),
                env: [("B".to_string(), "2".to_string())].into(),
                network: Some(NetworkName::new("lab").unwrap()),
                limits,
            }),
            execute: ExecuteStep {
                command: StepCommand::Shell("./a.out < x".into()),
                args: vec!["é".into(), String::new()],
                env: [("A".to_string(), "1".to_string())].into(),
                input: Content::Blob(BlobHash([9; 32])),
                network: None,
                limits: Limits {
                    stack: Some(1 << 20),
                    ..Limits::default()
                },
            },
            source: [(
                WorkspacePath::new("a/b.c").unwrap(),
                file(Content::Inline(Bytes::from_static(&[0, 255, 7]))),
            )]
            .into(),
            data: [(
                WorkspacePath::new("in").unwrap(),
                file(Content::Blob(BlobHash([1; 32]))),
            )]
            .into(),
        }
    }

    #[test]
    fn specs_are_decoded_as_they_were_encoded() {
        let spec = spec();
        assert_eq!(decode_spec(&encode_spec(&spec).unwrap()).unwrap(), spec);
        let plain = TaskSpec {
            compile: None,
            execute: ExecuteStep {
                network: Some(NetworkName::new("loopback").unwrap()),
                ..spec.execute.clone()
            },
            ..spec
        };
        assert_eq!(decode_spec(&encode_spec(&plain).unwrap()).unwrap(), plain);
    }

    /// The spec that the older versions decode to: their compile step has the environment of the execute step.
    fn old_spec() -> TaskSpec {
        let mut spec = spec();
        let env = spec.execute.env.clone();
        spec.compile.iter_mut().for_each(|step| step.env = env.clone());
        spec
    }

    /// The bytes after the version byte of version 1, with which version 2 begins too.
    fn version_1_bytes() -> Vec<u8> {
        [
            &b"\x0cAda Lovelace\x05\x01\x01\x02\x02cc\x03a b"[..],
            b"\x01\x01\x80\xca\xb5\xee\x01\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x00\x01\x07",
            b"\x00\x0b./a.out < x\x02\x02\xc3\xa9\x00\x01\x01A\x011\x01",
            &[9; 32],
            b"\x00\x00\x00\x00\x00",
            b"\x01\x05a/b.c\x01\x00\x03\x00\xff\x07",
            b"\x01\x02in\x01\x01",
            &[1; 32],
        ]
        .concat()
    }

    #[test]
    fn version_2_specs_are_still_decoded() {
        let version_1 = version_1_bytes();
        let version_2 = [
            &b"\x02"[..],
            &version_1,
            b"\x01\x03lab\x01\x80\x80\x80\x80\x80\x20\x01\xff\xff\xff\xff\x0f\x01\x80\x80\x80\x04\x01\x03",
            b"\x00\x00\x00\x01\x80\x80\x40\x00",
        ];
        assert_eq!(decode_spec(&version_2.concat()).unwrap(), old_spec());
    }

    #[test]
    fn version_1_specs_are_still_decoded() {
        let mut old = old_spec();
        let limits = old.compile.iter_mut().map(|step| {
            step.network = None;
            &mut step.limits
        });
        for limits in limits.chain([&mut old.execute.limits]) {
            *limits = Limits {
                file_size: None,
                open_files: None,
                stack: None,
                space: None,
                ..*limits
            };
        }
        assert_eq!(
            decode_spec(&[&b"\x01"[..], &version_1_bytes()].concat()).unwrap(),
            old
        );
    }

    #[test]
    fn results_are_decoded_as_they_were_encoded() {
        for reason in OutcomeReason::ALL {
            let outcome = Outcome {
                reason,
                exit_code: Some(-1),
                signal: None,
                wall: Duration::from_nanos(1),
                cpu: Duration::MAX,
                memory: 1 << 40,
                stdout: CapturedOutput {
                    bytes: Bytes::from(vec![b'x'; 70_000]),
                    truncated: true,
                },
                stderr: CapturedOutput::default(),
            };
            let result = TaskResult {
                compile: None,
                execute: Some(outcome),
            };
            assert_eq!(decode_result(&encode_result(&result).unwrap()).unwrap(), result);
        }
    }

    #[test]
    fn damaged_documents_and_unknown_versions_are_errors() {
        let good = encode_spec(&spec()).unwrap();
        let mut newer = good.clone();
        newer[0] = NEWEST_SPEC_VERSION + 1;
        for bad in [&[][..], &good[..1], &good[..good.len() - 1], &newer] {
            assert!(decode_spec(bad).is_err());
        }
    }
}
