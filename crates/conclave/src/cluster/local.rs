//! The node on this machine, as its operator's commands find it: by its data folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use boot::Status;

use super::access::{Own, access};
use super::{Kind, Role, options, write};
use crate::config::{Config, Layers};
use crate::node::Secrets;
use registry::etcd::Access;

pub(crate) struct LocalNode {
    data: PathBuf,
}

impl LocalNode {
    pub(crate) fn at(data: &Path) -> Result<LocalNode> {
        let data = std::path::absolute(data)
            .with_context(|| format!("the data folder {} has no absolute path", data.display()))?;
        Ok(LocalNode { data })
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.data.join("run")
    }

    /// The embedded store of a single node.
    pub(crate) fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    pub(crate) fn status(&self) -> Result<Status> {
        Ok(Status::read(&self.run())?)
    }

    /// Of a node of a cluster.
    pub(crate) fn kind(&self) -> Result<Kind> {
        let status = self.status()?;
        ensure!(
            !status.is_single(),
            "the node in {} is a single process (`conclave {}`) and belongs to no cluster; stop it with `conclave stop`",
            self.data.display(),
            status.kind
        );
        Kind::parse(&status.kind)
    }

    /// What the node was last started with.
    fn config(&self, role: Role) -> Result<(Config, Secrets)> {
        let config = Layers::resolved(&write::path(&self.run(), role))?.config()?;
        let secrets = Secrets::load(&config)?;
        Ok((config, secrets))
    }

    pub(crate) fn etcd(&self) -> Result<daemons::etcd::Options> {
        let (config, secrets) = self.config(Role::EtcdMember)?;
        Ok(options::member(&config, &secrets))
    }

    pub(crate) fn mongodb(&self) -> Result<daemons::mongodb::Options> {
        let (config, secrets) = self.config(Role::Mongodb)?;
        Ok(options::mongodb(&config, &secrets))
    }

    /// The members of etcd, as this node knows them.
    pub(crate) fn access(&self) -> Result<Access> {
        let (role, own) = match self.kind()? {
            Kind::Judicator => (Role::EtcdMember, Own::Member),
            Kind::Executor | Kind::Gateway => (Role::EtcdProxy, Own::None),
        };
        let (config, secrets) = self.config(role)?;
        Ok(access(&config, &secrets, own))
    }
}
