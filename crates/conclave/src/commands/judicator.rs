//! `conclave judicator`: a judicator alone, on the embedded store, or a judicator's node of a cluster.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{ClusterFlags, FounderFlags, NameFlag, NodeFlags, flag};
use crate::cluster::{self, Kind};
use crate::config::Config;
use crate::node::{self, Folder, Parts, Reload, Renewed, Secrets, Serving, Signals, start};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Address for the calls of executors and gateways [default: 127.0.0.1:7010]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    name: NameFlag,
    #[command(flatten)]
    cluster: ClusterFlags,
    #[command(flatten)]
    founder: FounderFlags,
    #[command(flatten)]
    node: NodeFlags,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut own = args.name.flags();
    own.extend(args.cluster.flags());
    own.extend(args.founder.flags());
    own.extend(flag("judicator.listen", "--listen", &args.listen));
    let mut layers = args.node.layers(own)?;
    if args.cluster.cluster {
        return cluster::start(Kind::Judicator, layers, args.cluster.print_log());
    }
    let name = layers.config()?.node.name.0;
    layers.follow("judicator.name", "node.name", name);
    node::run(layers, serve)
}

async fn serve(config: Config, reload: Reload) -> Result<()> {
    let signals = Signals::listen()?;
    let mut secrets = Secrets::load(&config)?;
    let folder = Folder::prepare(&config.node.data.0)?;
    secrets.guard_rpc(&folder)?;
    let rpc = node::bind_rpc(&config, Some(&secrets), "--listen").await?;
    let address = rpc.local_addr()?;
    let (judicator, judicator_part) = start::alone(&config, &folder, Some(address), None)?;

    // The server first, so that the store closes when no call is under way.
    let parts = vec![
        start::reload(reload, Renewed::of(&secrets)),
        start::rpc(rpc, judicator, &secrets),
        judicator_part,
    ];

    let serving = Serving {
        verb: "judicator",
        addresses: vec![("rpc", address.to_string())],
        data: Some(folder.path),
        slots: None,
    };
    serving.announce()?;
    Parts(parts).run(signals).await
}
