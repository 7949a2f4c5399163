//! The node on this machine, which commands such as `status` and `stop` find by its data folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use boot::NodeStatus;

use super::etcd_access::{LocalEtcd, etcd_access};
use super::{NodeKind, ServiceKind, daemon_options, service_config};
use crate::config::{Config, ConfigLayers};
use crate::node::NodeSecrets;
use registry::etcd::EtcdAccess;

/// The node of a data folder on this machine, on which commands such as `conclave status` act. It need not be running.
pub(crate) struct LocalNode {
    data: PathBuf,
}

impl LocalNode {
    pub(crate) fn at(data: &Path) -> Result<LocalNode> {
        let data = std::path::absolute(data)
            .with_context(|| format!("the data folder {} has no absolute path", data.display()))?;
        Ok(LocalNode { data })
    }

    pub(crate) fn run_folder(&self) -> PathBuf {
        self.data.join("run")
    }

    /// The folder of a single node's embedded store.
    pub(crate) fn store_folder(&self) -> PathBuf {
        self.data.join("store")
    }

    pub(crate) fn status(&self) -> Result<NodeStatus> {
        Ok(NodeStatus::read(&self.run_folder())?)
    }

    /// The kind of this cluster node. Fails for a single process.
    pub(crate) fn node_kind(&self) -> Result<NodeKind> {
        let status = self.status()?;
        ensure!(
            !status.is_single(),
            "the node in {} is a single process (`conclave {}`) and not part of a cluster; stop it with `conclave stop`",
            self.data.display(),
            status.kind
        );
        NodeKind::parse(&status.kind)
    }

    /// The configuration that boot wrote for a service at its last start.
    fn service_config(&self, service: ServiceKind) -> Result<(Config, NodeSecrets)> {
        let config =
            ConfigLayers::from_resolved_file(&service_config::path(&self.run_folder(), service))?.config()?;
        let secrets = NodeSecrets::load(&config)?;
        Ok((config, secrets))
    }

    pub(crate) fn etcd_options(&self) -> Result<daemons::etcd::EtcdMemberOptions> {
        let (config, secrets) = self.service_config(ServiceKind::EtcdMember)?;
        Ok(daemon_options::etcd_member(&config, &secrets))
    }

    pub(crate) fn mongodb_options(&self) -> Result<daemons::mongodb::MongodDaemonOptions> {
        let (config, secrets) = self.service_config(ServiceKind::Mongodb)?;
        Ok(daemon_options::mongodb(&config, &secrets))
    }

    /// Access to the etcd members that this node knows.
    pub(crate) fn etcd_access(&self) -> Result<EtcdAccess> {
        let (service, local_etcd) = match self.node_kind()? {
            NodeKind::Judicator => (ServiceKind::EtcdMember, LocalEtcd::Member),
            NodeKind::Executor | NodeKind::Gateway => (ServiceKind::EtcdProxy, LocalEtcd::MembersOnly),
        };
        let (config, secrets) = self.service_config(service)?;
        Ok(etcd_access(&config, &secrets, local_etcd))
    }
}
