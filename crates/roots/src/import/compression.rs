//! Compressed archives: gzip, zstd and xz, recognised by their first bytes.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// How an archive, or a layer of an image, is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
}

/// The name of a compression that an archive has and that is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnsupportedCompression(pub(crate) &'static str);

/// As many bytes as are needed to recognise a compression.
pub(crate) const MAGIC_LENGTH: usize = 6;

/// More than `xz -9` needs.
const XZ_MEMORY_KIB: u32 = 128 << 10;
/// What `zstd --long` needs, and the most that the tool itself accepts without being asked.
const ZSTD_WINDOW: u64 = 128 << 20;
const INPUT_BUFFER: usize = 64 << 10;

impl Compression {
    pub(crate) fn of(magic: &[u8]) -> Result<Compression, UnsupportedCompression> {
        Ok(match magic {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            // A frame that decoders skip; a zstd file may begin with one.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [b'B', b'Z', b'h', ..] => return Err(UnsupportedCompression("bzip2")),
            [b'P', b'K', 3, 4, ..] => return Err(UnsupportedCompression("zip")),
            [0x5d, 0, 0, ..] => return Err(UnsupportedCompression("lzma")),
            _ => Compression::None,
        })
    }

    /// Reads the uncompressed bytes of `input`.
    pub(crate) fn decoder<'a>(self, input: impl Read + 'a) -> Box<dyn Read + 'a> {
        let input = BufReader::with_capacity(INPUT_BUFFER, input);
        match self {
            Compression::None => Box::new(input),
            Compression::Gzip => Box::new(MultiGzDecoder::new(input)),
            Compression::Zstd => Box::new(ZstdFrames::Between(input)),
            Compression::Xz => Box::new(XzReader::new_mem_limit(input, true, XZ_MEMORY_KIB)),
        }
    }
}

/// Reads the frames of a zstd archive one after the other, as the `zstd` tool does. The decoder itself reads one frame.
enum ZstdFrames<R: BufRead> {
    Between(R),
    Frame(Box<StreamingDecoder<FrameInput<R>, FrameDecoder>>),
    /// A reader may ask again after the end.
    Ended,
    /// After an error.
    Failed,
}

/// The input of one zstd frame, whose first bytes have been read already.
struct FrameInput<R> {
    magic: Option<[u8; 4]>,
    rest: R,
}

impl<R: Read> Read for FrameInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.magic.take() {
            // The decoder reads exactly these four bytes first.
            Some(magic) => (&magic[..]).read(buffer),
            None => self.rest.read(buffer),
        }
    }
}

impl<R: BufRead> ZstdFrames<R> {
    /// Begins the next frame, after frames that are skipped. Returns `None` at the end.
    fn next_frame(mut input: R) -> io::Result<Option<StreamingDecoder<FrameInput<R>, FrameDecoder>>> {
        loop {
            if input.fill_buf()?.is_empty() {
                return Ok(None);
            }
            let mut magic = [0; 4];
            input.read_exact(&mut magic)?;
            if !matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18]) {
                let input = FrameInput {
                    magic: Some(magic),
                    rest: input,
                };
                let frame = StreamingDecoder::new_with_max_window_size(input, ZSTD_WINDOW);
                return frame.map(Some).map_err(invalid_zstd);
            }
            let mut length = [0; 4];
            input.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut input.by_ref().take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(self, ZstdFrames::Failed) {
                ZstdFrames::Ended => {
                    *self = ZstdFrames::Ended;
                    return Ok(0);
                }
                ZstdFrames::Failed => return Err(invalid_zstd("an earlier error")),
                ZstdFrames::Between(input) => match ZstdFrames::next_frame(input)? {
                    None => *self = ZstdFrames::Ended,
                    Some(frame) => *self = ZstdFrames::Frame(Box::new(frame)),
                },
                ZstdFrames::Frame(mut frame) => {
                    let length = frame.read(buffer).map_err(invalid_zstd)?;
                    if length > 0 {
                        *self = ZstdFrames::Frame(frame);
                        return Ok(length);
                    }
                    let (input, decoder) = frame.into_parts();
                    check_frame(&decoder)?;
                    *self = ZstdFrames::Between(input.rest);
                }
            }
        }
    }
}

