//! The file with the ids of the tasks of `conclave add --lines`, which is complete before a task is sent. A rerun with the
//! same ids adds no task twice.
//!
//! Each line has the number of a line of the tasks, the id of its task and the SHA-256 of the text. The last line is
//! `complete` once all tasks were added.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Lines, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use model::{BlobHash, TaskId};
use tempfile::NamedTempFile;

use super::line_file::TextLine;
use crate::task;

/// Writes the ids of `conclave add --lines`. The file gets its name only when it is complete and on disk.
pub(super) struct ResumeFileWriter {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

/// Reads the ids of an earlier `conclave add --lines`, in the order of the lines.
pub(super) struct ResumeFileReader {
    path: PathBuf,
    lines: Lines<BufReader<File>>,
    /// The next id, if it was read and not used.
    peeked: Option<SavedId>,
}

/// The id of the task on one line, and the hash of the line.
struct SavedId {
    number: usize,
    id: TaskId,
    hash: BlobHash,
}

/// The ids of an earlier `conclave add --lines`, for lines that may have been corrected or appended since.
pub(super) struct ResumeFileUpdate {
    saved: ResumeFileReader,
    writer: ResumeFileWriter,
    is_changed: bool,
}

const COMPLETE: &str = "complete";

impl ResumeFileWriter {
    pub(super) fn create(path: &Path) -> Result<ResumeFileWriter> {
        let file = tempfile::Builder::new()
            .prefix(".conclave-ids")
            .tempfile_in(parent(path))
            .with_context(|| {
                format!(
                    "could not save the ids of the tasks in {}; name another file with --resume",
                    path.display()
                )
            })?;
        Ok(ResumeFileWriter {
            path: path.to_path_buf(),
            file: BufWriter::new(file),
        })
    }

    pub(super) fn add(&mut self, line: &TextLine, id: TaskId) -> Result<()> {
        writeln!(self.file, "{} {id} {}", line.number, line.hash())
            .with_context(|| format!("could not write {}", self.path.display()))
    }

    /// Writes everything to disk, so that the ids are known after a crash. Replaces only the ids of tasks that were all added:
    /// another command may have saved its ids meanwhile.
    pub(super) fn finish(self) -> Result<()> {
        match is_complete(&self.path) {
            Ok(true) => self.save(|file, path| file.persist(path)),
            _ => self.save(|file, path| file.persist_noclobber(path)),
        }
    }

    fn save(
        self,
        persist: impl FnOnce(NamedTempFile, &Path) -> Result<File, tempfile::PersistError>,
    ) -> Result<()> {
        let ResumeFileWriter { path, file } = self;
        let save = || -> std::io::Result<()> {
            let file = file.into_inner().map_err(|error| error.into_error())?;
            file.as_file().sync_all()?;
            persist(file, &path)?;
            File::open(parent(&path))?.sync_all()
        };
        save().with_context(|| format!("could not write {}", path.display()))
    }
}

impl ResumeFileUpdate {
    pub(super) fn open(path: &Path) -> Result<ResumeFileUpdate> {
        Ok(ResumeFileUpdate {
            saved: ResumeFileReader::open(path)?,
            writer: ResumeFileWriter::create(path)?,
            is_changed: false,
        })
    }

    /// Gives the line its earlier id, also if the line has changed: the server refuses another task under an id that it has. A line
    /// without an id gets a new one.
    pub(super) fn add(&mut self, line: &TextLine, own_id: Option<TaskId>) -> Result<()> {
        let saved = self.saved.find(line.number)?;
        self.is_changed |= saved.as_ref().is_none_or(|saved| saved.hash != line.hash());
        let id = own_id.or(saved.map(|saved| saved.id));
        self.writer.add(line, id.unwrap_or_else(task::new_task_id))
    }

    /// Writes the ids to disk if there are new ones. Refuses ids of lines that are not there any more.
    pub(super) fn finish(self) -> Result<()> {
        self.saved.finish()?;
        match self.is_changed {
            true => self.writer.save(|file, path| file.persist(path)),
            false => Ok(()),
        }
    }
}

impl ResumeFileReader {
    pub(super) fn open(path: &Path) -> Result<ResumeFileReader> {
        let file = File::open(path).with_context(|| format!("could not open {}", path.display()))?;
        Ok(ResumeFileReader {
            path: path.to_path_buf(),
            lines: BufReader::new(file).lines(),
            peeked: None,
        })
    }

    /// The id of the line with this number, which is after the last one that was asked for.
    fn find(&mut self, number: usize) -> Result<Option<SavedId>> {
        while let Some(saved) = self.next()? {
            if saved.number >= number {
                if saved.number == number {
                    return Ok(Some(saved));
                }
                self.peeked = Some(saved);
                break;
            }
        }
        Ok(None)
    }

    /// The id of the next line. Refuses a line that has changed since its id was saved.
    pub(super) fn id_of(&mut self, line: &TextLine) -> Result<TaskId> {
        let (path, number) = (self.path.display().to_string(), line.number);
        let changed = "the lines have changed since their ids were saved";
        let advice = "restore them, or remove the file to add all lines as new tasks";
        let Some(saved) = self.next()? else {
            bail!("line {number} has no id in {path}: {changed}; {advice}");
        };
        ensure!(
            saved.number == number && saved.hash == line.hash(),
            "line {number} differs from the line {} that {path} has an id for: {changed}; {advice}",
            saved.number
        );
        Ok(saved.id)
    }

