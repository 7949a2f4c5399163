//! Connects to the replica set, checks that it works, and diagnoses why it does not.

use std::sync::Arc;
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::{
    ClientOptions, Credential, ReadConcern, ReadPreference, SelectionCriteria, ServerAddress,
};

use super::MongoStoreOptions;
use super::context::{META, StoreContext};
use super::failure::{MongoFailure, is_authentication_error};
use super::retry::COMMAND_TIMEOUT;
use super::transaction::majority_write_concern;
use crate::StoreError;

/// How often the driver checks each member. Together with the connect timeout, it notices a stopped member within two
/// seconds.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// Longer than an election, which takes about three seconds.
const SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_CONNECTIONS: u32 = 64;

pub(super) fn connect(options: &MongoStoreOptions) -> Result<Client, StoreError> {
    let mut client = client_options(&options.addresses)?;
    client.repl_set_name = Some(options.replica_set.clone());
    client.credential = options.credentials.as_ref().map(|credentials| {
        Credential::builder()
            .username(credentials.user.clone())
            .password(credentials.password.clone())
            .source("admin".to_string())
            .build()
    });
    client.read_concern = Some(ReadConcern::majority());
    client.write_concern = Some(majority_write_concern());
    client.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    client.server_selection_timeout = Some(SERVER_SELECTION_TIMEOUT);
    client.max_pool_size = Some(MAX_CONNECTIONS);
    // A burst of calls opens many connections at once, and each takes up to three round trips.
    client.max_connecting = Some(8);
    build_client(client)
}

/// Turns the error of the first operation into one that names the cause, by asking each member directly.
pub(super) async fn diagnose(options: &MongoStoreOptions, error: StoreError) -> StoreError {
    let error = match error {
        StoreError::Mongo { source, .. } if is_authentication_error(&source) => {
            let user = options.credentials.as_ref();
            return StoreError::AuthenticationFailed {
                set: options.replica_set.clone(),
                user: user.map_or("(none)".into(), |credentials| format!("'{}'", credentials.user)),
                source,
            };
        }
        error @ (StoreError::Mongo { .. } | StoreError::Timeout { .. }) => error,
        other => return other,
    };
    let mut reached = false;
    for address in &options.addresses {
        let Some(reply) = hello(address).await else {
            continue;
        };
        reached = true;
        let (address, expected) = (address.clone(), options.replica_set.clone());
        match reply.get_str("setName") {
            Ok(found) if found != expected => {
                let found = found.to_string();
                return StoreError::WrongReplicaSet {
                    address,
                    expected,
                    found,
                };
            }
            // A mongod that was started for a replica set but is not initiated yet says `isreplicaset`.
            Err(_) if !reply.get_bool("isreplicaset").unwrap_or(false) => {
                return StoreError::NotInReplicaSet { address, expected };
            }
            _ => {}
        }
    }
    let set = options.replica_set.clone();
    match error {
        _ if !reached => StoreError::Unreachable {
            set,
            addresses: options.addresses.clone(),
        },
        StoreError::Mongo { ref source, .. } if !is_server_selection_error(source) => error,
        _ => StoreError::NoPrimary { set },
    }
}

/// The health check: writes a small document with majority write concern and reads it back.
pub(super) async fn check(context: Arc<StoreContext>) -> Result<(), MongoFailure> {
    let meta = context.collection::<Document>(META);
    let filter = doc! { "_id": "check" };
    meta.update_one(filter.clone(), doc! { "$inc": { "count": 1_i64 } })
        .upsert(true)
        .await?;
    match meta.find_one(filter).max_time(COMMAND_TIMEOUT).await? {
        Some(_) => Ok(()),
        None => Err(MongoFailure::Refused(StoreError::Unreadable {
            what: "check",
            detail: "the document that was just written is missing".into(),
        })),
    }
}

fn is_server_selection_error(error: &mongodb::error::Error) -> bool {
    matches!(&*error.kind, mongodb::error::ErrorKind::ServerSelection { .. })
}

/// The reply of one member to `hello`, which needs no authentication.
async fn hello(address: &str) -> Option<Document> {
    let mut client = client_options(&[address.to_string()]).ok()?;
    client.direct_connection = Some(true);
    client.server_selection_timeout = Some(CONNECT_TIMEOUT);
    let client = build_client(client).ok()?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a driver call must not be dropped midway, so its task may outlive the timeout"
    )]
    let reply = tokio::spawn(async move {
        let hello = client.database("admin").run_command(doc! { "hello": 1 }).await;
        client.shutdown().immediate(true).await;
        hello
    });
    tokio::time::timeout(CONNECT_TIMEOUT * 2, reply)
        .await
        .ok()?
        .ok()?
        .ok()
}

fn client_options(addresses: &[String]) -> Result<ClientOptions, StoreError> {
    let hosts = addresses
        .iter()
        .map(|text| {
            ServerAddress::parse(text).map_err(|source| StoreError::InvalidAddress {
                text: text.clone(),
                source: Box::new(source),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(ClientOptions::builder()
        .hosts(hosts)
        .app_name("conclave".to_string())
        .connect_timeout(CONNECT_TIMEOUT)
        .heartbeat_freq(HEARTBEAT_INTERVAL)
        .build())
}

fn build_client(options: ClientOptions) -> Result<Client, StoreError> {
    Client::with_options(options).map_err(|source| StoreError::Mongo {
        step: "set up the connection",
        source: Box::new(source),
    })
}
