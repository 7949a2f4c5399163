//! Compares the files of a root with the listing that was recorded when it was made.

use std::cmp::Ordering;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use model::{BlobHash, BlobHasher, RootName};
use thiserror::Error;

use crate::InterruptFlag;
use crate::listing::{ListedContent, ListingEntry, walk};
use crate::store::{LISTING, RootHold, RootStore, RootStoreError};

/// The result of comparing the files of a root with its listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootVerification {
    pub sha256: BlobHash,
    /// The first differences; [`RootVerification::difference_count`] counts all.
    pub differences: Vec<RootDifference>,
    pub difference_count: u64,
}

/// A file of a root that is not as the listing of the root says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootDifference {
    /// From the root, escaped to printable ASCII.
    pub path: String,
    pub kind: DifferenceKind,
}

/// How a file of a root differs from the listing of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    Missing,
    Added,
    /// The mode, as it was and as it is.
    Mode(u32, u32),
    Content,
    /// The target of a link, as it was and as it is, escaped.
    Target(String, String),
    /// A file became a folder, or the like.
    Kind,
}

/// Why a root could not be verified.
#[derive(Debug, Error)]
pub enum VerifyError {
    #[error(transparent)]
    Store(#[from] RootStoreError),
    #[error(
        "the root {name} is the folder {folder:?} by the configuration; Conclave has no listing of its files"
    )]
    Configured { name: RootName, folder: PathBuf },
    #[error("the listing of the root {name}, {path:?}, is damaged; make the root again")]
    DamagedListing { name: RootName, path: PathBuf },
    #[error("could not read {path:?}")]
    Read { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
}

/// How many differences are named.
const MAX_NAMED: usize = 20;

/// Reads every file of the root. The root may be replaced meanwhile; its files are kept until the end.
pub fn verify(
    store: &RootStore,
    name: &RootName,
    interrupt: &InterruptFlag,
) -> Result<RootVerification, VerifyError> {
    let Some((root, _hold)): Option<(_, RootHold)> = store.hold(name)? else {
        return Err(RootStoreError::NotFound {
            name: name.clone(),
            folder: store.folder().to_path_buf(),
        }
        .into());
    };
    let (Some(sha256), Some(generation)) = (root.sha256, root.generation()) else {
        return Err(VerifyError::Configured {
            name: root.name,
            folder: root.folder,
        });
    };
    let path = generation.join(LISTING);
    let file = File::open(&path).map_err(|source| VerifyError::Read {
        path: path.clone(),
        source,
    })?;
    let mut comparison = ListingComparison::new(BufReader::new(file));
    let walked = walk(&root.folder, interrupt, &mut |entry| comparison.add(entry));
    let finished = walked.and_then(|()| comparison.finish());
    if interrupt.is_interrupted() {
        return Err(VerifyError::Interrupted);
    }
    let (differences, difference_count, listing_hash) = match finished {
        Ok(found) => found,
        Err(error) if error.get_ref().is_some_and(|error| error.is::<DamagedLine>()) => {
            return Err(VerifyError::DamagedListing {
                name: name.clone(),
                path,
            });
        }
        Err(source) => {
            return Err(VerifyError::Read {
                path: root.folder,
                source,
            });
        }
    };
    match listing_hash == sha256 {
        true => Ok(RootVerification {
            sha256,
            differences,
            difference_count,
        }),
        false => Err(VerifyError::DamagedListing {
            name: name.clone(),
            path,
        }),
    }
}

/// A line of a root's listing that is not one.
#[derive(Debug, Error)]
#[error("a line of the listing is damaged")]
struct DamagedLine;

/// Compares the files of a root, in the order of a listing, with a recorded listing, line by line.
struct ListingComparison<R> {
    lines: R,
    hasher: BlobHasher,
    /// The next entry of the recorded listing.
    recorded: Option<ListingEntry>,
    has_begun: bool,
    differences: Vec<RootDifference>,
    difference_count: u64,
}

impl<R: BufRead> ListingComparison<R> {
    fn new(lines: R) -> ListingComparison<R> {
        ListingComparison {
            lines,
            hasher: BlobHasher::default(),
            recorded: None,
            has_begun: false,
            differences: Vec::new(),
            difference_count: 0,
        }
    }

