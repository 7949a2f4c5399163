//! Writes images as OCI image layouts and as archives of `docker save`.

use std::io::Write;
use std::path::Path;

use model::BlobHash;

use crate::archive_builder::{TestMember, archive, file, folder};

/// The files of an image that a test makes, by their paths. A test changes some of them before it writes the image.
#[derive(Clone, Default)]
pub(crate) struct TestImage {
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

/// A layer of an image that a test makes: its file, and its uncompressed content.
#[derive(Clone)]
pub(crate) struct TestLayer {
    pub(crate) file: Vec<u8>,
    pub(crate) content: Vec<u8>,
    pub(crate) media_type: &'static str,
}

pub(crate) const MACHINE: &str = match cfg!(target_arch = "aarch64") {
    true => "arm64",
    false => "amd64",
};

pub(crate) fn layer(members: &[TestMember]) -> TestLayer {
    let content = archive(members);
    TestLayer {
        file: content.clone(),
        content,
        media_type: "application/vnd.oci.image.layer.v1.tar",
    }
}

pub(crate) fn gzip_layer(members: &[TestMember]) -> TestLayer {
    let content = archive(members);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&content).unwrap();
    TestLayer {
        file: encoder.finish().unwrap(),
        content,
        media_type: "application/vnd.oci.image.layer.v1.tar+gzip",
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", BlobHash::of(bytes))
}

impl TestImage {
    /// Adds a blob, and returns its descriptor.
    pub(crate) fn add_blob(&mut self, media_type: &str, bytes: &[u8]) -> serde_json::Value {
        let path = format!("blobs/sha256/{}", BlobHash::of(bytes));
        self.files.push((path, bytes.to_vec()));
        serde_json::json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()})
    }

    /// Adds an image for a platform, and returns the descriptor of its manifest.
    pub(crate) fn add_manifest(&mut self, architecture: &str, layers: &[TestLayer]) -> serde_json::Value {
        let config = config(architecture, layers);
        let config = self.add_blob("application/vnd.oci.image.config.v1+json", &config);
        let layers: Vec<_> = layers
            .iter()
            .map(|layer| self.add_blob(layer.media_type, &layer.file))
            .collect();
        let manifest = serde_json::json!({"schemaVersion": 2, "config": config, "layers": layers});
        self.add_blob(
            "application/vnd.oci.image.manifest.v1+json",
            manifest.to_string().as_bytes(),
        )
    }

    pub(crate) fn set_index(&mut self, manifests: &[serde_json::Value]) {
        let index = serde_json::json!({"schemaVersion": 2, "manifests": manifests});
        self.set("oci-layout", br#"{"imageLayoutVersion": "1.0.0"}"#);
        self.set("index.json", index.to_string().as_bytes());
    }

    /// An OCI image layout with one image for this machine.
    pub(crate) fn layout(layers: &[TestLayer]) -> TestImage {
        let mut image = TestImage::default();
        let manifest = image.add_manifest(MACHINE, layers);
        image.set_index(&[manifest]);
        image
    }

    /// What `docker save` wrote before it wrote image layouts.
    pub(crate) fn docker(layers: &[TestLayer]) -> TestImage {
        let mut image = TestImage::default();
        let config = config(MACHINE, layers);
        let config_name = format!("{}.json", BlobHash::of(&config));
        image.set(&config_name, &config);
        let mut names = Vec::new();
        for (number, layer) in layers.iter().enumerate() {
            let name = format!("{}/layer.tar", BlobHash::of(number.to_string()));
            image.set(&name, &layer.file);
            names.push(name);
        }
        let manifest = serde_json::json!([{"Config": config_name, "RepoTags": ["x:1"], "Layers": names}]);
        image.set("manifest.json", manifest.to_string().as_bytes());
        image
    }

    /// Replaces the content of a file.
    pub(crate) fn set(&mut self, path: &str, bytes: &[u8]) {
        self.files.retain(|(existing, _)| existing != path);
        self.files.push((path.to_string(), bytes.to_vec()));
    }

    /// Changes one byte of the first file whose content has this beginning.
    pub(crate) fn damage(&mut self, beginning: &[u8]) {
        let found = self
            .files
            .iter_mut()
            .find(|(_, bytes)| bytes.starts_with(beginning));
        let (_, bytes) = found.expect("a file with that content");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    }

    pub(crate) fn write_folder(&self, to: &Path) {
        for (path, bytes) in &self.files {
            let path = to.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }

    pub(crate) fn archive(&self) -> Vec<u8> {
        let mut members = vec![folder("blobs/")];
        members.extend(self.files.iter().map(|(path, bytes)| file(path, bytes)));
        archive(&members)
    }
}

fn config(architecture: &str, layers: &[TestLayer]) -> Vec<u8> {
    let diff_ids: Vec<String> = layers.iter().map(|layer| digest(&layer.content)).collect();
    let config = serde_json::json!({
        "architecture": architecture, "os": "linux",
        "config": {"Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    config.to_string().into_bytes()
}
