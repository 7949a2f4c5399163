//! Unpacks a zip, trusting nothing that it says of itself.

use std::collections::btree_map::Entry;
use std::io::{Cursor, Read};

use bytes::Bytes;
use model::{Content, File, FilePath, Files, Invalid};
use zip::ZipArchive;
use zip::read::ZipFileEntry;

use crate::refusal::Refusal;

/// What a zip may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) files: usize,
    /// Bytes of all files together, in all zips of a request.
    pub(super) total: u64,
    /// What the zips before this one have left of them.
    pub(super) left: u64,
}

/// An entry that grows more than this is a bomb, once it is large enough to hurt. Deflate reaches 1030. The same
/// holds for the whole zip, whose entries may share their bytes.
const RATIO: u64 = 400;
const RATIO_FROM: u64 = 8 << 20;

/// How an entry begins in a zip's directory.
const DIRECTORY_ENTRY: &[u8; 4] = b"PK\x01\x02";

/// How much is unpacked between two questions to `charge`.
const BLOCK: u64 = 256 << 10;

/// `field` names the zip in complaints; `charge` is asked after each block that is unpacked, and may end it.
pub(super) fn unpack(
    field: &str,
    archive: &Bytes,
    bounds: Bounds,
    charge: &mut dyn FnMut(u64) -> Result<(), Refusal>,
) -> Result<Files, Refusal> {
    let wrong = |problem: String| Invalid::new(field, problem);
    let entries = archive
        .windows(DIRECTORY_ENTRY.len())
        .filter(|window| window == DIRECTORY_ENTRY);
    // Counted before the directory is read, which would take memory for every entry. Folders are entries as
    // well, and a zip inside the zip is counted with it.
    let most = bounds.files.saturating_mul(10);
    if entries.take(most + 1).count() > most {
        return Err(Invalid::beyond(field, "has too many entries", most, format!("more than {most}")).into());
    }
    let mut zip = ZipArchive::new(Cursor::new(archive.clone()))
        .map_err(|error| wrong(format!("is not a zip that can be read: {error}")))?;
    if zip.has_duplicate_names() {
        return Err(wrong("holds two entries of the same name".into()).into());
    }
    let mut files = Files::new();
    let mut left = bounds.left;
    let mut left_by_ratio = most_from(archive.len() as u64);
    for index in 0..zip.len() {
        let entry = zip
            .by_index_data(index)
            .map_err(|error| wrong(format!("has a damaged entry {index}: {error}")))?;
        let Some((path, executable)) = accept(field, &entry)? else {
            continue;
        };
        let place = format!("{field}.{path}");
        if files.len() == bounds.files {
            return Err(Invalid::beyond(field, "has too many files", bounds.files, zip.len()).into());
        }
        let most = Most {
            by_ratio: most_from(entry.compressed_size()).min(left_by_ratio),
            left,
        };
        let content = read(&place, &mut zip, index, most, charge).map_err(|cut| match cut {
            Cut::Refused(refusal) => refusal,
            Cut::Total => Invalid::beyond(
                field,
                format!("holds too much, all zips of the request together; it was '{path}' that went beyond"),
                bounds.total,
                format!("more than {}", bounds.total),
            )
            .into(),
        })?;
        left -= content.len() as u64;
        left_by_ratio -= content.len() as u64;
        let content = Content::Inline(content);
        match files.entry(path) {
            Entry::Vacant(slot) => drop(slot.insert(File { content, executable })),
            Entry::Occupied(_) => return Err(Invalid::new(place, "is in the zip twice").into()),
        }
    }
    Ok(files)
}

