//! Extended headers of POSIX tar archives.
//!
//! The tar library splits them at line ends, although a value may contain one: a name can, and so can a capability. So the records
//! that matter are read here, from the same bytes.

use std::io;

use tar::{EntryType, Header};

/// What the extended header of a member says, as far as it matters for a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExtendedHeader {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link_target: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) user: Option<u64>,
    pub(super) group: Option<u64>,
    pub(super) modified: Option<i64>,
    pub(super) has_capability: bool,
    /// A sparse file in a format that the tar library does not know.
    pub(super) is_sparse: bool,
}

const BLOCK: usize = 512;

impl ExtendedHeader {
    /// Parses the blocks that the tar library has read for one member: its headers, and contents of extended headers.
    pub(super) fn parse(blocks: &[u8]) -> io::Result<ExtendedHeader> {
        let mut extended = ExtendedHeader::default();
        let mut rest = blocks;
        while let Some((block, after)) = rest.split_at_checked(BLOCK) {
            let header = Header::from_byte_slice(block);
            let is_known = header.as_ustar().is_some() || header.as_gnu().is_some();
            let kind = header.entry_type();
            let is_long_name = matches!(kind, EntryType::GNULongName | EntryType::GNULongLink);
            if !is_known || !(kind.is_pax_local_extensions() || is_long_name) {
                break;
            }
            let size = usize::try_from(header.entry_size()?).map_err(|_| malformed())?;
            let content = after.get(..size).ok_or_else(malformed)?;
            if kind.is_pax_local_extensions() {
                extended.read_records(content)?;
            }
            rest = after.get(size.next_multiple_of(BLOCK)..).unwrap_or_default();
        }
        Ok(extended)
    }

    fn read_records(&mut self, mut content: &[u8]) -> io::Result<()> {
        while !content.is_empty() {
            let digits = content.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let length: usize = parse_number(&content[..digits])?;
            if length <= digits + 1 || content.get(digits) != Some(&b' ') {
                return Err(malformed());
            }
            let (record, rest) = content.split_at_checked(length).ok_or_else(malformed)?;
            let record = record[digits + 1..].strip_suffix(b"\n").ok_or_else(malformed)?;
            let equals = record
                .iter()
                .position(|byte| *byte == b'=')
                .ok_or_else(malformed)?;
            self.set(&record[..equals], &record[equals + 1..])?;
            content = rest;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link_target = Some(value.to_vec()),
            b"size" => self.size = Some(parse_number(value)?),
            b"uid" => self.user = Some(parse_number(value)?),
            b"gid" => self.group = Some(parse_number(value)?),
            // Fractions of seconds do not matter.
            b"mtime" => {
                let seconds = value.split(|byte| *byte == b'.').next().unwrap_or_default();
                self.modified = Some(parse_number(seconds)?);
            }
            b"SCHILY.xattr.security.capability" => self.has_capability = true,
            key if key.starts_with(b"GNU.sparse.") => self.is_sparse = true,
            _ => {}
        }
        Ok(())
    }
}

fn parse_number<T: std::str::FromStr>(digits: &[u8]) -> io::Result<T> {
    let text = std::str::from_utf8(digits).map_err(|_| malformed())?;
    text.parse().map_err(|_| malformed())
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed extended header")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(records: &[u8]) -> io::Result<ExtendedHeader> {
        let mut header = ExtendedHeader::default();
        header.read_records(records).map(|()| header)
    }

    #[test]
    fn records_may_contain_line_ends() {
        let header = read(b"19 path=a\n10 b=c\nd\n16 mtime=-12.25\n10 uid=42\n").unwrap();
        assert_eq!(header.path.as_deref(), Some(b"a\n10 b=c\nd".as_slice()));
        assert_eq!((header.modified, header.user), (Some(-12), Some(42)));
        let header = read(b"38 SCHILY.xattr.security.capability=\n\n").unwrap();
        assert!(header.has_capability);
        assert_eq!(read(b"").unwrap(), ExtendedHeader::default());
    }

    #[test]
    fn malformed_records_are_refused() {
        for records in [
            b"10 path=a".as_slice(),
            b"8 path=a\n",
            b"99 path=a\n",
            b"0 path=a\n",
            b"path=a\n",
            b"10 noequal\n",
            b"18446744073709551616 path=a\n",
            b"2 ",
            b"10 size=x\n\n",
            b"11 size=-1\n",
            b"\n",
        ] {
            assert!(read(records).is_err(), "{}", records.escape_ascii());
        }
    }

    #[test]
    fn only_headers_before_the_member_itself_are_read() {
        let block = |kind: u8, size: u64| {
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::new(kind));
            header.set_size(size);
            header.set_cksum();
            header.as_bytes().to_vec()
        };
        let padded = |content: &[u8]| [content, &vec![0; BLOCK - content.len()]].concat();
        let blocks = [
            block(b'L', 3),
            padded(b"abc"),
            block(b'x', 10),
            padded(b"10 path=a\n"),
            block(b'0', 5),
        ]
        .concat();
        assert_eq!(
            ExtendedHeader::parse(&blocks).unwrap().path.as_deref(),
            Some(b"a".as_slice())
        );
        let cut = [block(b'x', 600), padded(b"10 path=a\n")].concat();
        assert!(ExtendedHeader::parse(&cut).is_err());
        let content = [block(b'0', 10), padded(b"10 path=a\n")].concat();
        assert_eq!(
            ExtendedHeader::parse(&content).unwrap(),
            ExtendedHeader::default()
        );
    }
}
