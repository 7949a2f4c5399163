//! A stream of bytes of which the next one can be looked at.

use std::io::{self, ErrorKind, Read};

use super::QUOTED_BYTES;

/// How much is read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// The bytes of an output, read in parts, with the place of the next byte.
pub(super) struct ByteReader<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Where the next byte is in the buffer, and how many are there.
    position: usize,
    filled: usize,
    /// The line of the next byte, from 1, and how many bytes of that line come before it.
    pub(super) line: u64,
    column: u64,
}

impl<R: Read> ByteReader<R> {
    pub(super) fn new(reader: R) -> ByteReader<R> {
        ByteReader {
            reader,
            buffer: Vec::new(),
            position: 0,
            filled: 0,
            line: 1,
            column: 0,
        }
    }

    /// The next byte; `None` at the end.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.position == self.filled {
            self.fill()?;
        }
        Ok(self.buffer[..self.filled].get(self.position).copied())
    }

    /// Moves behind the next byte, which was looked at.
    pub(super) fn advance(&mut self) {
        if self.buffer[..self.filled].get(self.position) == Some(&b'\n') {
            self.line += 1;
            self.column = 0;
        } else {
            self.column += 1;
        }
        self.position += 1;
    }

    /// The next bytes up to the end of the line, to show them; not more than are asked for.
    pub(super) fn rest_of_line(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        while let Some(byte) = self.peek()?.filter(|byte| *byte != b'\n') {
            if rest.len() > most {
                break;
            }
            rest.push(byte);
            self.advance();
        }
        Ok(rest)
    }

    /// Moves behind all bytes of a kind, and returns the first of them.
    pub(super) fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) -> io::Result<Vec<u8>> {
        let mut skipped = Vec::new();
        while let Some(byte) = self.peek()?.filter(|byte| is_skipped(*byte)) {
            if skipped.len() < QUOTED_BYTES {
                skipped.push(byte);
            }
            self.advance();
        }
        Ok(skipped)
    }

    /// Where the next byte is, in words.
    pub(super) fn place(&self) -> String {
        format!("line {}, column {}", self.line, self.column + 1)
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.resize(BUFFER_BYTES, 0);
        self.position = 0;
        self.filled = loop {
            match self.reader.read(&mut self.buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        Ok(())
    }
}
