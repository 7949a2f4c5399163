//! The hash of file content, which is the name of a blob. All crates compute it here.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::NameError;
use crate::id::hex_digit;

/// The SHA-256 of a blob's bytes (a file or input of tasks), which is also the blob's name in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

/// Computes the [`BlobHash`] of a file or input of a task from bytes that arrive in pieces.
#[derive(Clone, Debug, Default)]
pub struct BlobHasher(Sha256);

const READ_BUFFER: usize = 64 << 10;

impl BlobHash {
    pub fn of(bytes: impl AsRef<[u8]>) -> BlobHash {
        BlobHash(Sha256::digest(bytes.as_ref()).into())
    }

    /// Hashes everything that `source` yields, and calls `on_read` with the length of each piece.
    pub fn of_reader(mut source: impl Read, mut on_read: impl FnMut(usize)) -> io::Result<BlobHash> {
        let mut hasher = BlobHasher::default();
        let mut buffer = vec![0; READ_BUFFER];
        loop {
            match source.read(&mut buffer)? {
                0 => return Ok(hasher.finish()),
                length => {
                    hasher.update(&buffer[..length]);
                    on_read(length);
                }
            }
        }
    }
}

impl BlobHasher {
    pub fn update(&mut self, piece: impl AsRef<[u8]>) {
        self.0.update(piece);
    }

    pub fn finish(self) -> BlobHash {
        BlobHash(self.0.finalize().into())
    }
}

impl FromStr for BlobHash {
    type Err = NameError;
    fn from_str(text: &str) -> Result<BlobHash, NameError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(NameError::Hash);
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (hex_digit(pair[0])? << 4) | hex_digit(pair[1])?;
        }
        Ok(BlobHash(hash))
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_parses_from_its_own_text() {
        let hash = BlobHash([0xa7; 32]);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_eq!("a7".parse::<BlobHash>(), Err(NameError::Hash));
        assert_eq!("A7".repeat(32).parse::<BlobHash>(), Err(NameError::Hash));
        assert_eq!("é".repeat(32).parse::<BlobHash>(), Err(NameError::Hash));
    }

    #[test]
    fn bytes_pieces_and_readers_give_the_same_sha256() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(BlobHash::of("abc").to_string(), expected);
        let mut hasher = BlobHasher::default();
        hasher.update("a");
        hasher.update("bc");
        assert_eq!(hasher.finish(), BlobHash::of("abc"));
        let large = vec![7; READ_BUFFER + 1];
        let mut read = 0;
        let hash = BlobHash::of_reader(large.as_slice(), |length| read += length).unwrap();
        assert_eq!((hash, read), (BlobHash::of(&large), large.len()));
    }
}
