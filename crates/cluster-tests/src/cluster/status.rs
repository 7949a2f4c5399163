//! What `conclave status --json` says about a node.

use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Status {
    pub services: Vec<Service>,
}

/// One of the node's services.
#[derive(Clone, Debug)]
pub struct Service {
    pub name: String,
    /// Like `running`, `starting`, `held`.
    pub state: String,
    pub pid: Option<i32>,
    /// The process that does the work, where the service wraps another program.
    pub server: Option<i32>,
    pub restarts: u64,
    /// How it last ended, in words; empty if it never did.
    pub exit: String,
    /// What it does or waits for; empty if it said nothing.
    pub doing: String,
}

impl Status {
    pub(super) fn parse(status: &Value) -> Status {
        let services = status["services"].as_array();
        let services = services.unwrap_or_else(|| panic!("no services in {status:#}"));
        Status {
            services: services.iter().map(Service::parse).collect(),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.name == name)
    }

    /// Everything there is serves.
    pub fn is_ready(&self) -> bool {
        !self.services.is_empty() && self.services.iter().all(|service| service.state == "running")
    }
}

impl Service {
    fn parse(service: &Value) -> Service {
        let text = |key: &str| match &service[key] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let number = |key: &str| service[key].as_i64();
        let pid = |key: &str| number(key).map(|pid| i32::try_from(pid).expect("a pid"));
        Service {
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
