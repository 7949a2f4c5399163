//! `conclave up`: runs judicator, executor and gateway in one process.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use boot::SingleProcessNode;
use executor::JudicatorLocation;
use rpc::Calls;
use tokio::net::TcpListener;

use crate::args::{ExecutorFlags, GatewayFlags, NodeFlags, config_flag};
use crate::config::{Config, ConfigLayers};
use crate::node::{
    self, NodeComponents, NodeFolder, NodeSecrets, ReadyLine, ReloadOnHangup, ReloadedFiles, StartProblems,
    StopSignals, options, start,
};

/// The arguments of `conclave up`.
#[derive(clap::Args, Debug)]
pub(crate) struct UpArgs {
    /// Address of the HTTP API and the web pages [default: 127.0.0.1:7000]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Address for the RPC of executors and gateways of other machines, like 127.0.0.1:7010 [default: none]
    #[arg(long, value_name = "HOST:PORT")]
    rpc: Option<String>,
    #[command(flatten)]
    executor: ExecutorFlags,
    #[command(flatten)]
    gateway: GatewayFlags,
    #[command(flatten)]
    node: NodeFlags,
}

impl UpArgs {
    pub(crate) fn layers(&self) -> Result<ConfigLayers> {
        let mut command_flags = self.executor.config_flags();
        command_flags.extend(self.gateway.config_flags());
        command_flags.extend(config_flag("gateway.listen", "--listen", &self.listen));
        command_flags.extend(config_flag("judicator.listen", "--rpc", &self.rpc));
        self.node.layers(command_flags)
    }
}

/// Whether executors and gateways of other processes can connect to a `conclave up` by RPC.
#[derive(Clone, Copy, Debug)]
enum RpcAccess {
    Open,
    /// The configuration does not ask for it, so no port is opened.
    Closed,
}

pub(crate) fn run(args: UpArgs) -> Result<ExitCode> {
    let layers = args.layers()?;
    let rpc = match layers.is_default("judicator.listen") {
        true => RpcAccess::Closed,
        false => RpcAccess::Open,
    };
    node::run(layers, |config, reload| serve(config, reload, rpc))
}

/// The secrets, data folder and listeners of a `conclave up`, prepared before it starts its components.
struct PreparedNode {
    secrets: NodeSecrets,
    folder: NodeFolder,
    single: SingleProcessNode,
    http: TcpListener,
    rpc: Option<TcpListener>,
}

impl PreparedNode {
    /// The error lists all problems, not only the first.
    async fn new(config: &Config, rpc: RpcAccess) -> Result<PreparedNode> {
        let mut problems = StartProblems::default();
        let mut secrets = problems.collect(NodeSecrets::load(config));
        let folder = problems.collect(NodeFolder::prepare(&config.node.data.0));
        let single = match &folder {
            // Fails at once: if a node is running already, its addresses are in use too, and would only repeat the problem.
            Some(folder) => Some(register(config, folder).await?),
            None => None,
        };
        let http = problems.collect(node::bind_http(config, secrets.as_ref(), "--listen").await);
        let rpc = match rpc {
            RpcAccess::Open => {
                if let (Some(secrets), Some(folder)) = (&mut secrets, &folder) {
                    problems.collect(secrets.require_rpc_secret(folder));
                }
                // Without a data folder the generated secret is unknown.
                let secrets = folder.as_ref().and(secrets.as_ref());
                problems
                    .collect(node::bind_rpc(config, secrets, "--rpc").await)
                    .map(Some)
            }
            RpcAccess::Closed => Some(None),
        };
        if let (Some(secrets), Some(folder), Some(single), Some(http), Some(rpc), true) =
            (secrets, folder, single, http, rpc, problems.is_empty())
        {
            return Ok(PreparedNode {
                secrets,
                folder,
                single,
                http,
                rpc,
            });
        }
        // Without other problems the executor does this check when it starts.
        if config.executor.slots.0 > 0
            && let Some(sandbox) = options::cells(config)
        {
            problems.collect(sandbox.check_machine());
            problems.collect(node::check_configured_roots(config));
        }
        problems.into_result()?;
        bail!("could not prepare the node")
    }
}

async fn register(config: &Config, folder: &NodeFolder) -> Result<SingleProcessNode> {
    Ok(SingleProcessNode::register(&folder.run_folder()?, "up", &config.node.name.0).await?)
}

async fn serve(config: Config, reload: ReloadOnHangup, rpc: RpcAccess) -> Result<()> {
    let signals = StopSignals::listen()?;
    let PreparedNode {
        secrets,
        folder,
        mut single,
        http,
        rpc,
    } = PreparedNode::new(&config, rpc).await?;
    let rpc_address = rpc.as_ref().map(TcpListener::local_addr).transpose()?;
    let mut addresses = vec![("http", http.local_addr()?.to_string())];
    addresses.extend(rpc_address.map(|address| ("rpc", address.to_string())));
    let ready_line = ReadyLine {
        command: "up",
        addresses,
        data: Some(folder.path.clone()),
        slots: Some(config.executor.slots.0),
    };

    let metrics = start::metrics()?;
    let has_executor = config.executor.slots.0 > 0;
    let capacity = has_executor.then(|| options::capacity(&config));
    let (judicator, judicator_component) = start::single_judicator(&config, &folder, rpc_address, capacity)?;
    let calls: Arc<dyn Calls> = judicator;
    // Prepared before anything is served: if this machine cannot run tasks, the process fails before it accepts any.
    let executor = match has_executor {
        false => None,
        true => Some(
            start::executor(
                &config,
                &folder,
                Arc::clone(&calls),
                JudicatorLocation::SameProcess,
            )
            .await?,
        ),
    };

    // Stopped from first to last: the gateway accepts nothing new, the executor returns its tasks while the judicator still
    // runs, and the store closes when nothing writes to it. If one component fails, the whole process stops with its error.
    let mut components = vec![
        start::metrics_upkeep(metrics.clone()),
        start::reload(reload, ReloadedFiles::of(&secrets)),
        start::gateway(&config, http, Arc::clone(&calls), &secrets, metrics),
    ];
    components.extend(executor);
    components.extend(rpc.map(|rpc| start::rpc(rpc, calls, &secrets)));
    components.push(judicator_component);

    single.set_addresses(&ready_line.addresses)?;
    ready_line.print()?;
    NodeComponents(components).run(signals).await
}
