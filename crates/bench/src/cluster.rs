//! A whole cluster on this machine, against one process on the same machine.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use api::HttpClient;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use tokio::process::{Child, Command};

use crate::adds::{self, AddThroughput};
use crate::baseline::{self, SpawnBaseline};
use crate::latency::{self, IdleLatency};
use crate::report::{FigureTable, Figures, ReleaseTarget, rate};
use crate::throughput::{self, TaskThroughput};
use crate::up_process::{UpProcess, clear_conclave_environment};
use crate::{ADD_CONCURRENCIES, BenchSizes, progress};

/// The etcd and mongod programs that the nodes of the benchmark's cluster start.
#[derive(Clone, Debug)]
pub struct ServerPrograms {
    pub etcd: String,
    pub mongod: String,
}

/// What `conclave bench --cluster` measures: a whole cluster on this machine, against one process.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClusterFigures {
    pub(crate) baseline: SpawnBaseline,
    pub(crate) single: TaskThroughput,
    pub(crate) cluster: TaskThroughput,
    /// One task on the idle cluster.
    pub(crate) latency: IdleLatency,
    pub(crate) adds: Vec<AddThroughput>,
    /// From the start of the first node until all judicators and executors are alive.
    pub(crate) start_seconds: f64,
}

const JUDICATORS: usize = 3;
const EXECUTORS: usize = 2;

const MIN_THROUGHPUT_RATIO: f64 = 0.25;
const MIN_ADDS_GROWTH: f64 = 10.0;

const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn measure(
    sizes: &BenchSizes,
    programs: &ServerPrograms,
    folder: &Path,
) -> Result<ClusterFigures> {
    progress("measuring bare spawns");
    let baseline = baseline::measure(sizes.spawn_time)?;

    let alone = UpProcess::start(&folder.join("alone"), "auto").await?;
    progress(format_args!("measuring {} tasks on one process", sizes.tasks));
    let single = throughput::measure(&alone.client, sizes.tasks).await?;
    alone.stop().await?;

    progress(format_args!(
        "starting {JUDICATORS} judicators, {EXECUTORS} executors and a gateway"
    ));
    let began = Instant::now();
    let mut cluster = NodeProcesses::start(programs, folder).await?;
    let start_seconds = began.elapsed().as_secs_f64();
    progress("measuring the latency of one task");
    let latency = latency::measure(&cluster.client, sizes.latency_rounds).await?;
    progress(format_args!("measuring {} tasks on the cluster", sizes.tasks));
    let throughput = throughput::measure(&cluster.client, sizes.tasks).await?;
    // Adds are measured while no task runs, as in the measurement of a single node.
    cluster.stop_executors().await?;
    let mut adds = Vec::new();
    for concurrency in ADD_CONCURRENCIES {
        progress(format_args!("measuring adds, {concurrency} at a time"));
        adds.push(adds::measure(&cluster.client, concurrency, sizes.adds_time).await?);
    }
    cluster.stop().await?;
    Ok(ClusterFigures {
        baseline,
        single,
        cluster: throughput,
        latency,
        adds,
        start_seconds,
    })
}

impl ClusterFigures {
    /// Tasks per second on the cluster over tasks per second on one process.
    fn throughput_ratio(&self) -> f64 {
        self.cluster.per_second / self.single.per_second
    }

    /// Adds per second of the most concurrent callers over those of a single caller.
    fn adds_growth(&self) -> f64 {
        match (self.adds.first(), self.adds.last()) {
            (Some(one), Some(many)) => many.per_second / one.per_second,
            _ => 0.0,
        }
    }
}

impl Figures for ClusterFigures {
    fn ratio(&self) -> Option<f64> {
        Some(self.throughput_ratio())
    }

    fn table(&self) -> FigureTable {
        let mut table = FigureTable::of_figures();
        table.add_figure(
            "bare spawns, 2 threads",
            rate(self.baseline.two_threads_per_second),
        );
        table.add_figure(
            format!("{} tasks on one process", self.single.tasks),
            rate(self.single.per_second),
        );
        table.add_figure(
            format!("{} tasks on the cluster", self.cluster.tasks),
            rate(self.cluster.per_second),
        );
        table.add_figure(
            "  over one process",
            (format!("{:.2}", self.throughput_ratio()), ""),
        );
        self.latency.add_to(&mut table);
        for adds in &self.adds {
            adds.add_to(&mut table);
        }
        table.add_figure("start of all nodes", (format!("{:.1}", self.start_seconds), "s"));
        table
    }

    fn targets(&self) -> Vec<ReleaseTarget> {
        vec![
            ReleaseTarget::new(
                "throughput of the cluster over one process",
                format!(">= {MIN_THROUGHPUT_RATIO}"),
                format!("{:.2}", self.throughput_ratio()),
                self.throughput_ratio() >= MIN_THROUGHPUT_RATIO,
            ),
            ReleaseTarget::new(
                "durable adds, 64 at a time over one",
                format!(">= {MIN_ADDS_GROWTH}"),
                format!("{:.1}", self.adds_growth()),
                self.adds_growth() >= MIN_ADDS_GROWTH,
            ),
        ]
    }
}

/// The node processes of the cluster that the benchmark has started, and a client for its gateway.
struct NodeProcesses {
    client: HttpClient,
    judicators: Vec<Child>,
    executors: Vec<Child>,
    gateway: Child,
}

