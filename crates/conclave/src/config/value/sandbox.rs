//! Values of the section `sandbox`.

use std::path::PathBuf;

use sandbox::{LOOPBACK_NETWORK, NamedNetwork, WaivableLimit};

use super::ConfigValue;

/// The configuration value that says how an executor isolates tasks: in cells, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsolationMode {
    Cell,
    None,
}

/// A configuration value that makes a file or folder of this machine visible in cells: its path here and in the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BindMount {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
}

/// The configuration value with the first of the user ids that tasks in cells run as, above all ordinary user ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstUserId(pub(crate) u32);

/// A configuration value that names a control group, in the form of `/proc/self/cgroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CgroupPath(pub(crate) PathBuf);

impl ConfigValue for IsolationMode {
    const ACCEPTS: &'static str = "cell, or none for trusted work";

    fn parse(text: &str) -> Result<IsolationMode, String> {
        match text {
            "cell" => Ok(IsolationMode::Cell),
            "none" => Ok(IsolationMode::None),
            _ => Err("unknown isolation".to_string()),
        }
    }

    fn to_text(&self) -> String {
        match self {
            IsolationMode::Cell => "cell".to_string(),
            IsolationMode::None => "none".to_string(),
        }
    }
}

impl ConfigValue for Vec<BindMount> {
    const ACCEPTS: &'static str = "PATH or PATH:PATH-IN-THE-CELL for each, separated by commas";
    const ACCEPTS_OR_NONE: &'static str =
        "PATH or PATH:PATH-IN-THE-CELL for each, separated by commas, or none";

    fn parse(text: &str) -> Result<Vec<BindMount>, String> {
        let parse_one = |item: &str| {
            let item = item.trim();
            let (from, to) = item.split_once(':').unwrap_or((item, item));
            for path in [from, to] {
                let has_parent = path.split('/').any(|component| component == "..");
                if !path.starts_with('/') || path == "/" || has_parent {
                    return Err(format!("'{path}' is not an absolute path below the root"));
                }
            }
            Ok(BindMount {
                from: from.into(),
                to: to.into(),
            })
        };
        text.split(',').map(parse_one).collect()
    }

    fn to_text(&self) -> String {
        let format_one = |bind: &BindMount| format!("{}:{}", bind.from.display(), bind.to.display());
        self.iter().map(format_one).collect::<Vec<_>>().join(",")
    }
}

impl ConfigValue for FirstUserId {
    const ACCEPTS: &'static str = "a number from 65536 to 4000000000";

    fn parse(text: &str) -> Result<FirstUserId, String> {
        let number: u32 = text.parse().map_err(|_| "not a number".to_string())?;
        match number {
            65_536..=4_000_000_000 => Ok(FirstUserId(number)),
            _ => Err("out of range".to_string()),
        }
    }

    fn to_text(&self) -> String {
        self.0.to_string()
    }
}

impl ConfigValue for CgroupPath {
    const ACCEPTS: &'static str = "a path like /conclave.slice";
    const ACCEPTS_OR_NONE: &'static str = "a path like /conclave.slice, or none";

    fn parse(text: &str) -> Result<CgroupPath, String> {
        match text.starts_with('/') {
            true => Ok(CgroupPath(text.into())),
            false => Err("it does not start with '/'".to_string()),
        }
    }

    fn to_text(&self) -> String {
        self.0.display().to_string()
    }
}

impl ConfigValue for Vec<NamedNetwork> {
    const ACCEPTS: &'static str = "NAME=FILE for each, separated by commas";
    const ACCEPTS_OR_NONE: &'static str = "NAME=FILE for each, separated by commas, or none";

    fn parse(text: &str) -> Result<Vec<NamedNetwork>, String> {
        let parse_one = |item: &str| {
            let item = item.trim();
            let (name, file) = item
                .split_once('=')
                .ok_or_else(|| format!("'{item}' has no '='"))?;
            let is_allowed =
                |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
            if name.is_empty() || !name.chars().all(is_allowed) {
                return Err(format!(
                    "'{name}' is not a name; use letters, digits, '.', '_' and '-'"
                ));
            }
            if name == LOOPBACK_NETWORK {
                return Err(format!(
                    "'{LOOPBACK_NETWORK}' is predefined, as a network with the task alone"
                ));
            }
            match file.starts_with('/') {
                true => Ok(NamedNetwork {
                    name: name.to_string(),
                    namespace: file.into(),
                }),
                false => Err(format!("'{file}' is not an absolute path like /run/netns/{name}")),
            }
        };
        text.split(',').map(parse_one).collect()
    }

    fn to_text(&self) -> String {
        let format_one = |network: &NamedNetwork| format!("{}={}", network.name, network.namespace.display());
        self.iter().map(format_one).collect::<Vec<_>>().join(",")
    }
}

impl ConfigValue for Vec<WaivableLimit> {
    const ACCEPTS: &'static str = "memory, processes or cpu, separated by commas";
    const ACCEPTS_OR_NONE: &'static str = "memory, processes or cpu, separated by commas, or none";

    fn parse(text: &str) -> Result<Vec<WaivableLimit>, String> {
        text.split(',').map(|item| item.trim().parse()).collect()
    }

    fn to_text(&self) -> String {
        self.iter()
            .map(|limit| limit.name())
            .collect::<Vec<_>>()
            .join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn values_of_cells_are_checked() {
        check::<IsolationMode>("none", Ok("none"));
        check::<IsolationMode>("cell", Ok("cell"));
        check::<IsolationMode>("jail", Err("unknown isolation"));
        check::<Vec<BindMount>>("/opt/x, /srv/a:/a", Ok("/opt/x:/opt/x,/srv/a:/a"));
        check::<Vec<BindMount>>("opt", Err("absolute"));
        check::<Vec<BindMount>>("/", Err("below"));
        check::<Vec<BindMount>>("/a:/b/../..", Err("below"));
        check::<FirstUserId>("1900000000", Ok("1900000000"));
        check::<FirstUserId>("0", Err("out of range"));
        check::<FirstUserId>("65534", Err("out of range"));
        check::<CgroupPath>("/a", Ok("/a"));
        check::<CgroupPath>("a", Err("start"));
        check::<Vec<NamedNetwork>>("out=/run/netns/out", Ok("out=/run/netns/out"));
        check::<Vec<NamedNetwork>>("out", Err("no '='"));
        check::<Vec<NamedNetwork>>("loopback=/x", Err("predefined"));
        check::<Vec<NamedNetwork>>("a b=/x", Err("not a name"));
        check::<Vec<NamedNetwork>>("a=x", Err("absolute"));
        check::<Vec<WaivableLimit>>("memory,cpu", Ok("memory,cpu"));
        check::<Vec<WaivableLimit>>("roof", Err("no limit"));
    }
}
