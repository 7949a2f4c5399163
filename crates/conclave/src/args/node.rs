//! Flags of every command that starts a node. Each is a key of the configuration under a shorter name.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::config::{Flag, Layers};

#[derive(Args, Debug)]
pub(crate) struct NodeFlags {
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", env = "CONCLAVE_CONFIG")]
    config: Option<PathBuf>,
    /// Folder for all that the node keeps
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// What is logged: off, error, warn, info, debug, trace; `json` or `debug,json` for JSON lines
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// File with the secret that nodes show each other
    #[arg(long, value_name = "FILE")]
    cluster_file: Option<String>,
    /// Allow addresses that other machines reach without a secret or tokens
    #[arg(long)]
    insecure: bool,
    /// Set any key of the configuration
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

#[derive(Args, Debug)]
pub(crate) struct ExecutorFlags {
    /// Tasks that run at the same time: a number, or auto for one on each core
    #[arg(long, value_name = "N")]
    slots: Option<String>,
    /// How tasks are kept apart: cell, or none for trusted work
    #[arg(long, value_name = "HOW")]
    isolation: Option<String>,
    /// Limit that need not be kept for all processes of a task together (memory, processes, cpu); repeatable
    #[arg(long, value_name = "NAME")]
    allow_weaker: Vec<String>,
    /// Name of the executor
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct GatewayFlags {
    /// File with the tokens of the HTTP API
    #[arg(long, value_name = "FILE")]
    tokens_file: Option<String>,
}

impl NodeFlags {
    /// Everything the node was told, with these flags and those of the command's own on top.
    pub(crate) fn layers(&self, own: Vec<Flag>) -> Result<Layers> {
        let named = [
            flag("node.data", "--data", &self.data),
            flag("node.log", "--log", &self.log),
            flag("secrets.cluster_file", "--cluster-file", &self.cluster_file),
            flag(
                "node.insecure",
                "--insecure",
                &self.insecure.then(|| "true".to_string()),
            ),
        ];
        let set = self.set.iter().map(|(key, text)| Flag {
            key: key.clone(),
            flag: "--set",
            text: text.clone(),
        });
        let flags = set.chain(named.into_iter().flatten()).chain(own).collect();
        Layers::gather(self.config.as_deref(), flags)
    }
}

impl ExecutorFlags {
    pub(crate) fn name(&self) -> &Option<String> {
        &self.name
    }

    pub(crate) fn flags(&self) -> Vec<Flag> {
        [
            flag("executor.slots", "--slots", &self.slots),
            flag("executor.isolation", "--isolation", &self.isolation),
            list_flag("sandbox.allow_weaker", "--allow-weaker", &self.allow_weaker),
            flag("executor.name", "--name", &self.name),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl GatewayFlags {
    pub(crate) fn flags(&self) -> Vec<Flag> {
        flag("secrets.tokens_file", "--tokens-file", &self.tokens_file)
            .into_iter()
            .collect()
    }
}

pub(crate) fn flag(key: &str, flag: &'static str, text: &Option<String>) -> Option<Flag> {
    text.as_ref().map(|text| Flag {
        key: key.to_string(),
        flag,
        text: text.clone(),
    })
}

/// For a flag that is given once for each part of a list.
pub(crate) fn list_flag(key: &str, name: &'static str, parts: &[String]) -> Option<Flag> {
    flag(key, name, &(!parts.is_empty()).then(|| parts.join(",")))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_string(), value.trim().to_string()))
        }
        _ => Err("write it like executor.self_kill=5s".to_string()),
    }
}
