//! `conclave executor`: an executor alone, for judicators that are elsewhere, or an executor's node of a cluster.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, ensure};
use executor::Contact;

use crate::args::{ClusterFlags, ExecutorFlags, NodeFlags, flag, list_flag};
use crate::cluster::{self, Kind};
use crate::config::Config;
use crate::node::{self, Folder, Parts, Reload, Renewed, Secrets, Serving, Signals, start};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
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

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut own = args.executor.flags();
    own.extend(list_flag("executor.judicators", "--judicator", &args.judicators));
    if args.cluster.cluster {
        own.extend(args.cluster.flags());
        own.extend(flag("node.name", "--name", args.executor.name()));
        return cluster::start(Kind::Executor, args.node.layers(own)?, args.cluster.print_log());
    }
    let layers = args.node.layers(own)?;
    ensure!(
        layers.config()?.executor.slots.0 > 0,
        "executor.slots is 0, so this executor would run nothing; give it at least 1 with --slots"
    );
    node::run(layers, serve)
}

async fn serve(config: Config, reload: Reload) -> Result<()> {
    let signals = Signals::listen()?;
    let secrets = Secrets::load(&config)?;
    let folder = Folder::prepare(&config.node.data.0)?;
    let calls = start::client(&config.executor.judicators, &secrets);

    let parts = vec![
        start::executor(&config, &folder, Arc::new(calls), Contact::Remote).await?,
        // To the end, so that the last report shows the secret of that time.
        start::reload(reload, Renewed::of(&secrets)),
    ];

    let serving = Serving {
        verb: "executor",
        addresses: config
            .executor
            .judicators
            .iter()
            .map(|judicator| ("rpc", judicator.0.clone()))
            .collect(),
        data: Some(folder.path),
        slots: Some(config.executor.slots.0),
    };
    serving.announce()?;
    Parts(parts).run(signals).await
}
