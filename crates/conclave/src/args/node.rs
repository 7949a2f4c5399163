//! Flags of the commands that start a node or act on one. Most are short names for configuration keys.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::cluster::LocalNode;
use crate::config::{Config, ConfigFlag, ConfigLayers};

/// Flags of every command that starts a node.
#[derive(Args, Debug)]
pub(crate) struct NodeFlags {
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", env = "CONCLAVE_CONFIG")]
    config: Option<PathBuf>,
    /// Folder for all data of the node
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Log level: off, error, warn, info, debug, trace; `json` or `debug,json` for JSON lines
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// File with the shared secret by which nodes authenticate to each other
    #[arg(long, value_name = "FILE")]
    cluster_file: Option<String>,
    /// Allow listening on addresses that other machines can reach without a secret or tokens
    #[arg(long)]
    insecure: bool,
    /// Set any configuration key
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_key_value)]
    set: Vec<(String, String)>,
}

/// Flags of the commands that start an executor.
#[derive(Args, Debug)]
pub(crate) struct ExecutorFlags {
    /// Number of tasks that run at the same time, or auto for one per core
    #[arg(long, value_name = "N")]
    slots: Option<String>,
    /// How tasks are isolated: cell, or none for trusted work
    #[arg(long, value_name = "HOW")]
    isolation: Option<String>,
    /// Limit that need not be enforced for all processes of a task together (memory, processes, cpu); repeatable
    #[arg(long, value_name = "NAME")]
    allow_weaker: Vec<String>,
    /// Run the tasks of each slot on a CPU of its own
    #[arg(long)]
    pin: bool,
    /// Judge tasks with cases although they run without cells; a judged program can then look for the answers
    #[arg(long)]
    judge_without_cells: bool,
    /// Name of the executor
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// Flags of the commands that start a gateway.
#[derive(Args, Debug)]
pub(crate) struct GatewayFlags {
    /// File of tokens that the HTTP API accepts
    #[arg(long, value_name = "FILE")]
    tokens_file: Option<String>,
}

/// Flags of the commands that act on the node of this machine.
#[derive(Args, Debug)]
pub(crate) struct LocalNodeFlags {
    /// Configuration file of the node, to find its data folder
    #[arg(long, value_name = "FILE", env = "CONCLAVE_CONFIG")]
    config: Option<PathBuf>,
    /// Data folder of the node
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
}

impl NodeFlags {
    /// The configuration of the node, with these flags and `command_flags` as its last layer.
    pub(crate) fn layers(&self, command_flags: Vec<ConfigFlag>) -> Result<ConfigLayers> {
        let named = [
            config_flag("node.data", "--data", &self.data),
            config_flag("node.log", "--log", &self.log),
            config_flag("secrets.cluster_file", "--cluster-file", &self.cluster_file),
            config_flag("node.insecure", "--insecure", &switch_text(self.insecure)),
        ];
        let set = self.set.iter().map(|(key, text)| ConfigFlag {
            key: key.clone(),
            flag: "--set",
            text: text.clone(),
        });
        let flags = set
            .chain(named.into_iter().flatten())
            .chain(command_flags)
            .collect();
        ConfigLayers::gather(self.config.as_deref(), flags)
    }
}

impl ExecutorFlags {
    pub(crate) fn name(&self) -> &Option<String> {
        &self.name
    }

    pub(crate) fn config_flags(&self) -> Vec<ConfigFlag> {
        [
            config_flag("executor.slots", "--slots", &self.slots),
            config_flag("executor.isolation", "--isolation", &self.isolation),
            config_list_flag("sandbox.allow_weaker", "--allow-weaker", &self.allow_weaker),
            config_flag("executor.name", "--name", &self.name),
            config_flag("executor.pin", "--pin", &switch_text(self.pin)),
            config_flag(
                "executor.judge_without_cells",
                "--judge-without-cells",
                &switch_text(self.judge_without_cells),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl GatewayFlags {
    pub(crate) fn config_flags(&self) -> Vec<ConfigFlag> {
        config_flag("secrets.tokens_file", "--tokens-file", &self.tokens_file)
            .into_iter()
            .collect()
    }
}

impl LocalNodeFlags {
    pub(crate) fn node(&self) -> Result<LocalNode> {
        LocalNode::at(&self.config()?.node.data.0)
    }

    pub(crate) fn config(&self) -> Result<Config> {
        let data = config_flag("node.data", "--data", &self.data)
            .into_iter()
            .collect();
        ConfigLayers::gather(self.config.as_deref(), data)?.config()
    }
}

/// The configuration text of a flag without a value.
fn switch_text(is_given: bool) -> Option<String> {
    is_given.then(|| "true".to_string())
}

/// The configuration value of a flag, if the flag is given.
pub(crate) fn config_flag(key: &str, flag: &'static str, text: &Option<String>) -> Option<ConfigFlag> {
    text.as_ref().map(|text| ConfigFlag {
        key: key.to_string(),
        flag,
        text: text.clone(),
    })
}

/// The configuration value of a repeatable flag: its values, separated by commas.
pub(crate) fn config_list_flag(key: &str, flag: &'static str, values: &[String]) -> Option<ConfigFlag> {
    config_flag(key, flag, &(!values.is_empty()).then(|| values.join(",")))
}

fn parse_key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_string(), value.trim().to_string()))
        }
        _ => Err("write it like executor.self_kill=5s".to_string()),
    }
}
