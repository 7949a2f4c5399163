//! Images of containers: OCI image layouts and archives of `docker save`. Finds the image for this machine, verifies every
//! digest, and unpacks the layers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use model::{BlobHash, BlobHasher};
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::compression::{Compression, MAGIC_LENGTH, UnsupportedCompression};
use super::image_files::{DOCKER_MANIFEST, ImageFiles, MAX_DOCUMENT, OCI_INDEX, OCI_LAYOUT};
use super::image_json::{
    DockerImage, ImageConfig, ImageDescriptor, ImageDigest, ImageIndex, ImageManifest, ImagePlatform,
    is_index, is_layer, is_manifest,
};
use crate::InterruptFlag;
use crate::unpack::{ArchiveKind, UnpackError, Unpacker};

/// Why an image of a container could not become a root.
#[derive(Debug, Error)]
pub enum ImageError {
    #[error(
        "the image has no {OCI_LAYOUT} with {OCI_INDEX}, and no {DOCKER_MANIFEST}; it is neither an OCI image layout nor an archive of `docker save`"
    )]
    NoManifest,
    #[error("the image's file {path} cannot be read")]
    ReadFile { path: String, source: io::Error },
    #[error("the image's file {path} is larger than {} bytes", MAX_DOCUMENT)]
    DocumentTooLarge { path: String },
    #[error("the image's file {path} is not as the format requires")]
    InvalidDocument { path: String, source: serde_json::Error },
    #[error(
        "the image's file {path} has {actual} bytes, its descriptor says {expected}; the image is damaged or incomplete"
    )]
    Size {
        path: String,
        expected: u64,
        actual: u64,
    },
    #[error(
        "the image's file {path} has the digest sha256:{actual}, and should have sha256:{expected}; the image is damaged"
    )]
    Digest {
        path: String,
        expected: BlobHash,
        actual: BlobHash,
    },
    #[error(
        "the layer {path} unpacks to content with the digest sha256:{actual}, and the image's configuration says {expected} (rootfs.diff_ids); the image is damaged"
    )]
    DiffId {
        path: String,
        expected: String,
        actual: BlobHash,
    },
    #[error("the image has no version for {wanted}, the platform of this machine; it has {found}")]
    NoPlatform { wanted: String, found: String },
    #[error("there are several images for this machine: {names}; save one of them alone")]
    SeveralImages { names: String },
    #[error("the image has {layers} layers and {diff_ids} digests of layers (rootfs.diff_ids)")]
    LayerCount { layers: usize, diff_ids: usize },
    #[error("the layer {path} has the media type {media_type}, which is not supported")]
    MediaType { path: String, media_type: String },
    #[error("the layer {path} is compressed with {compression}, which is not supported")]
    Compression { path: String, compression: &'static str },
    #[error(
        "the image's index has more than {} entries, or is nested too deeply",
        MAX_DESCRIPTORS
    )]
    IndexTooLarge,
    #[error("the layer {path} cannot be unpacked")]
    Layer { path: String, source: Box<UnpackError> },
}

/// The layers of one image, from the lowest to the highest.
struct ImageLayers(Vec<ImageLayer>);

/// A layer of an image that becomes a root.
struct ImageLayer {
    path: String,
    /// The digest and size of the file itself, if the image names them.
    file: Option<(BlobHash, u64)>,
    /// The digest of the uncompressed layer.
    diff_id: ImageDigest,
}

/// An image in an index that is for this machine. Its documents are read again: there may be many candidates, and they are large.
struct ImageCandidate {
    manifest: BlobReference,
    name: String,
}

/// A blob of an image, with the size that it must have.
#[derive(Clone, Copy)]
struct BlobReference {
    digest: ImageDigest,
    size: u64,
}

const MAX_DESCRIPTORS: usize = 1000;
const MAX_INDEX_DEPTH: u32 = 4;
/// Of a name or a platform in a message.
const MAX_SHOWN: usize = 200;
const REFERENCE: &str = "org.opencontainers.image.ref.name";

