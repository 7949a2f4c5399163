//! Serializes a byte slice in one piece.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A byte slice in a stored spec or result that Serde writes and borrows in one piece. Serde's own form of `&[u8]` is a
/// sequence of single numbers.
#[derive(Clone, Copy)]
pub(super) struct RawBytes<'a>(pub(super) &'a [u8]);

impl Serialize for RawBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawBytes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawBytes<'a>, D::Error> {
        deserializer.deserialize_bytes(BorrowedBytesVisitor).map(RawBytes)
    }
}

/// The Serde visitor that deserializes [`RawBytes`] by borrowing from the input.
struct BorrowedBytesVisitor;

impl<'de> Visitor<'de> for BorrowedBytesVisitor {
    type Value = &'de [u8];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<&'de [u8], E> {
        Ok(bytes)
    }
}
