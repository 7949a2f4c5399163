//! The command lines of etcd.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;

use registry::etcd::{EtcdAccess, EtcdTls};

use super::EtcdMemberOptions;
use super::decision::{InitialCluster, NamedPeer};
use crate::server::port::host_port;

/// The address on which an etcd member listens, and the host that it advertises to the other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdMemberAddress {
    /// As it stands in the member's advertised URLs.
    pub(crate) host: String,
    pub(crate) ip: IpAddr,
    /// A second address on which it serves clients, because programs of this node expect it there.
    pub(crate) extra_client_ip: Option<IpAddr>,
}

/// The cluster in which an etcd member is started: the one that its data names, a new one, or one that it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InitialClusterState {
    /// etcd has data, which names its cluster.
    HasData,
    New(InitialCluster),
    Existing(Vec<NamedPeer>),
}

pub(crate) fn member(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    data: &Path,
    initial: &InitialClusterState,
) -> Vec<OsString> {
    let scheme = options.access(Vec::new()).scheme();
    let url = |host: &str, port: u16| format!("{scheme}://{}", host_port(host, port));
    let listen = |ip: IpAddr, port: u16| format!("{scheme}://{}", std::net::SocketAddr::new(ip, port));
    let clients: Vec<String> = std::iter::once(address.ip)
        .chain(address.extra_client_ip)
        .map(|ip| listen(ip, options.client_port))
        .collect();
    let mut args = ArgumentList::default();
    args.pair("--name", &options.name);
    args.pair("--data-dir", data);
    args.pair("--listen-client-urls", clients.join(","));
    args.pair("--advertise-client-urls", url(&address.host, options.client_port));
    args.pair("--listen-peer-urls", listen(address.ip, options.peer_port));
    args.pair(
        "--initial-advertise-peer-urls",
        url(&address.host, options.peer_port),
    );
    let initial_cluster = |members: &[NamedPeer]| {
        let each: Vec<String> = members
            .iter()
            .map(|member| format!("{}={scheme}://{}", member.name, member.peer))
            .collect();
        each.join(",")
    };
    match initial {
        // An etcd that has data ignores these options, but refuses to start if its own name is not in the list.
        InitialClusterState::HasData => {
            let own = NamedPeer::new(&options.name, &host_port(&address.host, options.peer_port));
            args.pair("--initial-cluster", initial_cluster(&[own]));
        }
        // etcd derives the ids of the cluster and of its members from the token.
        InitialClusterState::New(InitialCluster { founders, token }) => {
            args.pair("--initial-cluster", initial_cluster(founders));
            args.pair("--initial-cluster-state", "new");
            args.pair("--initial-cluster-token", token);
        }
        InitialClusterState::Existing(members) => {
            args.pair("--initial-cluster", initial_cluster(members));
            args.pair("--initial-cluster-state", "existing");
        }
    }
    // So that a member that resumes after a pause does not depose a healthy leader.
    args.flag("--pre-vote");
    args.flag("--strict-reconfig-check");
    args.pair("--auto-compaction-mode", "periodic");
    args.pair("--auto-compaction-retention", "1h");
    args.pair("--quota-backend-bytes", options.quota.to_string());
    args.pair("--logger", "zap");
    args.pair("--log-outputs", "stderr");
    if options.login.is_some() {
        // The password is derived from a long secret and cannot be guessed, so a cheap hash is enough.
        args.pair("--bcrypt-cost", "4");
    }
    if let Some(EtcdTls { ca, cert, key }) = &options.tls {
        args.flag("--client-cert-auth");
        args.pair("--trusted-ca-file", ca);
        args.pair("--cert-file", cert);
        args.pair("--key-file", key);
        args.flag("--peer-client-cert-auth");
        args.pair("--peer-trusted-ca-file", ca);
        args.pair("--peer-cert-file", cert);
        args.pair("--peer-key-file", key);
    }
    args.0
}

