//! The lines of `conclave add --lines`, which are read twice: to check all of them, and then to send them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use api::{NewTask, ParseError};
use model::BlobHash;

use crate::args::TaskSetFlags;

/// The file of `conclave add --lines`. What is not a regular file, such as a pipe, is copied to a temporary file, because it
/// can be read only once.
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
}

/// A line of a [`LineFile`] that is not empty.
pub(super) struct TextLine {
    /// From 1 on. Empty lines count, as in an editor.
    pub(super) number: usize,
    pub(super) text: Vec<u8>,
}

/// How many invalid lines a message lists.
const MAX_LISTED: usize = 20;

impl LineFile {
    pub(super) fn open(path: &Path) -> Result<LineFile> {
        let cannot_read = || format!("could not read {}", path.display());
        let file = match path == Path::new("-") {
            true => copy(io::stdin().lock()).with_context(cannot_read)?,
            false => {
                let file = File::open(path).with_context(|| format!("could not open {}", path.display()))?;
                match file.metadata().with_context(cannot_read)?.is_file() {
                    true => file,
                    false => copy(file).with_context(cannot_read)?,
                }
            }
        };
        Ok(LineFile {
            path: path.to_path_buf(),
            file,
        })
    }

    /// The lines that are not empty, from the beginning.
    pub(super) fn lines(&self) -> Result<impl Iterator<Item = Result<TextLine>>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))
            .with_context(|| format!("could not read {}", self.path.display()))?;
        let lines = BufReader::new(file).split(b'\n').enumerate();
        Ok(lines.filter_map(|(index, text)| match text {
            Ok(text) if text.trim_ascii().is_empty() => None,
            Ok(text) => Some(Ok(TextLine {
                number: index + 1,
                text,
            })),
            Err(error) => Some(Err(error).with_context(|| format!("could not read {}", self.path.display()))),
        }))
    }

    /// Parses every line. If lines are invalid, the error names all of them, up to a number.
    pub(super) fn check(
        &self,
        set: &TaskSetFlags,
        mut on_line: impl FnMut(&TextLine, &NewTask) -> Result<()>,
    ) -> Result<()> {
        let (mut invalid, mut problems) = (0, Vec::new());
        for line in self.lines()? {
            let line = line?;
            match line.parse(set) {
                Ok(task) if invalid == 0 => on_line(&line, &task)?,
                Ok(_) => {}
                Err(problem) => {
                    invalid += 1;
                    if problems.len() < MAX_LISTED {
                        problems.push(self.invalid_line(line.number, &problem).to_string());
                    }
                }
            }
        }
        if invalid > problems.len() {
            problems.push(format!("{} more lines are invalid", invalid - problems.len()));
        }
        match invalid {
            0 => Ok(()),
            _ => bail!("{}", problems.join("\n")),
        }
    }

    pub(super) fn invalid_line(&self, number: usize, problem: &str) -> anyhow::Error {
        anyhow::anyhow!("line {number} of {} is invalid: {problem}", self.path.display())
    }
}

impl TextLine {
    pub(super) fn parse(&self, set: &TaskSetFlags) -> Result<NewTask, String> {
        if let Err(error) = std::str::from_utf8(&self.text) {
            return Err(format!("it is not UTF-8 text: {error}"));
        }
        let mut task: NewTask = api::parse_json(&self.text).map_err(|error| match error {
            // Its line is always the first, which would contradict the number of this line.
            ParseError::Malformed { column, problem, .. } => {
                format!("it is not valid JSON at column {column}: {problem}")
            }
            error => error.to_string(),
        })?;
        set.apply_to(&mut task).map_err(|error| format!("{error:#}"))?;
        Ok(task)
    }

    /// Identifies the text, without spaces around it.
    pub(super) fn hash(&self) -> BlobHash {
        BlobHash::of(self.text.trim_ascii())
    }
}

fn copy(mut from: impl io::Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut from, &mut file)?;
    file.flush()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_file(text: &[u8]) -> LineFile {
        LineFile {
            path: "tasks".into(),
            file: copy(text).unwrap(),
        }
    }

    #[test]
    fn all_invalid_lines_are_named() {
        let file = line_file(
            b"{\"execute\": {\"command\": \"true\"}}\r\n \n{\"user\": \"\xff\"}\n{\"execute\": 7}\n{\"execute\": {\"command\": \"x\"}}",
        );
        let mut checked = Vec::new();
        let check = file.check(&TaskSetFlags::default(), |line, _| {
            checked.push(line.number);
            Ok(())
        });
        let error = check.unwrap_err().to_string();
        assert!(
            error.contains("line 3 of tasks is invalid: it is not UTF-8"),
            "{error}"
        );
        assert!(error.contains("line 4 of tasks is invalid"), "{error}");
        assert_eq!((error.lines().count(), checked), (2, vec![1]));
    }

    #[test]
    fn a_long_list_of_invalid_lines_is_cut() {
        let error = line_file(&b"{\n".repeat(50)).check(&TaskSetFlags::default(), |_, _| Ok(()));
        let error = error.unwrap_err().to_string();
        assert_eq!(error.lines().count(), MAX_LISTED + 1);
        assert!(error.ends_with("30 more lines are invalid"), "{error}");
        assert!(
            error.starts_with("line 1 of tasks is invalid: it is not valid JSON at column 1"),
            "{error}"
        );
    }

    #[test]
    fn lines_can_be_read_again() {
        let file = line_file(b"a\n\nb");
        let read = || -> Vec<_> {
            let lines = file.lines().unwrap().map(|line| line.unwrap());
            lines.map(|line| (line.number, line.text)).collect()
        };
        assert_eq!(read(), [(1, b"a".to_vec()), (3, b"b".to_vec())]);
        assert_eq!(read().len(), 2);
        let hash = |text: &[u8]| line_file(text).lines().unwrap().next().unwrap().unwrap().hash();
        assert_eq!(hash(b"a b\r\n"), hash(b" a b"));
        assert_ne!(hash(b"a b"), hash(b"a  b"));
    }
}
