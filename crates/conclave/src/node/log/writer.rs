//! Writes log lines to stderr, which may be a file on a disk that hangs.
//!
//! A thread that logs waits until its line is written, as with stderr itself, but only for a short time: the heartbeats of an
//! executor must not wait for a disk. While the output hangs, lines are queued up to a bound, and dropped beyond it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::config::LogFormat;

const MAX_WRITE_WAIT: Duration = Duration::from_millis(200);
const MAX_QUEUED_BYTES: usize = 1 << 20;

/// The output of a node's log: queues the lines for a thread that writes them to stderr.
#[derive(Clone)]
pub(super) struct LogWriter(Arc<LogWriterShared>);

/// What the logging threads share with the thread that writes the log to stderr: the queue and its settings.
struct LogWriterShared {
    /// How long a thread that logs waits for its line to be written.
    max_write_wait: Duration,
    format: LogFormat,
    queue: Mutex<LogQueue>,
    changed: Condvar,
}

/// The queue of log lines between the logging threads and the thread that writes them to stderr.
#[derive(Default)]
struct LogQueue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    queued: u64,
    written: u64,
    /// The output did not take a line in time. Until it takes one, threads that log do not wait.
    hangs: bool,
    dropped: u64,
}

impl LogWriter {
    /// Starts the thread that writes to `out`.
    pub(super) fn start(out: impl Write + Send + 'static, format: LogFormat) -> io::Result<LogWriter> {
        LogWriter::start_with_wait(MAX_WRITE_WAIT, out, format)
    }

    fn start_with_wait(
        max_write_wait: Duration,
        out: impl Write + Send + 'static,
        format: LogFormat,
    ) -> io::Result<LogWriter> {
        let log_writer = LogWriter(Arc::new(LogWriterShared {
            max_write_wait,
            format,
            queue: Mutex::default(),
            changed: Condvar::new(),
        }));
        let writer = log_writer.clone();
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || writer.run(out))?;
        Ok(log_writer)
    }

    fn write_line(&self, line: &[u8]) {
        let mut queue = self.lock();
        if queue.bytes + line.len() > MAX_QUEUED_BYTES {
            queue.dropped += 1;
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line.to_vec());
        queue.queued += 1;
        self.0.changed.notify_all();
        let (number, deadline) = (queue.queued, Instant::now() + self.0.max_write_wait);
        while !queue.hangs && queue.written < number {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                queue.hangs = true;
                break;
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, mut out: impl Write) {
        let mut queue = self.lock();
        loop {
            let lines = std::mem::take(&mut queue.lines);
            if lines.is_empty() {
                let waited = self.0.changed.wait(queue);
                queue = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let dropped = std::mem::take(&mut queue.dropped);
            drop(queue);
            // A failed write to the log cannot be reported anywhere.
            for line in &lines {
                let _ = out.write_all(line);
            }
            if dropped > 0 {
                let _ = writeln!(out, "{}", self.dropped_message(dropped));
            }
            queue = self.lock();
            queue.bytes -= lines.iter().map(Vec::len).sum::<usize>();
            queue.written += lines.len() as u64;
            queue.hangs = false;
            self.0.changed.notify_all();
        }
    }

    fn dropped_message(&self, count: u64) -> String {
        let message = format!("{count} lines of the log were dropped because it could not be written");
        match self.0.format {
            LogFormat::Text => message,
            LogFormat::Json => {
                let mut now = String::new();
                // Formatting into memory does not fail.
                let _ = SystemTime.format_time(&mut Writer::new(&mut now));
                json!({"timestamp": now, "level": "WARN", "message": message, "target": "conclave"})
                    .to_string()
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogQueue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each call of `write` must pass one whole line, as `tracing_subscriber` does.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_line(line);
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

    /// A log output for the tests of [`LogWriter`] that blocks until the other end of its channel is dropped.
    struct HangingOutput(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for HangingOutput {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_written_before_the_call_returns() {
        let (hold, go_on) = mpsc::channel();
        drop(hold);
        let written = Arc::default();
        let out = HangingOutput(go_on, Arc::clone(&written));
        let mut lines = LogWriter::start_with_wait(Duration::from_secs(60), out, LogFormat::Text).unwrap();
        lines.write_all(b"one\n").unwrap();
        lines.write_all(b"two\n").unwrap();
        assert_eq!(*written.lock().unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn logging_does_not_wait_for_an_output_that_hangs() {
        let (hold, go_on) = mpsc::channel();
        let written = Arc::default();
        let mut lines =
            LogWriter::start(HangingOutput(go_on, Arc::clone(&written)), LogFormat::Json).unwrap();
        let large = vec![b'x'; MAX_QUEUED_BYTES / 4];
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
        // The large lines of this test have no line break, so the message follows one of them on the same line.
        let (_, json) = line.unwrap().split_once('{').unwrap();
        let message: serde_json::Value = serde_json::from_str(&format!("{{{json}")).unwrap();
        assert_eq!(message["level"], "WARN");
        assert!(message["timestamp"].is_string(), "{message}");
    }
}
