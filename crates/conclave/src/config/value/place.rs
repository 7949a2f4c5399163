//! Where: addresses and folders.

use std::path::PathBuf;

use super::{NodeName, Value};

/// `host:port`, to listen on or to call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) String);

/// A host's name or address, with no port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host(pub(crate) String);

/// One of the first members of an etcd: its node's name, and where its peers reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Founder {
    pub(crate) name: String,
    pub(crate) peer: String,
}

/// A program: a name that is looked up on the PATH, or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program(pub(crate) PathBuf);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DataFolder(pub(crate) PathBuf);

impl Value for Address {
    const ACCEPTS: &'static str = "HOST:PORT, like 127.0.0.1:7010, [::1]:7010 or judge-1.lan:7010";

    fn parse(text: &str) -> Result<Address, String> {
        let (host, port) = text.rsplit_once(':').ok_or("no port is given")?;
        port.parse::<u16>()
            .map_err(|_| format!("'{port}' is no port (0 to 65535)"))?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() {
            return Err("no host is given; 0.0.0.0 stands for every address of this machine".to_string());
        }
        if !bracketed && host.contains([':', '/', '[', ']', ' ']) {
            return Err(format!("'{host}' is no host; an IPv6 address stands in brackets"));
        }
        Ok(Address(text.to_string()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Value for Vec<Address> {
    const ACCEPTS: &'static str = "one or more of HOST:PORT, with commas between, or a list of them";
    const ACCEPTS_OR_NOT: &'static str =
        "one or more of HOST:PORT, with commas between, or a list of them, or none";

    fn parse(text: &str) -> Result<Vec<Address>, String> {
        text.split(',').map(|part| Address::parse(part.trim())).collect()
    }

    fn show(&self) -> String {
        let parts: Vec<_> = self.iter().map(|address| address.0.as_str()).collect();
        parts.join(",")
    }
}

impl Value for Host {
    const ACCEPTS: &'static str = "a host's name or address, like 10.0.0.1 or judge-1.lan";
    const ACCEPTS_OR_NOT: &'static str = "a name like judicators.lan, or none";

    fn parse(text: &str) -> Result<Host, String> {
        match text {
            "" => Err("empty".to_string()),
            "0.0.0.0" | "::" | "[::]" => Err("others cannot reach that; name one address".to_string()),
            _ => match Address::parse(&format!("{text}:1")) {
                Ok(_) => Ok(Host(text.to_string())),
                Err(_) => {
                    Err("not a host; an IPv6 address stands in brackets, and no port follows".to_string())
                }
            },
        }
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Value for Vec<Founder> {
    const ACCEPTS: &'static str = "NAME=HOST:PORT for each, with commas between";
    const ACCEPTS_OR_NOT: &'static str = "NAME=HOST:PORT for each, with commas between, or none";

    fn parse(text: &str) -> Result<Vec<Founder>, String> {
        let one = |part: &str| {
            let (name, peer) = part
                .trim()
                .split_once('=')
                .ok_or_else(|| format!("'{}' has no '='", part.trim()))?;
            Ok(Founder {
                name: NodeName::parse(name)?.0,
                peer: Address::parse(peer)?.0,
            })
        };
        text.split(',').map(one).collect()
    }

    fn show(&self) -> String {
        let parts: Vec<_> = self
            .iter()
            .map(|Founder { name, peer }| format!("{name}={peer}"))
            .collect();
        parts.join(",")
    }
}

impl Value for Program {
    const ACCEPTS: &'static str = "a program on the PATH, or its absolute path";

    fn parse(text: &str) -> Result<Program, String> {
        let path = PathBuf::parse(text)?;
        match path.is_absolute() || !text.contains('/') {
            true => Ok(Program(path)),
            false => Err("a relative path".to_string()),
        }
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

impl Value for PathBuf {
    const ACCEPTS: &'static str = "a path";
    const ACCEPTS_OR_NOT: &'static str = "a path, or none";
    const PATH: bool = true;

    fn parse(text: &str) -> Result<PathBuf, String> {
        match text {
            "" => Err("empty".to_string()),
            _ => Ok(PathBuf::from(text)),
        }
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl Value for DataFolder {
    const ACCEPTS: &'static str = "a path, or auto";
    const WORD: Option<&'static str> = Some("auto");
    const PATH: bool = true;

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
            .ok_or_else(|| "neither XDG_DATA_HOME nor HOME is set; name a folder, with --data".to_string())
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        check::<Address>("127.0.0.1:7010", Ok("127.0.0.1:7010"));
        check::<Address>("[::1]:0", Ok("[::1]:0"));
        check::<Address>("judge-1.lan:7010", Ok("judge-1.lan:7010"));
        check::<Address>("7010", Err("no port"));
        check::<Address>(":7010", Err("no host"));
        check::<Address>("::1:7010", Err("brackets"));
        check::<Address>("a:65536", Err("no port (0"));
        check::<Address>("http://a:1", Err("no host"));
        check::<Vec<Address>>("a:1, b:2", Ok("a:1,b:2"));
        check::<Vec<Address>>("", Err("no port"));
        check::<Option<Vec<Address>>>("none", Ok("none"));
        check::<Host>("10.0.0.1", Ok("10.0.0.1"));
        check::<Host>("[fe80::1]", Ok("[fe80::1]"));
        check::<Host>("fe80::1", Err("brackets"));
        check::<Host>("a:1", Err("no port"));
        check::<Host>("0.0.0.0", Err("cannot reach"));
        check::<Vec<Founder>>("a=x:1, b=y:2", Ok("a=x:1,b=y:2"));
        check::<Vec<Founder>>("x:1", Err("no '='"));
        check::<Vec<Founder>>("a=x", Err("no port"));
        check::<Program>("etcd", Ok("etcd"));
        check::<Program>("/opt/etcd", Ok("/opt/etcd"));
        check::<Program>("bin/etcd", Err("relative"));
    }

    #[test]
    fn folders_are_named_or_chosen() {
        check::<DataFolder>("/srv/c", Ok("/srv/c"));
        check::<DataFolder>("", Err("empty"));
        check::<Option<PathBuf>>("none", Ok("none"));
        assert!(DataFolder::parse("auto").is_ok_and(|folder| folder.0.ends_with("conclave")));
    }
}
