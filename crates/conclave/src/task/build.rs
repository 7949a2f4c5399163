//! Builds the task that the flags describe, and puts its large files where it will find them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use api::{Client, Compile, Files, NewTask};
use model::{Command, Content, File, FilePath};

use super::blobs;
use super::collect::{Found, collect};
use crate::args::TaskFlags;

/// What travels inside the task itself. Larger files go as blobs: those travel once, however many tasks use them.
const INLINE_FILE: u64 = 32 << 10;
const INLINE_TOTAL: u64 = 2 << 20;

pub(crate) async fn build(flags: &TaskFlags, client: &Client) -> Result<NewTask> {
    let (command, args) = flags.command().ok_or_else(|| {
        anyhow!("there is no command to run; give it after `--`, or as text for the shell with --shell")
    })?;
    let mut room = Room(INLINE_TOTAL);
    let mut task = NewTask::new(command);
    task.id = flags.id;
    task.user = flags.user.clone();
    task.priority = flags.priority;
    task.source = files(collect(&flags.source)?, &mut room, client).await?;
    task.data = files(collect(&flags.data)?, &mut room, client).await?;
    task.compile = flags.compile.clone().map(|text| Compile {
        command: Command::Shell(text),
        env: flags.compile_env.iter().cloned().collect(),
        network: flags.compile_network.clone(),
        limits: flags.compile_limits.limits(),
    });
    task.execute.args = args;
    task.execute.env = flags.env.iter().cloned().collect();
    task.execute.network = flags.network.clone();
    task.execute.limits = flags.limits.limits();
    if let Some(path) = &flags.input {
        task.execute.input = input(path, &mut room, client).await?;
    }
    Ok(task)
}

/// How many bytes may still travel inside the task.
struct Room(u64);

impl Room {
    fn take_if_fits(&mut self, size: u64) -> bool {
        let fits = size <= INLINE_FILE && size <= self.0;
        if fits {
            self.0 -= size;
        }
        fits
    }
}

async fn files(found: BTreeMap<FilePath, Found>, room: &mut Room, client: &Client) -> Result<Files> {
    let mut files = model::Files::new();
    for (place, found) in found {
        let content = content(&found.path, found.size, room, client).await?;
        files.insert(
            place,
            File {
                content,
                executable: found.executable,
            },
        );
    }
    Ok(files.into())
}

async fn input(path: &Path, room: &mut Room, client: &Client) -> Result<Content> {
    if path != Path::new("-") {
        let size = std::fs::metadata(path)
            .with_context(|| format!("could not look at the input {}", path.display()))?
            .len();
        return content(path, size, room, client).await;
    }
    // Its size is known only at its end, and it may be larger than memory.
    let mut spool =
        tempfile::NamedTempFile::new().context("could not make a temporary file for the input")?;
    let size =
        io::copy(&mut io::stdin().lock(), &mut spool).context("could not read the input from stdin")?;
    content(spool.path(), size, room, client).await
}

async fn content(path: &Path, size: u64, room: &mut Room, client: &Client) -> Result<Content> {
    if room.take_if_fits(size) {
        let bytes = std::fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
        return Ok(Content::Inline(bytes.into()));
    }
    Ok(Content::Blob(blobs::put_if_missing(path, client).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_files_travel_inside_and_not_too_many() {
        let mut room = Room(INLINE_TOTAL);
        assert!(room.take_if_fits(0));
        assert!(!room.take_if_fits(INLINE_FILE + 1));
        let taken = (0..1000).take_while(|_| room.take_if_fits(INLINE_FILE)).count() as u64;
        assert_eq!(taken, INLINE_TOTAL / INLINE_FILE);
        assert!(!room.take_if_fits(1));
    }
}
