//! Measures how fast many small blobs are put into a SQLite store by concurrent callers, beside a plain write and fsync of
//! the same bytes: `cargo run --release -p store --example put_blobs [BLOBS] [BYTES] [CALLERS]`.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example prints, and its tasks end with it"
)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::BlobHash;
use store::sqlite::{SqliteStore, SqliteStoreOptions};
use store::{BlobFile, TaskStore};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let argument = |number, default| {
        let given = std::env::args().nth(number);
        given.map_or(Ok(default), |text| text.parse::<usize>())
    };
    let (blobs, bytes, callers) = (argument(1, 1000)?, argument(2, 100_000)?, argument(3, 16)?);
    let folder = tempfile::tempdir_in(".")?;
    let show = |what: &str, took: Duration| {
        let rate = blobs as f64 / took.as_secs_f64();
        println!("{what:<38} {took:>8.2?} {rate:>8.0} blobs/s");
    };
    let began = Instant::now();
    for number in 0..blobs {
        write(&folder.path().join(format!("plain-{number}")), number, bytes)?.sync_all()?;
    }
    show("write and fsync, one after the other", began.elapsed());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let write_share = |caller: usize| {
            for number in (caller..blobs).step_by(callers) {
                let path = folder.path().join(format!("beside-{number}"));
                write(&path, number, bytes)?.sync_all()?;
            }
            std::io::Result::Ok(())
        };
        let threads: Vec<_> = (0..callers)
            .map(|caller| scope.spawn(move || write_share(caller)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    show("write and fsync, by all callers", began.elapsed());
    let store = Arc::new(SqliteStore::open(
        &folder.path().join("store"),
        SqliteStoreOptions::default(),
    )?);
    // Whoever puts a blob has hashed it while it was received.
    let hashes: Arc<[BlobHash]> = (0..blobs)
        .map(|number| BlobHash::of(content(number, bytes)))
        .collect();
    let began = Instant::now();
    let putting = (0..callers).map(|caller| {
        let (store, hashes) = (store.clone(), hashes.clone());
        tokio::spawn(async move {
            for number in (caller..blobs).step_by(callers) {
                let path = store.incoming_folder().join(number.to_string());
                write(&path, number, bytes)?;
                let hash = hashes[number];
                let size = bytes as u64;
                store.put_blob(BlobFile { hash, size, path }).await?;
            }
            anyhow::Ok(())
        })
    });
    for put in futures::future::join_all(putting).await {
        put??;
    }
    show("put into the store", began.elapsed());
    println!("{} commits", store.commits());
    Ok(())
}

/// Different bytes for each blob.
fn content(number: usize, bytes: usize) -> Vec<u8> {
    let mut content = vec![b'x'; bytes];
    let number = number.to_le_bytes();
    let length = number.len().min(bytes);
    content[..length].copy_from_slice(&number[..length]);
    content
}

fn write(path: &Path, number: usize, bytes: usize) -> std::io::Result<File> {
    let mut file = File::create(path)?;
    file.write_all(&content(number, bytes))?;
    Ok(file)
}