/// `listen` is `host:port`; `data` is a folder that the proxy requires and leaves empty.
pub(crate) fn proxy(access: &EtcdAccess, listen: &str, data: &Path) -> Vec<OsString> {
    let mut args = ArgumentList::default();
    args.flag("grpc-proxy");
    args.flag("start");
    args.pair("--endpoints", access.urls().join(","));
    args.pair("--listen-addr", listen);
    args.pair("--advertise-client-url", listen);
    args.pair("--data-dir", data);
    if let Some(EtcdTls { ca, cert, key }) = &access.tls {
        args.pair("--cacert", ca);
        args.pair("--cert", cert);
        args.pair("--key", key);
        args.pair("--trusted-ca-file", ca);
        args.pair("--cert-file", cert);
        args.pair("--key-file", key);
    }
    args.0
}

/// A command line of etcd under construction.
#[derive(Default)]
struct ArgumentList(Vec<OsString>);

impl ArgumentList {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    fn pair(&mut self, flag: &str, value: impl AsRef<std::ffi::OsStr>) {
        let mut pair = OsString::from(flag);
        pair.push("=");
        pair.push(value);
        self.0.push(pair);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BootstrapMode, DnsResolver, PreJoinCheck};
    use super::*;

    fn options() -> EtcdMemberOptions {
        EtcdMemberOptions {
            name: "a".into(),
            program: "etcd".into(),
            data: "/data/etcd".into(),
            host: "10.0.0.1".into(),
            client_port: 2379,
            peer_port: 2380,
            bootstrap: BootstrapMode::Unspecified,
            tries: 1,
            quota: 1024,
            login: None,
            tls: None,
            parent_death_wrapper: Vec::new(),
            resolver: DnsResolver::system(),
            pre_join_check: PreJoinCheck::always_pass(),
        }
    }

    fn command_line(
        options: &EtcdMemberOptions,
        address: &EtcdMemberAddress,
        initial: &InitialClusterState,
    ) -> String {
        let args = member(options, address, Path::new("/data/etcd/data"), initial);
        let args: Vec<String> = args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        args.join(" ")
    }

    #[test]
    fn a_member_gets_its_addresses_and_the_initial_cluster() {
        let own_address = EtcdMemberAddress {
            host: "10.0.0.1".into(),
            ip: [10, 0, 0, 1].into(),
            extra_client_ip: None,
        };
        let both = || {
            vec![
                NamedPeer::new("a", "10.0.0.1:2380"),
                NamedPeer::new("b", "10.0.0.2:2380"),
            ]
        };
        let check = |initial: InitialClusterState, expected: &str| {
            let line = command_line(&options(), &own_address, &initial);
            assert!(line.contains(expected), "{line}");
            assert!(
                line.contains("--listen-client-urls=http://10.0.0.1:2379 "),
                "{line}"
            );
            assert!(line.contains("--quota-backend-bytes=1024"), "{line}");
        };
        let listed = "--initial-cluster=a=http://10.0.0.1:2380,b=http://10.0.0.2:2380";
        check(
            InitialClusterState::HasData,
            "--initial-cluster=a=http://10.0.0.1:2380 --pre-vote",
        );
        check(
            InitialClusterState::New(InitialCluster {
                founders: both(),
                token: "conclave-1".into(),
            }),
            &format!("{listed} --initial-cluster-state=new --initial-cluster-token=conclave-1 "),
        );
        check(
            InitialClusterState::Existing(both()),
            &format!("{listed} --initial-cluster-state=existing"),
        );
    }

    #[test]
    fn both_ports_require_certificates_and_the_extra_address_is_listened_on() {
        let tls = EtcdTls {
            ca: "/ca".into(),
            cert: "/cert".into(),
            key: "/key".into(),
        };
        let address = EtcdMemberAddress {
            host: "fd00::1".into(),
            ip: "fd00::1".parse().unwrap(),
            extra_client_ip: Some([127, 0, 0, 1].into()),
        };
        let options = EtcdMemberOptions {
            tls: Some(tls),
            ..options()
        };
        let line = command_line(&options, &address, &InitialClusterState::HasData);
        for expected in [
            "--listen-client-urls=https://[fd00::1]:2379,https://127.0.0.1:2379 ",
            "--initial-advertise-peer-urls=https://[fd00::1]:2380 ",
            "--client-cert-auth --trusted-ca-file=/ca --cert-file=/cert --key-file=/key",
            "--peer-client-cert-auth --peer-trusted-ca-file=/ca --peer-cert-file=/cert --peer-key-file=/key",
        ] {
            assert!(line.contains(expected), "{expected}: {line}");
        }
    }
}
