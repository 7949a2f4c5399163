use model::{CapturedOutput, KeptFile, Outcome, SessionId, WorkspacePath};

use super::*;
use crate::fixtures;
use crate::outgoing::OutgoingFiles;

#[test]
fn a_result_goes_on_without_a_blob_that_the_store_refuses() {
    let [refused, other] = [1, 2].map(|number| BlobHash([number; 32]));
    let output = |blob| CapturedOutput {
        size: 100_000,
        blob: Some(blob),
        ..CapturedOutput::small("head")
    };
    let file = |path: &str, blob| KeptFile {
        path: WorkspacePath::new(path).unwrap(),
        size: 10,
        blob,
        executable: false,
    };
    let execute = Outcome {
        stdout: output(refused),
        stderr: output(other),
        ..fixtures::outcome()
    };
    let result = TaskResult {
        execute: Some(execute.clone()),
        files: vec![file("a", other), file("b", refused)],
        ..TaskResult::default()
    };
    let mut expected = TaskResult {
        execute: Some(Outcome {
            stdout: CapturedOutput {
                truncated: true,
                ..CapturedOutput::small("head")
            },
            ..execute
        }),
        files: vec![file("a", other)],
        ..TaskResult::default()
    };
    expected.files_left_out.add(10, LeftOutReason::TooLarge);
    assert_eq!(
        without_blob(AttemptEnd::Result(result), refused),
        AttemptEnd::Result(expected)
    );
}

#[test]
fn a_result_whose_file_was_added_again_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let outgoing = OutgoingFolder::open(folder.path().join("outgoing"), 1 << 20).unwrap();
    let mut files = OutgoingFiles::new(&outgoing);
    let hash = outgoing.add_bytes(b"content", &mut files).unwrap();
    let attempt_id = fixtures::attempt_id(SessionId(uuid::Uuid::now_v7()));
    let uploads = Uploads::default();
    uploads.add(attempt_id, [hash]);
    let unchecked = uploads.queue().take_unchecked(1, now());
    for taken in unchecked {
        uploads.queue().on_checked(taken, false);
    }
    let start = || uploads.queue().next_upload(now(), |_| 7).map(|(hash, _)| hash);
    assert_eq!(start(), Some(hash));
    assert_eq!(uploads.on_lost(hash, &outgoing), [], "the folder has the file");
    assert_eq!(start(), Some(hash));
    std::fs::remove_file(outgoing.source(&hash).unwrap().path).unwrap();
    assert!(!outgoing.verify(&hash).unwrap());
    assert_eq!(uploads.on_lost(hash, &outgoing), [attempt_id]);
    assert_eq!(start(), None);
}
