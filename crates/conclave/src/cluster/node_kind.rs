//! The kinds of cluster nodes, and the services of each.

use std::fmt;

use anyhow::{Result, anyhow};

/// The kind of a cluster node, judicator, executor or gateway, which determines its services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Judicator,
    Executor,
    Gateway,
}

/// A service of a cluster node, which boot supervises as one process. The service named `etcd` is a member on judicator
/// nodes and a proxy on the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceKind {
    EtcdMember,
    EtcdProxy,
    Mongodb,
    Judicator,
    Executor,
    Gateway,
}

impl NodeKind {
    /// The services in start order; each depends on the one before it.
    pub(crate) fn services(self) -> &'static [ServiceKind] {
        match self {
            NodeKind::Judicator => &[
                ServiceKind::EtcdMember,
                ServiceKind::Mongodb,
                ServiceKind::Judicator,
            ],
            NodeKind::Executor => &[ServiceKind::EtcdProxy, ServiceKind::Executor],
            NodeKind::Gateway => &[ServiceKind::EtcdProxy, ServiceKind::Gateway],
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            NodeKind::Judicator => "judicator",
            NodeKind::Executor => "executor",
            NodeKind::Gateway => "gateway",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<NodeKind> {
        [NodeKind::Judicator, NodeKind::Executor, NodeKind::Gateway]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| anyhow!("unknown kind of node '{text}'"))
    }
}

impl ServiceKind {
    const ALL: [ServiceKind; 6] = [
        ServiceKind::EtcdMember,
        ServiceKind::EtcdProxy,
        ServiceKind::Mongodb,
        ServiceKind::Judicator,
        ServiceKind::Executor,
        ServiceKind::Gateway,
    ];

    /// The name of the service in `status`, `hold` and the names of its files.
    pub(crate) fn service_name(self) -> &'static str {
        match self {
            ServiceKind::EtcdMember | ServiceKind::EtcdProxy => "etcd",
            ServiceKind::Mongodb => "mongodb",
            ServiceKind::Judicator => "judicator",
            ServiceKind::Executor => "executor",
            ServiceKind::Gateway => "gateway",
        }
    }

    /// The argument of `conclave service` that starts it.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            ServiceKind::EtcdMember => "etcd",
            ServiceKind::EtcdProxy => "etcd-proxy",
            other => other.service_name(),
        }
    }

    pub(crate) fn parse(argument: &str) -> Result<ServiceKind, String> {
        ServiceKind::ALL
            .into_iter()
            .find(|service| service.argument() == argument)
            .ok_or_else(|| format!("there is no service '{argument}'"))
    }

    /// The configuration sections that the service reads. Executors and gateways read the judicator's too, so that values which
    /// contradict its limits are refused at start.
    pub(crate) fn sections(self) -> &'static [&'static str] {
        match self {
            ServiceKind::EtcdProxy => &["node", "etcd", "secrets"],
            // Before a node joins etcd, it checks that its mongod's data belongs to the same cluster.
            ServiceKind::EtcdMember | ServiceKind::Mongodb => &["node", "etcd", "mongodb", "secrets"],
            ServiceKind::Judicator => &[
                "node",
                "etcd",
                "mongodb",
                "judicator",
                "executor",
                "sandbox",
                "gateway",
                "limits.default",
                "limits.max",
                "secrets",
            ],
            ServiceKind::Executor => &["node", "etcd", "judicator", "executor", "sandbox", "secrets"],
            ServiceKind::Gateway => &["node", "etcd", "judicator", "executor", "gateway", "secrets"],
        }
    }
}

impl fmt::Display for ServiceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.argument())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of an omitted section would silently have their defaults.
    #[test]
    fn executors_and_judicators_read_the_sections_on_cells() {
        for section in ["node", "executor", "sandbox", "secrets"] {
            assert!(ServiceKind::Executor.sections().contains(&section), "{section}");
            assert!(ServiceKind::Judicator.sections().contains(&section), "{section}");
        }
    }

    #[test]
    fn every_name_parses_to_its_kind() {
        for service in ServiceKind::ALL {
            assert_eq!(ServiceKind::parse(service.argument()), Ok(service));
        }
        assert!(ServiceKind::parse("boot").is_err());
        for kind in [NodeKind::Judicator, NodeKind::Executor, NodeKind::Gateway] {
            assert_eq!(NodeKind::parse(kind.as_str()).unwrap(), kind);
        }
    }
}