/// Verifies the files of the image, and unpacks its layers.
pub(super) fn unpack_image(
    files: &ImageFiles,
    unpacker: &mut Unpacker<'_>,
    interrupt: &InterruptFlag,
) -> Result<(), ImageError> {
    let ImageLayers(layers) = find_layers(files, interrupt)?;
    // Before anything is unpacked, so that damage is reported as what it is.
    for layer in &layers {
        if let Some((expected, size)) = layer.file {
            verify_file(files, &layer.path, expected, size, interrupt)?;
        }
    }
    layers
        .iter()
        .try_for_each(|layer| unpack_layer(files, layer, unpacker))
}

fn find_layers(files: &ImageFiles, interrupt: &InterruptFlag) -> Result<ImageLayers, ImageError> {
    if files.has(OCI_LAYOUT) && files.has(OCI_INDEX) {
        layers_of_layout(files, interrupt)
    } else if files.has(DOCKER_MANIFEST) {
        layers_of_docker_archive(files)
    } else {
        Err(ImageError::NoManifest)
    }
}

fn layers_of_layout(files: &ImageFiles, interrupt: &InterruptFlag) -> Result<ImageLayers, ImageError> {
    let index: ImageIndex = parse(OCI_INDEX, &read_document(files, OCI_INDEX)?)?;
    let mut search = ImageSearch {
        files,
        interrupt,
        wanted: ImagePlatform::of_this_machine(),
        visited: 0,
        candidates: BTreeMap::new(),
        others: BTreeSet::new(),
    };
    search.add_index(&index, None, MAX_INDEX_DEPTH)?;
    let reference = search.only_candidate()?.manifest;
    let manifest: ImageManifest = parse(&reference.digest.blob_path(), &read_blob(files, reference)?)?;
    let config = BlobReference::from(&manifest.config);
    let config: ImageConfig = parse(&config.digest.blob_path(), &read_blob(files, config)?)?;
    let diff_ids = config.rootfs.map(|rootfs| rootfs.diff_ids).unwrap_or_default();
    check_count(manifest.layers.len(), diff_ids.len())?;
    let layers = manifest.layers.into_iter().zip(diff_ids).map(|(layer, diff_id)| {
        let path = layer.digest.blob_path();
        match is_layer(&layer.media_type) {
            true => Ok(ImageLayer {
                path,
                file: Some((layer.digest.0, layer.size)),
                diff_id,
            }),
            false => Err(ImageError::MediaType {
                path,
                media_type: layer.media_type,
            }),
        }
    });
    Ok(ImageLayers(layers.collect::<Result<_, _>>()?))
}

fn layers_of_docker_archive(files: &ImageFiles) -> Result<ImageLayers, ImageError> {
    let images: Vec<DockerImage> = parse(DOCKER_MANIFEST, &read_document(files, DOCKER_MANIFEST)?)?;
    let name = |image: &DockerImage| match image.repo_tags.iter().flatten().next() {
        Some(tag) => tag.clone(),
        None => image.config.clone(),
    };
    let image = match images.as_slice() {
        [image] => image,
        [] => return Err(ImageError::NoManifest),
        several => {
            let names: Vec<String> = several.iter().map(name).collect();
            return Err(ImageError::SeveralImages {
                names: names.join(", "),
            });
        }
    };
    let bytes = read_document(files, &image.config)?;
    if let Some(expected) = digest_in_name(&image.config) {
        check_digest(&image.config, expected, BlobHash::of(&bytes))?;
    }
    let config: ImageConfig = parse(&image.config, &bytes)?;
    let wanted = ImagePlatform::of_this_machine();
    if !is_for(&config.platform, &wanted) {
        return Err(ImageError::NoPlatform {
            wanted: wanted.to_string(),
            found: config.platform.to_string(),
        });
    }
    let diff_ids = config.rootfs.map(|rootfs| rootfs.diff_ids).unwrap_or_default();
    check_count(image.layers.len(), diff_ids.len())?;
    let layers = image.layers.iter().zip(diff_ids).map(|(path, diff_id)| {
        let size = files.open(path).map_err(read_failed(path))?.size();
        // A layer may be named by the digest of its uncompressed content, which is verified in any case.
        let file = digest_in_name(path).filter(|digest| *digest != diff_id.0 && path.starts_with("blobs/"));
        Ok(ImageLayer {
            path: path.clone(),
            file: file.map(|digest| (digest, size)),
            diff_id,
        })
    });
    Ok(ImageLayers(layers.collect::<Result<_, _>>()?))
}

