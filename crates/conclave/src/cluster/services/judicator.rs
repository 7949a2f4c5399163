use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use boot::{Tether, Word};
use registry::etcd::{Access, Me};
use store::mongo::{Login, MongoStore};
use supervise::Component;

use super::super::access::{Own, access, advertised};
use super::super::options::mongodb_secret;
use super::super::roster::ClusterRoster;
use crate::config::Config;
use crate::node::{self, Folder, Part, Parts, Reload, Renewed, Secrets, Signals, options, start};

/// How long the registry may take to forget us when we stop.
const FAREWELL: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn run(config: Config, reload: Reload) -> Result<()> {
    let tether = super::tether()?;
    let mut signals = Signals::listen_with(tether.clone())?;
    let secrets = Secrets::load(&config)?;
    let folder = Folder::prepare(&config.node.data.0)?;
    let listener = node::bind_rpc(&config, Some(&secrets), "judicator.listen").await?;
    let address = advertised(&config, listener.local_addr()?);
    let access = access(&config, &secrets, Own::Member);

    let store = tokio::select! {
        store = open_store(&config, &secrets, &folder, &access, &tether) => Arc::new(store?),
        (signal, _) = signals.next() => {
            tracing::info!("{signal} before there was a store: stopping");
            return Ok(());
        }
    };

    let me = Me {
        name: config.node.name.0.clone(),
        address: address.clone(),
        version: env!("CARGO_PKG_VERSION").to_string(),
    };
    let mut registry = None;
    let registration = Part::start(Component::Registration.name(), FAREWELL, |stop| {
        let started = registry::etcd::register(access.clone(), me, config.etcd.lease, stop);
        let registered = started.map(|(told, registered)| {
            registry = Some(told);
            registered
        });
        async move { Ok(registered?.await??) }
    });
    let registry = registry.ok_or_else(|| anyhow::anyhow!("the judicator was not registered"))?;
    let options = judicator::Options {
        store: "mongodb".to_string(),
        roster: Some(Arc::new(ClusterRoster::new(access, mongodb_secret(&secrets)))),
        ..options::judicator(&config, address)
    };
    let (judicator, judicator_part) = start::judicator(options, store, registry.leading)?;

    // Others are told to go elsewhere first; the store is let go when no call is under way.
    let parts = vec![
        start::reload(reload, Renewed::in_cluster(&secrets)),
        registration,
        start::rpc(listener, judicator, &secrets),
        judicator_part,
    ];
    tether.say(&Word::Ready);
    Parts(parts).run(signals).await
}

/// Waits for the replica set as long as it takes: it may be electing, or be on its way up on the other nodes.
async fn open_store(
    config: &Config,
    secrets: &Secrets,
    folder: &Folder,
    access: &Access,
    tether: &Tether,
) -> Result<MongoStore> {
    let mut said = String::new();
    loop {
        let problem = match daemons::mongodb::members(access).await {
            Err(error) => format!(
                "could not look up the replica set in etcd: {}",
                model::with_causes(&error)
            ),
            Ok(members) if members.is_empty() => "no mongod is registered yet".to_string(),
            Ok(members) => {
                let options = store::mongo::Options {
                    addresses: members.into_iter().map(|member| member.address).collect(),
                    set: config.mongodb.set.0.clone(),
                    database: "conclave".to_string(),
                    login: mongodb_secret(secrets).map(|secret| {
                        let (user, password) = daemons::mongodb::login(&secret);
                        Login { user, password }
                    }),
                    max_attempts: config.judicator.attempts.get(),
                    search_window: store::SEARCH_WINDOW,
                    incoming: folder.incoming()?,
                };
                match MongoStore::open(options).await {
                    Ok(store) => return Ok(store),
                    Err(error) if error.is_transient() => model::with_causes(&error),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        if problem != said {
            tracing::warn!("{problem}; trying again");
            tether.say(&Word::Doing(problem.clone()));
            said = problem;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
