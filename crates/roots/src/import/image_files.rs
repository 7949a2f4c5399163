//! The files of an image: in a folder, or as members of a tar archive, which is not unpacked for that.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use tar::EntryType;

use super::image_json::DockerImage;
use crate::InterruptFlag;
use crate::unpack::{MeteredReader, ReadMeter};

/// The files of an image: manifests, configurations and layers.
pub(super) enum ImageFiles {
    Folder(OwnedFd),
    Archive {
        file: Arc<File>,
        members: HashMap<String, ArchiveMember>,
    },
}

/// Where the content of a member of an image's archive is.
pub(super) enum ArchiveMember {
    Content {
        offset: u64,
        size: u64,
    },
    /// Another name of a member. `docker save` of old versions stores equal layers once.
    Link(String),
}

/// What a tar archive contains, by its names and its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArchiveContent {
    RootFileSystem,
    Image,
}

/// A file of an image that is read from its beginning.
pub(super) struct ImageFileReader {
    file: Arc<File>,
    offset: u64,
    remaining: u64,
}

/// An image has a few files for each layer.
const MAX_MEMBERS: usize = 100_000;
const MAX_LINKS: usize = 8;
/// Longer than any path of a tool.
const MAX_NAME: usize = 4096;
/// Of all names together, which are kept in memory.
const MAX_NAMES_SIZE: usize = 64 << 20;
/// As large as registries accept.
pub(super) const MAX_DOCUMENT: u64 = 4 << 20;

pub(super) const OCI_LAYOUT: &str = "oci-layout";
pub(super) const OCI_INDEX: &str = "index.json";
pub(super) const DOCKER_MANIFEST: &str = "manifest.json";

impl ImageFiles {
    pub(super) fn folder(path: &Path) -> io::Result<ImageFiles> {
        Ok(ImageFiles::Folder(File::open(path)?.into()))
    }

    /// Finds all members of an uncompressed archive.
    pub(super) fn archive(file: File, interrupt: &InterruptFlag) -> io::Result<ImageFiles> {
        let meter = Rc::new(ReadMeter::new(file.metadata()?.len(), interrupt.clone()));
        let input = MeteredReader::new(BufReader::new(file.try_clone()?), Rc::clone(&meter));
        let mut archive = tar::Archive::new(input);
        let mut members = HashMap::new();
        let mut names_size = 0;
        let mut entries = archive.entries_with_seek()?;
        loop {
            meter.begin_headers();
            let Some(entry) = entries.next() else { break };
            let entry = entry?;
            let (path, target) = (entry.path_bytes(), entry.link_name_bytes().unwrap_or_default());
            // Nothing in the image can name it.
            let Some(path) = short_text(&path) else { continue };
            let Some(target) = short_text(&target) else {
                continue;
            };
            let path = normalize(path);
            let member = match entry.header().entry_type() {
                EntryType::Regular | EntryType::Continuous => ArchiveMember::Content {
                    offset: entry.raw_file_position(),
                    size: entry.size(),
                },
                EntryType::Link => ArchiveMember::Link(normalize(target)),
                EntryType::Symlink => ArchiveMember::Link(relative_to(&path, target)),
                _ => continue,
            };
            names_size += path.len() + target.len();
            if names_size > MAX_NAMES_SIZE {
                return Err(io::Error::other(format!(
                    "the names in the image are longer than {MAX_NAMES_SIZE} bytes together"
                )));
            }
            members.insert(path, member);
            if members.len() > MAX_MEMBERS {
                return Err(io::Error::other(format!(
                    "the image has more than {MAX_MEMBERS} files"
                )));
            }
        }
        Ok(ImageFiles::Archive {
            file: Arc::new(file),
            members,
        })
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.open(path).is_ok()
    }

    pub(super) fn open(&self, path: &str) -> io::Result<ImageFileReader> {
        match self {
            ImageFiles::Folder(folder) => {
                // Links are followed as long as they stay in the folder: some tools share blobs of images by links.
                let how = OpenHow::new()
                    .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
                    .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
                let file = File::from(openat2(folder.as_fd(), path, how)?);
                let metadata = file.metadata()?;
                match metadata.is_file() {
                    true => Ok(ImageFileReader {
                        file: Arc::new(file),
                        offset: 0,
                        remaining: metadata.len(),
                    }),
                    false => Err(io::Error::other("it is not a file")),
                }
            }
            ImageFiles::Archive { file, members } => {
                let mut path = path;
                for _ in 0..=MAX_LINKS {
                    match members.get(path).ok_or(ErrorKind::NotFound)? {
                        ArchiveMember::Link(target) => path = target,
                        ArchiveMember::Content { offset, size } => {
                            return Ok(ImageFileReader {
                                file: Arc::clone(file),
                                offset: *offset,
                                remaining: *size,
                            });
                        }
                    }
                }
                Err(io::Error::other("too many links"))
            }
        }
    }
}

impl ImageFileReader {
    pub(super) fn size(&self) -> u64 {
        self.remaining
    }
}

impl Read for ImageFileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.remaining).map_or(buffer.len(), |most| most.min(buffer.len()));
        let length = self.file.read_at(&mut buffer[..most], self.offset)?;
        if length == 0 && most > 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.offset += length as u64;
        self.remaining -= length as u64;
        Ok(length)
    }
}