    /// Refuses ids of lines that are not there any more.
    pub(super) fn finish(mut self) -> Result<()> {
        match self.next()? {
            None => Ok(()),
            Some(saved) => bail!(
                "line {} is missing, and {} has an id for it: the lines have changed since their ids were saved",
                saved.number,
                self.path.display()
            ),
        }
    }

    /// `None` after the last id.
    fn next(&mut self) -> Result<Option<SavedId>> {
        if let Some(saved) = self.peeked.take() {
            return Ok(Some(saved));
        }
        let cannot_read = || format!("could not read {}", self.path.display());
        let Some(text) = self.lines.next().transpose().with_context(cannot_read)? else {
            return Ok(None);
        };
        if text == COMPLETE {
            return Ok(None);
        }
        let mut words = text.split(' ');
        let mut parse = || {
            Some(SavedId {
                number: words.next()?.parse().ok()?,
                id: words.next()?.parse().ok()?,
                hash: words.next()?.parse().ok()?,
            })
        };
        match parse() {
            Some(saved) => Ok(Some(saved)),
            None => bail!(
                "{} is not a file with the ids of tasks: '{text}'",
                self.path.display()
            ),
        }
    }
}

/// Notes that all tasks of the file were added.
pub(super) fn mark_complete(path: &Path) -> Result<()> {
    let mark = || -> std::io::Result<()> {
        if !is_complete(path)? {
            writeln!(OpenOptions::new().append(true).open(path)?, "{COMPLETE}")?;
        }
        Ok(())
    };
    mark().with_context(|| format!("could not write {}", path.display()))
}

/// Whether an earlier command has not added all tasks of the file, as far as is known.
pub(super) fn is_unfinished(path: &Path) -> Result<bool> {
    match is_complete(path) {
        Ok(complete) => Ok(!complete),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("could not read {}", path.display())),
    }
}

/// Reads the end only, as the file may be long. The text of a hash never ends like the mark.
fn is_complete(path: &Path) -> std::io::Result<bool> {
    let mark = format!("{COMPLETE}\n");
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(mark.len() as u64)))?;
    let mut end = String::new();
    file.read_to_string(&mut end)?;
    Ok(end == mark)
}

fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::new_task_id;

    fn line(number: usize, text: &str) -> TextLine {
        TextLine {
            number,
            text: text.into(),
        }
    }

    #[test]
    fn saved_ids_are_found_again_and_changed_lines_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.ids");
        let (first, second) = (new_task_id(), new_task_id());
        let mut writer = ResumeFileWriter::create(&path).unwrap();
        writer.add(&line(1, "a"), first).unwrap();
        writer.add(&line(3, "b"), second).unwrap();
        assert!(!path.exists(), "the file has its name only when it is complete");
        let another = ResumeFileWriter::create(&path).unwrap();
        writer.finish().unwrap();
        assert!(is_unfinished(&path).unwrap());
        assert!(another.finish().is_err(), "the ids of the first are replaced");

        for _ in 0..2 {
            let mut reader = ResumeFileReader::open(&path).unwrap();
            assert_eq!(reader.id_of(&line(1, "a")).unwrap(), first);
            assert_eq!(reader.id_of(&line(3, "b\r")).unwrap(), second);
            assert!(reader.id_of(&line(4, "c")).is_err(), "there is no id for it");
            // The same with a complete file.
            mark_complete(&path).unwrap();
            assert!(!is_unfinished(&path).unwrap());
        }
        for changed in [line(1, "other"), line(2, "a")] {
            let mut reader = ResumeFileReader::open(&path).unwrap();
            let error = reader.id_of(&changed).unwrap_err().to_string();
            assert!(error.contains("the lines have changed"), "{error}");
        }
        let mut reader = ResumeFileReader::open(&path).unwrap();
        reader.id_of(&line(1, "a")).unwrap();
        let error = reader.finish().unwrap_err().to_string();
        assert!(error.contains("line 3 is missing"), "{error}");
    }

    #[test]
    fn corrected_lines_keep_their_ids_and_appended_ones_get_new_ids() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.ids");
        let ids = [new_task_id(), new_task_id(), new_task_id()];
        let mut writer = ResumeFileWriter::create(&path).unwrap();
        for (number, id) in (1..).zip(ids) {
            writer.add(&line(number, "a"), id).unwrap();
        }
        writer.finish().unwrap();

        // The second line is empty now.
        let lines = [line(1, "a"), line(3, "b"), line(4, "c"), line(5, "d")];
        for _ in 0..2 {
            let mut update = ResumeFileUpdate::open(&path).unwrap();
            lines.iter().for_each(|line| update.add(line, None).unwrap());
            update.finish().unwrap();
            assert!(is_unfinished(&path).unwrap());
        }
        let mut reader = ResumeFileReader::open(&path).unwrap();
        let found = lines.map(|line| reader.id_of(&line).unwrap());
        assert_eq!(found[..2], [ids[0], ids[2]]);
        assert!(!ids.contains(&found[2]) && found[2] != found[3]);

        let mut update = ResumeFileUpdate::open(&path).unwrap();
        update.add(&line(1, "a"), None).unwrap();
        let error = update.finish().unwrap_err().to_string();
        assert!(error.contains("line 3 is missing"), "{error}");
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.ids");
        assert!(
            !is_unfinished(&path).unwrap(),
            "a missing file is nothing to continue"
        );
        std::fs::write(&path, "{\"execute\": {}}\n").unwrap();
        let error = ResumeFileReader::open(&path).unwrap().id_of(&line(1, "a"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("is not a file with the ids"), "{error}");
    }
}
