//! Lines on their way to stderr, which may be a file on a disk that hangs.
//!
//! A thread that logs waits until its line is written, as with stderr itself, but not for long: the heartbeats of an
//! executor must not wait for a disk. While one hangs, lines are kept up to a bound and dropped beyond it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::config::LogFormat;

const PATIENCE: Duration = Duration::from_millis(200);
const MOST_BYTES: usize = 1 << 20;

#[derive(Clone)]
pub(super) struct Lines(Arc<Shared>);

struct Shared {
    /// How long a thread that logs waits for its line to be written.
    patience: Duration,
    format: LogFormat,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Counts lines.
    taken_in: u64,
    written: u64,
    hangs: bool,
    dropped: u64,
}

impl Lines {
    /// With a thread that writes.
    pub(super) fn to(out: impl Write + Send + 'static, format: LogFormat) -> io::Result<Lines> {
        Lines::with_patience(PATIENCE, out, format)
    }

    fn with_patience(
        patience: Duration,
        out: impl Write + Send + 'static,
        format: LogFormat,
    ) -> io::Result<Lines> {
        let lines = Lines(Arc::new(Shared {
            patience,
            format,
            state: Mutex::default(),
            changed: Condvar::new(),
        }));
        let writer = lines.clone();
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || writer.run(out))?;
        Ok(lines)
    }

    fn put(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.bytes + line.len() > MOST_BYTES {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.waiting.push_back(line.to_vec());
        state.taken_in += 1;
        self.0.changed.notify_all();
        let (number, deadline) = (state.taken_in, Instant::now() + self.0.patience);
        while !state.hangs && state.written < number {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.hangs = true;
                break;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, mut out: impl Write) {
        let mut state = self.lock();
        loop {
            let lines = std::mem::take(&mut state.waiting);
            if lines.is_empty() {
                let waited = self.0.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let dropped = std::mem::take(&mut state.dropped);
            drop(state);
            // Nobody could be told that the log cannot be written.
            for line in &lines {
                let _ = out.write_all(line);
            }
            if dropped > 0 {
                let _ = writeln!(out, "{}", self.dropped(dropped));
            }
            state = self.lock();
            state.bytes -= lines.iter().map(Vec::len).sum::<usize>();
            state.written += lines.len() as u64;
            state.hangs = false;
            self.0.changed.notify_all();
        }
    }

    fn dropped(&self, count: u64) -> String {
        let message = format!("{count} lines of the log were dropped: it could not be written");
        match self.0.format {
            LogFormat::Text => message,
            LogFormat::Json => {
                let mut now = String::new();
                // Nothing can go wrong in memory.
                let _ = SystemTime.format_time(&mut Writer::new(&mut now));
                json!({"timestamp": now, "level": "WARN", "message": message, "target": "conclave"})
                    .to_string()
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes one line in each call, as a log gives them.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes nothing until its other end is dropped.
    struct Hanging(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Hanging {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_written_when_it_was_logged() {
        let (hold, go_on) = mpsc::channel();
        drop(hold);
        let written = Arc::default();
        let out = Hanging(go_on, Arc::clone(&written));
        let mut lines = Lines::with_patience(Duration::from_secs(60), out, LogFormat::Text).unwrap();
        lines.write_all(b"one\n").unwrap();
        lines.write_all(b"two\n").unwrap();
        assert_eq!(*written.lock().unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn nobody_waits_for_a_log_that_hangs() {
        let (hold, go_on) = mpsc::channel();
        let written = Arc::default();
        let mut lines = Lines::to(Hanging(go_on, Arc::clone(&written)), LogFormat::Json).unwrap();
        let large = vec![b'x'; MOST_BYTES / 4];
        for _ in 0..10 {
            lines.write_all(&large).unwrap();
        }
        assert_eq!(*written.lock().unwrap(), b"");
        drop(hold);
        let mut text = String::new();
        while !text.contains("lines of the log were dropped") {
            lines.lock().hangs = false;
            lines.write_all(b"y\n").unwrap();
            text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        }
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains("lines of the log were dropped"));
        // The lines of this test have no end of their own.
        let (_, json) = line.unwrap().split_once('{').unwrap();
        let said: serde_json::Value = serde_json::from_str(&format!("{{{json}")).unwrap();
        assert_eq!(said["level"], "WARN");
        assert!(said["timestamp"].is_string(), "{said}");
    }
}
