//! The boot plan: which services boot supervises. The caller makes the plan; boot only checks it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::PlanError;

/// The services that boot supervises on a cluster node, how it supervises them, and where it keeps its files.
#[derive(Clone, Debug)]
pub struct BootPlan {
    pub node: NodeIdentity,
    /// The run folder: pid files, holds and `status.json`.
    pub run: PathBuf,
    /// The folder of the services' log files.
    pub log: PathBuf,
    /// In start order.
    pub services: Vec<ServiceSpec>,
    pub settings: BootSettings,
    pub print_log: PrintLog,
}

/// The kind and the name of a node, for `conclave status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    pub kind: String,
    pub name: String,
}

/// How boot starts one service of a cluster node: its program, arguments and the service that it needs.
#[derive(Clone, Debug)]
pub struct ServiceSpec {
    /// Also part of file names: letters, digits, `-` and `_`.
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// An earlier service that has to be ready before this one starts.
    pub needs: Option<String>,
}

/// Timeouts and log limits that boot applies to all services.
#[derive(Clone, Copy, Debug)]
pub struct BootSettings {
    /// How long a service may take to exit after SIGTERM before it is killed.
    pub stop_grace: Duration,
    /// The longest delay before a restart.
    pub max_restart_delay: Duration,
    /// A log file that has reached this many bytes is rotated.
    pub max_log_size: u64,
    /// How many rotated log files are kept for each service.
    pub rotated_logs_kept: u32,
}

/// Which services' logs boot also prints to the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrintLog {
    None,
    All,
    Names(Vec<String>),
}

impl BootPlan {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let names: Vec<&str> = self
            .services
            .iter()
            .map(|service| service.name.as_str())
            .collect();
        if names.is_empty() {
            return Err(PlanError::Empty);
        }
        for (index, service) in self.services.iter().enumerate() {
            let name = service.name.as_str();
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            // `boot` is reserved for the pid file of boot itself.
            if name.is_empty() || name == "boot" || !name.chars().all(is_allowed) {
                return Err(PlanError::Name { name: name.into() });
            }
            if names[..index].contains(&name) {
                return Err(PlanError::Twice { name: name.into() });
            }
            if let Some(needs) = &service.needs
                && !names[..index].contains(&needs.as_str())
            {
                return Err(PlanError::Needs {
                    name: name.into(),
                    needs: needs.clone(),
                });
            }
        }
        if let PrintLog::Names(wanted) = &self.print_log
            && let Some(unknown) = wanted.iter().find(|wanted| !names.contains(&wanted.as_str()))
        {
            return Err(PlanError::Print {
                name: unknown.clone(),
                known: names.join(", "),
            });
        }
        Ok(())
    }

    pub(crate) fn prints(&self, name: &str) -> bool {
        match &self.print_log {
            PrintLog::None => false,
            PrintLog::All => true,
            PrintLog::Names(names) => names.iter().any(|wanted| wanted == name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_plan_is_refused() {
        fn check(services: &[(&str, Option<&str>)], print_log: PrintLog, expected: &str) {
            let plan = BootPlan {
                node: NodeIdentity {
                    kind: "judicator".into(),
                    name: "a".into(),
                },
                run: "/run".into(),
                log: "/log".into(),
                services: services
                    .iter()
                    .map(|(name, needs)| ServiceSpec {
                        name: name.to_string(),
                        program: "true".into(),
                        args: Vec::new(),
                        needs: needs.map(str::to_string),
                    })
                    .collect(),
                settings: BootSettings {
                    stop_grace: Duration::ZERO,
                    max_restart_delay: Duration::ZERO,
                    max_log_size: 0,
                    rotated_logs_kept: 0,
                },
                print_log,
            };
            let error = plan
                .check()
                .map_or_else(|error| error.to_string(), |()| String::new());
            assert!(
                if expected.is_empty() {
                    error.is_empty()
                } else {
                    error.contains(expected)
                },
                "{services:?}: {error}"
            );
        }
        let names = |name: &str| PrintLog::Names(vec![name.to_string()]);
        check(&[("a", None), ("b", Some("a"))], PrintLog::All, "");
        check(&[("a", None)], names("a"), "");
        check(&[], PrintLog::None, "no services");
        check(&[("boot", None)], PrintLog::None, "\"boot\"");
        check(&[("../a", None)], PrintLog::None, "\"../a\"");
        check(&[("a", None), ("a", None)], PrintLog::None, "twice");
        check(&[("a", Some("b")), ("b", None)], PrintLog::None, "\"b\"");
        check(&[("a", Some("a"))], PrintLog::None, "\"a\"");
        check(&[("a", None), ("c", None)], names("b"), "it has a, c");
    }
}
