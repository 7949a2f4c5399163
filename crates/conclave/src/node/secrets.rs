//! What keeps strangers out: read from files, never shown.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::listen::Guard;
use super::{Folder, Problems};
use crate::config::Config;

pub(crate) struct Secrets {
    pub(crate) cluster: Option<rpc::Secret>,
    pub(crate) tokens: Option<gateway::Tokens>,
}

impl Secrets {
    pub(crate) fn load(config: &Config) -> Result<Secrets> {
        let files = &config.secrets;
        let mut problems = Problems::default();
        let cluster = files.cluster_file.as_deref().map(rpc::Secret::load);
        let tokens = files.tokens_file.as_deref().map(gateway::Tokens::load);
        let secrets = Secrets {
            cluster: cluster.and_then(|read| problems.keep(read)),
            tokens: tokens.and_then(|read| problems.keep(read)),
        };
        problems.refuse()?;
        Ok(secrets)
    }

    /// With tokens, each user sees only their own tasks; a caller by RPC sees everybody's. So RPC asks for a secret
    /// then, on loopback too. Where none is configured, one is made in the data folder.
    pub(crate) fn guard_rpc(&mut self, folder: &Folder) -> Result<()> {
        if self.tokens.is_none() || self.cluster.is_some() {
            return Ok(());
        }
        let path = folder.cluster_secret();
        make_if_missing(&path).with_context(|| format!("could not make the secret {}", path.display()))?;
        self.cluster = Some(rpc::Secret::load(&path)?);
        tracing::info!(
            "tokens are on, so RPC asks for a secret: executors need a copy of {} (--cluster-file)",
            path.display()
        );
        Ok(())
    }

    /// For a gateway on its own: its tokens protect nothing if the judicators answer everybody.
    pub(crate) fn check_gateway(&self, config: &Config) -> Result<()> {
        ensure!(
            self.tokens.is_none() || self.cluster.is_some() || config.node.insecure,
            "this gateway asks for tokens, but shows the judicators no secret: then they answer everybody, and anyone who \
             reaches them sees all tasks; set secrets.cluster_file (--cluster-file) on every node, or allow it with \
             --insecure"
        );
        Ok(())
    }

    pub(super) fn rpc_guard(&self, config: &Config) -> Guard {
        guard(self.cluster.as_ref(), config)
    }

    pub(super) fn http_guard(&self, config: &Config) -> Guard {
        guard(self.tokens.as_ref(), config)
    }
}

/// Whole or not at all, and readable by the node's user alone.
fn make_if_missing(path: &Path) -> Result<()> {
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
        // Another process has made one meanwhile: that one counts.
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop).map_err(Into::into),
    }
}

fn guard<T>(secret: Option<&T>, config: &Config) -> Guard {
    match secret {
        Some(_) => Guard::Asked,
        None if config.node.insecure => Guard::OpenOnPurpose,
        None => Guard::Open,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::{Flag, Layers};

    fn config(tokens: &Path, insecure: &str) -> Config {
        let set = |key: &str, text: &str| Flag {
            key: key.to_string(),
            flag: "--set",
            text: text.to_string(),
        };
        let flags = vec![
            set("secrets.tokens_file", tokens.to_str().unwrap()),
            set("node.insecure", insecure),
        ];
        Layers::gather(None, flags).unwrap().config().unwrap()
    }

    #[test]
    fn with_tokens_rpc_asks_for_a_secret() {
        let root = tempfile::tempdir().unwrap();
        let tokens = root.path().join("tokens");
        fs::write(&tokens, "0123456789abcdef ada\n").unwrap();
        let config = config(&tokens, "false");
        let folder = Folder::prepare(root.path()).unwrap();

        let mut secrets = Secrets::load(&config).unwrap();
        assert!(secrets.check_gateway(&config).is_err());
        secrets.guard_rpc(&folder).unwrap();
        let path = folder.cluster_secret();
        let made = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(secrets.cluster.is_some() && secrets.check_gateway(&config).is_ok());

        let mut again = Secrets::load(&config).unwrap();
        again.guard_rpc(&folder).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), made);
    }

    #[test]
    fn without_tokens_nothing_is_made() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::prepare(root.path()).unwrap();
        let config = config(Path::new("none"), "false");
        let mut secrets = Secrets::load(&config).unwrap();
        secrets.guard_rpc(&folder).unwrap();
        assert!(secrets.cluster.is_none() && !folder.cluster_secret().exists());
        assert!(secrets.check_gateway(&config).is_ok());
    }
}
