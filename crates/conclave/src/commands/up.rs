//! `conclave up`: judicator, executor and gateway in one process.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use boot::SingleNode;
use executor::Contact;
use rpc::Calls;
use tokio::net::TcpListener;

use crate::args::{ExecutorFlags, GatewayFlags, NodeFlags, flag};
use crate::config::{Config, Layers};
use crate::node::{
    self, Folder, Parts, Problems, Reload, Renewed, Secrets, Serving, Signals, options, start,
};

#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Address of the HTTP API and the pages [default: 127.0.0.1:7000]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Address where executors and gateways of other machines join, like 127.0.0.1:7010 [default: none]
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

/// Whether other processes can join.
#[derive(Clone, Copy, Debug)]
enum Rpc {
    Open,
    /// Nobody asked for it, so no port is taken and no caller has to be kept out.
    Closed,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let layers = args.layers()?;
    let rpc = match layers.is_default("judicator.listen") {
        true => Rpc::Closed,
        false => Rpc::Open,
    };
    node::run(layers, |config, reload| serve(config, reload, rpc))
}

/// What has to be there before a part is started.
struct Prepared {
    secrets: Secrets,
    folder: Folder,
    single: SingleNode,
    http: TcpListener,
    rpc: Option<TcpListener>,
}

impl Prepared {
    /// The error names all that is missing, not only the first of it.
    async fn new(config: &Config, rpc: Rpc) -> Result<Prepared> {
        let mut problems = Problems::default();
        let mut secrets = problems.keep(Secrets::load(config));
        let folder = problems.keep(Folder::prepare(&config.node.data.0));
        let single = match &folder {
            // At once: where a node runs already, its addresses are taken as well, which would be no news.
            Some(folder) => Some(enter(config, folder).await?),
            None => None,
        };
        let http = problems.keep(node::bind_http(config, secrets.as_ref(), "--listen").await);
        let rpc = match rpc {
            Rpc::Open => {
                if let (Some(secrets), Some(folder)) = (&mut secrets, &folder) {
                    problems.keep(secrets.guard_rpc(folder));
                }
                // The secret may be in the data folder.
                let known = folder.as_ref().and(secrets.as_ref());
                problems
                    .keep(node::bind_rpc(config, known, "--rpc").await)
                    .map(Some)
            }
            Rpc::Closed => Some(None),
        };
        if let (Some(secrets), Some(folder), Some(single), Some(http), Some(rpc), true) =
            (secrets, folder, single, http, rpc, problems.is_empty())
        {
            return Ok(Prepared {
                secrets,
                folder,
                single,
                http,
                rpc,
            });
        }
        // Where all of this is well, the executor itself finds out.
        if config.executor.slots.0 > 0
            && let Some(plan) = options::cells(config)
        {
            problems.keep(plan.try_out());
        }
        problems.refuse()?;
        bail!("the node could not be prepared")
    }
}

async fn enter(config: &Config, folder: &Folder) -> Result<SingleNode> {
    Ok(SingleNode::enter(&folder.run()?, "up", &config.node.name.0).await?)
}

async fn serve(config: Config, reload: Reload, rpc: Rpc) -> Result<()> {
    let signals = Signals::listen()?;
    let Prepared {
        secrets,
        folder,
        mut single,
        http,
        rpc,
    } = Prepared::new(&config, rpc).await?;
    let rpc_address = rpc.as_ref().map(TcpListener::local_addr).transpose()?;
    let mut addresses = vec![("http", http.local_addr()?.to_string())];
    addresses.extend(rpc_address.map(|address| ("rpc", address.to_string())));
    let serving = Serving {
        verb: "up",
        addresses,
        data: Some(folder.path.clone()),
        slots: Some(config.executor.slots.0),
    };

    let metrics = start::metrics()?;
    let has_executor = config.executor.slots.0 > 0;
    let capacity = has_executor.then(|| options::capacity(&config));
    let (judicator, judicator_part) = start::alone(&config, &folder, rpc_address, capacity)?;
    let calls: Arc<dyn Calls> = judicator;
    // Before anything is served: a machine on which no task can run is told to its operator alone.
    let executor = match has_executor {
        false => None,
        true => Some(start::executor(&config, &folder, Arc::clone(&calls), Contact::SameProcess).await?),
    };

    // Stopped from the first to the last: nothing new is taken, then work is given back while there is still a
    // judicator to give it to, and the store closes when nobody can write any more.
    // Whichever fails takes the whole process down with its error: half a node helps nobody.
    let mut parts = vec![
        start::upkeep(metrics.clone()),
        start::reload(reload, Renewed::of(&secrets)),
        start::gateway(&config, http, Arc::clone(&calls), &secrets, metrics),
    ];
    parts.extend(executor);
    parts.extend(rpc.map(|rpc| start::rpc(rpc, calls, &secrets)));
    parts.push(judicator_part);

    single.serves(&serving.addresses)?;
    serving.announce()?;
    Parts(parts).run(signals).await
}
