//! `conclave gateway`: starts a gateway that connects to judicators elsewhere, or a gateway node of a cluster.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;

use crate::args::{ClusterFlags, GatewayFlags, NodeFlags, NodeNameFlag, config_flag, config_list_flag};
use crate::cluster::{self, NodeKind};
use crate::config::Config;
use crate::node::{
    self, NodeComponents, NodeSecrets, ReadyLine, ReloadOnHangup, ReloadedFiles, StopSignals, start,
};

/// The arguments of `conclave gateway`.
#[derive(clap::Args, Debug)]
pub(crate) struct GatewayArgs {
    /// Address of a judicator; repeatable [default: 127.0.0.1:7010]
    #[arg(long = "judicator", value_name = "HOST:PORT", conflicts_with = "cluster")]
    judicators: Vec<String>,
    /// Address of the HTTP API and the web pages [default: 127.0.0.1:7000]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    gateway: GatewayFlags,
    #[command(flatten)]
    name: NodeNameFlag,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    node: NodeFlags,
}

pub(crate) fn run(args: GatewayArgs) -> Result<ExitCode> {
    let mut command_flags = args.gateway.config_flags();
    command_flags.extend(config_flag("gateway.listen", "--listen", &args.listen));
    command_flags.extend(config_list_flag(
        "gateway.judicators",
        "--judicator",
        &args.judicators,
    ));
    command_flags.extend(args.name.config_flags());
    command_flags.extend(args.cluster.config_flags());
    let layers = args.node.layers(command_flags)?;
    match args.cluster.cluster {
        true => cluster::start(NodeKind::Gateway, layers, args.cluster.print_log()),
        false => node::run_gateway(layers, serve),
    }
}

async fn serve(config: Config, reload: ReloadOnHangup) -> Result<()> {
    let signals = StopSignals::listen()?;
    let secrets = NodeSecrets::load(&config)?;
    secrets.check_gateway(&config)?;
    let http = node::bind_http(&config, Some(&secrets), "--listen").await?;
    let calls = Arc::new(start::rpc_client(&config.gateway.judicators, &secrets));
    let metrics = start::metrics()?;
    let ready_line = ReadyLine {
        command: "gateway",
        addresses: vec![("http", http.local_addr()?.to_string())],
        data: None,
        slots: None,
    };

    let components = vec![
        start::metrics_upkeep(metrics.clone()),
        start::reload(reload, ReloadedFiles::of(&secrets)),
        start::gateway(&config, http, calls, &secrets, metrics),
    ];

    ready_line.print()?;
    NodeComponents(components).run(signals).await
}