/// Compares the checksum of a frame, if it has one.
fn check_frame(decoder: &FrameDecoder) -> io::Result<()> {
    match (
        decoder.get_checksum_from_data(),
        decoder.get_calculated_checksum(),
    ) {
        (Some(expected), Some(found)) if expected != found => Err(invalid_zstd("a wrong checksum")),
        _ => Ok(()),
    }
}

fn invalid_zstd(problem: impl std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("invalid zstd data: {problem}"),
    )
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "tests start compressors")]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// What the usual tool writes.
    fn compress(tool: &[&str], data: &[u8]) -> Vec<u8> {
        let mut child = Command::new(tool[0])
            .args(&tool[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let data = data.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&data).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success(), "{tool:?}");
        output.stdout
    }

    fn decompress(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        Compression::of(bytes)
            .unwrap()
            .decoder(bytes)
            .read_to_end(&mut data)?;
        Ok(data)
    }

    /// A bit more than a window and not too regular.
    fn data() -> Vec<u8> {
        (0..300_000u32)
            .flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 20).to_le_bytes())
            .collect()
    }

    #[test]
    fn what_the_usual_tools_write_is_read() {
        let data = data();
        for tool in [
            &["cat"][..],
            &["gzip", "-c"],
            &["zstd", "-c"],
            &["zstd", "-19", "--long=27", "-c"],
            &["zstd", "--no-check", "-c"],
            &["xz", "-c"],
            &["xz", "-9", "-C", "crc32", "-c"],
        ] {
            let packed = compress(tool, &data);
            assert!(decompress(&packed).unwrap() == data, "{tool:?}");
            let mut decoder = Compression::of(&packed).unwrap().decoder(packed.as_slice());
            io::copy(&mut decoder, &mut io::sink()).unwrap();
            // The tar library reads again after the end of an archive without an end marker.
            assert_eq!(decoder.read(&mut [0; 10]).unwrap(), 0, "{tool:?} after the end");
            // Several streams in one file, as parallel compressors write them.
            let twice = [packed.as_slice(), &packed].concat();
            assert!(decompress(&twice).unwrap() == data.repeat(2), "{tool:?} twice");
        }
    }

    #[test]
    fn frames_to_be_skipped_are_skipped() {
        let skipped = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let frame = compress(&["zstd", "-c"], b"data");
        let file = [&skipped[..], &frame, &skipped, &skipped, &frame].concat();
        assert_eq!(decompress(&file).unwrap(), b"datadata");
        assert!(decompress(&skipped[..10]).is_err());
    }

    #[test]
    fn damage_and_truncation_are_errors() {
        let data = data();
        for tool in [&["gzip", "-c"][..], &["zstd", "-c"], &["xz", "-c"]] {
            let packed = compress(tool, &data);
            for length in [packed.len() / 3, packed.len() - 1, packed.len() - 5] {
                assert!(decompress(&packed[..length]).is_err(), "{tool:?} cut to {length}");
            }
            // The last bytes are a checksum or a size.
            for position in [packed.len() / 2, packed.len() - 1] {
                let mut damaged = packed.clone();
                damaged[position] ^= 0x10;
                assert!(decompress(&damaged).is_err(), "{tool:?} damaged at {position}");
            }
        }
    }

    #[test]
    fn other_compressions_are_named() {
        let bzip2 = compress(&["sh", "-c", "printf BZh9xxxx"], b"");
        assert_eq!(Compression::of(&bzip2), Err(UnsupportedCompression("bzip2")));
        assert_eq!(Compression::of(b"PK\x03\x04"), Err(UnsupportedCompression("zip")));
        assert_eq!(Compression::of(b""), Ok(Compression::None));
    }
}
