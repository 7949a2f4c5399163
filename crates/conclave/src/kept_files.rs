//! Downloads the files that a task kept into a folder, and never writes outside of it.

mod folder;

use anyhow::{Context, Result};
use api::{HttpClient, KeptFile, Task};
use model::LeftOutReason;

pub(crate) use folder::{DownloadFolder, ExistingFiles};

use crate::print::print_message;

/// Downloads all kept files of a finished task, each under its path in the workspace. If one of them exists and may not be
/// replaced, none is downloaded.
pub(crate) async fn download(task: &Task, folder: &DownloadFolder, client: &HttpClient) -> Result<()> {
    for file in kept_files(task) {
        let free = folder.check_free(&file.path);
        free.with_context(|| {
            let id = task.id;
            format!("task {id} is done; `conclave get {id} --files --to DIR` downloads its files")
        })?;
    }
    for file in kept_files(task) {
        let new_file = folder.create(&file.path, file.executable)?;
        let mut writer = tokio::fs::File::from_std(new_file.writer()?);
        let downloaded = client.download_file(task.id, file, &mut writer).await;
        downloaded.with_context(|| format!("could not download {}", file.path))?;
        new_file.keep()?;
    }
    let (count, bytes) = (kept_files(task).len(), total_bytes(task));
    print_message(format_args!(
        "downloaded {count} kept {} ({bytes} bytes) to {}",
        files(count as u64),
        folder.path().display()
    ));
    Ok(())
}

pub(crate) fn kept_files(task: &Task) -> &[KeptFile] {
    task.result.as_ref().map_or(&[], |result| &result.files)
}

/// Says how to download the kept files of a task.
pub(crate) fn print_hint(task: &Task) {
    let count = kept_files(task).len() as u64;
    if count > 0 {
        let (bytes, id) = (total_bytes(task), task.id);
        print_message(format_args!(
            "{count} {} kept ({bytes} bytes); `conclave get {id} --files --to DIR` downloads what was kept",
            files_were(count)
        ));
    }
}

/// Says which files match the patterns of the task and were not kept.
pub(crate) fn print_left_out(task: &Task) {
    let Some(left_out) = task.result.as_ref().map(|result| result.files_left_out) else {
        return;
    };
    if left_out.count == 0 {
        return;
    }
    let why = match left_out.why {
        Some(LeftOutReason::TooMany) => {
            "there are more files than this executor keeps (executor.keep_files) or looks at"
        }
        Some(LeftOutReason::TooLarge) => "they are larger together than executor.keep_bytes allows",
        Some(LeftOutReason::NotRegular) => "links, pipes, sockets and devices are never kept",
        Some(LeftOutReason::BadName) => "a path is not UTF-8, or too long",
        Some(LeftOutReason::NoSpace) => "the executor had no room for them, or could not read them",
        None => "no reason is given",
    };
    print_message(format_args!(
        "{} {} left out ({} bytes): {why}",
        left_out.count,
        files_were(left_out.count),
        left_out.bytes
    ));
}

fn total_bytes(task: &Task) -> u64 {
    kept_files(task).iter().map(|file| file.size).sum()
}

fn files(count: u64) -> &'static str {
    match count {
        1 => "file",
        _ => "files",
    }
}

fn files_were(count: u64) -> &'static str {
    match count {
        1 => "file was",
        _ => "files were",
    }
}