/// Where the entry goes and whether it is executable; `None` for a folder, which comes with its files.
fn accept(field: &str, entry: &ZipFileEntry<'_>) -> Result<Option<(FilePath, bool)>, Invalid> {
    let raw = String::from_utf8_lossy(entry.name_raw()).into_owned();
    let place = format!("{field}.{raw}");
    let name = entry
        .name()
        .map_err(|_| Invalid::new(&place, "has a name that cannot be read"))?;
    let is_folder = name.ends_with('/');
    let path =
        FilePath::new(name.trim_end_matches('/')).map_err(|error| Invalid::new(&place, error.to_string()))?;
    let mode = entry.unix_mode().unwrap_or(0);
    // The kind of file, as stat(2) has it; zips from elsewhere than Unix have none.
    match (mode & 0o170_000, is_folder) {
        (0 | 0o040_000, true) => return Ok(None),
        (0 | 0o100_000, false) => {}
        (0o120_000, _) => return Err(Invalid::new(place, "is a link; put the file itself into the zip")),
        _ => return Err(Invalid::new(place, "is neither a file nor a folder")),
    }
    if entry.is_symlink() {
        return Err(Invalid::new(place, "is a link; put the file itself into the zip"));
    }
    if entry.encrypted() {
        return Err(Invalid::new(
            place,
            "is encrypted; make the zip without a password",
        ));
    }
    Ok(Some((path, mode & 0o111 != 0)))
}

enum Cut {
    Refused(Refusal),
    /// It does not fit into what is left.
    Total,
}

/// What an entry may hold.
#[derive(Clone, Copy)]
struct Most {
    by_ratio: u64,
    /// What is left for all zips of the request.
    left: u64,
}

/// What may come out of this many bytes of a zip.
fn most_from(packed: u64) -> u64 {
    packed.saturating_mul(RATIO).max(RATIO_FROM)
}

