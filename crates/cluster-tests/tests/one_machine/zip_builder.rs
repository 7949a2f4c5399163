//! Builds zip archives, valid and invalid ones.

use std::io::{Cursor, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A zip archive under construction, valid or invalid, for a test to send to a gateway.
pub(crate) struct ZipBuilder(ZipWriter<Cursor<Vec<u8>>>);

impl ZipBuilder {
    pub(crate) fn new() -> ZipBuilder {
        ZipBuilder(ZipWriter::new(Cursor::new(Vec::new())))
    }

    pub(crate) fn file(mut self, name: &str, mode: u32, content: &[u8]) -> ZipBuilder {
        let options = SimpleFileOptions::default().unix_permissions(mode);
        self.0.start_file(name, options).expect("a new entry");
        self.0.write_all(content).expect("its content");
        self
    }

    pub(crate) fn folder(mut self, name: &str) -> ZipBuilder {
        let options = SimpleFileOptions::default();
        self.0.add_directory(name, options).expect("a folder");
        self
    }

    pub(crate) fn link(mut self, name: &str, target: &str) -> ZipBuilder {
        let options = SimpleFileOptions::default();
        self.0.add_symlink(name, target, options).expect("a link");
        self
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0.finish().expect("a zip").into_inner()
    }
}

/// Renames an entry in the finished archive, to a name that the writer would refuse. Both names have the same length.
pub(crate) fn rename(archive: &mut [u8], from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    for at in 0..=archive.len() - from.len() {
        if archive[at..].starts_with(from.as_bytes()) {
            archive[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    }
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The JSON form of a zip in `source` or `data`.
pub(crate) fn inline(archive: &[u8]) -> Value {
    json!({"zip": {"base64": base64(archive)}})
}
