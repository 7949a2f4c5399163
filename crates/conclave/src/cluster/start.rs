//! `--cluster`: from the configuration to boot.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use boot::{Node, Plan, PrintLog, Service, Settings};

use super::own_address::own_address;
use super::{Kind, Role, options, write};
use crate::config::{Config, Host, Layers};
use crate::node::{self, Folder, LogLevel, Secrets};

/// Everything that can be known to be wrong is said before anything is made or started.
pub(crate) fn start(kind: Kind, mut layers: Layers, print_log: PrintLog) -> Result<ExitCode> {
    follow(&mut layers)?;
    let config = layers.config()?;
    check(kind, &config, &layers)?;
    let secrets = Secrets::load(&config)?;
    preflight(kind, &config, &secrets)?;
    let level = node::log_to_stderr(&config)?;

    let folder = Folder::prepare(&config.node.data.0)?;
    let (run, log) = (folder.run()?, folder.log()?);
    let mut services = Vec::new();
    for role in kind.services() {
        services.push(service(&run, *role, &layers, services.last())?);
    }
    let plan = Plan {
        node: Node {
            kind: kind.as_str().to_string(),
            name: config.node.name.0.clone(),
        },
        run,
        log,
        services,
        settings: Settings {
            stop_grace: config.boot.stop_grace,
            restart_most: config.boot.restart_most,
            log_size: config.boot.log_size.0,
            log_keep: config.boot.log_keep.get(),
        },
        print_log,
    };
    // One thread: services are the children of the thread that started them, and end with it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?;
    let run = plan.run.clone();
    let on_hangup = || {
        if let Err(error) = reload(kind, &run, &mut layers, &level) {
            tracing::error!("the settings stay as they were: {error:#}");
        }
    };
    runtime.block_on(boot::run(plan, on_hangup))?;
    Ok(ExitCode::SUCCESS)
}

/// Of what has changed, services are told the log level. They read their own files again when boot passes SIGHUP on.
fn reload(kind: Kind, run: &Path, layers: &mut Layers, level: &LogLevel) -> Result<()> {
    node::read_log_level(layers, level)?;
    for role in kind.services() {
        write::write(run, *role, layers)?;
    }
    Ok(())
}

fn service(run: &Path, role: Role, layers: &Layers, before: Option<&Service>) -> Result<Service> {
    let config = write::write(run, role, layers)?;
    Ok(Service {
        name: role.service().to_string(),
        // By way of /proc: the same program even after an upgrade has replaced its file.
        program: "/proc/self/exe".into(),
        args: vec![
            "service".into(),
            role.word().into(),
            "--config".into(),
            config.into(),
        ],
        needs: before.map(|service| service.name.clone()),
    })
}

/// Keys that nobody set and that follow from the node's name and address.
fn follow(layers: &mut Layers) -> Result<()> {
    if !layers.is_default("etcd.discover") && layers.is_default("node.address") {
        layers.follow("node.address", "etcd.discover", own_address()?);
    }
    let config = layers.config()?;
    let name = config.node.name.0;
    if !layers.is_default("node.name") {
        layers.follow("executor.name", "node.name", name.clone());
    }
    layers.follow("judicator.name", "node.name", name);
    if let Some((_, port)) = config.judicator.listen.0.rsplit_once(':') {
        let Host(host) = config.node.address;
        layers.follow("judicator.listen", "node.address", format!("{host}:{port}"));
    }
    Ok(())
}

fn check(kind: Kind, config: &Config, layers: &Layers) -> Result<()> {
    let etcd = &config.etcd;
    let ways = [
        ("--first", etcd.first),
        ("--members", etcd.members.is_some()),
        ("--join", etcd.join.is_some()),
        ("--discover", etcd.discover.is_some()),
    ];
    let chosen: Vec<_> = ways
        .iter()
        .filter(|(_, chosen)| *chosen)
        .map(|(flag, _)| *flag)
        .collect();
    ensure!(
        chosen.len() < 2,
        "{} contradict each other; a node comes into its cluster in one way only",
        chosen.join(" and ")
    );
    ensure!(
        etcd.expect.is_none() || etcd.discover.is_some(),
        "etcd.expect says how many nodes found the cluster behind a DNS name; give the name with --discover"
    );
    match kind {
        Kind::Judicator => {}
        Kind::Executor | Kind::Gateway => {
            if etcd.first || etcd.members.is_some() || etcd.expect.is_some() {
                bail!(
                    "{} {} is no member of etcd and cannot found a cluster; give it --join or --discover",
                    article(kind),
                    kind.as_str()
                );
            }
            ensure!(
                !chosen.is_empty(),
                "where is the cluster? give a judicator's etcd with --join HOST:{}, or a DNS name with --discover; \
                 without --cluster, --judicator HOST:PORT does with no etcd at all",
                config.etcd.client_port.0
            );
        }
    }
    if kind == Kind::Executor {
        ensure!(
            config.executor.slots.0 > 0,
            "executor.slots is 0, so this executor would run nothing; give it at least 1 with --slots"
        );
    }
    ensure!(
        etcd.lease >= LEAST_LEASE,
        "etcd.lease is {:?}; etcd grants no lease below 2s",
        etcd.lease
    );
    let files = &config.secrets;
    let tls = [&files.etcd_ca_file, &files.etcd_cert_file, &files.etcd_key_file];
    let given = tls.iter().filter(|file| file.is_some()).count();
    ensure!(
        given == 0 || given == tls.len(),
        "secrets.etcd_ca_file, etcd_cert_file and etcd_key_file belong together; give all of them or none"
    );
    refuse_if_open(kind, config, layers)
}

/// etcd and mongod listen where the node can be reached. Without a secret that must be this machine alone.
fn refuse_if_open(kind: Kind, config: &Config, layers: &Layers) -> Result<()> {
    let Host(host) = &config.node.address;
    let is_loopback = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    // Behind a DNS name etcd takes the address that others find there.
    let local = is_loopback && config.etcd.discover.is_none();
    let guarded = !layers.is_default("secrets.cluster_file") && config.secrets.cluster_file.is_some();
    ensure!(
        kind != Kind::Judicator || local || guarded || config.node.insecure,
        "{host}, where etcd and mongod are to listen, can be reached from other machines, and anyone there could \
         change all there is; set secrets.cluster_file (--cluster-file) to keep strangers out, or allow it with --insecure"
    );
    Ok(())
}

fn preflight(kind: Kind, config: &Config, secrets: &Secrets) -> Result<()> {
    match kind {
        Kind::Judicator => {
            daemons::etcd::preflight(&options::member(config, secrets))?;
            daemons::mongodb::preflight(&options::mongodb(config, secrets))?;
        }
        Kind::Executor | Kind::Gateway => {
            if kind == Kind::Gateway {
                secrets.check_gateway(config)?;
            }
            daemons::etcd::preflight_proxy(&options::proxy(config, secrets))?;
        }
    }
    Ok(())
}

fn article(kind: Kind) -> &'static str {
    match kind {
        Kind::Executor => "an",
        Kind::Judicator | Kind::Gateway => "a",
    }
}

const LEAST_LEASE: Duration = Duration::from_secs(2);