/// Reads until a name shows a root file system, or a manifest shows an image, or the archive ends.
pub(super) fn content_of_archive(
    input: impl Read,
    max_size: u64,
    interrupt: &InterruptFlag,
) -> io::Result<ArchiveContent> {
    let meter = Rc::new(ReadMeter::new(max_size, interrupt.clone()));
    let mut archive = tar::Archive::new(MeteredReader::new(input, Rc::clone(&meter)));
    let (mut has_layout, mut has_index, mut has_manifest) = (false, false, false);
    let mut are_all_of_image = true;
    let mut entries = archive.entries()?;
    loop {
        meter.begin_headers();
        let Some(entry) = entries.next() else { break };
        meter.end_headers();
        let mut entry = entry?;
        let path = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        let Some(path) = short_text(&path).map(normalize) else {
            return Ok(ArchiveContent::RootFileSystem);
        };
        // No tool writes a sparse file into an image, and the holes of one may be without end.
        if is_in_root_file_system(&path) || kind == EntryType::GNUSparse {
            return Ok(ArchiveContent::RootFileSystem);
        }
        are_all_of_image &= is_file_of_image(&path);
        has_layout |= path == OCI_LAYOUT;
        has_index |= path == OCI_INDEX;
        if path == DOCKER_MANIFEST {
            has_manifest = true;
            let mut text = Vec::new();
            (&mut entry).take(MAX_DOCUMENT).read_to_end(&mut text)?;
            let images: Vec<DockerImage> = serde_json::from_slice(&text).unwrap_or_default();
            if !images.is_empty() {
                return Ok(ArchiveContent::Image);
            }
        }
        if has_layout && has_index {
            return Ok(ArchiveContent::Image);
        }
        io::copy(&mut entry, &mut io::sink())?;
    }
    // An image whose manifest is damaged is still no root file system.
    Ok(match are_all_of_image && (has_manifest || has_index) {
        true => ArchiveContent::Image,
        false => ArchiveContent::RootFileSystem,
    })
}

/// Whether the path begins with a folder that root file systems have and images have not. It saves reading a large archive
/// twice.
fn is_in_root_file_system(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    matches!(
        first,
        "bin"
            | "boot"
            | "dev"
            | "etc"
            | "home"
            | "lib"
            | "lib64"
            | "media"
            | "mnt"
            | "opt"
            | "proc"
            | "root"
            | "run"
            | "sbin"
            | "srv"
            | "sys"
            | "tmp"
            | "usr"
            | "var"
    )
}

/// Whether `docker save`, or a tool that writes OCI image layouts, would write a file of this path.
fn is_file_of_image(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let stem = first.strip_prefix("sha256:").unwrap_or(first);
    let stem = stem.split('.').next().unwrap_or_default();
    matches!(
        first,
        "" | "blobs" | OCI_LAYOUT | OCI_INDEX | DOCKER_MANIFEST | "repositories"
    ) || is_hash(stem)
}

fn short_text(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name)
        .ok()
        .filter(|name| name.len() <= MAX_NAME)
}

/// The path without `.` and empty parts. `..` at the beginning stays, and then nothing has that path.
fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The target of a symbolic link at `path`.
fn relative_to(path: &str, target: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, _)) => normalize(&format!("{folder}/{target}")),
        None => normalize(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_from_root_file_systems() {
        const MANIFEST: &str = r#"[{"Config": "config.json", "RepoTags": null, "Layers": ["layer.tar.gz"]}]"#;
        let hash = "0".repeat(64);
        let check = |names: &[&str], expected| {
            let mut builder = tar::Builder::new(Vec::new());
            for name in names {
                let mut header = tar::Header::new_gnu();
                let (name, content) = match *name {
                    "MANIFEST" => ("./manifest.json", MANIFEST),
                    name => (name, ""),
                };
                header.set_size(content.len() as u64);
                builder
                    .append_data(&mut header, name, content.as_bytes())
                    .unwrap();
            }
            let bytes = builder.into_inner().unwrap();
            assert_eq!(
                content_of_archive(bytes.as_slice(), u64::MAX, &InterruptFlag::default()).unwrap(),
                expected,
                "{names:?}"
            );
        };
        let (layer, config, go) = (
            format!("{hash}/layer.tar"),
            format!("{hash}.json"),
            format!("sha256:{hash}"),
        );
        check(
            &[&layer, &config, "manifest.json", "repositories"],
            ArchiveContent::Image,
        );
        check(
            &["./oci-layout", "index.json", "blobs/sha256/x"],
            ArchiveContent::Image,
        );
        check(
            &[&go, &format!("{hash}.tar.gz"), "manifest.json"],
            ArchiveContent::Image,
        );
        // As Jib and Bazel write them.
        check(
            &["config.json", "layer.tar.gz", "MANIFEST"],
            ArchiveContent::Image,
        );
        check(
            &["images/app", "blobs/x", "index.json", "oci-layout"],
            ArchiveContent::Image,
        );
        check(&["config.json", "manifest.json"], ArchiveContent::RootFileSystem);
        check(
            &["app/index.json", "app/oci-layout"],
            ArchiveContent::RootFileSystem,
        );
        check(&["program", "index.json"], ArchiveContent::RootFileSystem);
        check(&["usr/bin/true", "MANIFEST"], ArchiveContent::RootFileSystem);
        check(&["usr/bin/true", "manifest.json"], ArchiveContent::RootFileSystem);
        check(&["blobs/x"], ArchiveContent::RootFileSystem);
        check(&[], ArchiveContent::RootFileSystem);
    }

    #[test]
    fn links_between_layers_stay_in_the_archive() {
        let check = |path: &str, target: &str, expected: &str| {
            assert_eq!(relative_to(path, target), expected, "{path} -> {target}");
        };
        check("a/layer.tar", "../b/layer.tar", "b/layer.tar");
        check("layer.tar", "b/./layer.tar", "b/layer.tar");
        check("a/layer.tar", "../../b", "../b");
        check("a/layer.tar", "/b", "a/b");
    }
}
