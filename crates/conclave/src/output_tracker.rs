//! Which bytes of a task's output are new, across lost connections and repeated attempts.

use bytes::Bytes;
use model::{BlobHasher, StepName, StreamName};

/// How far an output stream of a task's current attempt has been received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamPosition {
    attempt: u32,
    offset: u64,
}

/// How far an output stream of a task has been printed. Printed bytes cannot be taken back, so when the task begins again
/// with another attempt, the bytes that this attempt repeats are compared and not printed.
#[derive(Default)]
pub(crate) struct PrintedStream {
    position: StreamPosition,
    printed: u64,
    printed_hash: BlobHasher,
    /// The hash of what the current attempt has repeated, until it has repeated all that is printed.
    repeated_hash: Option<BlobHasher>,
}

/// What to print of a piece of output that was received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewOutput {
    pub(crate) bytes: Bytes,
    /// Whether the attempt has now repeated as many bytes as are printed, but other ones.
    pub(crate) differs: bool,
}

/// One value for each of the four output streams of a task.
#[derive(Default)]
pub(crate) struct PerStream<T> {
    compile_stdout: T,
    compile_stderr: T,
    execute_stdout: T,
    execute_stderr: T,
}

impl<T> PerStream<T> {
    pub(crate) fn get_mut(&mut self, step: StepName, stream: StreamName) -> &mut T {
        match (step, stream) {
            (StepName::Compile, StreamName::Stdout) => &mut self.compile_stdout,
            (StepName::Compile, StreamName::Stderr) => &mut self.compile_stderr,
            (StepName::Execute, StreamName::Stdout) => &mut self.execute_stdout,
            (StepName::Execute, StreamName::Stderr) => &mut self.execute_stderr,
        }
    }
}

impl StreamPosition {
    /// The part of a piece of output that was not received before. It is empty for a piece of an earlier attempt, and for
    /// a piece after a gap: the result of the task has the missing bytes.
    pub(crate) fn advance(&mut self, attempt: u32, offset: u64, bytes: Bytes) -> Bytes {
        if attempt > self.attempt {
            *self = StreamPosition { attempt, offset: 0 };
        }
        if attempt < self.attempt || offset > self.offset {
            return Bytes::new();
        }
        let known = usize::try_from(self.offset - offset).unwrap_or(usize::MAX);
        let new = bytes.slice(known.min(bytes.len())..);
        self.offset += new.len() as u64;
        new
    }

    /// Where the next bytes of this attempt begin.
    pub(crate) fn offset_in(&self, attempt: u32) -> u64 {
        match self.attempt == attempt {
            true => self.offset,
            false => 0,
        }
    }
}

impl PrintedStream {
    pub(crate) fn printed(&self) -> u64 {
        self.printed
    }

    pub(crate) fn offset_in(&self, attempt: u32) -> u64 {
        self.position.offset_in(attempt)
    }

    pub(crate) fn accept(&mut self, attempt: u32, offset: u64, bytes: Bytes) -> NewOutput {
        if attempt > self.position.attempt && self.printed > 0 {
            self.repeated_hash = Some(BlobHasher::default());
        }
        let new = self.position.advance(attempt, offset, bytes);
        let start = self.position.offset - new.len() as u64;
        let left = usize::try_from(self.printed.saturating_sub(start)).unwrap_or(usize::MAX);
        let (repeated, fresh) = (new.slice(..left.min(new.len())), new.slice(left.min(new.len())..));
        let mut differs = false;
        if let Some(hasher) = &mut self.repeated_hash {
            hasher.update(&repeated);
            if self.position.offset >= self.printed {
                differs = hasher.clone().finish() != self.printed_hash.clone().finish();
                self.repeated_hash = None;
            }
        }
        self.printed_hash.update(&fresh);
        self.printed += fresh.len() as u64;
        NewOutput {
            bytes: fresh,
            differs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds pieces (attempt, offset, text); returns what is printed and after which piece a difference was found.
    fn print(pieces: &[(u32, u64, &'static str)]) -> (String, Vec<usize>) {
        let mut stream = PrintedStream::default();
        let (mut text, mut differs) = (String::new(), Vec::new());
        for (index, (attempt, offset, piece)) in pieces.iter().enumerate() {
            let new = stream.accept(*attempt, *offset, Bytes::from_static(piece.as_bytes()));
            text.push_str(std::str::from_utf8(&new.bytes).unwrap());
            if new.differs {
                differs.push(index);
            }
        }
        assert_eq!(stream.printed(), text.len() as u64);
        (text, differs)
    }

    #[test]
    fn nothing_is_lost_or_doubled_after_a_lost_connection() {
        let check = |pieces: &[(u32, u64, &'static str)], expected: &str| {
            assert_eq!(print(pieces), (expected.to_string(), vec![]), "{pieces:?}");
        };
        check(&[(1, 0, "ab"), (1, 2, "c")], "abc");
        // The server begins again at 0, or before the offset.
        check(&[(1, 0, "ab"), (1, 0, "ab"), (1, 2, "c")], "abc");
        check(&[(1, 0, "ab"), (1, 1, "bcd")], "abcd");
        // After a gap nothing is printed, until the bytes from the offset on arrive.
        check(&[(1, 0, "ab"), (1, 3, "d"), (1, 2, "cd")], "abcd");
        check(&[(1, 0, "")], "");
    }

    #[test]
    fn a_new_attempt_continues_after_what_is_printed() {
        // The same output: only what goes beyond it is printed.
        assert_eq!(
            print(&[(1, 0, "abc"), (2, 0, "a"), (2, 1, "bcde"), (2, 5, "f")]),
            ("abcdef".to_string(), vec![])
        );
        // Other output: it is found when as much is repeated as was printed.
        assert_eq!(
            print(&[(1, 0, "abc"), (2, 0, "aX"), (2, 2, "YZ")]),
            ("abcZ".to_string(), vec![2])
        );
        // Late pieces of the first attempt are ignored.
        assert_eq!(
            print(&[(1, 0, "abc"), (2, 0, "abc"), (1, 3, "no"), (2, 3, "d")]),
            ("abcd".to_string(), vec![])
        );
        // Nothing was printed before.
        assert_eq!(print(&[(2, 0, "x")]), ("x".to_string(), vec![]));
    }
}
