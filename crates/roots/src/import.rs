//! Makes a root of an archive: a tar of a root file system, an OCI image layout, or what `docker save` writes.

mod compression;
mod image;
mod image_files;
mod image_json;

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use model::{NameError, RootName};
use thiserror::Error;

use crate::InterruptFlag;
use crate::listing::write_listing;
use crate::store::{NewRoot, RootRecord, RootStore, RootStoreError, WorkFolder};
use crate::unpack::{
    ArchiveKind, DroppedItems, LimitedWriter, MemberProblem, SizeLimit, UnpackError, UnpackLimits, Unpacker,
};
use compression::{Compression, MAGIC_LENGTH, UnsupportedCompression};
pub use image::ImageError;
use image_files::{ArchiveContent, ImageFiles, content_of_archive};

/// What to import as a root, and within which bounds.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    pub name: RootName,
    /// A tar archive, an archive of an image, or the folder of an OCI image layout.
    pub source: PathBuf,
    pub limits: UnpackLimits,
    pub interrupt: InterruptFlag,
}

/// Why an archive could not be imported. Nothing of it is left in the folder of the roots.
#[derive(Debug, Error)]
pub enum ImportError {
    #[error("could not read {path:?}")]
    Source { path: PathBuf, source: io::Error },
    #[error(
        "{path:?} is a folder without an image (oci-layout and index.json); for a root file system, import a tar of it: tar -C {path:?} -cf root.tar ."
    )]
    PlainFolder { path: PathBuf },
    #[error("{path:?} is neither a file nor a folder; write the archive to a file first")]
    NotAFile { path: PathBuf },
    #[error("{path:?} is compressed with {compression}; supported are gzip, zstd and xz")]
    Compression {
        path: PathBuf,
        compression: &'static str,
    },
    #[error("{path:?} cannot be imported")]
    Archive { path: PathBuf, source: Box<UnpackError> },
    #[error("the image {path:?} cannot be imported")]
    Image { path: PathBuf, source: Box<ImageError> },
    #[error("{path:?} contains no files")]
    Empty { path: PathBuf },
    #[error("could not uncompress the image {path:?}")]
    Uncompress {
        path: PathBuf,
        source: Box<MemberProblem>,
    },
    #[error("could not write {path:?}")]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] RootStoreError),
    #[error("interrupted; nothing was imported")]
    Interrupted,
}

/// Makes a root, and replaces one of the same name. Tasks that run in the old one keep its files.
pub fn import(store: &RootStore, options: &ImportOptions) -> Result<NewRoot, ImportError> {
    let path = &options.source;
    // Before anything is created.
    let metadata = std::fs::metadata(path).map_err(source_error(path))?;
    if !metadata.is_dir() && !metadata.is_file() {
        return Err(ImportError::NotAFile { path: path.clone() });
    }
    let work = WorkFolder::begin(store, &options.name, &options.interrupt)?;
    let tree = work.tree();
    let mut unpacker =
        Unpacker::new(&tree, options.limits, &options.interrupt, &|_| false).map_err(write_error(&tree))?;
    let result = match metadata.is_dir() {
        true => import_folder(options, &mut unpacker),
        false => import_file(options, &work, &mut unpacker),
    };
    if options.interrupt.is_interrupted() {
        return Err(ImportError::Interrupted);
    }
    result?;
    let Some(dropped) = unpacker.finish() else {
        return Err(ImportError::Empty { path: path.clone() });
    };
    let name = path.file_name().unwrap_or(path.as_os_str());
    publish(
        work,
        &name.to_string_lossy(),
        dropped,
        options.limits,
        &options.interrupt,
    )
    .map_err(|error| match error {
        PublishError::Write { path, source } => ImportError::Write { path, source },
        PublishError::Store(error) => ImportError::Store(error),
        PublishError::Interrupted => ImportError::Interrupted,
    })
}

/// The name of a root for an archive: that of the file, without its extensions.
pub fn name_for_archive(path: &Path) -> Result<RootName, NameError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = [".gz", ".zst", ".xz"]
        .into_iter()
        .find_map(|end| name.strip_suffix(end));
    let stem = stem.unwrap_or(&name);
    let stem = [".tar", ".tgz", ".tzst", ".txz", ".oci"]
        .into_iter()
        .find_map(|end| stem.strip_suffix(end))
        .unwrap_or(stem);
    RootName::new(stem)
}

/// Why a root whose files are complete could not be added to the folder of the roots.
#[derive(Debug)]
pub(crate) enum PublishError {
    Write { path: PathBuf, source: io::Error },
    Store(RootStoreError),
    Interrupted,
}

