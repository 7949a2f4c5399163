//! The cluster secret: what one node shows another so that strangers on the network are turned away.

use std::fmt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

#[derive(Clone)]
pub struct Secret(MetadataValue<Ascii>);

#[derive(Debug, Error)]
pub enum SecretError {
    #[error("could not read the cluster secret in {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the cluster secret in {path} must be one line of at least 16 printable ASCII characters")]
    Form { path: PathBuf },
}

const HEADER: &str = "authorization";

impl Secret {
    pub fn load(path: &Path) -> Result<Secret, SecretError> {
        let text = std::fs::read_to_string(path).map_err(|source| SecretError::Read {
            path: path.to_path_buf(),
            source,
        })?;
        let word = text.trim();
        let form = || SecretError::Form {
            path: path.to_path_buf(),
        };
        if word.len() < 16 || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(form());
        }
        format!("Bearer {word}").parse().map(Secret).map_err(|_| form())
    }

    /// A secret for another purpose that whoever knows this one can make too, and that tells nothing of this one.
    pub fn derive(&self, purpose: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(purpose.as_bytes());
        digest.update([0]);
        digest.update(self.0.as_bytes());
        digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    pub(crate) fn show(&self, request: &mut Request<()>) {
        request.metadata_mut().insert(HEADER, self.0.clone());
    }

    pub(crate) fn demand(&self, request: &Request<()>) -> Result<(), Status> {
        // Digests are compared, not the words, so that the time it takes tells nothing of the secret.
        let digest = |value: &MetadataValue<Ascii>| Sha256::digest(value.as_bytes());
        match request.metadata().get(HEADER) {
            Some(shown) if digest(shown) == digest(&self.0) => Ok(()),
            Some(_) => Err(Status::unauthenticated("this is not the cluster's secret")),
            None => Err(Status::unauthenticated("the cluster's secret is missing")),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
