//! The cluster secret and the API tokens, which are read from files and never printed.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::listen::AccessControl;
use super::{NodeFolder, StartProblems};
use crate::config::Config;

/// The cluster secret and the API tokens of a node, if they are configured.
pub(crate) struct NodeSecrets {
    pub(crate) cluster: Option<rpc::ClusterSecret>,
    pub(crate) tokens: Option<gateway::Tokens>,
}

impl NodeSecrets {
    pub(crate) fn load(config: &Config) -> Result<NodeSecrets> {
        let files = &config.secrets;
        let mut problems = StartProblems::default();
        let cluster = files.cluster_file.as_deref().map(rpc::ClusterSecret::load);
        let tokens = files.tokens_file.as_deref().map(gateway::Tokens::load);
        let secrets = NodeSecrets {
            cluster: cluster.and_then(|read| problems.collect(read)),
            tokens: tokens.and_then(|read| problems.collect(read)),
        };
        problems.into_result()?;
        Ok(secrets)
    }

    /// With tokens, each user sees only their own tasks, but an RPC caller sees all tasks. So with tokens RPC requires a secret,
    /// even on loopback. If none is configured, one is generated in the data folder.
    pub(crate) fn require_rpc_secret(&mut self, folder: &NodeFolder) -> Result<()> {
        if self.tokens.is_none() || self.cluster.is_some() {
            return Ok(());
        }
        let path = folder.cluster_secret_path();
        generate_if_missing(&path)
            .with_context(|| format!("could not generate the secret {}", path.display()))?;
        self.cluster = Some(rpc::ClusterSecret::load(&path)?);
        tracing::info!(
            "tokens are configured, so RPC requires a secret: give executors a copy of {} (--cluster-file)",
            path.display()
        );
        Ok(())
    }

    /// Checks a gateway in a separate process: its tokens protect nothing if the judicators accept callers without a secret.
    pub(crate) fn check_gateway(&self, config: &Config) -> Result<()> {
        ensure!(
            self.tokens.is_none() || self.cluster.is_some() || config.node.insecure,
            "this gateway requires tokens, but its judicators require no secret, so anyone who can reach them can read \
             all tasks; set secrets.cluster_file (--cluster-file) on every node, or allow it with --insecure"
        );
        Ok(())
    }

    pub(super) fn rpc_access_control(&self, config: &Config) -> AccessControl {
        access_control(self.cluster.as_ref(), config)
    }

    pub(super) fn http_access_control(&self, config: &Config) -> AccessControl {
        access_control(self.tokens.as_ref(), config)
    }
}

/// Creates the file atomically, readable by the node's user only.
fn generate_if_missing(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut random = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(file, "{text}")?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        // Another process has created the file in the meantime; that secret is used.
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.map(drop).map_err(Into::into),
    }
}

fn access_control<T>(secret: Option<&T>, config: &Config) -> AccessControl {
    match secret {
        Some(_) => AccessControl::Authenticated,
        None if config.node.insecure => AccessControl::OpenAllowed,
        None => AccessControl::Open,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::{ConfigFlag, ConfigLayers};

    fn config(tokens: &Path, insecure: &str) -> Config {
        let set = |key: &str, text: &str| ConfigFlag {
            key: key.to_string(),
            flag: "--set",
            text: text.to_string(),
        };
        let flags = vec![
            set("secrets.tokens_file", tokens.to_str().unwrap()),
            set("node.insecure", insecure),
        ];
        ConfigLayers::gather(None, flags).unwrap().config().unwrap()
    }

    #[test]
    fn with_tokens_rpc_requires_a_secret() {
        let root = tempfile::tempdir().unwrap();
        let tokens = root.path().join("tokens");
        fs::write(&tokens, "0123456789abcdef ada\n").unwrap();
        let config = config(&tokens, "false");
        let folder = NodeFolder::prepare(root.path()).unwrap();

        let mut secrets = NodeSecrets::load(&config).unwrap();
        assert!(secrets.check_gateway(&config).is_err());
        secrets.require_rpc_secret(&folder).unwrap();
        let path = folder.cluster_secret_path();
        let generated = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(secrets.cluster.is_some() && secrets.check_gateway(&config).is_ok());

        let mut again = NodeSecrets::load(&config).unwrap();
        again.require_rpc_secret(&folder).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), generated);
    }

    #[test]
    fn without_tokens_no_secret_is_generated() {
        let root = tempfile::tempdir().unwrap();
        let folder = NodeFolder::prepare(root.path()).unwrap();
        let config = config(Path::new("none"), "false");
        let mut secrets = NodeSecrets::load(&config).unwrap();
        secrets.require_rpc_secret(&folder).unwrap();
        assert!(secrets.cluster.is_none() && !folder.cluster_secret_path().exists());
        assert!(secrets.check_gateway(&config).is_ok());
    }
}