/// Collects the images for this machine in an index and the indexes that it names.
struct ImageSearch<'a> {
    files: &'a ImageFiles,
    interrupt: &'a InterruptFlag,
    wanted: ImagePlatform,
    visited: usize,
    candidates: BTreeMap<ImageDigest, ImageCandidate>,
    /// Platforms of the other images.
    others: BTreeSet<String>,
}

impl ImageSearch<'_> {
    fn add_index(
        &mut self,
        index: &ImageIndex,
        reference: Option<&str>,
        depth: u32,
    ) -> Result<(), ImageError> {
        for descriptor in &index.manifests {
            self.visited += 1;
            if self.visited > MAX_DESCRIPTORS || depth == 0 {
                return Err(ImageError::IndexTooLarge);
            }
            if let Some(platform) = &descriptor.platform
                && !is_for(platform, &self.wanted)
            {
                self.others.insert(shown(platform));
                continue;
            }
            let own_reference = descriptor.annotations.get(REFERENCE).map(String::as_str);
            let reference = own_reference.or(reference);
            let path = descriptor.digest.blob_path();
            self.interrupt.check().map_err(read_failed(&path))?;
            let bytes = read_blob(self.files, descriptor.into())?;
            if is_index(&descriptor.media_type) {
                self.add_index(&parse(&path, &bytes)?, reference, depth - 1)?;
            } else if is_manifest(&descriptor.media_type) {
                self.add_manifest(descriptor, &parse(&path, &bytes)?, reference)?;
            }
        }
        Ok(())
    }

    fn add_manifest(
        &mut self,
        descriptor: &ImageDescriptor,
        manifest: &ImageManifest,
        reference: Option<&str>,
    ) -> Result<(), ImageError> {
        let bytes = read_blob(self.files, (&manifest.config).into())?;
        let config: ImageConfig = parse(&manifest.config.digest.blob_path(), &bytes)?;
        if config.rootfs.is_none() || !is_for(&config.platform, &self.wanted) {
            self.others.insert(shown(&config.platform));
            return Ok(());
        }
        let candidate = ImageCandidate {
            manifest: descriptor.into(),
            name: reference.map_or(descriptor.digest.to_string(), |name| shown(&name)),
        };
        self.candidates.insert(descriptor.digest, candidate);
        Ok(())
    }

    fn only_candidate(self) -> Result<ImageCandidate, ImageError> {
        let mut candidates: Vec<ImageCandidate> = self.candidates.into_values().collect();
        match (candidates.pop(), candidates.is_empty()) {
            (Some(candidate), true) => Ok(candidate),
            (Some(last), false) => {
                let names: Vec<&str> = candidates
                    .iter()
                    .chain([&last])
                    .map(|image| image.name.as_str())
                    .collect();
                Err(ImageError::SeveralImages {
                    names: names.join(", "),
                })
            }
            (None, _) => {
                let others: Vec<String> = self.others.into_iter().collect();
                Err(ImageError::NoPlatform {
                    wanted: self.wanted.to_string(),
                    found: match others.is_empty() {
                        true => "no image at all".to_string(),
                        false => others.join(", "),
                    },
                })
            }
        }
    }
}

fn unpack_layer(
    files: &ImageFiles,
    layer: &ImageLayer,
    unpacker: &mut Unpacker<'_>,
) -> Result<(), ImageError> {
    let path = &layer.path;
    let mut magic = Vec::new();
    let file = files.open(path).map_err(read_failed(path))?;
    file.take(MAGIC_LENGTH as u64)
        .read_to_end(&mut magic)
        .map_err(read_failed(path))?;
    let compression =
        Compression::of(&magic).map_err(|UnsupportedCompression(compression)| ImageError::Compression {
            path: path.clone(),
            compression,
        })?;
    let file = files.open(path).map_err(read_failed(path))?;
    let mut content = HashingReader {
        inner: compression.decoder(file),
        hasher: BlobHasher::default(),
    };
    unpacker
        .unpack(&mut content, ArchiveKind::Layer)
        .map_err(|source| ImageError::Layer {
            path: path.clone(),
            source: Box::new(source),
        })?;
    let actual = content.hasher.finish();
    match actual == layer.diff_id.0 {
        true => Ok(()),
        false => Err(ImageError::DiffId {
            path: path.clone(),
            expected: layer.diff_id.to_string(),
            actual,
        }),
    }
}

