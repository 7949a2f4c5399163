//! `conclave judicator`: a judicator alone, on the embedded store.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{NodeFlags, flag};
use crate::config::Config;
use crate::node::{self, Folder, Parts, Secrets, Serving, Signals, start};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Address for the calls of executors and gateways [default: 127.0.0.1:7010]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    node: NodeFlags,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let own = flag("judicator.listen", "--listen", &args.listen);
    let layers = args.node.layers(own.into_iter().collect())?;
    node::run(layers.config()?, serve)
}

async fn serve(config: Config) -> Result<()> {
    let signals = Signals::listen()?;
    let secrets = Secrets::load(&config)?;
    let folder = Folder::prepare(&config.node.data.0)?;
    let rpc = node::bind_rpc(&config, &secrets, "--listen").await?;
    let address = rpc.local_addr()?;
    let (judicator, judicator_part) = start::judicator(&config, &folder, address)?;

    // The server first, so that the store closes when no call is under way.
    let parts = vec![start::rpc(rpc, judicator, &secrets), judicator_part];

    let serving = Serving {
        verb: "judicator",
        addresses: vec![("rpc", address.to_string())],
        data: Some(folder.path),
        slots: None,
    };
    serving.announce()?;
    Parts(parts).run(signals).await
}
