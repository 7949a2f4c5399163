//! Cuts output into pieces of text.

/// Cuts the bytes of an output stream into pieces that are text where the bytes are UTF-8. It holds back a character
/// whose rest has not come yet, at most three bytes.
#[derive(Debug, Default)]
pub(super) struct Utf8Chunks {
    held: Vec<u8>,
}

impl Utf8Chunks {
    /// The held bytes and these, without a cut character at the end. May be empty.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut piece = std::mem::take(&mut self.held);
        piece.extend_from_slice(bytes);
        let cut = api::cut_character(&piece);
        // Bytes that are not UTF-8 anyway need not wait.
        if cut > 0 && std::str::from_utf8(&piece[..piece.len() - cut]).is_ok() {
            self.held = piece.split_off(piece.len() - cut);
        }
        piece
    }

    /// The held bytes, when no more come.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.held.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_characters_wait_for_their_rest() {
        let check = |pushed: &[&[u8]], expected: &[&[u8]], rest: &[u8]| {
            let mut chunks = Utf8Chunks::default();
            let pieces: Vec<_> = pushed.iter().map(|bytes| chunks.push(bytes)).collect();
            assert_eq!(pieces, expected, "{pushed:?}");
            assert_eq!(chunks.finish(), rest, "{pushed:?}");
            assert_eq!(chunks.held_bytes(), 0);
        };
        check(&[b"abc"], &[b"abc"], b"");
        check(&[b"caf\xc3", b"\xa9!"], &[b"caf", b"\xc3\xa9!"], b"");
        check(
            &[b"\xf0", b"\x9f", b"\x98", b"\x80"],
            &[b"", b"", b"", b"\xf0\x9f\x98\x80"],
            b"",
        );
        check(&[b"a\xe2\x82"], &[b"a"], b"\xe2\x82");
        // Not UTF-8 before the cut character, or because of what follows it.
        check(&[b"\xff\xc3"], &[b"\xff\xc3"], b"");
        check(&[b"\xc3", b"x"], &[b"", b"\xc3x"], b"");
    }
}