/// Hashes the uncompressed bytes of a layer while they are unpacked.
struct HashingReader<R> {
    inner: R,
    hasher: BlobHasher,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        Ok(length)
    }
}

fn verify_file(
    files: &ImageFiles,
    path: &str,
    expected: BlobHash,
    size: u64,
    interrupt: &InterruptFlag,
) -> Result<(), ImageError> {
    let file = files.open(path).map_err(read_failed(path))?;
    check_size(path, size, file.size())?;
    let mut hasher = BlobHasher::default();
    let mut file = io::BufReader::with_capacity(256 << 10, file);
    loop {
        interrupt.check().map_err(|_| ImageError::Layer {
            path: path.to_string(),
            source: Box::new(UnpackError::Interrupted),
        })?;
        let piece = io::BufRead::fill_buf(&mut file).map_err(read_failed(path))?;
        let length = piece.len();
        if length == 0 {
            return check_digest(path, expected, hasher.finish());
        }
        hasher.update(piece);
        io::BufRead::consume(&mut file, length);
    }
}

fn read_blob(
    files: &ImageFiles,
    BlobReference { digest, size }: BlobReference,
) -> Result<Vec<u8>, ImageError> {
    let path = digest.blob_path();
    let bytes = read_document(files, &path)?;
    check_size(&path, size, bytes.len() as u64)?;
    check_digest(&path, digest.0, BlobHash::of(&bytes))?;
    Ok(bytes)
}

impl From<&ImageDescriptor> for BlobReference {
    fn from(descriptor: &ImageDescriptor) -> BlobReference {
        BlobReference {
            digest: descriptor.digest,
            size: descriptor.size,
        }
    }
}

/// The text for a message, which must be short.
fn shown(text: &dyn std::fmt::Display) -> String {
    text.to_string().chars().take(MAX_SHOWN).collect()
}

fn read_document(files: &ImageFiles, path: &str) -> Result<Vec<u8>, ImageError> {
    let file = files.open(path).map_err(read_failed(path))?;
    if file.size() > MAX_DOCUMENT {
        return Err(ImageError::DocumentTooLarge {
            path: path.to_string(),
        });
    }
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT)
        .read_to_end(&mut bytes)
        .map_err(read_failed(path))?;
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes).map_err(|source| ImageError::InvalidDocument {
        path: path.to_string(),
        source,
    })
}

fn read_failed(path: &str) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.to_string();
    move |source| ImageError::ReadFile { path, source }
}

fn check_size(path: &str, expected: u64, actual: u64) -> Result<(), ImageError> {
    match expected == actual {
        true => Ok(()),
        false => Err(ImageError::Size {
            path: path.to_string(),
            expected,
            actual,
        }),
    }
}

fn check_digest(path: &str, expected: BlobHash, actual: BlobHash) -> Result<(), ImageError> {
    match expected == actual {
        true => Ok(()),
        false => Err(ImageError::Digest {
            path: path.to_string(),
            expected,
            actual,
        }),
    }
}

fn check_count(layers: usize, diff_ids: usize) -> Result<(), ImageError> {
    match layers == diff_ids {
        true => Ok(()),
        false => Err(ImageError::LayerCount { layers, diff_ids }),
    }
}

/// The digest in the name of a file of `docker save`, such as `HEX.json`, `sha256:HEX` or `blobs/sha256/HEX`.
fn digest_in_name(path: &str) -> Option<BlobHash> {
    let name = path.rsplit('/').next()?;
    let name = name.strip_prefix("sha256:").unwrap_or(name);
    name.split('.').next()?.parse().ok()
}

/// An image that names no platform is for Linux on any machine.
fn is_for(platform: &ImagePlatform, wanted: &ImagePlatform) -> bool {
    let fits = |found: &str, wanted: &str| found.is_empty() || found == wanted;
    fits(&platform.os, &wanted.os) && fits(&platform.architecture, &wanted.architecture)
}
