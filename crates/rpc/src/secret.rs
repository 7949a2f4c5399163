//! The cluster secret, which authenticates one node to another.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

/// The shared secret with which the nodes of a cluster authenticate their RPC to each other. Clones share one value, so
/// a `reload` applies to all of them.
#[derive(Clone)]
pub struct ClusterSecret {
    path: PathBuf,
    value: Arc<RwLock<MetadataValue<Ascii>>>,
}

/// Why the secret with which nodes authenticate to each other could not be loaded from its file.
#[derive(Debug, Error)]
pub enum ClusterSecretError {
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

impl ClusterSecret {
    pub fn load(path: &Path) -> Result<ClusterSecret, ClusterSecretError> {
        Ok(ClusterSecret {
            path: path.to_path_buf(),
            value: Arc::new(RwLock::new(read(path)?)),
        })
    }

    /// Reads the file again, for all clones. On an error the old value stays.
    pub fn reload(&self) -> Result<(), ClusterSecretError> {
        let value = read(&self.path)?;
        *self.value.write().unwrap_or_else(PoisonError::into_inner) = value;
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn value(&self) -> MetadataValue<Ascii> {
        self.value.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Derives a secret for another purpose. Every node with this secret derives the same one, and the derived secret does
    /// not reveal this one.
    pub fn derive(&self, purpose: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(purpose.as_bytes());
        digest.update([0]);
        digest.update(self.value().as_bytes());
        digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    pub(crate) fn attach(&self, request: &mut Request<()>) {
        request.metadata_mut().insert(HEADER, self.value());
    }

    pub(crate) fn verify(&self, request: &Request<()>) -> Result<(), Status> {
        // Comparing digests, not the secrets themselves, makes the time of the comparison reveal nothing.
        let digest = |value: &MetadataValue<Ascii>| Sha256::digest(value.as_bytes());
        match request.metadata().get(HEADER) {
            Some(sent) if digest(sent) == digest(&self.value()) => Ok(()),
            Some(_) => Err(Status::unauthenticated("wrong cluster secret")),
            None => Err(Status::unauthenticated("the cluster secret is missing")),
        }
    }
}

fn read(path: &Path) -> Result<MetadataValue<Ascii>, ClusterSecretError> {
    let text = std::fs::read_to_string(path).map_err(|source| ClusterSecretError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    let secret = text.trim();
    let form = || ClusterSecretError::Form {
        path: path.to_path_buf(),
    };
    if secret.len() < 16 || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(form());
    }
    format!("Bearer {secret}").parse().map_err(|_| form())
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_applies_to_all_clones_and_a_bad_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "the-first-secret-of-all\n").unwrap();
        let server = ClusterSecret::load(&path).unwrap();
        let client = server.clone();
        let accepts = |secret: &ClusterSecret| {
            let mut request = Request::new(());
            secret.attach(&mut request);
            server.verify(&request).is_ok()
        };
        let before = ClusterSecret::load(&path).unwrap();
        std::fs::write(&path, "the-second-secret-of-all\n").unwrap();
        server.reload().unwrap();
        assert!(accepts(&client) && !accepts(&before));

        std::fs::write(&path, "short").unwrap();
        let wrong = server.reload().unwrap_err().to_string();
        assert!(wrong.contains(path.to_str().unwrap()), "{wrong}");
        assert!(accepts(&client) && !accepts(&before));
    }
}
