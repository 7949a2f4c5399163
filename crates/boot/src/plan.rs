//! What boot is asked to keep alive. Decided elsewhere; only checked here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::PlanError;

#[derive(Clone, Debug)]
pub struct Plan {
    pub node: Node,
    /// Where pid files, marks of holding and `status.json` are.
    pub run: PathBuf,
    /// Where each service has its log file.
    pub log: PathBuf,
    /// In the order in which they are started.
    pub services: Vec<Service>,
    pub settings: Settings,
    pub print_log: PrintLog,
}

/// Whose services these are, for `conclave status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug)]
pub struct Service {
    /// Names its files, too: letters, digits, `-` and `_`.
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// An earlier service that has to be ready before this one is started.
    pub needs: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a service may take to end by itself before it is killed.
    pub stop_grace: Duration,
    /// The longest pause before a restart.
    pub restart_most: Duration,
    /// From how many bytes on a log file is put aside.
    pub log_size: u64,
    /// How many log files that were put aside are kept for each service.
    pub log_keep: u32,
}

/// Whose log goes to the terminal as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrintLog {
    None,
    All,
    Names(Vec<String>),
}

impl Plan {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let names: Vec<&str> = self
            .services
            .iter()
            .map(|service| service.name.as_str())
            .collect();
        if names.is_empty() {
            return Err(PlanError::Empty);
        }
        for (at, service) in self.services.iter().enumerate() {
            let name = service.name.as_str();
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            // Boot has a pid file beside those of its services.
            if name.is_empty() || name == "boot" || !name.chars().all(fits) {
                return Err(PlanError::Name { name: name.into() });
            }
            if names[..at].contains(&name) {
                return Err(PlanError::Twice { name: name.into() });
            }
            if let Some(needs) = &service.needs
                && !names[..at].contains(&needs.as_str())
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
    fn a_plan_that_cannot_be_kept_is_refused() {
        fn check(services: &[(&str, Option<&str>)], print_log: PrintLog, expected: &str) {
            let plan = Plan {
                node: Node {
                    kind: "judicator".into(),
                    name: "a".into(),
                },
                run: "/run".into(),
                log: "/log".into(),
                services: services
                    .iter()
                    .map(|(name, needs)| Service {
                        name: name.to_string(),
                        program: "true".into(),
                        args: Vec::new(),
                        needs: needs.map(str::to_string),
                    })
                    .collect(),
                settings: Settings {
                    stop_grace: Duration::ZERO,
                    restart_most: Duration::ZERO,
                    log_size: 0,
                    log_keep: 0,
                },
                print_log,
            };
            let said = plan
                .check()
                .map_or_else(|error| error.to_string(), |()| String::new());
            assert!(
                if expected.is_empty() {
                    said.is_empty()
                } else {
                    said.contains(expected)
                },
                "{services:?}: {said}"
            );
        }
        let names = |name: &str| PrintLog::Names(vec![name.to_string()]);
        check(&[("a", None), ("b", Some("a"))], PrintLog::All, "");
        check(&[("a", None)], names("a"), "");
        check(&[], PrintLog::None, "no service");
        check(&[("boot", None)], PrintLog::None, "\"boot\"");
        check(&[("../a", None)], PrintLog::None, "\"../a\"");
        check(&[("a", None), ("a", None)], PrintLog::None, "twice");
        check(&[("a", Some("b")), ("b", None)], PrintLog::None, "\"b\"");
        check(&[("a", Some("a"))], PrintLog::None, "\"a\"");
        check(&[("a", None), ("c", None)], names("b"), "it has a, c");
    }
}
