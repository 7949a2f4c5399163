//! `conclave executor`: starts an executor that connects to judicators elsewhere, or an executor node of a cluster.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, ensure};
use executor::JudicatorLocation;

use crate::args::{ClusterFlags, ExecutorFlags, NodeFlags, config_flag, config_list_flag};
use crate::cluster::{self, NodeKind};
use crate::config::Config;
use crate::node::{
    self, NodeComponents, NodeFolder, NodeSecrets, ReadyLine, ReloadOnHangup, ReloadedFiles, StopSignals,
    start,
};

/// The arguments of `conclave executor`.
#[derive(clap::Args, Debug)]
pub(crate) struct ExecutorArgs {
    /// Address of a judicator; repeatable [default: 127.0.0.1:7010]
    #[arg(long = "judicator", value_name = "HOST:PORT", conflicts_with = "cluster")]
    judicators: Vec<String>,
    #[command(flatten)]
    executor: ExecutorFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    node: NodeFlags,
}

pub(crate) fn run(args: ExecutorArgs) -> Result<ExitCode> {
    let mut command_flags = args.executor.config_flags();
    command_flags.extend(config_list_flag(
        "executor.judicators",
        "--judicator",
        &args.judicators,
    ));
    if args.cluster.cluster {
        command_flags.extend(args.cluster.config_flags());
        command_flags.extend(config_flag("node.name", "--name", args.executor.name()));
        return cluster::start(
            NodeKind::Executor,
            args.node.layers(command_flags)?,
            args.cluster.print_log(),
        );
    }
    let layers = args.node.layers(command_flags)?;
    ensure!(
        layers.config()?.executor.slots.0 > 0,
        "executor.slots is 0, so this executor would run no task; give it at least 1 with --slots"
    );
    node::run(layers, serve)
}

async fn serve(config: Config, reload: ReloadOnHangup) -> Result<()> {
    let signals = StopSignals::listen()?;
    let secrets = NodeSecrets::load(&config)?;
    let folder = NodeFolder::prepare(&config.node.data.0)?;
    let calls = start::rpc_client(&config.executor.judicators, &secrets);

    let components = vec![
        start::executor(&config, &folder, Arc::new(calls), JudicatorLocation::Remote).await?,
        // Stopped last, so that the last report still uses the current secret.
        start::reload(reload, ReloadedFiles::of(&secrets)),
    ];

    let ready_line = ReadyLine {
        command: "executor",
        addresses: config
            .executor
            .judicators
            .iter()
            .map(|judicator| ("rpc", judicator.0.clone()))
            .collect(),
        data: Some(folder.path),
        slots: Some(config.executor.slots.0),
    };
    ready_line.print()?;
    NodeComponents(components).run(signals).await
}
