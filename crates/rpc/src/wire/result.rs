use std::time::Duration;

use bytes::Bytes;
use model::{
    AttemptNumber, AttemptRecord, CapturedOutput, FilesLeftOut, InvalidField, KeptFile, Outcome, TaskResult,
    UnixTime, WorkspacePath,
};

use super::ids::{encode_hash, parse_executor, parse_hash};
use super::{ParseMessage, micros, parse_each, parse_known_text, parse_optional, parse_text, proto};

impl From<TaskResult> for proto::TaskResult {
    fn from(result: TaskResult) -> Self {
        proto::TaskResult {
            compile: result.compile.map(Into::into),
            execute: result.execute.map(Into::into),
            files: result.files.into_iter().map(Into::into).collect(),
            files_left_out: Some(result.files_left_out.into()),
            judgement: result.judgement.map(Into::into),
        }
    }
}

impl ParseMessage<TaskResult> for proto::TaskResult {
    fn parse(self) -> Result<TaskResult, InvalidField> {
        Ok(TaskResult {
            compile: parse_optional("compile", self.compile)?,
            execute: parse_optional("execute", self.execute)?,
            files: parse_each("files", self.files)?,
            files_left_out: parse_optional("files_left_out", self.files_left_out)?.unwrap_or_default(),
            judgement: parse_optional("judgement", self.judgement)?,
        })
    }
}

impl From<Outcome> for proto::Outcome {
    fn from(outcome: Outcome) -> Self {
        let Outcome { stdout, stderr, .. } = outcome;
        proto::Outcome {
            reason: outcome.reason.to_string(),
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            wall: micros(outcome.wall),
            cpu: micros(outcome.cpu),
            memory: outcome.memory,
            stdout: stdout.head,
            stderr: stderr.head,
            stdout_truncated: stdout.truncated,
            stderr_truncated: stderr.truncated,
            stdout_size: stdout.size,
            stderr_size: stderr.size,
            stdout_blob: stdout.blob.map(encode_hash),
            stderr_blob: stderr.blob.map(encode_hash),
        }
    }
}

impl ParseMessage<Outcome> for proto::Outcome {
    fn parse(self) -> Result<Outcome, InvalidField> {
        let output = |head: Bytes, size: u64, blob: Option<Bytes>, truncated| {
            let blob = blob.map(|hash| parse_hash("blob", &hash)).transpose()?;
            Ok(CapturedOutput {
                size: blob.map_or(head.len() as u64, |_| size),
                head,
                blob,
                truncated,
            })
        };
        Ok(Outcome {
            reason: parse_text("reason", &self.reason)?,
            exit_code: self.exit_code,
            signal: self.signal,
            wall: Duration::from_micros(self.wall),
            cpu: Duration::from_micros(self.cpu),
            memory: self.memory,
            stdout: output(
                self.stdout,
                self.stdout_size,
                self.stdout_blob,
                self.stdout_truncated,
            )?,
            stderr: output(
                self.stderr,
                self.stderr_size,
                self.stderr_blob,
                self.stderr_truncated,
            )?,
        })
    }
}

impl From<KeptFile> for proto::KeptFile {
    fn from(file: KeptFile) -> Self {
        proto::KeptFile {
            path: file.path.to_string(),
            size: file.size,
            blob: encode_hash(file.blob),
            executable: file.executable,
        }
    }
}

impl ParseMessage<KeptFile> for proto::KeptFile {
    fn parse(self) -> Result<KeptFile, InvalidField> {
        Ok(KeptFile {
            path: WorkspacePath::of_kept_file(self.path)
                .map_err(|wrong| InvalidField::new("path", wrong.to_string()))?,
            size: self.size,
            blob: parse_hash("blob", &self.blob)?,
            executable: self.executable,
        })
    }
}

impl From<FilesLeftOut> for proto::FilesLeftOut {
    fn from(left_out: FilesLeftOut) -> Self {
        let FilesLeftOut { count, bytes, why } = left_out;
        proto::FilesLeftOut {
            count,
            bytes,
            why: why.map(|why| why.as_str().to_string()),
        }
    }
}

impl ParseMessage<FilesLeftOut> for proto::FilesLeftOut {
    fn parse(self) -> Result<FilesLeftOut, InvalidField> {
        let why = self
            .why
            .and_then(|why| parse_known_text("files_left_out.why", &why));
        Ok(FilesLeftOut {
            count: self.count,
            bytes: self.bytes,
            why,
        })
    }
}

impl From<AttemptRecord> for proto::AttemptRecord {
    fn from(record: AttemptRecord) -> Self {
        proto::AttemptRecord {
            executor: record.executor.to_string(),
            attempt: record.attempt.0,
            start_time: record.start_time.0,
            end_time: record.end.map(|(time, _)| time.0),
            end: record.end.map(|(_, end)| end.as_str().to_string()),
        }
    }
}

impl ParseMessage<AttemptRecord> for proto::AttemptRecord {
    fn parse(self) -> Result<AttemptRecord, InvalidField> {
        let end = self.end.map(|end| parse_text("end", &end)).transpose()?;
        Ok(AttemptRecord {
            executor: parse_executor(self.executor)?,
            attempt: AttemptNumber(self.attempt),
            start_time: UnixTime(self.start_time),
            end: self.end_time.map(UnixTime).zip(end),
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{BlobHash, ExecutorName, LeftOutReason, OutcomeReason, RecordedEnd};

    use super::*;

    #[test]
    fn every_outcome_reason_is_unchanged_by_encoding_and_parsing() {
        for reason in OutcomeReason::ALL {
            let outcome = Outcome {
                reason,
                exit_code: Some(1),
                signal: None,
                wall: Duration::from_micros(1),
                cpu: Duration::from_micros(2),
                memory: 3,
                stdout: CapturedOutput::small("text"),
                stderr: CapturedOutput {
                    head: Bytes::from_static(b"head"),
                    size: 1 << 40,
                    blob: Some(BlobHash([7; 32])),
                    truncated: true,
                },
            };
            let read: Outcome = proto::Outcome::from(outcome.clone()).parse().unwrap();
            assert_eq!(read, outcome);
        }
    }

    #[test]
    fn kept_files_and_attempts_are_unchanged_by_encoding_and_parsing() {
        let result = TaskResult {
            compile: None,
            execute: None,
            files: vec![KeptFile {
                path: WorkspacePath::new("out/a").unwrap(),
                size: 7,
                blob: BlobHash([1; 32]),
                executable: true,
            }],
            files_left_out: FilesLeftOut {
                count: 3,
                bytes: 9,
                why: Some(LeftOutReason::TooMany),
            },
            judgement: None,
        };
        let read: TaskResult = proto::TaskResult::from(result.clone()).parse().unwrap();
        assert_eq!(read, result);
        for end in [None, Some((UnixTime(9), RecordedEnd::GivenBack))] {
            let record = AttemptRecord {
                executor: ExecutorName::new("e").unwrap(),
                attempt: AttemptNumber(2),
                start_time: UnixTime(5),
                end,
            };
            let read: AttemptRecord = proto::AttemptRecord::from(record.clone()).parse().unwrap();
            assert_eq!(read, record);
        }
    }
}
