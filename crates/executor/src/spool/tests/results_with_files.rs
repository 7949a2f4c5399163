//! Results that name blobs, and their files across restarts.

use super::*;

#[test]
fn a_result_with_files_waits_for_its_upload_and_keeps_its_files_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let files = outgoing(&path);
    let spool = Spool::open(&path, &[], &files).unwrap();
    let mut with_file = complete(b"head");
    let mut references = OutgoingFiles::new(&files);
    let blob = files.add_bytes(b"content", &mut references).unwrap();
    if let AttemptEnd::Result(result) = &mut with_file.end {
        result.files = vec![KeptFile {
            path: WorkspacePath::new("out").unwrap(),
            size: 7,
            blob,
            executable: true,
        }];
        result.files_left_out.add(9, LeftOutReason::NotRegular);
    }
    spool.add(with_file.clone(), Some(references), Duration::ZERO);
    let attempt_id = with_file.attempt_id;
    let check = |spool: &Spool| {
        let batch = spool.next_batch(usize::MAX, usize::MAX);
        assert_eq!(batch.complete, []);
        let expected = ExecutingAttempt {
            attempt_id,
            status: Some(TaskStatus::Running),
        };
        assert_eq!(batch.uploading, [expected]);
        assert!(batch.uploading_bytes >= WAITING_FILE_BYTES, "its file is counted");
        assert_eq!(spool.uploads(), [(attempt_id, vec![blob])]);
        spool.on_uploaded(&attempt_id);
        assert_eq!(waiting(spool), std::slice::from_ref(&with_file));
        assert!(!spool.has_uploads());
    };
    check(&spool);
    spool.close(SOON);
    drop(spool);
    assert!(files.has_references(&blob), "the next process needs the file");
    let spool = open(&path);
    check(&spool);
    acknowledge(&spool, &[attempt_id]);
    assert_eq!(waiting(&spool), []);
    assert_eq!(spool.uploads(), []);
}

#[test]
fn a_lost_file_of_one_result_costs_no_other_result_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let files = outgoing(&path);
    let mut references = OutgoingFiles::new(&files);
    let mut add = |content: &str| files.add_bytes(content.as_bytes(), &mut references).unwrap();
    let [lost, shared, own, unnamed] = ["lost", "shared", "own", "unnamed"].map(&mut add);
    let naming = |blobs: &[(BlobHash, u64)]| {
        let mut complete = complete(b"head");
        if let AttemptEnd::Result(result) = &mut complete.end {
            let file = |(number, (blob, size)): (usize, &(BlobHash, u64))| KeptFile {
                path: WorkspacePath::new(format!("{number}")).unwrap(),
                size: *size,
                blob: *blob,
                executable: false,
            };
            result.files = blobs.iter().enumerate().map(file).collect();
        }
        complete
    };
    let mut records = [naming(&[]), naming(&[])];
    records.sort_by_key(|complete| complete.attempt_id);
    let [first, second] = records.map(|complete| complete.attempt_id);
    let broken = CompletedAttempt {
        attempt_id: first,
        ..naming(&[(shared, 6), (lost, 4)])
    };
    let good = CompletedAttempt {
        attempt_id: second,
        ..naming(&[(shared, 6), (own, 3)])
    };
    let (mut journal, _) = JournalFile::open(&path).unwrap();
    journal.append(&[broken, good.clone()]).unwrap();
    // Like a process that was killed.
    std::mem::forget(references);
    std::fs::remove_file(files.source(&lost).unwrap().path).unwrap();

    let files = outgoing(&path);
    let references = files.reference(&[(shared, Some(6)), (lost, Some(4))]);
    assert!(references.is_none());
    assert!(
        !files.is_removing(),
        "nothing is removed before the spool is read"
    );
    let spool = Spool::open(&path, &[], &files).unwrap();
    let is_broken = |complete: &CompletedAttempt| {
        complete.attempt_id == first && matches!(complete.end, AttemptEnd::Broken(_))
    };
    assert!(waiting(&spool).iter().all(is_broken) && waiting(&spool).len() == 1);
    let [(uploading, blobs)] = &spool.uploads()[..] else {
        panic!("{:?}", spool.uploads());
    };
    assert_eq!((*uploading, blobs.len()), (second, 2));
    let deadline = Instant::now() + SOON;
    while files.source(&unnamed).is_some() || files.is_removing() {
        assert!(Instant::now() < deadline, "the unnamed file is not removed");
        std::thread::yield_now();
    }
    for blob in [shared, own] {
        let path = files.source(&blob).expect("the second result names it").path;
        assert_eq!(BlobHash::of(std::fs::read(path).unwrap()), blob);
    }
}

#[test]
fn long_output_in_the_journal_of_an_earlier_release_becomes_a_blob() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let long: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    let of_earlier_release = complete(&long);
    let (mut journal, _) = JournalFile::open(&path).unwrap();
    journal.append(std::slice::from_ref(&of_earlier_release)).unwrap();
    let files = outgoing(&path);
    let spool = Spool::open(&path, &[], &files).unwrap();
    assert_eq!(waiting(&spool), []);
    spool.on_uploaded(&of_earlier_release.attempt_id);
    let [
        CompletedAttempt {
            end: AttemptEnd::Result(result),
            ..
        },
    ] = &waiting(&spool)[..]
    else {
        panic!("no result");
    };
    let stdout = result.outputs().next().unwrap();
    assert_eq!(stdout.head, long[..CapturedOutput::MAX_HEAD]);
    assert_eq!((stdout.size, stdout.truncated), (200_000, true));
    let source = files.source(&stdout.blob.unwrap()).unwrap();
    assert_eq!(std::fs::read(source.path).unwrap(), long);
}
