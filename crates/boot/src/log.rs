//! The log file of a service: written by the service, put aside by boot when it is large.
//!
//! Services, and servers below them, have the file open for append, and would have to be told to open another.
//! So it is copied and emptied instead: they go on at its new end. What is written between the last look and the
//! emptying is lost; that is a matter of microseconds, and of logs.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::repeats::Repeats;

/// How often logs are looked at.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    size: u64,
    keep: u32,
    /// How often it was put aside. Locked while that is done, so that who follows the log is not led astray.
    turns: Mutex<u64>,
}

impl Log {
    pub(crate) fn new(path: PathBuf, size: u64, keep: u32) -> Log {
        Log {
            path,
            size,
            keep,
            turns: Mutex::new(0),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// For the service.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::options()
            .create(true)
            .append(true)
            .mode(0o640)
            .open(&self.path)
    }

    /// From its present end on.
    pub(crate) fn follow(self: &Arc<Log>) -> Tail {
        let turns = self.turns();
        Tail {
            log: Arc::clone(self),
            turn: *turns,
            at: fs::metadata(&self.path).map_or(0, |file| file.len()),
        }
    }

    fn is_large(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() >= self.size.max(1))
    }

    fn put_aside(&self) -> io::Result<()> {
        let mut turns = self.turns();
        let mut log = File::options().read(true).write(true).open(&self.path)?;
        if self.keep > 0 {
            let copy = self.path.with_extension("log.new");
            // Nothing is moved or emptied before all of it is safe: the disk may be full.
            if let Err(error) = copy_all(&mut log, &copy) {
                let _ = fs::remove_file(&copy);
                return Err(error);
            }
            for age in (1..self.keep).rev() {
                match fs::rename(self.aged(u64::from(age)), self.aged(u64::from(age) + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(&copy, self.aged(1))?;
        }
        log.set_len(0)?;
        *turns += 1;
        Ok(())
    }

    fn aged(&self, age: u64) -> PathBuf {
        match age {
            0 => self.path.clone(),
            age => self.path.with_extension(format!("log.{age}")),
        }
    }

    fn turns(&self) -> MutexGuard<'_, u64> {
        // A number is never half written.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads until nothing more comes, since the service goes on writing.
fn copy_all(log: &mut File, to: &Path) -> io::Result<()> {
    let mut copy = File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o640)
        .open(to)?;
    while io::copy(log, &mut copy)? > 0 {}
    Ok(())
}

/// Puts logs aside as they grow. One that cannot be (a full disk) grows on, and is tried again.
pub(crate) async fn put_aside_when_large(logs: Vec<Arc<Log>>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut repeats = Repeats::default();
    loop {
        ticks.tick().await;
        for log in logs.iter().filter(|log| log.is_large()) {
            let log = Arc::clone(log);
            let path = log.path.clone();
            // A large file takes a while, and services must not wait for it.
            let done = tokio::task::spawn_blocking(move || log.put_aside()).await;
            if let Ok(Err(error)) = done
                && repeats.is_news(&error.to_string(), std::time::Instant::now())
            {
                tracing::warn!("could not put aside the log {}: {error}", path.display());
            }
        }
    }
}

/// How far a reader has come in a log.
#[derive(Debug)]
pub(crate) struct Tail {
    log: Arc<Log>,
    /// The file it reads in was the log when it had been put aside so often.
    turn: u64,
    at: u64,
}

impl Tail {
    /// What came since, up to the size of the buffer; 0 if nothing did. Nothing is read twice, and nothing is left
    /// out unless it is so old that it was deleted.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let log = Arc::clone(&self.log);
        let turns = log.turns();
        loop {
            let oldest = turns.saturating_sub(u64::from(log.keep));
            if self.turn < oldest {
                (self.turn, self.at) = (oldest, 0);
            }
            let age = turns.saturating_sub(self.turn);
            let count = match File::open(log.aged(age)) {
                Ok(mut file) => {
                    // Somebody else has emptied it.
                    if file.metadata()?.len() < self.at {
                        self.at = 0;
                    }
                    file.seek(SeekFrom::Start(self.at))?;
                    file.read(buffer)?
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(error),
            };
            if count == 0 && age > 0 {
                (self.turn, self.at) = (self.turn + 1, 0);
                continue;
            }
            self.at += count as u64;
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    struct Case {
        _folder: tempfile::TempDir,
        log: Arc<Log>,
        file: File,
    }

    fn case(keep: u32) -> Case {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(Log::new(folder.path().join("a.log"), 10, keep));
        let file = log.open().unwrap();
        Case {
            _folder: folder,
            log,
            file,
        }
    }

    impl Case {
        fn write(&mut self, text: &str) {
            self.file.write_all(text.as_bytes()).unwrap();
        }

        fn texts(&self) -> Vec<String> {
            (0..9)
                .map_while(|age| fs::read_to_string(self.log.aged(age)).ok())
                .collect()
        }
    }

    fn read(tail: &mut Tail) -> String {
        let mut text = String::new();
        let mut buffer = [0; 3];
        loop {
            match tail.read(&mut buffer).unwrap() {
                0 => return text,
                count => text.push_str(str::from_utf8(&buffer[..count]).unwrap()),
            }
        }
    }

    #[test]
    fn old_logs_move_on_and_the_writer_goes_on() {
        let mut case = case(2);
        for (text, large, expected) in [
            ("one", false, vec!["one"]),
            ("|another", true, vec!["", "one|another"]),
            ("two two two", true, vec!["", "two two two", "one|another"]),
            ("three three", true, vec!["", "three three", "two two two"]),
            ("four", false, vec!["four", "three three", "two two two"]),
        ] {
            case.write(text);
            assert_eq!(case.log.is_large(), large, "{text}");
            if large {
                case.log.put_aside().unwrap();
            }
            assert_eq!(case.texts(), expected);
        }
    }

    #[test]
    fn without_old_logs_it_is_only_emptied() {
        let mut case = case(0);
        case.write("long enough");
        case.log.put_aside().unwrap();
        case.write("next");
        assert_eq!(case.texts(), ["next"]);
    }

    #[test]
    fn what_cannot_be_copied_stays() {
        let mut case = case(2);
        case.write("long enough");
        fs::create_dir(case.log.path.with_extension("log.new")).unwrap();
        case.log.put_aside().unwrap_err();
        assert_eq!(case.texts(), ["long enough"]);
    }

    #[test]
    fn a_follower_misses_nothing_and_reads_nothing_twice() {
        let mut case = case(2);
        case.write("old");
        let mut tail = case.log.follow();
        assert_eq!(read(&mut tail), "");
        case.write("a");
        assert_eq!(read(&mut tail), "a");
        // Once behind the follower's back, with more in the new file than it had read in the old one.
        case.write("b");
        case.log.put_aside().unwrap();
        case.write("cdefghijklm");
        assert_eq!(read(&mut tail), "bcdefghijklm");
        // Twice.
        case.write("n");
        case.log.put_aside().unwrap();
        case.write("o");
        case.log.put_aside().unwrap();
        assert_eq!(read(&mut tail), "no");
        // So often that something fell off the end.
        for text in ["1", "2", "3", "4"] {
            case.write(text);
            case.log.put_aside().unwrap();
        }
        case.write("5");
        assert_eq!(read(&mut tail), "345");
        // Emptied by somebody else.
        case.write("67");
        assert_eq!(read(&mut tail), "67");
        case.file.set_len(0).unwrap();
        case.write("8");
        assert_eq!(read(&mut tail), "8");
    }
}
