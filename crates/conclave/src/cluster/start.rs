//! `--cluster`: checks the configuration and runs boot.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use boot::{BootPlan, BootSettings, NodeIdentity, PrintLog, ServiceSpec};

use super::own_address::own_address;
use super::{NodeKind, ServiceKind, daemon_options, service_config};
use crate::config::{Config, ConfigLayers, HostAddress};
use crate::node::{self, LogLevelHandle, NodeFolder, NodeSecrets};

/// Runs boot. Every problem that can be detected in advance is reported before anything is created or started.
pub(crate) fn start(kind: NodeKind, mut layers: ConfigLayers, print_log: PrintLog) -> Result<ExitCode> {
    derive_defaults(&mut layers)?;
    let config = layers.config()?;
    check_cluster_config(kind, &config, &layers)?;
    let secrets = NodeSecrets::load(&config)?;
    preflight(kind, &config, &secrets)?;
    let level = node::log_to_stderr(&config)?;

    let folder = NodeFolder::prepare(&config.node.data.0)?;
    let (run, log) = (folder.run_folder()?, folder.log_folder()?);
    let mut services = Vec::new();
    for service in kind.services() {
        services.push(service_spec(&run, *service, &layers, services.last())?);
    }
    let plan = BootPlan {
        node: NodeIdentity {
            kind: kind.as_str().to_string(),
            name: config.node.name.0.clone(),
        },
        run,
        log,
        services,
        settings: BootSettings {
            stop_grace: config.boot.stop_grace,
            max_restart_delay: config.boot.restart_most,
            max_log_size: config.boot.log_size.0,
            rotated_logs_kept: config.boot.log_keep.get(),
        },
        print_log,
    };
    // One thread: the kernel kills the services when the thread that started them ends.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?;
    let run = plan.run.clone();
    let on_hangup = || {
        if let Err(error) = reload(kind, &run, &mut layers, &level) {
            tracing::error!("could not reload the settings; keeping the old ones: {error:#}");
        }
    };
    runtime.block_on(boot::run(plan, on_hangup))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the services' configuration again. Boot then forwards SIGHUP, and each service reloads its log level and its files.
fn reload(kind: NodeKind, run: &Path, layers: &mut ConfigLayers, level: &LogLevelHandle) -> Result<()> {
    node::reload_log_level(layers, level)?;
    for service in kind.services() {
        service_config::write(run, *service, layers)?;
    }
    Ok(())
}

fn service_spec(
    run: &Path,
    service: ServiceKind,
    layers: &ConfigLayers,
    previous: Option<&ServiceSpec>,
) -> Result<ServiceSpec> {
    let config = service_config::write(run, service, layers)?;
    Ok(ServiceSpec {
        name: service.service_name().to_string(),
        // The running program, even after an upgrade has replaced its file.
        program: "/proc/self/exe".into(),
        args: vec![
            "service".into(),
            service.argument().into(),
            "--config".into(),
            config.into(),
        ],
        needs: previous.map(|previous| previous.name.clone()),
    })
}

/// Derives keys that are not set from the node's name and address.
fn derive_defaults(layers: &mut ConfigLayers) -> Result<()> {
    if !layers.is_default("etcd.discover") && layers.is_default("node.address") {
        layers.derive("node.address", "etcd.discover", own_address()?);
    }
    let config = layers.config()?;
    let name = config.node.name.0;
    if !layers.is_default("node.name") {
        layers.derive("executor.name", "node.name", name.clone());
    }
    layers.derive("judicator.name", "node.name", name);
    if let Some((_, port)) = config.judicator.listen.0.rsplit_once(':') {
        let HostAddress(host) = config.node.address;
        layers.derive("judicator.listen", "node.address", format!("{host}:{port}"));
    }
    Ok(())
}

fn check_cluster_config(kind: NodeKind, config: &Config, layers: &ConfigLayers) -> Result<()> {
    let etcd = &config.etcd;
    let bootstrap_flags = [
        ("--first", etcd.first),
        ("--members", etcd.members.is_some()),
        ("--join", etcd.join.is_some()),
        ("--discover", etcd.discover.is_some()),
    ];
    let chosen: Vec<_> = bootstrap_flags
        .iter()
        .filter(|(_, chosen)| *chosen)
        .map(|(flag, _)| *flag)
        .collect();
    ensure!(
        chosen.len() < 2,
        "{} contradict each other; give only one of them",
        chosen.join(" and ")
    );
    ensure!(
        etcd.expect.is_none() || etcd.discover.is_some(),
        "etcd.expect (--bootstrap-expect) needs a DNS name; give it with --discover"
    );
    match kind {
        NodeKind::Judicator => {}
        NodeKind::Executor | NodeKind::Gateway => {
            if etcd.first || etcd.members.is_some() || etcd.expect.is_some() {
                bail!(
                    "{} {} node is not a member of etcd and cannot form a cluster; give it --join or --discover",
                    article(kind),
                    kind.as_str()
                );
            }
            ensure!(
                !chosen.is_empty(),
                "no cluster is given; give the etcd of a judicator node with --join HOST:{}, or a DNS name with --discover; \
                 to connect to a judicator without a cluster, use --judicator HOST:PORT instead of --cluster",
                config.etcd.client_port.0
            );
        }
    }
    if kind == NodeKind::Executor {
        ensure!(
            config.executor.slots.0 > 0,
            "executor.slots is 0, so this executor would run no task; give it at least 1 with --slots"
        );
    }
    ensure!(
        etcd.lease >= MIN_ETCD_LEASE,
        "etcd.lease is {:?}; it must be at least 2s",
        etcd.lease
    );
    let files = &config.secrets;
    let tls = [&files.etcd_ca_file, &files.etcd_cert_file, &files.etcd_key_file];
    let given = tls.iter().filter(|file| file.is_some()).count();
    ensure!(
        given == 0 || given == tls.len(),
        "secrets.etcd_ca_file, etcd_cert_file and etcd_key_file must be set together; set all of them or none"
    );
    refuse_if_open(kind, config, layers)
}

/// etcd and mongod listen on the node's address. Without a secret that address must be loopback.
fn refuse_if_open(kind: NodeKind, config: &Config, layers: &ConfigLayers) -> Result<()> {
    let HostAddress(host) = &config.node.address;
    let is_loopback = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    // With discovery, etcd listens on the address that the DNS name resolves to.
    let is_local = is_loopback && config.etcd.discover.is_none();
    let has_secret = !layers.is_default("secrets.cluster_file") && config.secrets.cluster_file.is_some();
    ensure!(
        kind != NodeKind::Judicator || is_local || has_secret || config.node.insecure,
        "etcd and mongod would listen on {host}, which other machines can reach, without authentication; \
         set secrets.cluster_file (--cluster-file) to require a secret, or allow it with --insecure"
    );
    Ok(())
}

fn preflight(kind: NodeKind, config: &Config, secrets: &NodeSecrets) -> Result<()> {
    match kind {
        NodeKind::Judicator => {
            daemons::etcd::preflight(&daemon_options::etcd_member(config, secrets))?;
            daemons::mongodb::preflight(&daemon_options::mongodb(config, secrets))?;
        }
        NodeKind::Executor | NodeKind::Gateway => {
            if kind == NodeKind::Gateway {
                secrets.check_gateway(config)?;
            }
            daemons::etcd::preflight_proxy(&daemon_options::etcd_proxy(config, secrets))?;
        }
    }
    Ok(())
}

fn article(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Executor => "an",
        NodeKind::Judicator | NodeKind::Gateway => "a",
    }
}

const MIN_ETCD_LEASE: Duration = Duration::from_secs(2);
