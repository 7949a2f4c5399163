//! What cells are made of.

use std::path::PathBuf;

use sandbox::{LOOPBACK, Network, Wall};

use super::Value;

/// How tasks are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    Cell,
    None,
}

/// A file or folder of this machine, and where cells see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
}

/// An id beyond those that people and services have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserNumber(pub(crate) u32);

/// A control group, as `/proc/self/cgroup` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupPath(pub(crate) PathBuf);

impl Value for Isolation {
    const ACCEPTS: &'static str = "cell, or none for trusted work";

    fn parse(text: &str) -> Result<Isolation, String> {
        match text {
            "cell" => Ok(Isolation::Cell),
            "none" => Ok(Isolation::None),
            _ => Err("no isolation has that name".to_string()),
        }
    }

    fn show(&self) -> String {
        match self {
            Isolation::Cell => "cell".to_string(),
            Isolation::None => "none".to_string(),
        }
    }
}

impl Value for Vec<Bind> {
    const ACCEPTS: &'static str = "PATH or PATH:PATH-IN-THE-CELL for each, with commas between";
    const ACCEPTS_OR_NOT: &'static str =
        "PATH or PATH:PATH-IN-THE-CELL for each, with commas between, or none";

    fn parse(text: &str) -> Result<Vec<Bind>, String> {
        let one = |part: &str| {
            let part = part.trim();
            let (from, to) = part.split_once(':').unwrap_or((part, part));
            for path in [from, to] {
                let is_plain = !path.split('/').any(|part| part == "..");
                if !path.starts_with('/') || path == "/" || !is_plain {
                    return Err(format!("'{path}' is no absolute path beneath the root"));
                }
            }
            Ok(Bind {
                from: from.into(),
                to: to.into(),
            })
        };
        text.split(',').map(one).collect()
    }

    fn show(&self) -> String {
        let one = |bind: &Bind| format!("{}:{}", bind.from.display(), bind.to.display());
        self.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

impl Value for UserNumber {
    const ACCEPTS: &'static str = "a number from 65536 to 4000000000";

    fn parse(text: &str) -> Result<UserNumber, String> {
        let number: u32 = text.parse().map_err(|_| "not a number".to_string())?;
        match number {
            65_536..=4_000_000_000 => Ok(UserNumber(number)),
            _ => Err("out of range".to_string()),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for GroupPath {
    const ACCEPTS: &'static str = "a path like /conclave.slice";
    const ACCEPTS_OR_NOT: &'static str = "a path like /conclave.slice, or none";

    fn parse(text: &str) -> Result<GroupPath, String> {
        match text.starts_with('/') {
            true => Ok(GroupPath(text.into())),
            false => Err("it does not start with '/'".to_string()),
        }
    }

    fn show(&self) -> String {
        self.0.display().to_string()
    }
}

impl Value for Vec<Network> {
    const ACCEPTS: &'static str = "NAME=FILE for each, with commas between";
    const ACCEPTS_OR_NOT: &'static str = "NAME=FILE for each, with commas between, or none";

    fn parse(text: &str) -> Result<Vec<Network>, String> {
        let one = |part: &str| {
            let part = part.trim();
            let (name, file) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' has no '='"))?;
            let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
            if name.is_empty() || !name.chars().all(fits) {
                return Err(format!("'{name}' is no name: letters, digits, '.', '_' and '-'"));
            }
            if name == LOOPBACK {
                return Err(format!(
                    "'{LOOPBACK}' is there already, and stands for the task alone"
                ));
            }
            match file.starts_with('/') {
                true => Ok(Network {
                    name: name.to_string(),
                    namespace: file.into(),
                }),
                false => Err(format!("'{file}' is no absolute path, like /run/netns/{name}")),
            }
        };
        text.split(',').map(one).collect()
    }

    fn show(&self) -> String {
        let one = |network: &Network| format!("{}={}", network.name, network.namespace.display());
        self.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

impl Value for Vec<Wall> {
    const ACCEPTS: &'static str = "memory, processes or cpu, with commas between";
    const ACCEPTS_OR_NOT: &'static str = "memory, processes or cpu, with commas between, or none";

    fn parse(text: &str) -> Result<Vec<Wall>, String> {
        text.split(',').map(|part| part.trim().parse()).collect()
    }

    fn show(&self) -> String {
        self.iter().map(|wall| wall.name()).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn parts_of_cells_are_checked() {
        check::<Isolation>("none", Ok("none"));
        check::<Isolation>("cell", Ok("cell"));
        check::<Isolation>("jail", Err("no isolation"));
        check::<Vec<Bind>>("/opt/x, /srv/a:/a", Ok("/opt/x:/opt/x,/srv/a:/a"));
        check::<Vec<Bind>>("opt", Err("absolute"));
        check::<Vec<Bind>>("/", Err("beneath"));
        check::<Vec<Bind>>("/a:/b/../..", Err("beneath"));
        check::<UserNumber>("1900000000", Ok("1900000000"));
        check::<UserNumber>("0", Err("out of range"));
        check::<UserNumber>("65534", Err("out of range"));
        check::<GroupPath>("/a", Ok("/a"));
        check::<GroupPath>("a", Err("start"));
        check::<Vec<Network>>("out=/run/netns/out", Ok("out=/run/netns/out"));
        check::<Vec<Network>>("out", Err("no '='"));
        check::<Vec<Network>>("loopback=/x", Err("already"));
        check::<Vec<Network>>("a b=/x", Err("no name"));
        check::<Vec<Network>>("a=x", Err("absolute"));
        check::<Vec<Wall>>("memory,cpu", Ok("memory,cpu"));
        check::<Vec<Wall>>("roof", Err("no wall"));
    }
}
