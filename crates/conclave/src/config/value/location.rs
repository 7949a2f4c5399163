//! Addresses, programs and paths.

use std::path::PathBuf;

use super::{ConfigValue, NodeName};

/// A configuration value `HOST:PORT`, an address to listen on or to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort(pub(crate) String);

/// A configuration value that is a host name or IP address at which nodes can be reached, without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostAddress(pub(crate) String);

/// A configuration value `NAME=HOST:PORT`: the node name and peer address of an initial member of a new etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InitialMember {
    pub(crate) name: String,
    pub(crate) peer: String,
}

/// A configuration value that names a program, such as etcd: a name that is looked up in PATH, or an absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramPath(pub(crate) PathBuf);

/// The configuration value with the path of a node's data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataFolder(pub(crate) PathBuf);

/// The configuration value with the path of the folder of roots, or `auto` (`None`), which is in the data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootsFolder(pub(crate) Option<PathBuf>);

impl ConfigValue for HostPort {
    const ACCEPTS: &'static str = "HOST:PORT, like 127.0.0.1:7010, [::1]:7010 or judge-1.lan:7010";

    fn parse(text: &str) -> Result<HostPort, String> {
        let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
        port.parse::<u16>()
            .map_err(|_| format!("'{port}' is not a port (0 to 65535)"))?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() {
            return Err("the host is missing; 0.0.0.0 stands for all addresses of this machine".to_string());
        }
        if !bracketed && host.contains([':', '/', '[', ']', ' ']) {
            return Err(format!(
                "'{host}' is not a host; write an IPv6 address in brackets"
            ));
        }
        Ok(HostPort(text.to_string()))
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

impl ConfigValue for Vec<HostPort> {
    const ACCEPTS: &'static str = "one or more of HOST:PORT, separated by commas, or a list of them";
    const ACCEPTS_OR_NONE: &'static str =
        "one or more of HOST:PORT, separated by commas, a list of them, or none";

    fn parse(text: &str) -> Result<Vec<HostPort>, String> {
        text.split(',').map(|item| HostPort::parse(item.trim())).collect()
    }

    fn to_text(&self) -> String {
        let addresses: Vec<_> = self.iter().map(|address| address.0.as_str()).collect();
        addresses.join(",")
    }
}

impl ConfigValue for HostAddress {
    const ACCEPTS: &'static str = "a host name or address, like 10.0.0.1 or judge-1.lan";
    const ACCEPTS_OR_NONE: &'static str = "a DNS name like judicators.lan, or none";

    fn parse(text: &str) -> Result<HostAddress, String> {
        match text {
            "" => Err("empty".to_string()),
            "0.0.0.0" | "::" | "[::]" => {
                Err("other nodes cannot reach this address; give a specific one".to_string())
            }
            _ => match HostPort::parse(&format!("{text}:1")) {
                Ok(_) => Ok(HostAddress(text.to_string())),
                Err(_) => Err("not a host; write an IPv6 address in brackets, and no port".to_string()),
            },
        }
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

impl ConfigValue for Vec<InitialMember> {
    const ACCEPTS: &'static str = "NAME=HOST:PORT for each, separated by commas";
    const ACCEPTS_OR_NONE: &'static str = "NAME=HOST:PORT for each, separated by commas, or none";

    fn parse(text: &str) -> Result<Vec<InitialMember>, String> {
        let parse_one = |item: &str| {
            let (name, peer) = item
                .trim()
                .split_once('=')
                .ok_or_else(|| format!("'{}' has no '='", item.trim()))?;
            Ok(InitialMember {
                name: NodeName::parse(name)?.0,
                peer: HostPort::parse(peer)?.0,
            })
        };
        text.split(',').map(parse_one).collect()
    }

    fn to_text(&self) -> String {
        let members: Vec<_> = self
            .iter()
            .map(|InitialMember { name, peer }| format!("{name}={peer}"))
            .collect();
        members.join(",")
    }
}

impl ConfigValue for ProgramPath {
    const ACCEPTS: &'static str = "a program in PATH, or an absolute path";

    fn parse(text: &str) -> Result<ProgramPath, String> {
        let path = PathBuf::parse(text)?;
        match path.is_absolute() || !text.contains('/') {
            true => Ok(ProgramPath(path)),
            false => Err("it is a relative path".to_string()),
        }
    }

    fn to_text(&self) -> String {
        self.0.to_text()
    }
}

impl ConfigValue for PathBuf {
    const ACCEPTS: &'static str = "a path";
    const ACCEPTS_OR_NONE: &'static str = "a path, or none";
    const IS_PATH: bool = true;

    fn parse(text: &str) -> Result<PathBuf, String> {
        match text {
            "" => Err("empty".to_string()),
            _ => Ok(PathBuf::from(text)),
        }
    }

    fn to_text(&self) -> String {
        self.display().to_string()
    }
}

impl ConfigValue for DataFolder {
    const ACCEPTS: &'static str = "a path, or auto";
    const KEYWORD: Option<&'static str> = Some("auto");
    const IS_PATH: bool = true;

    fn parse(text: &str) -> Result<DataFolder, String> {
        if text != "auto" {
            return PathBuf::parse(text).map(DataFolder);
        }
        if nix::unistd::geteuid().is_root() {
            return Ok(DataFolder(PathBuf::from("/var/lib/conclave")));
        }
        let absolute = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        absolute("XDG_DATA_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
            .map(|folder| DataFolder(folder.join("conclave")))
            .ok_or_else(|| "neither XDG_DATA_HOME nor HOME is set; give a folder with --data".to_string())
    }

    fn to_text(&self) -> String {
        self.0.to_text()
    }
}

impl ConfigValue for RootsFolder {
    const ACCEPTS: &'static str = "a path, or auto";
    const KEYWORD: Option<&'static str> = Some("auto");
    const IS_PATH: bool = true;

    fn parse(text: &str) -> Result<RootsFolder, String> {
        match text {
            "auto" => Ok(RootsFolder(None)),
            _ => PathBuf::parse(text).map(|path| RootsFolder(Some(path))),
        }
    }

    fn to_text(&self) -> String {
        self.0.as_ref().map_or("auto".to_string(), PathBuf::to_text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        check::<HostPort>("127.0.0.1:7010", Ok("127.0.0.1:7010"));
        check::<HostPort>("[::1]:0", Ok("[::1]:0"));
        check::<HostPort>("judge-1.lan:7010", Ok("judge-1.lan:7010"));
        check::<HostPort>("7010", Err("port is missing"));
        check::<HostPort>(":7010", Err("host is missing"));
        check::<HostPort>("::1:7010", Err("brackets"));
        check::<HostPort>("a:65536", Err("not a port (0"));
        check::<HostPort>("http://a:1", Err("not a host"));
        check::<Vec<HostPort>>("a:1, b:2", Ok("a:1,b:2"));
        check::<Vec<HostPort>>("", Err("port is missing"));
        check::<Option<Vec<HostPort>>>("none", Ok("none"));
        check::<HostAddress>("10.0.0.1", Ok("10.0.0.1"));
        check::<HostAddress>("[fe80::1]", Ok("[fe80::1]"));
        check::<HostAddress>("fe80::1", Err("brackets"));
        check::<HostAddress>("a:1", Err("no port"));
        check::<HostAddress>("0.0.0.0", Err("cannot reach"));
        check::<Vec<InitialMember>>("a=x:1, b=y:2", Ok("a=x:1,b=y:2"));
        check::<Vec<InitialMember>>("x:1", Err("no '='"));
        check::<Vec<InitialMember>>("a=x", Err("port is missing"));
        check::<ProgramPath>("etcd", Ok("etcd"));
        check::<ProgramPath>("/opt/etcd", Ok("/opt/etcd"));
        check::<ProgramPath>("bin/etcd", Err("relative"));
    }

    #[test]
    fn a_data_folder_is_a_path_or_auto() {
        check::<DataFolder>("/srv/c", Ok("/srv/c"));
        check::<DataFolder>("", Err("empty"));
        check::<RootsFolder>("auto", Ok("auto"));
        check::<RootsFolder>("/srv/r", Ok("/srv/r"));
        check::<RootsFolder>("", Err("empty"));
        check::<Option<PathBuf>>("none", Ok("none"));
        assert!(DataFolder::parse("auto").is_ok_and(|folder| folder.0.ends_with("conclave")));
    }
}
