//! Archives are read back by other readers than the code that writes them.

use std::io::{Cursor, Read};

use futures::TryStreamExt;
use model::{BlobHash, WorkspacePath};

use super::*;
use crate::fake_calls::FakeCalls;

/// 2026-01-01T00:00:10Z.
const TIME: UnixTime = UnixTime(1_767_225_610_000_000);

/// A file with this content, whose blob the fake judicator has.
fn kept(calls: &FakeCalls, path: &str, content: &[u8], executable: bool) -> KeptFile {
    KeptFile {
        path: WorkspacePath::new(path).unwrap(),
        size: content.len() as u64,
        blob: calls.put(content),
        executable,
    }
}

fn long_path() -> String {
    [&"x".repeat(200), &"é".repeat(100), "a.csv"]
        .map(String::from)
        .join("/")
}

fn files(calls: &FakeCalls) -> Vec<KeptFile> {
    vec![
        kept(calls, "a b.csv", b"1,2\n", false),
        kept(calls, "empty", b"", false),
        kept(calls, "out/run.sh", &[7; 100_000], true),
        kept(calls, "out/é", &[1; 512], false),
        kept(calls, &long_path(), b"deep", false),
    ]
}

fn expected() -> Vec<(String, Vec<u8>, u32)> {
    vec![
        ("a b.csv".into(), b"1,2\n".to_vec(), 0o644),
        ("empty".into(), vec![], 0o644),
        ("out/run.sh".into(), vec![7; 100_000], 0o755),
        ("out/é".into(), vec![1; 512], 0o644),
        (long_path(), b"deep".to_vec(), 0o644),
    ]
}

async fn whole(archive: impl Stream<Item = Result<Bytes, ArchiveError>>) -> Vec<u8> {
    let chunks: Vec<Bytes> = archive.try_collect().await.unwrap();
    assert!(chunks.iter().all(|chunk| chunk.len() <= 70_000));
    chunks.concat()
}

#[tokio::test]
async fn a_zip_contains_the_files() {
    let calls = FakeCalls::default();
    let files = files(&calls);
    let bytes = whole(archive(Arc::new(calls), files, ZipStreamWriter::new(TIME))).await;
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut found = Vec::new();
    for index in 0..zip.len() {
        let mut file = zip.by_index(index).unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        assert_eq!(file.compression(), zip::CompressionMethod::Stored);
        assert_eq!(file.last_modified().unwrap().to_string(), "2026-01-01 00:00:10");
        found.push((
            file.name().unwrap().to_string(),
            content,
            file.unix_mode().unwrap() & 0o777,
        ));
    }
    assert_eq!(found, expected());
}

#[tokio::test]
async fn a_tar_contains_the_files() {
    let calls = FakeCalls::default();
    let files = files(&calls);
    let bytes = whole(archive(Arc::new(calls), files, TarWriter::new(TIME))).await;
    let mut tar = tar::Archive::new(Cursor::new(bytes));
    let mut found = Vec::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        assert_eq!(entry.header().mtime().unwrap(), 1_767_225_610);
        let path = entry.path().unwrap().to_str().unwrap().to_string();
        found.push((path, content, entry.header().mode().unwrap()));
    }
    assert_eq!(found, expected());
}

#[tokio::test]
async fn an_archive_without_files_is_valid() {
    let calls: Arc<dyn Calls> = Arc::new(FakeCalls::default());
    let zip = whole(archive(calls.clone(), vec![], ZipStreamWriter::new(TIME))).await;
    assert!(zip::ZipArchive::new(Cursor::new(zip)).unwrap().is_empty());
    let tar = whole(archive(calls, vec![], TarWriter::new(TIME))).await;
    assert_eq!(tar::Archive::new(Cursor::new(tar)).entries().unwrap().count(), 0);
}

/// A file that is too large for a test is not written, only its header.
#[test]
fn large_files_have_64_bit_sizes() {
    let file = KeptFile {
        path: WorkspacePath::new("large").unwrap(),
        size: 20 << 30,
        blob: BlobHash([1; 32]),
        executable: false,
    };
    let header = TarWriter::new(TIME).begin_file(&file).unwrap();
    let mut block = [0; 512];
    block.copy_from_slice(&header);
    assert_eq!(
        tar::Header::from_byte_slice(&block).entry_size().unwrap(),
        file.size
    );
    let header = ZipStreamWriter::new(TIME).begin_file(&file).unwrap();
    // The extra field 1 of a local header is the one with 64-bit sizes.
    assert_eq!(header[30 + "large".len()..][..2], [1, 0]);
}

#[tokio::test]
async fn a_blob_that_fails_aborts_the_archive() {
    let calls = FakeCalls::default();
    let mut short = kept(&calls, "a", b"content", false);
    short.size += 1;
    let missing = KeptFile {
        blob: BlobHash([9; 32]),
        ..kept(&calls, "b", b"x", false)
    };
    let calls: Arc<dyn Calls> = Arc::new(calls);
    for file in [short, missing] {
        let zip: Result<Vec<_>, _> = archive(calls.clone(), vec![file.clone()], ZipStreamWriter::new(TIME))
            .try_collect()
            .await;
        assert!(zip.is_err(), "{file:?}");
        let tar: Result<Vec<_>, _> = archive(calls.clone(), vec![file.clone()], TarWriter::new(TIME))
            .try_collect()
            .await;
        assert!(tar.is_err(), "{file:?}");
    }
}
