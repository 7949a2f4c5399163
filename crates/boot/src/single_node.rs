//! A node that is a single process without services (`conclave up`). The operator's commands find it like a boot.

use std::collections::BTreeMap;
use std::path::Path;

use crate::lock::BootLock;
use crate::process::ProcessIdentity;
use crate::run_folder::RunFolder;
use crate::{BootError, NodeStatus, run_folder, shared_status};

/// The lock and the status file of a node that is a single process (`conclave up`); released on drop.
#[derive(Debug)]
pub struct SingleProcessNode {
    folder: RunFolder,
    status: NodeStatus,
    _lock: BootLock,
}

impl SingleProcessNode {
    /// Locks the run folder and writes the status file. Fails while another process runs a node on this folder. `kind` is the
    /// command, for example `up`.
    pub async fn register(run: &Path, kind: &str, name: &str) -> Result<SingleProcessNode, BootError> {
        let folder = RunFolder::new(run);
        run_folder::create_folder(run).map_err(BootError::at("create", run))?;
        let lock = BootLock::acquire(&folder).await?;
        let own = ProcessIdentity::own();
        let node = SingleProcessNode {
            status: NodeStatus {
                pid: Some(std::process::id()),
                since: shared_status::now(),
                kind: kind.to_string(),
                name: name.to_string(),
                version: env!("CARGO_PKG_VERSION").to_string(),
                kernel_boot_id: own.map(|own| own.kernel_boot_id).unwrap_or_default(),
                addresses: BTreeMap::new(),
                services: Vec::new(),
            },
            folder,
            _lock: lock,
        };
        node.write()?;
        Ok(node)
    }

    /// Publishes the addresses on which the node serves, by protocol.
    pub fn set_addresses(&mut self, addresses: &[(&str, String)]) -> Result<(), BootError> {
        let addresses = addresses.iter().cloned();
        self.status.addresses = addresses
            .map(|(scheme, address)| (scheme.to_string(), address))
            .collect();
        self.write()
    }

    fn write(&self) -> Result<(), BootError> {
        let path = self.folder.status_file();
        self.status
            .write(&self.folder)
            .map_err(BootError::at("write", &path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeError;

    #[tokio::test]
    async fn a_single_process_node_is_found_and_excludes_others() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        let mut node = SingleProcessNode::register(&run, "up", "n1").await.unwrap();
        node.set_addresses(&[("http", "127.0.0.1:7000".to_string())])
            .unwrap();
        let status = NodeStatus::read(&run).unwrap();
        assert_eq!(status.pid, Some(std::process::id()));
        assert_eq!(status.addresses["http"], "127.0.0.1:7000");
        assert!(status.is_single());

        let error = SingleProcessNode::register(&run, "up", "n1")
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("already runs") && error.contains("conclave stop"),
            "{error}"
        );
        let error = crate::hold(&run, "etcd").unwrap_err();
        assert!(matches!(error, NodeError::SingleProcess { .. }), "{error}");

        drop(node);
        assert_eq!(NodeStatus::read(&run).unwrap().pid, None);
    }
}
