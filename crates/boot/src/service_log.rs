//! The log file of a service: the service writes it, boot rotates it.
//!
//! Services and the servers that they wrap have the file open for append and cannot reopen it. So boot copies the file and
//! truncates it (copytruncate). Bytes that are written between the end of the copy and the truncation, a few microseconds, are
//! lost.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::repeat_filter::RepeatedMessageFilter;

/// How often boot checks the size of the logs.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The log file of one service, which boot rotates to `NAME.log.1`, `NAME.log.2` and so on.
#[derive(Debug)]
pub(crate) struct ServiceLog {
    path: PathBuf,
    max_size: u64,
    rotated_kept: u32,
    /// How often the log was rotated. Locked during a rotation, so that a [`LogFollower`] does not read moving files.
    rotations: Mutex<u64>,
}

impl ServiceLog {
    pub(crate) fn new(path: PathBuf, max_size: u64, rotated_kept: u32) -> ServiceLog {
        ServiceLog {
            path,
            max_size,
            rotated_kept,
            rotations: Mutex::new(0),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file for the service to write.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::options()
            .create(true)
            .append(true)
            .mode(0o640)
            .open(&self.path)
    }

    /// Reads the log from its current end on.
    pub(crate) fn follow(self: &Arc<ServiceLog>) -> LogFollower {
        let rotations = self.rotations();
        LogFollower {
            log: Arc::clone(self),
            generation: *rotations,
            offset: fs::metadata(&self.path).map_or(0, |file| file.len()),
        }
    }

    fn is_large(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() >= self.max_size.max(1))
    }

