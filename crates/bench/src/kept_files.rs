//! How quickly a server keeps the files of tasks, against writing and hashing the same bytes without it.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use api::{HttpClient, NewTask};
use model::{BlobHash, KeepPattern};
use serde::Serialize;

use crate::task_program::{TaskProgram, pseudo_random};
use crate::throughput;

/// A figure of the benchmark: how quickly tasks that keep files are done, and how quickly the same bytes are written.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct KeptFilesRate {
    pub(crate) tasks: usize,
    pub(crate) files_of_each: usize,
    pub(crate) bytes_of_each: usize,
    pub(crate) seconds: f64,
    /// Two threads make, write and hash the same bytes.
    pub(crate) local_seconds: f64,
    /// The same, and each file is synced, as a server does before it answers.
    pub(crate) local_synced_seconds: f64,
}

/// Whether the baseline syncs each file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LocalWrites {
    Cached,
    Synced,
}

const FILES: usize = 10;
const BYTES: usize = 100_000;
const THREADS: usize = 2;

pub(crate) async fn measure(client: &HttpClient, tasks: usize, folder: &Path) -> Result<KeptFilesRate> {
    let local_seconds = write_locally(&folder.join("cached"), tasks, LocalWrites::Cached)?;
    let local_synced_seconds = write_locally(&folder.join("synced"), tasks, LocalWrites::Synced)?;
    let batch = (0..tasks)
        .map(|index| {
            let program = TaskProgram::Files {
                seed: index as u64,
                count: FILES,
                bytes: BYTES,
            };
            Ok(NewTask {
                keep: vec![KeepPattern::new("out/*")?],
                ..NewTask::new(program.command()?)
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let began = Instant::now();
    let done = throughput::run_all(client, batch).await?;
    let seconds = began.elapsed().as_secs_f64();
    let last = client.get(done, None).await?;
    let kept = last
        .result
        .context("a task that is done has no result")?
        .files
        .len();
    ensure!(kept == FILES, "{kept} of {FILES} files were kept");
    Ok(KeptFilesRate {
        tasks,
        files_of_each: FILES,
        bytes_of_each: BYTES,
        seconds,
        local_seconds,
        local_synced_seconds,
    })
}

impl KeptFilesRate {
    pub(crate) fn ratio(&self) -> f64 {
        self.local_seconds / self.seconds
    }

    pub(crate) fn synced_ratio(&self) -> f64 {
        self.local_synced_seconds / self.seconds
    }

    pub(crate) fn mebibytes_per_second(&self) -> f64 {
        let bytes = self.tasks * self.files_of_each * self.bytes_of_each;
        bytes as f64 / f64::from(1 << 20) / self.seconds
    }
}

fn write_locally(folder: &Path, tasks: usize, writes: LocalWrites) -> Result<f64> {
    std::fs::create_dir_all(folder)?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || -> std::io::Result<()> {
                    for task in (thread..tasks).step_by(THREADS) {
                        for index in 0..FILES {
                            let content = pseudo_random(task as u64, index, BYTES);
                            std::hint::black_box(BlobHash::of(&content));
                            let path = folder.join(format!("{task}-{index}"));
                            std::fs::write(&path, content)?;
                            if writes == LocalWrites::Synced {
                                std::fs::File::open(&path)?.sync_all()?;
                            }
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))?
                .context("could not write files")?;
        }
        anyhow::Ok(())
    })?;
    // The files stay until the end of the benchmark: where many were removed, ext4 needs a millisecond to create one.
    Ok(began.elapsed().as_secs_f64())
}
