//! The command lines of etcd.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;

use registry::etcd::{Access, Tls};

use super::Options;
use super::options::address;
use super::plan::{Charter, Founder};

/// Where this member is reached, and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// As others write it.
    pub(crate) host: String,
    pub(crate) ip: IpAddr,
    /// An address at which programs of this node expect it besides.
    pub(crate) also: Option<IpAddr>,
}

/// What a start without data needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Initial {
    /// There is data: it knows.
    Known,
    New(Charter),
    Existing(Vec<Founder>),
}

pub(crate) fn member(options: &Options, place: &Place, data: &Path, initial: &Initial) -> Vec<OsString> {
    let scheme = options.access(Vec::new()).scheme();
    let url = |host: &str, port: u16| format!("{scheme}://{}", address(host, port));
    let listen = |ip: IpAddr, port: u16| format!("{scheme}://{}", std::net::SocketAddr::new(ip, port));
    let clients: Vec<String> = std::iter::once(place.ip)
        .chain(place.also)
        .map(|ip| listen(ip, options.client_port))
        .collect();
    let mut args = Arguments::default();
    args.pair("--name", &options.name);
    args.pair("--data-dir", data);
    args.pair("--listen-client-urls", clients.join(","));
    args.pair("--advertise-client-urls", url(&place.host, options.client_port));
    args.pair("--listen-peer-urls", listen(place.ip, options.peer_port));
    args.pair(
        "--initial-advertise-peer-urls",
        url(&place.host, options.peer_port),
    );
    let listed = |members: &[Founder]| {
        let each: Vec<String> = members
            .iter()
            .map(|member| format!("{}={scheme}://{}", member.name, member.peer))
            .collect();
        each.join(",")
    };
    match initial {
        // etcd looks at none of these when it has data, but wants to find itself in the list.
        Initial::Known => {
            let peer = address(&place.host, options.peer_port);
            args.pair("--initial-cluster", listed(&[Founder::new(&options.name, &peer)]));
        }
        // The token is part of the cluster's id and of its members'.
        Initial::New(Charter { founders, token }) => {
            args.pair("--initial-cluster", listed(founders));
            args.pair("--initial-cluster-state", "new");
            args.pair("--initial-cluster-token", token);
        }
        Initial::Existing(members) => {
            args.pair("--initial-cluster", listed(members));
            args.pair("--initial-cluster-state", "existing");
        }
    }
    // A member that comes back from a pause does not depose a leader that is well.
    args.flag("--pre-vote");
    args.flag("--strict-reconfig-check");
    args.pair("--auto-compaction-mode", "periodic");
    args.pair("--auto-compaction-retention", "1h");
    args.pair("--quota-backend-bytes", options.quota.to_string());
    args.pair("--logger", "zap");
    args.pair("--log-outputs", "stderr");
    if options.login.is_some() {
        // The password is derived from a long secret: there is nothing to guess, and each login is a hash.
        args.pair("--bcrypt-cost", "4");
    }
    if let Some(Tls { ca, cert, key }) = &options.tls {
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

/// `listen` is `host:port`; `data` is a folder that the proxy asks for and leaves empty.
pub(crate) fn proxy(access: &Access, listen: &str, data: &Path) -> Vec<OsString> {
    let mut args = Arguments::default();
    args.flag("grpc-proxy");
    args.flag("start");
    args.pair("--endpoints", access.urls().join(","));
    args.pair("--listen-addr", listen);
    args.pair("--advertise-client-url", listen);
    args.pair("--data-dir", data);
    if let Some(Tls { ca, cert, key }) = &access.tls {
        args.pair("--cacert", ca);
        args.pair("--cert", cert);
        args.pair("--key", key);
        args.pair("--trusted-ca-file", ca);
        args.pair("--cert-file", cert);
        args.pair("--key-file", key);
    }
    args.0
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
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
    use super::super::{Admission, Resolver, Start};
    use super::*;

    fn options() -> Options {
        Options {
            name: "a".into(),
            program: "etcd".into(),
            data: "/data/etcd".into(),
            host: "10.0.0.1".into(),
            client_port: 2379,
            peer_port: 2380,
            start: Start::Unsaid,
            tries: 1,
            quota: 1024,
            login: None,
            tls: None,
            leash: Vec::new(),
            resolver: Resolver::system(),
            admission: Admission::free(),
        }
    }

    fn line(options: &Options, place: &Place, initial: &Initial) -> String {
        let args = member(options, place, Path::new("/data/etcd/data"), initial);
        let args: Vec<String> = args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        args.join(" ")
    }

    #[test]
    fn a_member_is_told_where_it_is_and_with_whom() {
        let here = Place {
            host: "10.0.0.1".into(),
            ip: [10, 0, 0, 1].into(),
            also: None,
        };
        let both = || {
            vec![
                Founder::new("a", "10.0.0.1:2380"),
                Founder::new("b", "10.0.0.2:2380"),
            ]
        };
        let check = |initial: Initial, words: &str| {
            let line = line(&options(), &here, &initial);
            assert!(line.contains(words), "{line}");
            assert!(
                line.contains("--listen-client-urls=http://10.0.0.1:2379 "),
                "{line}"
            );
            assert!(line.contains("--quota-backend-bytes=1024"), "{line}");
        };
        let listed = "--initial-cluster=a=http://10.0.0.1:2380,b=http://10.0.0.2:2380";
        check(
            Initial::Known,
            "--initial-cluster=a=http://10.0.0.1:2380 --pre-vote",
        );
        check(
            Initial::New(Charter {
                founders: both(),
                token: "conclave-1".into(),
            }),
            &format!("{listed} --initial-cluster-state=new --initial-cluster-token=conclave-1 "),
        );
        check(
            Initial::Existing(both()),
            &format!("{listed} --initial-cluster-state=existing"),
        );
    }

    #[test]
    fn certificates_are_asked_for_on_both_ports_and_other_addresses_are_listened_on() {
        let tls = Tls {
            ca: "/ca".into(),
            cert: "/cert".into(),
            key: "/key".into(),
        };
        let place = Place {
            host: "fd00::1".into(),
            ip: "fd00::1".parse().unwrap(),
            also: Some([127, 0, 0, 1].into()),
        };
        let options = Options {
            tls: Some(tls),
            ..options()
        };
        let line = line(&options, &place, &Initial::Known);
        for words in [
            "--listen-client-urls=https://[fd00::1]:2379,https://127.0.0.1:2379 ",
            "--initial-advertise-peer-urls=https://[fd00::1]:2380 ",
            "--client-cert-auth --trusted-ca-file=/ca --cert-file=/cert --key-file=/key",
            "--peer-client-cert-auth --peer-trusted-ca-file=/ca --peer-cert-file=/cert --peer-key-file=/key",
        ] {
            assert!(line.contains(words), "{words}: {line}");
        }
    }
}
