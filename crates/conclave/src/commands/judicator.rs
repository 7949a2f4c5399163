//! `conclave judicator`: starts a judicator with the embedded store, or a judicator node of a cluster.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{BootstrapFlags, ClusterFlags, NodeFlags, NodeNameFlag, config_flag};
use crate::cluster::{self, NodeKind};
use crate::config::Config;
use crate::node::{
    self, NodeComponents, NodeFolder, NodeSecrets, ReadyLine, ReloadOnHangup, ReloadedFiles, StopSignals,
    start,
};

/// The arguments of `conclave judicator`.
#[derive(clap::Args, Debug)]
pub(crate) struct JudicatorArgs {
    /// Address for the RPC of executors and gateways [default: 127.0.0.1:7010]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    name: NodeNameFlag,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    bootstrap: BootstrapFlags,
    #[command(flatten)]
    node: NodeFlags,
}

pub(crate) fn run(args: JudicatorArgs) -> Result<ExitCode> {
    let mut command_flags = args.name.config_flags();
    command_flags.extend(args.cluster.config_flags());
    command_flags.extend(args.bootstrap.config_flags());
    command_flags.extend(config_flag("judicator.listen", "--listen", &args.listen));
    let mut layers = args.node.layers(command_flags)?;
    if args.cluster.cluster {
        return cluster::start(NodeKind::Judicator, layers, args.cluster.print_log());
    }
    let name = layers.config()?.node.name.0;
    layers.derive("judicator.name", "node.name", name);
    node::run(layers, serve)
}

async fn serve(config: Config, reload: ReloadOnHangup) -> Result<()> {
    let signals = StopSignals::listen()?;
    let mut secrets = NodeSecrets::load(&config)?;
    let folder = NodeFolder::prepare(&config.node.data.0)?;
    secrets.require_rpc_secret(&folder)?;
    let rpc = node::bind_rpc(&config, Some(&secrets), "--listen").await?;
    let address = rpc.local_addr()?;
    let (judicator, judicator_component) = start::single_judicator(&config, &folder, Some(address), None)?;

    // The RPC server stops before the judicator, so that the store closes when no call is in progress.
    let components = vec![
        start::reload(reload, ReloadedFiles::of(&secrets)),
        start::rpc(rpc, judicator, &secrets),
        judicator_component,
    ];

    let ready_line = ReadyLine {
        command: "judicator",
        addresses: vec![("rpc", address.to_string())],
        data: Some(folder.path),
        slots: None,
    };
    ready_line.print()?;
    NodeComponents(components).run(signals).await
}
