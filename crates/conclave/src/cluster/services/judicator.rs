//! The judicator service of a cluster node.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use boot::{BootConnection, ServiceMessage};
use registry::etcd::{EtcdAccess, LocalJudicator, NewerFormSource};
use store::TaskStore;
use store::mongo::{MongoCredentials, MongoStore, MongoStoreOptions};
use supervise::Component;

use super::super::daemon_options::mongodb_secret;
use super::super::etcd_access::{LocalEtcd, advertised_address, etcd_access};
use super::super::judicator_list::list_cluster_judicators;
use crate::config::Config;
use crate::node::{
    self, NodeComponent, NodeComponents, NodeFolder, NodeSecrets, ReloadOnHangup, ReloadedFiles, StopSignals,
    options, start,
};

/// How long the deregistration from etcd may take at a stop.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(config: Config, reload: ReloadOnHangup) -> Result<()> {
    let boot_connection = super::boot_connection()?;
    let mut signals = StopSignals::listen_with(boot_connection.clone())?;
    let secrets = NodeSecrets::load(&config)?;
    let folder = NodeFolder::prepare(&config.node.data.0)?;
    let listener = node::bind_rpc(&config, Some(&secrets), "judicator.listen").await?;
    let address = advertised_address(&config, listener.local_addr()?);
    let access = etcd_access(&config, &secrets, LocalEtcd::Member);

    let store = tokio::select! {
        store = open_store(&config, &secrets, &folder, &access, &boot_connection) => Arc::new(store?),
        (signal, _) = signals.next() => {
            tracing::info!(signal, "stopping before the store was open");
            return Ok(());
        }
    };

    let forms = Arc::downgrade(&store);
    let local_judicator = LocalJudicator {
        name: config.node.name.0.clone(),
        address: address.clone(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        // The registration must not keep the store open.
        newer_form: NewerFormSource::new(move || Some(forms.upgrade()?.newer_form()?.0)),
    };
    let mut registry = None;
    let registration = NodeComponent::start(Component::Registration.name(), DEREGISTER_TIMEOUT, |stop| {
        let started = registry::etcd::register(access.clone(), local_judicator, config.etcd.lease, stop);
        let registration = started.map(|(started_registry, registration)| {
            registry = Some(started_registry);
            registration
        });
        async move { Ok(registration?.await??) }
    });
    let registry =
        registry.ok_or_else(|| anyhow::anyhow!("could not start the registration of the judicator"))?;
    let mongodb_secret = mongodb_secret(&secrets);
    let list_judicators = judicator::JudicatorLister::new(move || {
        let (access, mongodb_secret) = (access.clone(), mongodb_secret.clone());
        async move { list_cluster_judicators(&access, mongodb_secret.as_deref()).await }
    });
    let options = judicator::JudicatorOptions {
        store: "mongodb".to_string(),
        list_judicators: Some(list_judicators),
        ..options::judicator(&config, address)?
    };
    let (judicator, judicator_component) = start::judicator(options, store, registry.leading)?;

    // The judicator deregisters first, so that clients use another one. The store closes when no call is in progress.
    let components = vec![
        start::reload(reload, ReloadedFiles::in_cluster(&secrets)),
        registration,
        start::rpc(listener, judicator, &secrets),
        judicator_component,
    ];
    boot_connection.send(&ServiceMessage::Ready);
    NodeComponents(components).run(signals).await
}

/// Opens the store. Waits for the replica set without a limit: it may be electing a primary, or its other members may be starting.
async fn open_store(
    config: &Config,
    secrets: &NodeSecrets,
    folder: &NodeFolder,
    access: &EtcdAccess,
    boot_connection: &BootConnection,
) -> Result<MongoStore> {
    let mut reported = String::new();
    loop {
        let problem = match daemons::mongodb::registered_members(access).await {
            Err(error) => format!(
                "could not look up the replica set in etcd: {}",
                error_causes::with_causes(&error)
            ),
            Ok(members) if members.is_empty() => "no mongod is registered yet".to_string(),
            Ok(members) => {
                let options = MongoStoreOptions {
                    addresses: members.into_iter().map(|member| member.address).collect(),
                    replica_set: config.mongodb.set.0.clone(),
                    database: "conclave".to_string(),
                    credentials: mongodb_secret(secrets).map(|secret| {
                        let (user, password) = daemons::mongodb::login_from_secret(&secret);
                        MongoCredentials { user, password }
                    }),
                    max_attempts: config.judicator.attempts.get(),
                    search_scan_limit: store::SEARCH_SCAN_LIMIT,
                    incoming_folder: folder.incoming_folder()?,
                };
                match MongoStore::open(options).await {
                    Ok(store) => return Ok(store),
                    Err(error) if error.is_transient() => error_causes::with_causes(&error),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        if problem != reported {
            tracing::warn!(problem, "could not open the store; retrying");
            boot_connection.send(&ServiceMessage::Activity(problem.clone()));
            reported = problem;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}
