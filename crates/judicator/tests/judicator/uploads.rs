//! Uploads of blobs that are interrupted and continued.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use judicator::Judicator;
use model::BlobHash;
use rpc::{BlobFileSource, ByteStream, CallError, Calls};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::harness::with_deadline;
use super::sqlite_harness::SqliteJudicator;

fn content() -> Vec<u8> {
    (0..1_000_000_u32)
        .flat_map(u32::to_le_bytes)
        .take(1_000_000)
        .collect()
}

fn pieces(bytes: &[u8]) -> Vec<Result<Bytes, CallError>> {
    bytes
        .chunks(64 << 10)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect()
}

fn whole(bytes: &[u8]) -> ByteStream {
    stream::iter(pieces(bytes)).boxed()
}

/// Sends these bytes and then fails, as a sender that stalls does.
fn broken_after(bytes: &[u8]) -> ByteStream {
    let mut pieces = pieces(bytes);
    pieces.push(Err(CallError::Unavailable("stalled".into())));
    stream::iter(pieces).boxed()
}

async fn read(judicator: &Judicator, hash: BlobHash) -> Vec<u8> {
    let bytes = judicator.get_blob(hash).await.unwrap();
    let pieces: Vec<Bytes> = bytes.try_collect().await.unwrap();
    pieces.concat()
}

/// Sends the bytes of an upload that is under way.
type PieceSender = mpsc::UnboundedSender<Result<Bytes, CallError>>;

/// An upload whose bytes the test sends one by one.
fn open_upload(
    judicator: &Arc<Judicator>,
    hash: BlobHash,
) -> (PieceSender, JoinHandle<Result<u64, CallError>>) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let bytes = stream::poll_fn(move |context| receiver.poll_recv(context)).boxed();
    let judicator = judicator.clone();
    (
        sender,
        tokio::spawn(async move { judicator.put_blob(hash, Some(0), bytes).await }),
    )
}

fn incoming_files(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path().join("incoming")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// A range must not read the whole blob, which would find the damage.
#[tokio::test]
async fn a_range_of_a_blob_reads_only_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let (hash, judicator) = (BlobHash::of(&content), &node.judicator);
    judicator.put_blob(hash, None, whole(&content)).await.unwrap();
    let name = hash.to_string();
    let file = folder.path().join("blobs").join(&name[..2]).join(&name[2..]);
    let mut damaged = content.clone();
    damaged[0] ^= 1;
    fs::write(file, &damaged).unwrap();
    let range = async |start: usize, end: usize| {
        let bytes = judicator.get_blob_range(hash, start as u64..end as u64).await?;
        let pieces: Vec<Bytes> = bytes.try_collect().await?;
        Ok::<_, CallError>(pieces.concat())
    };
    for (start, end) in [(999_999, 1_000_000), (300_000, 300_001), (1, 700_000)] {
        assert!(
            range(start, end).await.unwrap() == content[start..end],
            "{start}..{end}"
        );
    }
    let beyond = range(999_999, 1_000_001).await;
    assert!(matches!(beyond, Err(CallError::Internal(_))), "{beyond:?}");
    // A whole read finds the damage. From then on no range is served, either.
    for start in [0, 5] {
        let refused = range(start, 1_000_000).await;
        assert_eq!(refused, Err(CallError::DamagedBlob(hash)), "{start}");
    }
}

/// A gateway's client cannot continue its upload, so it must not be able to fill the disk with parts.
#[tokio::test]
async fn an_interrupted_upload_without_an_offset_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let hash = BlobHash::of(&content);
    let broken = node
        .judicator
        .put_blob(hash, None, broken_after(&content[..300_000]))
        .await;
    assert!(broken.is_err());
    assert_eq!(node.judicator.partial_blob(hash).await, Ok(0));
    assert_eq!(incoming_files(&folder), Vec::<String>::new());
    let whole = node.judicator.put_blob(hash, None, whole(&content)).await;
    assert_eq!(whole, Ok(1_000_000));
    node.stop().await;
}

