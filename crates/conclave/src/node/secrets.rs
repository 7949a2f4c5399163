//! What keeps strangers out: read from files, never shown.

use anyhow::Result;

use super::listen::Guard;
use crate::config::Config;

pub(crate) struct Secrets {
    pub(crate) cluster: Option<rpc::Secret>,
    pub(crate) tokens: Option<gateway::Tokens>,
}

impl Secrets {
    pub(crate) fn load(config: &Config) -> Result<Secrets> {
        let files = &config.secrets;
        Ok(Secrets {
            cluster: files.cluster_file.as_deref().map(rpc::Secret::load).transpose()?,
            tokens: files
                .tokens_file
                .as_deref()
                .map(gateway::Tokens::load)
                .transpose()?,
        })
    }

    pub(super) fn rpc_guard(&self, config: &Config) -> Guard {
        guard(self.cluster.as_ref(), config)
    }

    pub(super) fn http_guard(&self, config: &Config) -> Guard {
        guard(self.tokens.as_ref(), config)
    }
}

fn guard<T>(secret: Option<&T>, config: &Config) -> Guard {
    match secret {
        Some(_) => Guard::Asked,
        None if config.node.insecure => Guard::OpenOnPurpose,
        None => Guard::Open,
    }
}
