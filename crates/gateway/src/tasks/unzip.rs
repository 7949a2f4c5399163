//! Unpacks an untrusted zip: checks paths, file types and sizes, and detects zip bombs.

use std::collections::btree_map::Entry;
use std::io::{Cursor, Read};

use bytes::Bytes;
use model::{Content, InvalidField, TaskFile, TaskFiles, WorkspacePath};
use zip::ZipArchive;
use zip::read::ZipFileEntry;

use crate::request_error::RequestError;

/// The limits of the gateway on the files and bytes that it unpacks from one zip of a new task.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZipLimits {
    pub(super) files: usize,
    /// Bytes of all files in all zips of the request.
    pub(super) total_bytes: u64,
    /// The part of `total_bytes` that is left for this zip.
    pub(super) bytes_left: u64,
}

/// The highest compression ratio of an entry, and of a whole zip, as entries may share their compressed bytes. Deflate
/// reaches 1030 for zip bombs.
const MAX_RATIO: u64 = 400;
/// The ratio is not checked below this unpacked size.
const RATIO_CHECKED_FROM: u64 = 8 << 20;

/// The signature of an entry in the central directory of a zip.
const DIRECTORY_ENTRY: &[u8; 4] = b"PK\x01\x02";

/// How much is unpacked between two calls of `charge`.
const BLOCK: u64 = 256 << 10;

/// Unpacks a zip. `field` names the zip in errors. `charge` is called after each block; its error ends the unpacking.
pub(super) fn unpack(
    field: &str,
    archive: &Bytes,
    limits: ZipLimits,
    charge: &mut dyn FnMut(u64) -> Result<(), RequestError>,
) -> Result<TaskFiles, RequestError> {
    let invalid = |problem: String| InvalidField::new(field, problem);
    let entries = archive
        .windows(DIRECTORY_ENTRY.len())
        .filter(|window| window == DIRECTORY_ENTRY);
    // Counted before the directory is parsed, which allocates memory for every entry. The factor allows for directories
    // and for zips inside the zip, whose signatures are counted as well.
    let max_entries = limits.files.saturating_mul(10);
    if entries.take(max_entries + 1).count() > max_entries {
        return Err(InvalidField::over_limit(
            field,
            "has too many entries",
            max_entries,
            format!("more than {max_entries}"),
        )
        .into());
    }
    let mut zip = ZipArchive::new(Cursor::new(archive.clone()))
        .map_err(|error| invalid(format!("is not a zip file that can be read: {error}")))?;
    if zip.has_duplicate_names() {
        return Err(invalid("contains two entries with the same name".into()).into());
    }
    let mut files = TaskFiles::new();
    let mut left = limits.bytes_left;
    let mut left_by_ratio = max_unpacked_size(archive.len() as u64);
    for index in 0..zip.len() {
        let entry = zip
            .by_index_data(index)
            .map_err(|error| invalid(format!("has a damaged entry {index}: {error}")))?;
        let Some((path, executable)) = check_entry(field, &entry)? else {
            continue;
        };
        let entry_field = format!("{field}.{path}");
        if files.len() == limits.files {
            return Err(
                InvalidField::over_limit(field, "has too many files", limits.files, zip.len()).into(),
            );
        }
        let entry_limits = EntryLimits {
            by_ratio: max_unpacked_size(entry.compressed_size()).min(left_by_ratio),
            bytes_left: left,
        };
        let content = read(&entry_field, &mut zip, index, entry_limits, charge);
        let content = content.map_err(|error| match error {
            EntryError::Refused(error) => error,
            EntryError::TotalExceeded => InvalidField::over_limit(
                field,
                format!(
                    "holds too much in all zips of the request together; the limit was exceeded at '{path}'"
                ),
                limits.total_bytes,
                format!("more than {}", limits.total_bytes),
            )
            .into(),
        })?;
        left -= content.len() as u64;
        left_by_ratio -= content.len() as u64;
        let content = Content::Inline(content);
        match files.entry(path) {
            Entry::Vacant(slot) => drop(slot.insert(TaskFile { content, executable })),
            Entry::Occupied(_) => return Err(InvalidField::new(entry_field, "is in the zip twice").into()),
        }
    }
    Ok(files)
}

