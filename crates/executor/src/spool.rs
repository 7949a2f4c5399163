//! Results on disk until a judicator has answered for them.
//!
//! A journal: results are appended, and the file is emptied when none is left unanswered. A result that was
//! answered but still stands in the file when the executor dies is sent again, and answered as stale.
//! It is not synced: what a power failure takes here, it takes from a machine whose tasks run again anyway.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use model::{Complete, End, Handout};

mod record;

/// Past this length, a file that holds mostly answered results is written anew.
const COMPACT_BYTES: u64 = 64 << 20;

pub(crate) struct Spool {
    path: PathBuf,
    file: File,
    length: u64,
    waiting: BTreeMap<Handout, End>,
}

impl Spool {
    /// What an earlier life left comes back as waiting.
    pub(crate) fn open(path: &Path) -> io::Result<Spool> {
        let mut file = open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut waiting = BTreeMap::new();
        let mut rest = &bytes[..];
        // A record that was cut off by a crash is the last: its task was never said to be complete.
        while let Some((complete, after)) = record::decode(rest) {
            waiting.insert(complete.handout, complete.end);
            rest = after;
        }
        let mut spool = Spool {
            path: path.to_path_buf(),
            file,
            length: 0,
            waiting,
        };
        spool.rewrite()?;
        Ok(spool)
    }

    /// Even where the disk refuses it, the result is kept for as long as this process lives.
    pub(crate) fn keep(&mut self, complete: &Complete) -> io::Result<()> {
        self.waiting.insert(complete.handout, complete.end.clone());
        let record = record::encode(complete);
        if let Err(error) = self.file.write_all(&record) {
            // Half a record would hide those after it.
            self.file.set_len(self.length)?;
            self.file.seek(io::SeekFrom::Start(self.length))?;
            return Err(error);
        }
        self.length += record.len() as u64;
        Ok(())
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&Handout, &End)> {
        self.waiting.iter()
    }

    pub(crate) fn contains(&self, handout: &Handout) -> bool {
        self.waiting.contains_key(handout)
    }

    pub(crate) fn on_answered(&mut self, handouts: &[Handout]) -> io::Result<()> {
        for handout in handouts {
            self.waiting.remove(handout);
        }
        if self.waiting.is_empty() && self.length > 0 {
            return self.empty();
        }
        let live = || self.waiting.values().map(weight).sum::<usize>() as u64;
        if self.length > COMPACT_BYTES && live() < self.length / 2 {
            return self.rewrite();
        }
        Ok(())
    }

    fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.length = 0;
        Ok(())
    }

    /// Into a new file that then takes the old one's place: at no moment is a result in neither.
    fn rewrite(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = open(&new)?;
        file.set_len(0)?;
        let mut length = 0;
        for (handout, end) in &self.waiting {
            let complete = Complete {
                handout: *handout,
                end: end.clone(),
            };
            let record = record::encode(&complete);
            file.write_all(&record)?;
            length += record.len() as u64;
        }
        fs::rename(new, &self.path)?;
        self.file = file;
        self.length = length;
        Ok(())
    }
}

/// What tasks wrote is nobody else's business.
fn open(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// About how many bytes a result takes on the wire.
pub(crate) fn weight(end: &End) -> usize {
    match end {
        End::Broken(why) => why.len(),
        End::Result(result) => [&result.compile, &result.execute]
            .into_iter()
            .flatten()
            .map(|outcome| outcome.stdout.bytes.len() + outcome.stderr.bytes.len() + 100)
            .sum(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{Attempt, Captured, Outcome, Reason, SessionId, TaskId, TaskResult};

    use super::*;

    fn complete(output: &[u8]) -> Complete {
        let handout = Handout {
            task: TaskId::generate(),
            session: SessionId::generate(),
            attempt: Attempt(2),
        };
        let captured = Captured {
            bytes: output.to_vec().into(),
            truncated: true,
        };
        let outcome = Outcome {
            reason: Reason::Signalled,
            exit_code: None,
            signal: Some(9),
            wall: Duration::from_micros(1234),
            cpu: Duration::from_micros(99),
            memory: 1 << 30,
            stdout: captured,
            stderr: Captured::default(),
        };
        let result = TaskResult {
            compile: None,
            execute: Some(outcome),
        };
        Complete {
            handout,
            end: End::Result(result),
        }
    }

    fn reopen(path: &Path) -> Vec<Complete> {
        let spool = Spool::open(path).unwrap();
        spool
            .waiting()
            .map(|(handout, end)| Complete {
                handout: *handout,
                end: end.clone(),
            })
            .collect()
    }

    #[test]
    fn results_outlive_the_process_until_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut kept = vec![complete(b"\0one"), complete(b"two")];
        kept.push(Complete {
            handout: complete(b"").handout,
            end: End::Broken("no room".into()),
        });
        let mut spool = Spool::open(&path).unwrap();
        for complete in &kept {
            spool.keep(complete).unwrap();
        }
        drop(spool);
        kept.sort_by_key(|complete| complete.handout);
        assert_eq!(reopen(&path), kept);

        let mut spool = Spool::open(&path).unwrap();
        let handouts: Vec<_> = kept.iter().map(|complete| complete.handout).collect();
        spool.on_answered(&handouts[..1]).unwrap();
        assert!(!spool.contains(&handouts[0]) && spool.contains(&handouts[1]));
        spool.on_answered(&handouts[1..]).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn a_record_cut_off_takes_no_other_along() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let (first, second) = (complete(b"first"), complete(b"second"));
        let mut spool = Spool::open(&path).unwrap();
        spool.keep(&first).unwrap();
        spool.keep(&second).unwrap();
        drop(spool);
        let length = std::fs::metadata(&path).unwrap().len();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(length - 3)
            .unwrap();
        assert_eq!(reopen(&path), [first]);
    }
}