impl NodeProcesses {
    async fn start(programs: &ServerPrograms, folder: &Path) -> Result<NodeProcesses> {
        // A judicator needs four ports, an executor and the gateway one each for their etcd proxies, and the gateway one
        // for HTTP.
        let mut ports = FreePorts::choose(JUDICATORS * 4 + EXECUTORS + 2)?;
        let etcd: Vec<_> = (0..JUDICATORS)
            .map(|_| Ok((ports.next()?, ports.next()?)))
            .collect::<Result<_>>()?;
        let members: Vec<_> = etcd
            .iter()
            .enumerate()
            .map(|(at, (_, peer))| format!("j{at}=127.0.0.1:{peer}"))
            .collect();
        let join: Vec<_> = etcd
            .iter()
            .map(|(client, _)| format!("127.0.0.1:{client}"))
            .collect();

        let mut judicators = Vec::new();
        for (at, (client, peer)) in etcd.iter().enumerate() {
            let mut node = node_command("judicator", &format!("j{at}"), folder);
            node.args(["--members", &members.join(",")]);
            set_key(
                &mut node,
                "judicator.listen",
                format!("127.0.0.1:{}", ports.next()?),
            );
            set_key(&mut node, "etcd.program", absolute_program(&programs.etcd)?);
            set_key(&mut node, "etcd.client_port", client);
            set_key(&mut node, "etcd.peer_port", peer);
            set_key(&mut node, "mongodb.program", absolute_program(&programs.mongod)?);
            set_key(&mut node, "mongodb.port", ports.next()?);
            set_key(&mut node, "mongodb.cache", "256MiB");
            judicators.push(spawn(node)?);
        }
        let mut joining_node = |kind, name: &str| -> Result<Command> {
            let mut node = node_command(kind, name, folder);
            node.args(["--join", &join.join(",")]);
            set_key(&mut node, "etcd.program", absolute_program(&programs.etcd)?);
            set_key(&mut node, "etcd.client_port", ports.next()?);
            Ok(node)
        };
        let mut executors = Vec::new();
        for at in 0..EXECUTORS {
            executors.push(spawn(joining_node("executor", &format!("e{at}"))?)?);
        }
        let mut gateway = joining_node("gateway", "g0")?;
        let http = ports.next()?;
        set_key(&mut gateway, "gateway.listen", format!("127.0.0.1:{http}"));
        let gateway = spawn(gateway)?;

        let client = HttpClient::new(&format!("http://127.0.0.1:{http}"), None)?;
        let cluster = NodeProcesses {
            client,
            judicators,
            executors,
            gateway,
        };
        cluster.wait_until_ready(folder).await?;
        Ok(cluster)
    }

    /// Waits until all judicators and executors are alive.
    async fn wait_until_ready(&self, folder: &Path) -> Result<()> {
        let all_alive = async {
            loop {
                let judicators = self.client.judicators().await.unwrap_or_default();
                let executors = self.client.executors().await.unwrap_or_default();
                let alive_judicators = judicators
                    .iter()
                    .filter(|judicator| judicator.health == "alive")
                    .count();
                let alive_executors = executors
                    .iter()
                    .filter(|executor| executor.health == "alive")
                    .count();
                if alive_judicators == JUDICATORS && alive_executors == EXECUTORS {
                    break;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(START_TIMEOUT, all_alive).await.map_err(|_| {
            anyhow!(
                "the cluster was not ready within {START_TIMEOUT:?}; its nodes' logs are in {}/*/log",
                folder.display()
            )
        })
    }

    async fn stop_executors(&mut self) -> Result<()> {
        stop_nodes(self.executors.drain(..)).await
    }

    async fn stop(mut self) -> Result<()> {
        self.stop_executors().await?;
        stop_nodes([self.gateway]).await?;
        stop_nodes(self.judicators).await
    }
}

fn node_command(kind: &str, name: &str, folder: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args([kind, "--cluster", "--log", "warn", "--name", name, "--data"])
        .arg(folder.join(name))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // If the measurement fails, boot is killed, and the services of the node end with it.
        .kill_on_drop(true);
    clear_conclave_environment(&mut command);
    command
}

fn set_key(command: &mut Command, key: &str, value: impl std::fmt::Display) {
    command.args(["--set", &format!("{key}={value}")]);
}

fn spawn(mut command: Command) -> Result<Child> {
    command.spawn().context("could not start a node")
}

/// Sends SIGTERM to all nodes, then waits for each.
async fn stop_nodes(nodes: impl IntoIterator<Item = Child>) -> Result<()> {
    let nodes: Vec<_> = nodes.into_iter().collect();
    for pid in nodes.iter().filter_map(Child::id) {
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM).context("could not stop a node")?;
    }
    for mut node in nodes {
        let status = tokio::time::timeout(STOP_TIMEOUT, node.wait())
            .await
            .with_context(|| format!("a node did not stop within {STOP_TIMEOUT:?}"))??;
        ensure!(status.success(), "a node failed with {status}");
    }
    Ok(())
}

/// The program as the configuration wants it: an absolute path, or a bare name that is looked up in PATH.
fn absolute_program(name: &str) -> Result<String> {
    match name.contains('/') {
        true => Ok(std::path::absolute(PathBuf::from(name))?.display().to_string()),
        false => Ok(name.to_string()),
    }
}

/// Free TCP ports for the nodes of the benchmark's cluster. All are bound at the same time while they are chosen, so
/// that no port is chosen twice.
struct FreePorts(std::vec::IntoIter<u16>);

impl FreePorts {
    fn choose(count: usize) -> Result<FreePorts> {
        let listeners: Vec<_> = (0..count)
            .map(|_| TcpListener::bind("127.0.0.1:0"))
            .collect::<Result<_, _>>()
            .context("there is no free port")?;
        let ports: Vec<_> = listeners
            .iter()
            .map(|listener| listener.local_addr().map(|address| address.port()))
            .collect::<Result<_, _>>()?;
        Ok(FreePorts(ports.into_iter()))
    }

    fn next(&mut self) -> Result<u16> {
        self.0.next().context("too few ports were chosen")
    }
}
