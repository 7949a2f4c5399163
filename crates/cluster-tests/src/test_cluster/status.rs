//! Parses the output of `conclave status --json`.

use serde_json::Value;

/// The status of a node under test, as parsed from the output of `conclave status --json`.
#[derive(Clone, Debug)]
pub struct NodeStatusJson {
    pub services: Vec<ServiceStatusJson>,
}

/// The status of one service of a node under test, as parsed from the output of `conclave status --json`.
#[derive(Clone, Debug)]
pub struct ServiceStatusJson {
    pub name: String,
    /// For example `running`, `starting`, `held`.
    pub state: String,
    pub pid: Option<i32>,
    /// The process of etcd or mongod, where the service wraps one.
    pub server: Option<i32>,
    pub restarts: u64,
    /// How the process last ended; empty if it never ended.
    pub exit: String,
    /// What the service reports to be doing or waiting for; may be empty.
    pub doing: String,
}

impl NodeStatusJson {
    pub(super) fn parse(status: &Value) -> NodeStatusJson {
        let services = status["services"].as_array();
        let services = services.unwrap_or_else(|| panic!("no services in {status:#}"));
        NodeStatusJson {
            services: services.iter().map(ServiceStatusJson::parse).collect(),
        }
    }

    pub fn get(&self, name: &str) -> Option<&ServiceStatusJson> {
        self.services.iter().find(|service| service.name == name)
    }

    /// Whether every service is running.
    pub fn is_ready(&self) -> bool {
        !self.services.is_empty() && self.services.iter().all(|service| service.state == "running")
    }
}

impl ServiceStatusJson {
    fn parse(service: &Value) -> ServiceStatusJson {
        let text = |key: &str| match &service[key] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let number = |key: &str| service[key].as_i64();
        let pid = |key: &str| number(key).map(|pid| i32::try_from(pid).expect("a pid"));
        ServiceStatusJson {
            name: text("name"),
            state: text("state"),
            pid: pid("pid"),
            server: pid("server_pid"),
            restarts: service["restarts"].as_u64().unwrap_or_default(),
            exit: text("last_exit"),
            doing: text("doing"),
        }
    }
}
