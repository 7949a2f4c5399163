//! The cluster secret: what one node shows another so that strangers on the network are turned away.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};
use thiserror::Error;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

/// Clones share one value: after `reload` all of them show and demand the new one.
#[derive(Clone)]
pub struct Secret {
    path: PathBuf,
    value: Arc<RwLock<MetadataValue<Ascii>>>,
}

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
        Ok(Secret {
            path: path.to_path_buf(),
            value: Arc::new(RwLock::new(read(path)?)),
        })
    }

    /// Reads the file again, for all clones. On an error the old value stays.
    pub fn reload(&self) -> Result<(), SecretError> {
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

    /// A secret for another purpose that whoever knows this one can make too, and that tells nothing of this one.
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

    pub(crate) fn show(&self, request: &mut Request<()>) {
        request.metadata_mut().insert(HEADER, self.value());
    }

    pub(crate) fn demand(&self, request: &Request<()>) -> Result<(), Status> {
        // Digests are compared, not the words, so that the time it takes tells nothing of the secret.
        let digest = |value: &MetadataValue<Ascii>| Sha256::digest(value.as_bytes());
        match request.metadata().get(HEADER) {
            Some(shown) if digest(shown) == digest(&self.value()) => Ok(()),
            Some(_) => Err(Status::unauthenticated("this is not the cluster's secret")),
            None => Err(Status::unauthenticated("the cluster's secret is missing")),
        }
    }
}

fn read(path: &Path) -> Result<MetadataValue<Ascii>, SecretError> {
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
    format!("Bearer {word}").parse().map_err(|_| form())
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_reaches_every_clone_and_a_bad_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "the-first-secret-of-all\n").unwrap();
        let server = Secret::load(&path).unwrap();
        let client = server.clone();
        let accepts = |secret: &Secret| {
            let mut request = Request::new(());
            secret.show(&mut request);
            server.demand(&request).is_ok()
        };
        let before = Secret::load(&path).unwrap();
        std::fs::write(&path, "the-second-secret-of-all\n").unwrap();
        server.reload().unwrap();
        assert!(accepts(&client) && !accepts(&before));

        std::fs::write(&path, "short").unwrap();
        let wrong = server.reload().unwrap_err().to_string();
        assert!(wrong.contains(path.to_str().unwrap()), "{wrong}");
        assert!(accepts(&client) && !accepts(&before));
    }
}
