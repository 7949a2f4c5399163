//! A node that is one process, without services: found by the same commands as boot.

use std::collections::BTreeMap;
use std::path::Path;

use crate::folder::Folder;
use crate::lock::BootLock;
use crate::process::Identity;
use crate::{BootError, Status, board, folder};

/// Holds the lock of the run folder as long as it lives, as boot does.
#[derive(Debug)]
pub struct SingleNode {
    folder: Folder,
    status: Status,
    _lock: BootLock,
}

impl SingleNode {
    /// Refused while another process runs a node on this folder. `kind` is the command, like `up`.
    pub async fn enter(run: &Path, kind: &str, name: &str) -> Result<SingleNode, BootError> {
        let folder = Folder::new(run);
        folder::make(run).map_err(BootError::at("make the folder", run))?;
        let lock = BootLock::take(&folder).await?;
        let own = Identity::own();
        let node = SingleNode {
            status: Status {
                pid: Some(std::process::id()),
                since: board::now(),
                kind: kind.to_string(),
                name: name.to_string(),
                version: env!("CARGO_PKG_VERSION").to_string(),
                machine: own.map(|own| own.machine).unwrap_or_default(),
                addresses: BTreeMap::new(),
                services: Vec::new(),
            },
            folder,
            _lock: lock,
        };
        node.write()?;
        Ok(node)
    }

    /// Says where the node serves: each protocol with its address.
    pub fn serves(&mut self, addresses: &[(&str, String)]) -> Result<(), BootError> {
        let addresses = addresses.iter().cloned();
        self.status.addresses = addresses
            .map(|(scheme, address)| (scheme.to_string(), address))
            .collect();
        self.write()
    }

    fn write(&self) -> Result<(), BootError> {
        let path = self.folder.status();
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
    async fn a_single_process_is_found_and_excludes_others() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        let mut node = SingleNode::enter(&run, "up", "n1").await.unwrap();
        node.serves(&[("http", "127.0.0.1:7000".to_string())]).unwrap();
        let status = Status::read(&run).unwrap();
        assert_eq!(status.pid, Some(std::process::id()));
        assert_eq!(status.addresses["http"], "127.0.0.1:7000");
        assert!(status.is_single());

        let wrong = SingleNode::enter(&run, "up", "n1").await.unwrap_err().to_string();
        assert!(
            wrong.contains("already runs") && wrong.contains("conclave stop"),
            "{wrong}"
        );
        let wrong = crate::hold(&run, "etcd").unwrap_err();
        assert!(matches!(wrong, NodeError::Single { .. }), "{wrong}");

        drop(node);
        assert_eq!(Status::read(&run).unwrap().pid, None);
    }
}
