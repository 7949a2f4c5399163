//! The three kinds of node, and the services of each.

use std::fmt;

use anyhow::{Result, anyhow};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Judicator,
    Executor,
    Gateway,
}

/// What a service does. An `etcd` is a member on judicators and a proxy elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    EtcdMember,
    EtcdProxy,
    Mongodb,
    Judicator,
    Executor,
    Gateway,
}

impl Kind {
    /// In the order in which they start; each needs the one before it.
    pub(crate) fn services(self) -> &'static [Role] {
        match self {
            Kind::Judicator => &[Role::EtcdMember, Role::Mongodb, Role::Judicator],
            Kind::Executor => &[Role::EtcdProxy, Role::Executor],
            Kind::Gateway => &[Role::EtcdProxy, Role::Gateway],
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Judicator => "judicator",
            Kind::Executor => "executor",
            Kind::Gateway => "gateway",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Kind> {
        [Kind::Judicator, Kind::Executor, Kind::Gateway]
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| anyhow!("there is no kind of node called '{text}'"))
    }
}

impl Role {
    const ALL: [Role; 6] = [
        Role::EtcdMember,
        Role::EtcdProxy,
        Role::Mongodb,
        Role::Judicator,
        Role::Executor,
        Role::Gateway,
    ];

    /// What operators call the service: in `status`, `hold`, and the names of its files.
    pub(crate) fn service(self) -> &'static str {
        match self {
            Role::EtcdMember | Role::EtcdProxy => "etcd",
            Role::Mongodb => "mongodb",
            Role::Judicator => "judicator",
            Role::Executor => "executor",
            Role::Gateway => "gateway",
        }
    }

    /// What `conclave service` is told.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::EtcdMember => "etcd",
            Role::EtcdProxy => "etcd-proxy",
            other => other.service(),
        }
    }

    pub(crate) fn parse(word: &str) -> Result<Role, String> {
        Role::ALL
            .into_iter()
            .find(|role| role.word() == word)
            .ok_or_else(|| format!("there is no service '{word}'"))
    }

    /// The sections of the configuration that it reads. Executors and gateways know some of the judicators' bounds,
    /// so that what contradicts them is refused early.
    pub(crate) fn sections(self) -> &'static [&'static str] {
        match self {
            Role::EtcdProxy => &["node", "etcd", "secrets"],
            // Before a node becomes a member of etcd, it is looked whether its mongod's data belongs there.
            Role::EtcdMember | Role::Mongodb => &["node", "etcd", "mongodb", "secrets"],
            Role::Judicator => &[
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
            Role::Executor => &["node", "etcd", "judicator", "executor", "sandbox", "secrets"],
            Role::Gateway => &["node", "etcd", "judicator", "executor", "gateway", "secrets"],
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section that is left out would leave its keys at their defaults, whatever the operator set.
    #[test]
    fn executors_know_how_to_make_cells_and_judicators_which_limits_apply_in_them() {
        for section in ["node", "executor", "sandbox", "secrets"] {
            assert!(Role::Executor.sections().contains(&section), "{section}");
            assert!(Role::Judicator.sections().contains(&section), "{section}");
        }
    }

    #[test]
    fn every_word_is_read_again() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.word()), Ok(role));
        }
        assert!(Role::parse("boot").is_err());
        for kind in [Kind::Judicator, Kind::Executor, Kind::Gateway] {
            assert_eq!(Kind::parse(kind.as_str()).unwrap(), kind);
        }
    }
}
