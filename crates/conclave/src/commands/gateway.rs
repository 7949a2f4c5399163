//! `conclave gateway`: a gateway alone, for judicators that are elsewhere, or a gateway's node of a cluster.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;

use crate::args::{ClusterFlags, GatewayFlags, NameFlag, NodeFlags, flag, list_flag};
use crate::cluster::{self, Kind};
use crate::config::Config;
use crate::node::{self, Parts, Reload, Renewed, Secrets, Serving, Signals, start};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Address of a judicator; repeatable [default: 127.0.0.1:7010]
    #[arg(long = "judicator", value_name = "HOST:PORT", conflicts_with = "cluster")]
    judicators: Vec<String>,
    /// Address of the HTTP API and the pages [default: 127.0.0.1:7000]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    gateway: GatewayFlags,
    #[command(flatten)]
    name: NameFlag,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    node: NodeFlags,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut own = args.gateway.flags();
    own.extend(flag("gateway.listen", "--listen", &args.listen));
    own.extend(list_flag("gateway.judicators", "--judicator", &args.judicators));
    own.extend(args.name.flags());
    own.extend(args.cluster.flags());
    let layers = args.node.layers(own)?;
    match args.cluster.cluster {
        true => cluster::start(Kind::Gateway, layers, args.cluster.print_log()),
        false => node::run_gateway(layers, serve),
    }
}

async fn serve(config: Config, reload: Reload) -> Result<()> {
    let signals = Signals::listen()?;
    let secrets = Secrets::load(&config)?;
    secrets.check_gateway(&config)?;
    let http = node::bind_http(&config, Some(&secrets), "--listen").await?;
    let calls = Arc::new(start::client(&config.gateway.judicators, &secrets));
    let metrics = start::metrics()?;
    let serving = Serving {
        verb: "gateway",
        addresses: vec![("http", http.local_addr()?.to_string())],
        data: None,
        slots: None,
    };

    let parts = vec![
        start::upkeep(metrics.clone()),
        start::reload(reload, Renewed::of(&secrets)),
        start::gateway(&config, http, calls, &secrets, metrics),
    ];

    serving.announce()?;
    Parts(parts).run(signals).await
}