#[tokio::test]
async fn an_interrupted_upload_is_continued_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let hash = BlobHash::of(&content);
    let judicator = &node.judicator;
    assert_eq!(judicator.partial_blob(hash).await, Ok(0));
    let stalled = judicator
        .put_blob(hash, Some(0), broken_after(&content[..300_000]))
        .await;
    assert!(matches!(stalled, Err(CallError::Unavailable(_))), "{stalled:?}");
    assert_eq!(judicator.partial_blob(hash).await, Ok(300_000));
    let stalled = judicator
        .put_blob(hash, Some(300_000), broken_after(&content[300_000..500_000]))
        .await;
    assert!(stalled.is_err());
    assert_eq!(judicator.partial_blob(hash).await, Ok(500_000));
    for wrong in [1, 499_999, 500_001] {
        let refused = judicator
            .put_blob(hash, Some(wrong), whole(&content[500_000..]))
            .await;
        assert!(matches!(refused, Err(CallError::Busy(_))), "{wrong}: {refused:?}");
    }
    node.stop().await;
    let node = SqliteJudicator::start(folder.path());
    let judicator = &node.judicator;
    assert_eq!(judicator.partial_blob(hash).await, Ok(500_000));
    assert_eq!(
        judicator
            .put_blob(hash, Some(500_000), whole(&content[500_000..]))
            .await,
        Ok(1_000_000)
    );
    assert_eq!(read(judicator, hash).await, content);
    assert_eq!(judicator.partial_blob(hash).await, Ok(0));
    assert_eq!(incoming_files(&folder), Vec::<String>::new());
}

/// The kept bytes may be an hour's work on a slow line.
#[tokio::test]
async fn an_upload_from_the_beginning_leaves_what_was_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let (hash, judicator) = (BlobHash::of(&content), &node.judicator);
    judicator
        .put_blob(hash, Some(0), broken_after(&content[..900_000]))
        .await
        .unwrap_err();
    judicator
        .put_blob(hash, Some(0), broken_after(&content[..10]))
        .await
        .unwrap_err();
    assert_eq!(judicator.partial_blob(hash).await, Ok(900_000));
    assert_eq!(
        judicator.put_blob(hash, Some(0), whole(&content)).await,
        Ok(1_000_000)
    );
    assert_eq!(read(judicator, hash).await, content);
    assert_eq!(incoming_files(&folder), Vec::<String>::new());
}

#[tokio::test]
async fn what_was_kept_of_another_content_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let (hash, judicator) = (BlobHash::of(&content), &node.judicator);
    judicator
        .put_blob(hash, Some(0), broken_after(b"something else"))
        .await
        .unwrap_err();
    let damaged = judicator.put_blob(hash, Some(14), whole(&content[14..])).await;
    assert!(matches!(damaged, Err(CallError::Busy(_))), "{damaged:?}");
    assert_eq!(judicator.partial_blob(hash).await, Ok(0));
    let wrong = judicator.put_blob(hash, Some(0), whole(b"something else")).await;
    assert!(matches!(wrong, Err(CallError::WrongHash { .. })), "{wrong:?}");
    assert_eq!(incoming_files(&folder), Vec::<String>::new());
}