    fn next_recorded(&mut self) -> io::Result<()> {
        let mut line = String::new();
        self.lines
            .read_line(&mut line)
            .map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => io::Error::other(DamagedLine),
                _ => error,
            })?;
        self.hasher.update(&line);
        let text = line.strip_suffix('\n').unwrap_or(&line);
        self.recorded = match line.is_empty() {
            true => None,
            false => Some(ListingEntry::parse(text).ok_or_else(|| io::Error::other(DamagedLine))?),
        };
        Ok(())
    }

    /// Compares the next file of the root.
    fn add(&mut self, found: ListingEntry) -> io::Result<()> {
        if !self.has_begun {
            self.has_begun = true;
            self.next_recorded()?;
        }
        loop {
            let order = self.recorded.as_ref().map(|recorded| recorded.order(&found));
            match order {
                Some(Ordering::Less) => self.take_missing()?,
                Some(Ordering::Equal) => {
                    if let Some(recorded) = self.recorded.take()
                        && let Some(kind) = difference(&recorded.content, &found.content)
                    {
                        self.report(found.path, kind);
                    }
                    return self.next_recorded();
                }
                Some(Ordering::Greater) | None => {
                    self.report(found.path, DifferenceKind::Added);
                    return Ok(());
                }
            }
        }
    }

    fn take_missing(&mut self) -> io::Result<()> {
        if let Some(missing) = self.recorded.take() {
            self.report(missing.path, DifferenceKind::Missing);
        }
        self.next_recorded()
    }

    fn finish(mut self) -> io::Result<(Vec<RootDifference>, u64, BlobHash)> {
        if !self.has_begun {
            self.next_recorded()?;
        }
        while self.recorded.is_some() {
            self.take_missing()?;
        }
        let hash = self.hasher.finish();
        Ok((self.differences, self.difference_count, hash))
    }

    fn report(&mut self, path: String, kind: DifferenceKind) {
        self.difference_count += 1;
        if self.differences.len() < MAX_NAMED {
            self.differences.push(RootDifference { path, kind });
        }
    }
}

fn difference(recorded: &ListedContent, found: &ListedContent) -> Option<DifferenceKind> {
    use ListedContent::{File, Folder, Link, Special};
    match (recorded, found) {
        (
            File { size, sha256, mode },
            File {
                size: new_size,
                sha256: new_sha256,
                mode: new_mode,
            },
        ) => match (size, sha256) == (new_size, new_sha256) {
            false => Some(DifferenceKind::Content),
            true => (mode != new_mode).then_some(DifferenceKind::Mode(*mode, *new_mode)),
        },
        (Folder { mode }, Folder { mode: new }) => (mode != new).then_some(DifferenceKind::Mode(*mode, *new)),
        (Link { target }, Link { target: new }) => {
            (target != new).then(|| DifferenceKind::Target(target.clone(), new.clone()))
        }
        (Special, Special) => None,
        (File { .. } | Folder { .. } | Link { .. } | Special, _) => Some(DifferenceKind::Kind),
    }
}

impl fmt::Display for RootDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.kind {
            DifferenceKind::Missing => write!(f, "{path}: missing"),
            DifferenceKind::Added => write!(f, "{path}: added"),
            DifferenceKind::Mode(old, new) => write!(f, "{path}: mode {new:04o} instead of {old:04o}"),
            DifferenceKind::Content => write!(f, "{path}: other content"),
            DifferenceKind::Target(old, new) => write!(f, "{path}: link to {new} instead of {old}"),
            DifferenceKind::Kind => write!(f, "{path}: another kind of file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<ListingEntry> {
        let line =
            |(path, mode): (&str, &str)| ListingEntry::parse(&format!("d\t{mode}\t-\t-\t{path}")).unwrap();
        text.split_whitespace()
            .map(|item| line(item.split_once('=').unwrap_or((item, "0755"))))
            .collect()
    }

    fn compare(recorded: &str, found: &str) -> (String, u64) {
        let text: String = entries(recorded)
            .iter()
            .map(|entry| format!("{entry}\n"))
            .collect();
        let mut comparison = ListingComparison::new(text.as_bytes());
        for entry in entries(found) {
            comparison.add(entry).unwrap();
        }
        let (differences, count, hash) = comparison.finish().unwrap();
        assert_eq!(hash, BlobHash::of(&text));
        let texts: Vec<_> = differences.iter().map(RootDifference::to_string).collect();
        (texts.join(", "), count)
    }

    #[test]
    fn every_difference_is_named_with_its_path() {
        let check = |recorded: &str, found: &str, expected: &str| {
            assert_eq!(compare(recorded, found).0, expected, "{recorded} / {found}");
        };
        check("", "", "");
        check("a a/b a.b", "a a/b a.b", "");
        check("a a/b b", "a b", "a/b: missing");
        check("a b", "a a/b b", "a/b: added");
        check("a b", "", "a: missing, b: missing");
        check("", "a b", "a: added, b: added");
        check("a c", "b d", "a: missing, b: added, c: missing, d: added");
        check("a b", "a=0700 b", "a: mode 0700 instead of 0755");
    }

    #[test]
    fn many_differences_are_counted_and_the_first_are_named() {
        let names: Vec<String> = (10..60).map(|number| format!("n{number}")).collect();
        let (named, count) = compare(&names.join(" "), "");
        assert_eq!(named.split(", ").count(), MAX_NAMED);
        assert_eq!(count, 50);
    }
}
