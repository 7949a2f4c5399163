//! The JSON documents of images: OCI image layouts, and archives of `docker save`.

use std::collections::BTreeMap;

use model::BlobHash;
use serde::{Deserialize, Deserializer};

/// `index.json` of an image layout, or an index of images for several platforms.
#[derive(Debug, Deserialize)]
pub(super) struct ImageIndex {
    pub(super) manifests: Vec<ImageDescriptor>,
}

/// A reference to a blob of an image, with its digest and size.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageDescriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: ImageDigest,
    pub(super) size: u64,
    pub(super) platform: Option<ImagePlatform>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

/// A digest in an image's documents: `sha256:` and 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImageDigest(pub(super) BlobHash);

/// The platform that an image is for.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct ImagePlatform {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
}

/// The manifest of one image: its configuration and its layers.
#[derive(Debug, Deserialize)]
pub(super) struct ImageManifest {
    pub(super) config: ImageDescriptor,
    #[serde(default)]
    pub(super) layers: Vec<ImageDescriptor>,
}

/// The part of an image's configuration that matters for its files.
#[derive(Debug, Deserialize)]
pub(super) struct ImageConfig {
    #[serde(flatten)]
    pub(super) platform: ImagePlatform,
    pub(super) rootfs: Option<ImageRootFs>,
}

/// The digests of an image's uncompressed layers.
#[derive(Debug, Deserialize)]
pub(super) struct ImageRootFs {
    #[serde(default)]
    pub(super) diff_ids: Vec<ImageDigest>,
}

/// An image in `manifest.json` of an archive of `docker save`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DockerImage {
    pub(super) config: String,
    #[serde(default)]
    pub(super) repo_tags: Option<Vec<String>>,
    pub(super) layers: Vec<String>,
}

impl ImageDigest {
    /// The path of the blob in an image layout.
    pub(super) fn blob_path(self) -> String {
        format!("blobs/sha256/{}", self.0)
    }
}

impl std::fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl<'de> Deserialize<'de> for ImageDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ImageDigest, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = text.strip_prefix("sha256:").and_then(|hash| hash.parse().ok());
        hash.map(ImageDigest).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "'{text}' is not a digest like sha256:HEX, the only supported kind"
            ))
        })
    }
}

impl ImagePlatform {
    /// The platform of this machine, as images name it.
    pub(super) fn of_this_machine() -> ImagePlatform {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            "loongarch64" => "loong64",
            other => other,
        };
        ImagePlatform {
            architecture: architecture.to_string(),
            os: "linux".to_string(),
        }
    }
}

impl std::fmt::Display for ImagePlatform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

pub(super) fn is_index(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.index.v1+json"
            | "application/vnd.docker.distribution.manifest.list.v2+json"
    )
}

pub(super) fn is_manifest(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.manifest.v1+json"
            | "application/vnd.docker.distribution.manifest.v2+json"
            | ""
    )
}

/// How a layer is compressed is seen by its first bytes.
pub(super) fn is_layer(media_type: &str) -> bool {
    let kind = media_type.split('+').next().unwrap_or_default();
    let is_encrypted = media_type.ends_with("+encrypted");
    let kinds = [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
    ];
    kinds.contains(&kind) && !is_encrypted
}