    fn rotate(&self) -> io::Result<()> {
        let mut rotations = self.rotations();
        let mut log = File::options().read(true).write(true).open(&self.path)?;
        if self.rotated_kept > 0 {
            let copy = self.path.with_extension("log.new");
            // The copy comes first: if the disk is full, nothing is renamed or truncated.
            if let Err(error) = copy_all(&mut log, &copy) {
                let _ = fs::remove_file(&copy);
                return Err(error);
            }
            for age in (1..self.rotated_kept).rev() {
                match fs::rename(
                    self.rotated_path(u64::from(age)),
                    self.rotated_path(u64::from(age) + 1),
                ) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(&copy, self.rotated_path(1))?;
        }
        log.set_len(0)?;
        *rotations += 1;
        Ok(())
    }

    fn rotated_path(&self, age: u64) -> PathBuf {
        match age {
            0 => self.path.clone(),
            age => self.path.with_extension(format!("log.{age}")),
        }
    }

    fn rotations(&self) -> MutexGuard<'_, u64> {
        self.rotations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies until the end of the file is reached; the service may write meanwhile.
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

/// Rotates large logs. A failed rotation (for example on a full disk) is logged and retried.
pub(crate) async fn rotate_large_logs(logs: Vec<Arc<ServiceLog>>) {
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut logged = RepeatedMessageFilter::default();
    loop {
        ticks.tick().await;
        for log in logs.iter().filter(|log| log.is_large()) {
            let log = Arc::clone(log);
            let path = log.path.clone();
            // In a blocking thread: copying a large file must not delay the supervision of services.
            let rotated = tokio::task::spawn_blocking(move || log.rotate()).await;
            if let Ok(Err(error)) = rotated
                && logged.should_log(&error.to_string(), std::time::Instant::now())
            {
                tracing::warn!(path = %path.display(), %error, "could not rotate a log");
            }
        }
    }
}

/// Reads the log of a service as it grows, across the rotations by boot.
#[derive(Debug)]
pub(crate) struct LogFollower {
    log: Arc<ServiceLog>,
    /// The number of rotations before the file that is being read.
    generation: u64,
    offset: u64,
}

impl LogFollower {
    /// Reads new bytes into the buffer; 0 if there are none. Each byte is read once, unless its file was deleted before.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let log = Arc::clone(&self.log);
        let rotations = log.rotations();
        loop {
            let oldest = rotations.saturating_sub(u64::from(log.rotated_kept));
            if self.generation < oldest {
                (self.generation, self.offset) = (oldest, 0);
            }
            let age = rotations.saturating_sub(self.generation);
            let count = match File::open(log.rotated_path(age)) {
                Ok(mut file) => {
                    // Another process has truncated the file.
                    if file.metadata()?.len() < self.offset {
                        self.offset = 0;
                    }
                    file.seek(SeekFrom::Start(self.offset))?;
                    file.read(buffer)?
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(error),
            };
            if count == 0 && age > 0 {
                (self.generation, self.offset) = (self.generation + 1, 0);
                continue;
            }
            self.offset += count as u64;
            return Ok(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The fixture of the log tests: a service's log in a temporary folder, opened as the service's process has it.
    struct LogFixture {
        _folder: tempfile::TempDir,
        log: Arc<ServiceLog>,
        file: File,
    }

    fn fixture(rotated_kept: u32) -> LogFixture {
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(ServiceLog::new(folder.path().join("a.log"), 10, rotated_kept));
        let file = log.open().unwrap();
        LogFixture {
            _folder: folder,
            log,
            file,
        }
    }

    impl LogFixture {
        fn write(&mut self, text: &str) {
            self.file.write_all(text.as_bytes()).unwrap();
        }

        fn texts(&self) -> Vec<String> {
            (0..9)
                .map_while(|age| fs::read_to_string(self.log.rotated_path(age)).ok())
                .collect()
        }
    }

    fn read(tail: &mut LogFollower) -> String {
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
    fn rotation_renames_old_logs_and_the_writer_continues() {
        let mut fixture = fixture(2);
        for (text, large, expected) in [
            ("one", false, vec!["one"]),
            ("|another", true, vec!["", "one|another"]),
            ("two two two", true, vec!["", "two two two", "one|another"]),
            ("three three", true, vec!["", "three three", "two two two"]),
            ("four", false, vec!["four", "three three", "two two two"]),
        ] {
            fixture.write(text);
            assert_eq!(fixture.log.is_large(), large, "{text}");
            if large {
                fixture.log.rotate().unwrap();
            }
            assert_eq!(fixture.texts(), expected);
        }
    }

    #[test]
    fn without_rotated_logs_the_log_is_only_truncated() {
        let mut fixture = fixture(0);
        fixture.write("long enough");
        fixture.log.rotate().unwrap();
        fixture.write("next");
        assert_eq!(fixture.texts(), ["next"]);
    }

    #[test]
    fn a_log_that_cannot_be_copied_is_kept() {
        let mut fixture = fixture(2);
        fixture.write("long enough");
        fs::create_dir(fixture.log.path.with_extension("log.new")).unwrap();
        fixture.log.rotate().unwrap_err();
        assert_eq!(fixture.texts(), ["long enough"]);
    }

    #[test]
    fn a_follower_reads_every_byte_once() {
        let mut fixture = fixture(2);
        fixture.write("old");
        let mut tail = fixture.log.follow();
        assert_eq!(read(&mut tail), "");
        fixture.write("a");
        assert_eq!(read(&mut tail), "a");
        // One rotation between two reads, with more in the new file than was read of the old one.
        fixture.write("b");
        fixture.log.rotate().unwrap();
        fixture.write("cdefghijklm");
        assert_eq!(read(&mut tail), "bcdefghijklm");
        // Two rotations between two reads.
        fixture.write("n");
        fixture.log.rotate().unwrap();
        fixture.write("o");
        fixture.log.rotate().unwrap();
        assert_eq!(read(&mut tail), "no");
        // So many rotations that old files are deleted.
        for text in ["1", "2", "3", "4"] {
            fixture.write(text);
            fixture.log.rotate().unwrap();
        }
        fixture.write("5");
        assert_eq!(read(&mut tail), "345");
        // Truncated by another process.
        fixture.write("67");
        assert_eq!(read(&mut tail), "67");
        fixture.file.set_len(0).unwrap();
        fixture.write("8");
        assert_eq!(read(&mut tail), "8");
    }
}