fn read(
    place: &str,
    zip: &mut ZipArchive<Cursor<Bytes>>,
    index: usize,
    most: Most,
    charge: &mut dyn FnMut(u64) -> Result<(), Refusal>,
) -> Result<Bytes, Cut> {
    let invalid = |problem: String| Cut::Refused(Invalid::new(place, problem).into());
    let mut entry = zip
        .by_index(index)
        .map_err(|error| invalid(format!("cannot be unpacked: {error}; make the zip with deflate")))?;
    let mut content = Vec::new();
    // Counted while reading: the sizes in the header may be anything.
    let mut unread = most.by_ratio.min(most.left).saturating_add(1);
    while unread > 0 {
        let block = unread.min(BLOCK);
        let read = entry
            .by_ref()
            .take(block)
            .read_to_end(&mut content)
            .map_err(|error| invalid(format!("is damaged: {error}")))?;
        charge(read as u64).map_err(Cut::Refused)?;
        if (read as u64) < block {
            break;
        }
        unread -= block;
    }
    match content.len() as u64 {
        size if size > most.left => Err(Cut::Total),
        size if size > most.by_ratio => Err(Cut::Refused(
            Invalid::beyond(
                place,
                "unpacks to far more than its size in the zip",
                format!("{RATIO} times"),
                format!("more than {RATIO} times"),
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

    const BOUNDS: Bounds = Bounds {
        files: 3,
        total: 20 << 20,
        left: 20 << 20,
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

    fn unpack_free(archive: &Bytes) -> Result<Files, Refusal> {
        unpack("source", archive, BOUNDS, &mut |_| Ok(()))
    }

    fn refused(archive: &Bytes, field: &str, problem: &str) {
        let Err(Refusal::Invalid(invalid)) = unpack_free(archive) else {
            panic!("the zip is not invalid");
        };
        assert_eq!(invalid.field, field, "{invalid}");
        assert!(invalid.problem.contains(problem), "{invalid}");
    }

    #[test]
    fn files_and_their_modes_come_out() {
        let archive = zip(|writer| {
            writer
                .add_directory("lib/", SimpleFileOptions::default())
                .unwrap();
            file(writer, "lib/util.h", b"// util");
            let options = SimpleFileOptions::default().unix_permissions(0o755);
            writer.start_file("run.sh", options).unwrap();
            writer.write_all(b"true").unwrap();
        });
        let files = unpack_free(&archive).unwrap();
        let get = |path: &str| files.get(&FilePath::new(path).unwrap()).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!(
            get("lib/util.h").content,
            Content::Inline(Bytes::from_static(b"// util"))
        );
        assert!(!get("lib/util.h").executable);
        assert!(get("run.sh").executable);
    }

    #[test]
    fn what_leaves_the_workspace_is_refused() {
        for (name, problem) in [
            ("../evil", "inside the workspace"),
            ("a/../../evil", "inside the workspace"),
            ("/etc/passwd", "absolute"),
            ("a//b", "empty part"),
            ("a\nb", "control"),
        ] {
            let archive = zip(|writer| file(writer, name, b"x"));
            refused(&archive, &format!("source.{name}"), problem);
        }
        let archive = zip(|writer| {
            writer
                .add_symlink("link", "/etc/passwd", SimpleFileOptions::default())
                .unwrap();
        });
        refused(&archive, "source.link", "is a link");
        let archive = zip(|writer| {
            writer
                .add_directory("../x/", SimpleFileOptions::default())
                .unwrap();
        });
        refused(&archive, "source.../x/", "inside the workspace");
    }

    #[test]
    fn bombs_are_refused_while_reading() {
        let bomb = zip(|writer| file(writer, "zeros", &vec![0; 10 << 20]));
        assert!(bomb.len() < 20 << 10);
        refused(&bomb, "source.zeros", "far more than its size");
        let noise: Vec<u8> = (0..7u32 << 20)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let large = zip(|writer| {
            for name in ["a", "b", "c"] {
                file(writer, name, &noise);
            }
        });
        refused(&large, "source", "'c' that went beyond");
        let many = zip(|writer| {
            for name in ["a", "b", "c", "d"] {
                file(writer, name, b"");
            }
        });
        refused(&many, "source", "too many files");
        let crowd = zip(|writer| {
            for n in 0..31 {
                file(writer, &n.to_string(), b"");
            }
        });
        refused(&crowd, "source", "too many entries");
    }

    #[test]
    fn the_whole_zip_has_a_ratio_as_well() {
        // Each is small enough by itself.
        let bomb = zip(|writer| {
            for name in ["a", "b", "c"] {
                file(writer, name, &vec![0; 6 << 20]);
            }
        });
        assert!(bomb.len() < 20 << 10);
        refused(&bomb, "source.b", "far more than its size");
    }

    #[test]
    fn unpacking_ends_when_its_bytes_cannot_be_charged() {
        let archive = zip(|writer| file(writer, "zeros", &vec![0; 7 << 20]));
        let mut charged = 0;
        let result = unpack("source", &archive, BOUNDS, &mut |bytes| {
            charged += bytes;
            if charged > 1 << 20 {
                Err(Refusal::Broken("enough".into()))
            } else {
                Ok(())
            }
        });
        assert!(matches!(result, Err(Refusal::Broken(_))));
        assert!(charged <= (1 << 20) + BLOCK, "{charged}");
        charged = 0;
        let mut count = |bytes| {
            charged += bytes;
            Ok(())
        };
        unpack("source", &archive, BOUNDS, &mut count).unwrap();
        assert_eq!(charged, 7 << 20);
    }

    #[test]
    fn what_is_no_zip_is_refused() {
        refused(&Bytes::from_static(b""), "source", "not a zip");
        refused(&Bytes::from_static(b"PK but no more"), "source", "not a zip");
        let mut cut = zip(|writer| file(writer, "a", b"hello hello hello hello")).to_vec();
        // The file's bytes, not its header or the directory.
        let at = cut.windows(1).position(|b| b == b"a").unwrap() + 3;
        cut[at] ^= 0xff;
        assert!(unpack_free(&cut.into()).is_err());
    }

    #[test]
    fn two_of_one_name_are_refused() {
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
        refused(&twice.into(), "source", "two entries");
    }
}