/// The path of an entry and whether it is executable. `None` for a directory, which is created with its files.
fn check_entry(field: &str, entry: &ZipFileEntry<'_>) -> Result<Option<(WorkspacePath, bool)>, InvalidField> {
    let raw = String::from_utf8_lossy(entry.name_raw()).into_owned();
    let entry_field = format!("{field}.{raw}");
    let name = entry
        .name()
        .map_err(|_| InvalidField::new(&entry_field, "has a name that cannot be decoded"))?;
    let is_folder = name.ends_with('/');
    let path = WorkspacePath::new(name.trim_end_matches('/'))
        .map_err(|error| InvalidField::new(&entry_field, error.to_string()))?;
    let mode = entry.unix_mode().unwrap_or(0);
    // The file type bits of stat(2). Zips that were not made on Unix have none.
    match (mode & 0o170_000, is_folder) {
        (0 | 0o040_000, true) => return Ok(None),
        (0 | 0o100_000, false) => {}
        (0o120_000, _) => {
            return Err(InvalidField::new(
                entry_field,
                "is a symbolic link; put the file itself into the zip",
            ));
        }
        _ => {
            return Err(InvalidField::new(
                entry_field,
                "is neither a file nor a directory",
            ));
        }
    }
    if entry.is_symlink() {
        return Err(InvalidField::new(
            entry_field,
            "is a symbolic link; put the file itself into the zip",
        ));
    }
    if entry.encrypted() {
        return Err(InvalidField::new(
            entry_field,
            "is encrypted; make the zip without a password",
        ));
    }
    Ok(Some((path, mode & 0o111 != 0)))
}

/// Why the gateway stopped unpacking an entry of a zip in a new task: the entry is refused, with the error for the
/// client, or all zips of the request together are too large.
enum EntryError {
    Refused(RequestError),
    /// The entry exceeds the limit for all zips of the request.
    TotalExceeded,
}

/// The limits of the gateway on the unpacked size of one entry of a zip in a new task, in bytes.
#[derive(Clone, Copy)]
struct EntryLimits {
    by_ratio: u64,
    /// What is left of the limit for all zips of the request.
    bytes_left: u64,
}

/// The largest unpacked size for this many compressed bytes.
fn max_unpacked_size(packed: u64) -> u64 {
    packed.saturating_mul(MAX_RATIO).max(RATIO_CHECKED_FROM)
}

