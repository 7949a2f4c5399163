//! A cluster of our own on this machine, against one process on the same machine.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use api::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use tokio::process::{Child, Command};

use super::adds::Adds;
use super::baseline::Baseline;
use super::figures::{Target, target};
use super::latency::Latency;
use super::server::Server;
use super::throughput::Throughput;
use super::{CONCURRENCIES, Plan, adds, baseline, latency, throughput};
use crate::print::complain;

/// The programs that a judicator's node stands on.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) etcd: String,
    pub(crate) mongod: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClusterFigures {
    pub(crate) baseline: Baseline,
    pub(crate) single: Throughput,
    pub(crate) cluster: Throughput,
    /// One task on the idle cluster.
    pub(crate) latency: Latency,
    pub(crate) adds: Vec<Adds>,
    /// From the start of the first node until a task had run.
    pub(crate) start_seconds: f64,
}

const JUDICATORS: usize = 3;
const EXECUTORS: usize = 2;

const RATIO: f64 = 0.25;
const ADDS_GROWTH: f64 = 10.0;

const SERVES_WITHIN: Duration = Duration::from_secs(120);
const STOPS_WITHIN: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn measure_cluster(
    plan: &Plan,
    programs: &Programs,
    folder: &Path,
) -> Result<ClusterFigures> {
    complain("measuring bare spawns");
    let baseline = baseline::measure(plan.spawn_time)?;

    let alone = Server::start(&folder.join("alone"), "auto").await?;
    complain(format_args!("measuring {} tasks on one process", plan.tasks));
    let single = throughput::measure(&alone.client, plan.tasks).await?;
    alone.stop().await?;

    complain(format_args!(
        "starting {JUDICATORS} judicators, {EXECUTORS} executors and a gateway"
    ));
    let began = Instant::now();
    let mut cluster = Cluster::start(programs, folder).await?;
    let start_seconds = began.elapsed().as_secs_f64();
    complain("measuring the latency of one task");
    let latency = latency::measure(&cluster.client, plan.latency_rounds).await?;
    complain(format_args!("measuring {} tasks on the cluster", plan.tasks));
    let throughput = throughput::measure(&cluster.client, plan.tasks).await?;
    // Adds are measured without anyone running tasks beside them, as on one process.
    cluster.stop_executors().await?;
    let mut adds = Vec::new();
    for concurrency in CONCURRENCIES {
        complain(format_args!("measuring adds, {concurrency} at a time"));
        adds.push(adds::measure(&cluster.client, concurrency, plan.adds_time).await?);
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
    /// Of the throughput on one process.
    pub(crate) fn ratio(&self) -> f64 {
        self.cluster.per_second / self.single.per_second
    }

    /// How many times as many adds many callers bring through as one.
    pub(crate) fn adds_growth(&self) -> f64 {
        match (self.adds.first(), self.adds.last()) {
            (Some(one), Some(many)) => many.per_second / one.per_second,
            _ => 0.0,
        }
    }

    pub(crate) fn targets(&self) -> Vec<Target> {
        vec![
            target(
                "throughput of the cluster over one process",
                format!(">= {RATIO}"),
                format!("{:.2}", self.ratio()),
                self.ratio() >= RATIO,
            ),
            target(
                "durable adds, 64 at a time over one",
                format!(">= {ADDS_GROWTH}"),
                format!("{:.1}", self.adds_growth()),
                self.adds_growth() >= ADDS_GROWTH,
            ),
        ]
    }
}

struct Cluster {
    client: Client,
    judicators: Vec<Child>,
    executors: Vec<Child>,
    gateway: Child,
}

impl Cluster {
    async fn start(programs: &Programs, folder: &Path) -> Result<Cluster> {
        // A judicator has four, an executor and a gateway one for their proxies, and there is HTTP.
        let mut ports = Ports::choose(JUDICATORS * 4 + EXECUTORS + 2)?;
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
            let mut node = node("judicator", &format!("j{at}"), folder);
            node.args(["--members", &members.join(",")]);
            set(
                &mut node,
                "judicator.listen",
                format!("127.0.0.1:{}", ports.next()?),
            );
            set(&mut node, "etcd.program", program(&programs.etcd)?);
            set(&mut node, "etcd.client_port", client);
            set(&mut node, "etcd.peer_port", peer);
            set(&mut node, "mongodb.program", program(&programs.mongod)?);
            set(&mut node, "mongodb.port", ports.next()?);
            set(&mut node, "mongodb.cache", "256MiB");
            judicators.push(spawn(node)?);
        }
        let mut joined = |kind, name: &str| -> Result<Command> {
            let mut node = node(kind, name, folder);
            node.args(["--join", &join.join(",")]);
            set(&mut node, "etcd.program", program(&programs.etcd)?);
            set(&mut node, "etcd.client_port", ports.next()?);
            Ok(node)
        };
        let mut executors = Vec::new();
        for at in 0..EXECUTORS {
            executors.push(spawn(joined("executor", &format!("e{at}"))?)?);
        }
        let mut gateway = joined("gateway", "g0")?;
        let http = ports.next()?;
        set(&mut gateway, "gateway.listen", format!("127.0.0.1:{http}"));
        let gateway = spawn(gateway)?;

        let client = Client::new(&format!("http://127.0.0.1:{http}"), None)?;
        let cluster = Cluster {
            client,
            judicators,
            executors,
            gateway,
        };
        cluster.serves(folder).await?;
        Ok(cluster)
    }

    /// Until everyone is there.
    async fn serves(&self, folder: &Path) -> Result<()> {
        let everyone = async {
            loop {
                let judicators = self.client.judicators().await.unwrap_or_default();
                let executors = self.client.executors().await.unwrap_or_default();
                let alive = judicators
                    .iter()
                    .filter(|judicator| judicator.health == "alive")
                    .count();
                let running = executors
                    .iter()
                    .filter(|executor| executor.health == "alive")
                    .count();
                if alive == JUDICATORS && running == EXECUTORS {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(SERVES_WITHIN, everyone).await.map_err(|_| {
            anyhow!(
                "the cluster does not serve after {SERVES_WITHIN:?}; look into the logs in {}/*/log",
                folder.display()
            )
        })
    }

    async fn stop_executors(&mut self) -> Result<()> {
        stop(self.executors.drain(..)).await
    }

    async fn stop(mut self) -> Result<()> {
        self.stop_executors().await?;
        stop([self.gateway]).await?;
        stop(self.judicators).await
    }
}

fn node(kind: &str, name: &str, folder: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .args([kind, "--cluster", "--log", "warn", "--name", name, "--data"])
        .arg(folder.join(name))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // If the measuring ends early, boot ends, and all that it keeps alive with it.
        .kill_on_drop(true);
    super::server::without_settings(&mut command);
    command
}

fn set(command: &mut Command, key: &str, value: impl std::fmt::Display) {
    command.args(["--set", &format!("{key}={value}")]);
}

fn spawn(mut command: Command) -> Result<Child> {
    command.spawn().context("could not start a node")
}

/// Told to stop together, waited for one after the other.
async fn stop(nodes: impl IntoIterator<Item = Child>) -> Result<()> {
    let nodes: Vec<_> = nodes.into_iter().collect();
    for pid in nodes.iter().filter_map(Child::id) {
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM).context("could not stop a node")?;
    }
    for mut node in nodes {
        let status = tokio::time::timeout(STOPS_WITHIN, node.wait())
            .await
            .with_context(|| format!("a node did not stop within {STOPS_WITHIN:?}"))??;
        ensure!(status.success(), "a node ended with {status}");
    }
    Ok(())
}

/// A path as nodes take it: absolute, or a name for the PATH.
fn program(name: &str) -> Result<String> {
    match name.contains('/') {
        true => Ok(std::path::absolute(PathBuf::from(name))?.display().to_string()),
        false => Ok(name.to_string()),
    }
}

/// Ports that nobody uses, each once. They are held only while they are chosen, so that none is chosen twice.
struct Ports(std::vec::IntoIter<u16>);

impl Ports {
    fn choose(count: usize) -> Result<Ports> {
        let held: Vec<_> = (0..count)
            .map(|_| TcpListener::bind("127.0.0.1:0"))
            .collect::<Result<_, _>>()
            .context("there is no free port")?;
        let ports: Vec<_> = held
            .iter()
            .map(|listener| listener.local_addr().map(|address| address.port()))
            .collect::<Result<_, _>>()?;
        Ok(Ports(ports.into_iter()))
    }

    fn next(&mut self) -> Result<u16> {
        self.0.next().context("too few ports were chosen")
    }
}