/// Lists the files of the root, and makes it visible.
pub(crate) fn publish(
    work: WorkFolder,
    source: &str,
    dropped: DroppedItems,
    limits: UnpackLimits,
    interrupt: &InterruptFlag,
) -> Result<NewRoot, PublishError> {
    let path = work.listing();
    let list = || -> io::Result<_> {
        let file = File::create_new(&path)?;
        // With long names it can become as large as the files themselves.
        let limit = SizeLimit::new(&file, limits)?;
        let mut file = BufWriter::new(LimitedWriter::new(file, limit));
        let summary = write_listing(&work.tree(), &mut file, interrupt)?;
        file.flush()?;
        Ok(summary)
    };
    let summary = list().map_err(|source| match interrupt.is_interrupted() {
        true => PublishError::Interrupted,
        false => PublishError::Write { path, source },
    })?;
    let totals = (summary.entries, summary.size);
    let record = RootRecord::new(summary.sha256, totals, source.to_string(), dropped);
    work.publish(record)
        .map_err(PublishError::Store)?
        .ok_or(PublishError::Interrupted)
}

fn import_folder(options: &ImportOptions, unpacker: &mut Unpacker<'_>) -> Result<(), ImportError> {
    let path = &options.source;
    let files = ImageFiles::folder(path).map_err(source_error(path))?;
    image::unpack_image(&files, unpacker, &options.interrupt).map_err(|error| match error {
        ImageError::NoManifest => ImportError::PlainFolder { path: path.clone() },
        source => image_error(path, source),
    })
}

fn import_file(
    options: &ImportOptions,
    work: &WorkFolder,
    unpacker: &mut Unpacker<'_>,
) -> Result<(), ImportError> {
    let path = &options.source;
    let mut file = File::open(path).map_err(source_error(path))?;
    let mut magic = Vec::new();
    (&file)
        .take(MAGIC_LENGTH as u64)
        .read_to_end(&mut magic)
        .map_err(source_error(path))?;
    let compression =
        Compression::of(&magic).map_err(|UnsupportedCompression(compression)| ImportError::Compression {
            path: path.clone(),
            compression,
        })?;
    let mut rewind = || -> Result<File, ImportError> {
        file.seek(SeekFrom::Start(0)).map_err(source_error(path))?;
        file.try_clone().map_err(source_error(path))
    };
    // An error comes up again below, and is then reported with the name of the member.
    let content = content_of_archive(
        compression.decoder(rewind()?),
        options.limits.max_size,
        &options.interrupt,
    )
    .unwrap_or(ArchiveContent::RootFileSystem);
    match (content, compression) {
        (ArchiveContent::RootFileSystem, _) => unpacker
            .unpack(compression.decoder(rewind()?), ArchiveKind::RootFileSystem)
            .map_err(|source| ImportError::Archive {
                path: path.clone(),
                source: Box::new(source),
            }),
        (ArchiveContent::Image, Compression::None) => import_image(options, rewind()?, unpacker),
        (ArchiveContent::Image, _) => {
            let unpacked = decompress(compression.decoder(rewind()?), options, work)?;
            import_image(options, unpacked, unpacker)
        }
    }
}

fn import_image(options: &ImportOptions, file: File, unpacker: &mut Unpacker<'_>) -> Result<(), ImportError> {
    let path = &options.source;
    let files = ImageFiles::archive(file, &options.interrupt).map_err(source_error(path))?;
    image::unpack_image(&files, unpacker, &options.interrupt).map_err(|source| image_error(path, source))
}

/// Writes the uncompressed archive of an image to a temporary file, to read its members in any order.
fn decompress(mut input: impl Read, options: &ImportOptions, work: &WorkFolder) -> Result<File, ImportError> {
    let path = work.scratch().join("image.tar");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(write_error(&path))?;
    let mut written = SizeLimit::new(&file, options.limits).map_err(write_error(&path))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        options.interrupt.check().map_err(|_| ImportError::Interrupted)?;
        let length = input.read(&mut buffer).map_err(source_error(&options.source))?;
        if length == 0 {
            break;
        }
        written
            .take(length as u64)
            .map_err(|source| ImportError::Uncompress {
                path: options.source.clone(),
                source: Box::new(source),
            })?;
        file.write_all(&buffer[..length]).map_err(write_error(&path))?;
    }
    file.seek(SeekFrom::Start(0)).map_err(write_error(&path))?;
    Ok(file)
}

fn image_error(path: &Path, source: ImageError) -> ImportError {
    ImportError::Image {
        path: path.to_path_buf(),
        source: Box::new(source),
    }
}

fn source_error(path: &Path) -> impl FnOnce(io::Error) -> ImportError {
    let path = path.to_path_buf();
    move |source| ImportError::Source { path, source }
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> ImportError {
    let path = path.to_path_buf();
    move |source| ImportError::Write { path, source }
}
