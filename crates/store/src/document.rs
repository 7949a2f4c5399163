//! The bulky parts of a task as bytes: what a store writes down and must still read years later.
//!
//! The first byte is the version of the form. A form is never changed, only followed by another: a reader
//! keeps every version that was ever written, a writer writes the newest.

mod bytes;
mod result;
mod spec;

use model::{TaskResult, TaskSpec};
use serde::{Deserialize, Serialize};

use self::result::ResultDocument;
use self::spec::SpecDocument;
use crate::StoreError;

const VERSION: u8 = 1;

pub(crate) fn encode_spec(spec: &TaskSpec) -> Result<Vec<u8>, StoreError> {
    encode(&SpecDocument::from(spec)).map_err(|source| StoreError::Encode { what: "task", source })
}

pub(crate) fn decode_spec(document: &[u8]) -> Result<TaskSpec, StoreError> {
    decode::<SpecDocument>(document)
        .and_then(TaskSpec::try_from)
        .map_err(|source| StoreError::Decode { what: "task", source })
}

pub(crate) fn encode_result(result: &TaskResult) -> Result<Vec<u8>, StoreError> {
    encode(&ResultDocument::from(result)).map_err(|source| StoreError::Encode {
        what: "result",
        source,
    })
}

pub(crate) fn decode_result(document: &[u8]) -> Result<TaskResult, StoreError> {
    decode::<ResultDocument>(document)
        .and_then(TaskResult::try_from)
        .map_err(|source| StoreError::Decode {
            what: "result",
            source,
        })
}

fn encode(document: &impl Serialize) -> postcard::Result<Vec<u8>> {
    postcard::to_extend(document, vec![VERSION])
}

fn decode<'a, T: Deserialize<'a>>(document: &'a [u8]) -> postcard::Result<T> {
    match document.split_first() {
        Some((&VERSION, rest)) => postcard::from_bytes(rest),
        Some(_) => Err(postcard::Error::DeserializeBadEncoding),
        None => Err(postcard::Error::DeserializeUnexpectedEnd),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::bytes::Bytes;
    use model::{
        BlobHash, Captured, Command, CompileStep, Content, ExecuteStep, File, FilePath, Limits, Outcome,
    };
    use model::{Reason, UserName};

    use super::*;

    fn spec() -> TaskSpec {
        let limits = Limits {
            wall: Some(Duration::from_millis(1500)),
            cpu: None,
            memory: Some(u64::MAX),
            output: Some(0),
            processes: Some(7),
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
                limits,
            }),
            execute: ExecuteStep {
                command: Command::Shell("./a.out < x".into()),
                args: vec!["é".into(), String::new()],
                env: [("A".to_string(), "1".to_string())].into(),
                input: Content::Blob(BlobHash([9; 32])),
                limits: Limits::default(),
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
        newer[0] = 2;
        for bad in [&[][..], &good[..1], &good[..good.len() - 1], &newer] {
            assert!(decode_spec(bad).is_err());
        }
    }
}