fn read(
    entry_field: &str,
    zip: &mut ZipArchive<Cursor<Bytes>>,
    index: usize,
    limits: EntryLimits,
    charge: &mut dyn FnMut(u64) -> Result<(), RequestError>,
) -> Result<Bytes, EntryError> {
    let invalid = |problem: String| EntryError::Refused(InvalidField::new(entry_field, problem).into());
    let mut entry = zip
        .by_index(index)
        .map_err(|error| invalid(format!("cannot be unpacked: {error}; make the zip with deflate")))?;
    let mut content = Vec::new();
    // The bytes are counted, as the sizes in the header are not trusted.
    let mut unread = limits.by_ratio.min(limits.bytes_left).saturating_add(1);
    while unread > 0 {
        let block = unread.min(BLOCK);
        let read = entry
            .by_ref()
            .take(block)
            .read_to_end(&mut content)
            .map_err(|error| invalid(format!("is damaged: {error}")))?;
        charge(read as u64).map_err(EntryError::Refused)?;
        if (read as u64) < block {
            break;
        }
        unread -= block;
    }
    match content.len() as u64 {
        size if size > limits.bytes_left => Err(EntryError::TotalExceeded),
        size if size > limits.by_ratio => Err(EntryError::Refused(
            InvalidField::over_limit(
                entry_field,
                "unpacks to far more than its size in the zip",
                format!("{MAX_RATIO} times"),
                format!("more than {MAX_RATIO} times"),
            )
            .into(),
        )),
        _ => Ok(content.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    const LIMITS: ZipLimits = ZipLimits {
        files: 3,
        total_bytes: 20 << 20,
        bytes_left: 20 << 20,
    };

    fn zip(build: impl FnOnce(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Bytes {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        build(&mut writer);
        writer.finish().unwrap().into_inner().into()
    }

    fn file(writer: &mut ZipWriter<Cursor<Vec<u8>>>, name: &str, content: &[u8]) {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }

    fn unpack_without_charge(archive: &Bytes) -> Result<TaskFiles, RequestError> {
        unpack("source", archive, LIMITS, &mut |_| Ok(()))
    }

    fn assert_refused(archive: &Bytes, field: &str, problem: &str) {
        let Err(RequestError::Invalid(invalid)) = unpack_without_charge(archive) else {
            panic!("the zip is accepted");
        };
        assert_eq!(invalid.field, field, "{invalid}");
        assert!(invalid.problem.contains(problem), "{invalid}");
    }

    #[test]
    fn files_are_unpacked_with_their_modes() {
        let archive = zip(|writer| {
            writer
                .add_directory("lib/", SimpleFileOptions::default())
                .unwrap();
            file(writer, "lib/util.h", b"// util");
            let options = SimpleFileOptions::default().unix_permissions(0o755);
            writer.start_file("run.sh", options).unwrap();
            writer.write_all(b"true").unwrap();
        });
        let files = unpack_without_charge(&archive).unwrap();
        let get = |path: &str| files.get(&WorkspacePath::new(path).unwrap()).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!(
            get("lib/util.h").content,
            Content::Inline(Bytes::from_static(b"// util"))
        );
        assert!(!get("lib/util.h").executable);
        assert!(get("run.sh").executable);
    }

    #[test]
    fn paths_outside_the_workspace_are_refused() {
        for (name, problem) in [
            ("../evil", "inside the workspace"),
            ("a/../../evil", "inside the workspace"),
            ("/etc/passwd", "absolute"),
            ("a//b", "empty part"),
            ("a\nb", "control"),
        ] {
            let archive = zip(|writer| file(writer, name, b"x"));
            assert_refused(&archive, &format!("source.{name}"), problem);
        }
        let archive = zip(|writer| {
            writer
                .add_symlink("link", "/etc/passwd", SimpleFileOptions::default())
                .unwrap();
        });
        assert_refused(&archive, "source.link", "is a symbolic link");
        let archive = zip(|writer| {
            writer
                .add_directory("../x/", SimpleFileOptions::default())
                .unwrap();
        });
        assert_refused(&archive, "source.../x/", "inside the workspace");
    }

    #[test]
    fn zip_bombs_are_refused_while_they_are_unpacked() {
        let bomb = zip(|writer| file(writer, "zeros", &vec![0; 10 << 20]));
        assert!(bomb.len() < 20 << 10);
        assert_refused(&bomb, "source.zeros", "far more than its size");
        let noise: Vec<u8> = (0..7u32 << 20)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let large = zip(|writer| {
            for name in ["a", "b", "c"] {
                file(writer, name, &noise);
            }
        });
        assert_refused(&large, "source", "exceeded at 'c'");
        let many = zip(|writer| {
            for name in ["a", "b", "c", "d"] {
                file(writer, name, b"");
            }
        });
        assert_refused(&many, "source", "too many files");
        let many_entries = zip(|writer| {
            for n in 0..31 {
                file(writer, &n.to_string(), b"");
            }
        });
        assert_refused(&many_entries, "source", "too many entries");
    }

    #[test]
    fn the_ratio_of_the_whole_zip_is_limited() {
        // Each entry alone is within the limits.
        let bomb = zip(|writer| {
            for name in ["a", "b", "c"] {
                file(writer, name, &vec![0; 6 << 20]);
            }
        });
        assert!(bomb.len() < 20 << 10);
        assert_refused(&bomb, "source.b", "far more than its size");
    }

    #[test]
    fn unpacking_ends_if_the_bytes_cannot_be_charged() {
        let archive = zip(|writer| file(writer, "zeros", &vec![0; 7 << 20]));
        let mut charged = 0;
        let result = unpack("source", &archive, LIMITS, &mut |bytes| {
            charged += bytes;
            if charged > 1 << 20 {
                Err(RequestError::BodyInterrupted("enough".into()))
            } else {
                Ok(())
            }
        });
        assert!(matches!(result, Err(RequestError::BodyInterrupted(_))));
        assert!(charged <= (1 << 20) + BLOCK, "{charged}");
        charged = 0;
        let mut count = |bytes| {
            charged += bytes;
            Ok(())
        };
        unpack("source", &archive, LIMITS, &mut count).unwrap();
        assert_eq!(charged, 7 << 20);
    }

    #[test]
    fn files_that_are_not_zips_are_refused() {
        assert_refused(&Bytes::from_static(b""), "source", "not a zip");
        assert_refused(&Bytes::from_static(b"PK but no more"), "source", "not a zip");
        let mut cut = zip(|writer| file(writer, "a", b"hello hello hello hello")).to_vec();
        // Changes the content of the file, not its header or the directory.
        let at = cut.windows(1).position(|b| b == b"a").unwrap() + 3;
        cut[at] ^= 0xff;
        assert!(unpack_without_charge(&cut.into()).is_err());
    }

    #[test]
    fn two_entries_with_the_same_name_are_refused() {
        let mut twice = zip(|writer| {
            file(writer, "same1", b"x");
            file(writer, "same2", b"y");
        })
        .to_vec();
        for at in 0..twice.len() - 5 {
            if &twice[at..at + 5] == b"same2" {
                twice[at + 4] = b'1';
            }
        }
        assert_refused(&twice.into(), "source", "two entries");
    }
}