#[tokio::test]
async fn two_uploads_of_one_blob_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let (hash, judicator) = (BlobHash::of(&content), &node.judicator);
    let (sender, first) = open_upload(judicator, hash);
    sender
        .send(Ok(Bytes::copy_from_slice(&content[..500_000])))
        .unwrap();
    with_deadline(async {
        while incoming_files(&folder).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let second = judicator
        .put_blob(hash, Some(500_000), whole(&content[500_000..]))
        .await;
    assert!(matches!(second, Err(CallError::Busy(_))), "{second:?}");
    assert_eq!(
        judicator.put_blob(hash, Some(0), whole(&content)).await,
        Ok(1_000_000)
    );
    // The first makes progress, so there is nothing to continue.
    let mut rest = content[500_000..].chunks(1000);
    let slowly = async {
        for piece in rest.by_ref() {
            sender.send(Ok(Bytes::copy_from_slice(piece))).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        kept = judicator.partial_blob(hash) => assert_eq!(kept, Ok(0)),
        () = slowly => panic!("no answer while the upload goes on"),
    }
    for piece in rest {
        sender.send(Ok(Bytes::copy_from_slice(piece))).unwrap();
    }
    drop(sender);
    assert_eq!(with_deadline(first).await.unwrap(), Ok(1_000_000));
    assert_eq!(read(judicator, hash).await, content);
    assert_eq!(incoming_files(&folder), Vec::<String>::new());
}

/// The connection of the sender is dead, and the judicator has not noticed yet.
#[tokio::test]
async fn an_upload_without_progress_gives_way_to_its_continuation() {
    let folder = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let (hash, judicator) = (BlobHash::of(&content), &node.judicator);
    let (sender, first) = open_upload(judicator, hash);
    sender
        .send(Ok(Bytes::copy_from_slice(&content[..500_000])))
        .unwrap();
    let kept = with_deadline(async {
        loop {
            match judicator.partial_blob(hash).await.unwrap() {
                0 => tokio::time::sleep(Duration::from_millis(100)).await,
                kept => return kept,
            }
        }
    });
    assert_eq!(kept.await, 500_000);
    let first = with_deadline(first).await.unwrap();
    assert!(matches!(first, Err(CallError::Busy(_))), "{first:?}");
    assert_eq!(
        judicator
            .put_blob(hash, Some(500_000), whole(&content[500_000..]))
            .await,
        Ok(1_000_000)
    );
    assert_eq!(read(judicator, hash).await, content);
}

#[tokio::test]
async fn a_sender_that_disconnects_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let (hash, judicator) = (BlobHash::of(&content), &node.judicator);
    let (sender, first) = open_upload(judicator, hash);
    for piece in pieces(&content[..500_000]) {
        sender.send(piece).unwrap();
    }
    let part = folder.path().join("incoming").join(format!("{hash}.part"));
    with_deadline(async {
        while fs::metadata(&part).map_or(0, |metadata| metadata.len()) < 500_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(
        judicator
            .put_blob(hash, Some(500_000), whole(&content[500_000..]))
            .await,
        Ok(1_000_000)
    );
    assert_eq!(read(judicator, hash).await, content);
}

#[tokio::test]
async fn a_blob_that_is_too_large_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let node = SqliteJudicator::start(folder.path());
    let (hash, piece) = (BlobHash([1; 32]), Bytes::from(vec![0; 1 << 20]));
    let endless = stream::repeat_with(move || Ok(piece.clone())).boxed();
    let refused = node.judicator.put_blob(hash, Some(0), endless).await;
    assert!(matches!(refused, Err(CallError::TooLarge { .. })), "{refused:?}");
    assert_eq!(incoming_files(&folder), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_of_this_machine_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let outgoing = tempfile::tempdir().unwrap();
    let (content, node) = (content(), SqliteJudicator::start(folder.path()));
    let path = outgoing.path().join("file");
    fs::write(&path, &content).unwrap();
    let source = BlobFileSource {
        hash: BlobHash::of(&content),
        size: 1_000_000,
        path: path.clone(),
    };
    // A repetition changes nothing.
    for _ in 0..2 {
        node.judicator.put_blob_file(source.clone()).await.unwrap();
        assert_eq!(incoming_files(&folder), Vec::<String>::new());
    }
    assert_eq!(read(&node.judicator, source.hash).await, content);
    fs::remove_file(&path).unwrap();
    assert_eq!(read(&node.judicator, source.hash).await, content);
    let gone = node.judicator.put_blob_file(source).await;
    assert!(matches!(gone, Err(CallError::Internal(_))), "{gone:?}");
}
