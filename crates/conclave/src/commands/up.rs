//! `conclave up`: judicator, executor and gateway in one process.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use rpc::Calls;

use crate::args::{ExecutorFlags, GatewayFlags, NodeFlags, flag};
use crate::config::{Config, Layers};
use crate::node::{self, Folder, Parts, Secrets, Serving, Signals, start};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Address of the HTTP API and the pages [default: 127.0.0.1:7000]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Address where executors of other machines join [default: 127.0.0.1:7010]
    #[arg(long, value_name = "HOST:PORT")]
    rpc: Option<String>,
    #[command(flatten)]
    executor: ExecutorFlags,
    #[command(flatten)]
    gateway: GatewayFlags,
    #[command(flatten)]
    node: NodeFlags,
}

impl Args {
    pub(crate) fn layers(&self) -> Result<Layers> {
        let mut own = self.executor.flags();
        own.extend(self.gateway.flags());
        own.extend(flag("gateway.listen", "--listen", &self.listen));
        own.extend(flag("judicator.listen", "--rpc", &self.rpc));
        self.node.layers(own)
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    node::run(args.layers()?.config()?, serve)
}

async fn serve(config: Config) -> Result<()> {
    let signals = Signals::listen()?;
    let secrets = Secrets::load(&config)?;
    let folder = Folder::prepare(&config.node.data.0)?;
    let http = node::bind_http(&config, &secrets, "--listen").await?;
    let rpc = node::bind_rpc(&config, &secrets, "--rpc").await?;
    let serving = Serving {
        verb: "up",
        addresses: vec![
            ("http", http.local_addr()?.to_string()),
            ("rpc", rpc.local_addr()?.to_string()),
        ],
        data: Some(folder.path.clone()),
        slots: Some(config.executor.slots.0),
    };

    let metrics = start::metrics()?;
    let (judicator, judicator_part) = start::alone(&config, &folder, rpc.local_addr()?)?;
    let calls: Arc<dyn Calls> = judicator;

    // Stopped from the first to the last: nothing new is taken, then work is given back while there is still a
    // judicator to give it to, and the store closes when nobody can write any more.
    // Whichever fails takes the whole process down with its error: half a node helps nobody.
    let mut parts = vec![
        start::upkeep(metrics.clone()),
        start::gateway(&config, http, Arc::clone(&calls), &secrets, metrics),
    ];
    if config.executor.slots.0 > 0 {
        parts.push(start::executor(&config, &folder, Arc::clone(&calls))?);
    }
    parts.push(start::rpc(rpc, calls, &secrets));
    parts.push(judicator_part);

    serving.announce()?;
    Parts(parts).run(signals).await
}
