//! Connecting to the replica set, and finding out why that does not work.

use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::options::{
    ClientOptions, Credential, ReadConcern, ReadPreference, SelectionCriteria, ServerAddress,
};

use super::Options;
use super::failure::is_login;
use super::transaction::durable;
use crate::StoreError;

/// A member is asked this often how it is. With the time below, one that stopped is noticed within two seconds.
const HEARTBEAT: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_millis(1500);
/// An election takes about three.
const PRIMARY: Duration = Duration::from_secs(5);
const CONNECTIONS: u32 = 64;

pub(super) fn connect(options: &Options) -> Result<Client, StoreError> {
    let mut client = client_options(&options.addresses)?;
    client.repl_set_name = Some(options.set.clone());
    client.credential = options.login.as_ref().map(|login| {
        Credential::builder()
            .username(login.user.clone())
            .password(login.password.clone())
            .source("admin".to_string())
            .build()
    });
    client.read_concern = Some(ReadConcern::majority());
    client.write_concern = Some(durable());
    client.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    client.server_selection_timeout = Some(PRIMARY);
    client.max_pool_size = Some(CONNECTIONS);
    // A burst opens many at once, and each is an exchange or three.
    client.max_connecting = Some(8);
    make(client)
}

/// Says why the set could not be opened, as far as its members tell.
pub(super) async fn diagnose(options: &Options, error: StoreError) -> StoreError {
    let error = match error {
        StoreError::Mongo { source, .. } if is_login(&source) => {
            let user = options.login.as_ref();
            return StoreError::Login {
                set: options.set.clone(),
                user: user.map_or("anyone without a login".into(), |login| {
                    format!("'{}'", login.user)
                }),
                source,
            };
        }
        error @ (StoreError::Mongo { .. } | StoreError::Silent { .. }) => error,
        other => return other,
    };
    let mut reached = false;
    for address in &options.addresses {
        let Some(hello) = ask(address).await else {
            continue;
        };
        reached = true;
        let (address, expected) = (address.clone(), options.set.clone());
        match hello.get_str("setName") {
            Ok(found) if found != expected => {
                let found = found.to_string();
                return StoreError::OtherSet {
                    address,
                    expected,
                    found,
                };
            }
            // One that is to become a member says so.
            Err(_) if !hello.get_bool("isreplicaset").unwrap_or(false) => {
                return StoreError::NoSet { address, expected };
            }
            _ => {}
        }
    }
    let set = options.set.clone();
    match error {
        _ if !reached => StoreError::Unreachable {
            set,
            addresses: options.addresses.clone(),
        },
        StoreError::Mongo { ref source, .. } if !is_selection(source) => error,
        _ => StoreError::NoPrimary { set },
    }
}

fn is_selection(error: &mongodb::error::Error) -> bool {
    matches!(&*error.kind, mongodb::error::ErrorKind::ServerSelection { .. })
}

/// What one member says of itself, which it says to anyone.
async fn ask(address: &str) -> Option<Document> {
    let mut client = client_options(&[address.to_string()]).ok()?;
    client.direct_connection = Some(true);
    client.server_selection_timeout = Some(CONNECT);
    let client = make(client).ok()?;
    let asked = tokio::spawn(async move {
        let hello = client.database("admin").run_command(doc! { "hello": 1 }).await;
        client.shutdown().immediate(true).await;
        hello
    });
    tokio::time::timeout(CONNECT * 2, asked).await.ok()?.ok()?.ok()
}

fn client_options(addresses: &[String]) -> Result<ClientOptions, StoreError> {
    let hosts = addresses
        .iter()
        .map(|text| {
            ServerAddress::parse(text).map_err(|source| StoreError::Address {
                text: text.clone(),
                source: Box::new(source),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(ClientOptions::builder()
        .hosts(hosts)
        .app_name("conclave".to_string())
        .connect_timeout(CONNECT)
        .heartbeat_freq(HEARTBEAT)
        .build())
}

fn make(options: ClientOptions) -> Result<Client, StoreError> {
    Client::with_options(options).map_err(|source| StoreError::Mongo {
        step: "set up the connection",
        source: Box::new(source),
    })
}
