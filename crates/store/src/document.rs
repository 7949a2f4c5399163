//! The bulky parts of a task as bytes: what a store writes down and must still read years later.
//!
//! The first byte is the version of the form. A form is never changed, only followed by another: a reader
//! keeps every version that was ever written, a writer writes the newest.

mod bytes;
mod result;
mod spec;

use model::{TaskResult, TaskSpec};
use serde::Serialize;

use self::result::ResultDocument;
use self::spec::{FirstSpec, SecondSpec, SpecDocument};
use crate::StoreError;

/// The newest versions.
const SPEC: u8 = 3;
const RESULT: u8 = 1;

pub(crate) fn encode_spec(spec: &TaskSpec) -> Result<Vec<u8>, StoreError> {
    encode(SPEC, &SpecDocument::from(spec)).map_err(|source| StoreError::Encode { what: "task", source })
}

pub(crate) fn decode_spec(document: &[u8]) -> Result<TaskSpec, StoreError> {
    read_spec(document)
        .and_then(TaskSpec::try_from)
        .map_err(|source| StoreError::Decode { what: "task", source })
}

pub(crate) fn encode_result(result: &TaskResult) -> Result<Vec<u8>, StoreError> {
    encode(RESULT, &ResultDocument::from(result)).map_err(|source| StoreError::Encode {
        what: "result",
        source,
    })
}

pub(crate) fn decode_result(document: &[u8]) -> Result<TaskResult, StoreError> {
    read_result(document)
        .and_then(TaskResult::try_from)
        .map_err(|source| StoreError::Decode {
            what: "result",
            source,
        })
}

fn encode(version: u8, document: &impl Serialize) -> postcard::Result<Vec<u8>> {
    postcard::to_extend(document, vec![version])
}

fn read_spec(document: &[u8]) -> postcard::Result<SpecDocument<'_>> {
    match version(document)? {
        (SPEC, rest) => postcard::from_bytes(rest),
        (2, rest) => postcard::from_bytes::<SecondSpec>(rest).map(SpecDocument::from),
        (1, rest) => postcard::from_bytes::<FirstSpec>(rest).map(|first| SecondSpec::from(first).into()),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

fn read_result(document: &[u8]) -> postcard::Result<ResultDocument<'_>> {
    match version(document)? {
        (RESULT, rest) => postcard::from_bytes(rest),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    }
}

fn version(document: &[u8]) -> postcard::Result<(u8, &[u8])> {
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
        BlobHash, Captured, Command, CompileStep, Content, ExecuteStep, File, FilePath, Limits, NetworkName,
        Outcome, Reason, UserName,
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
        let file = |content| File {
            content,
            executable: true,
        };
        TaskSpec {
            user: UserName::new("Ada Lovelace").unwrap(),
            priority: -3,
            compile: Some(CompileStep {
                command: Command::Argv(vec!["cc".into(), "a b".into()]),
                env: [("B".to_string(), "2".to_string())].into(),
                network: Some(NetworkName::new("lab").unwrap()),
                limits,
            }),
            execute: ExecuteStep {
                command: Command::Shell("./a.out < x".into()),
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
                FilePath::new("a/b.c").unwrap(),
                file(Content::Inline(Bytes::from_static(&[0, 255, 7]))),
            )]
            .into(),
            data: [(
                FilePath::new("in").unwrap(),
                file(Content::Blob(BlobHash([1; 32]))),
            )]
            .into(),
        }
    }

    #[test]
    fn specs_survive() {
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

    /// A spec as the older forms show it: their compile step has the environment of the other.
    fn old_spec() -> TaskSpec {
        let mut spec = spec();
        let env = spec.execute.env.clone();
        spec.compile.iter_mut().for_each(|step| step.env = env.clone());
        spec
    }

    /// What follows the version in both of the older forms, byte for byte as it was written.
    fn first_form() -> Vec<u8> {
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
    fn the_second_form_is_still_read() {
        let first = first_form();
        let second = [
            &b"\x02"[..],
            &first,
            b"\x01\x03lab\x01\x80\x80\x80\x80\x80\x20\x01\xff\xff\xff\xff\x0f\x01\x80\x80\x80\x04\x01\x03",
            b"\x00\x00\x00\x01\x80\x80\x40\x00",
        ];
        assert_eq!(decode_spec(&second.concat()).unwrap(), old_spec());
    }

    #[test]
    fn the_first_form_is_still_read() {
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
        assert_eq!(decode_spec(&[&b"\x01"[..], &first_form()].concat()).unwrap(), old);
    }

    #[test]
    fn results_survive() {
        for reason in Reason::ALL {
            let outcome = Outcome {
                reason,
                exit_code: Some(-1),
                signal: None,
                wall: Duration::from_nanos(1),
                cpu: Duration::MAX,
                memory: 1 << 40,
                stdout: Captured {
                    bytes: Bytes::from(vec![b'x'; 70_000]),
                    truncated: true,
                },
                stderr: Captured::default(),
            };
            let result = TaskResult {
                compile: None,
                execute: Some(outcome),
            };
            assert_eq!(decode_result(&encode_result(&result).unwrap()).unwrap(), result);
        }
    }

    #[test]
    fn damage_and_other_versions_are_errors() {
        let good = encode_spec(&spec()).unwrap();
        let mut newer = good.clone();
        newer[0] = SPEC + 1;
        for bad in [&[][..], &good[..1], &good[..good.len() - 1], &newer] {
            assert!(decode_spec(bad).is_err());
        }
    }
}
