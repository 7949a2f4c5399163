//! One mongod, spoken to directly, as its administrator.
//!
//! With a secret we log in as the user whom the members of a replica set are to each other: the key file's content
//! is its password. That works on a mongod that is in no set yet and has no users, from anywhere, so that the
//! bootstrap needs no exception for whoever happens to be on the same machine, and heals wherever it broke off.

use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{AuthMechanism, ClientOptions, Credential, ServerAddress};
use thiserror::Error;

use super::config::SetConfig;
use super::{login, secret};

const CONNECT: Duration = Duration::from_secs(2);
/// For commands that read or change little.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

mod code {
    pub(super) const UNAUTHORIZED: i32 = 13;
    pub(super) const AUTHENTICATION_FAILED: i32 = 18;
    pub(super) const ALREADY_INITIALIZED: i32 = 23;
    pub(super) const NOT_YET_INITIALIZED: i32 = 94;
    pub(super) const USER_EXISTS: i32 = 51003;
}

#[derive(Debug, Error)]
pub enum AdminError {
    #[error("{address} is no address")]
    Address {
        address: String,
        #[source]
        source: Error,
    },
    #[error("mongod at {address} did not answer within {patience:?}")]
    Silent { address: String, patience: Duration },
    #[error("mongod at {address} cannot be reached")]
    Unreachable {
        address: String,
        #[source]
        source: Error,
    },
    #[error("mongod at {address} does not accept our secret")]
    Login { address: String },
    #[error("mongod at {address} refused: {message} (code {code})")]
    Refused {
        address: String,
        code: i32,
        message: String,
    },
    #[error("mongod at {address} gave an answer without {what}")]
    Answer { address: String, what: &'static str },
}

/// As whom.
#[derive(Clone, Copy)]
enum As<'a> {
    Nobody,
    /// A member of the same set.
    Peer(&'a str),
    /// The user whom judicators log in as.
    User(&'a str),
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Mongod {
    address: String,
    client: Client,
}

/// What a mongod is, by its own word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hello {
    pub(crate) role: Role,
    /// Whether it knows of a primary.
    pub(crate) has_primary: bool,
    /// Changes with everything that is said here. For waiting until it does.
    pub(crate) version: Option<Document>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    Secondary,
    /// Starting, syncing, removed, or in no set.
    Other,
}

impl Mongod {
    pub(crate) fn at(address: &str, secret: Option<&str>) -> Result<Mongod, AdminError> {
        Mongod::connect(address, secret.map_or(As::Nobody, As::Peer))
    }

    fn connect(address: &str, who: As<'_>) -> Result<Mongod, AdminError> {
        let wrong = |source| AdminError::Address {
            address: address.to_string(),
            source,
        };
        let mut options = ClientOptions::builder()
            .hosts(vec![ServerAddress::parse(address).map_err(wrong)?])
            .direct_connection(true)
            .app_name("conclave mongodb daemon".to_string())
            .connect_timeout(CONNECT)
            .server_selection_timeout(CONNECT)
            .max_pool_size(4)
            .build();
        options.credential = credential(who);
        Ok(Mongod {
            address: address.to_string(),
            client: Client::with_options(options).map_err(wrong)?,
        })
    }

    /// The driver has no time limit of its own, and its futures are not to be dropped midway: the command goes on
    /// in a task, only the waiting ends.
    pub(crate) async fn command(
        &self,
        command: Document,
        patience: Duration,
    ) -> Result<Document, AdminError> {
        let database = self.client.database("admin");
        let answer = tokio::spawn(async move { database.run_command(command).await });
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(answer)) => answer.map_err(|error| self.failure(error)),
            // A task that panicked gave no answer either.
            Ok(Err(_)) | Err(_) => Err(AdminError::Silent {
                address: self.address.clone(),
                patience,
            }),
        }
    }

    pub(crate) async fn hello(&self) -> Result<Hello, AdminError> {
        self.hello_with(doc! { "hello": 1 }, PATIENCE).await
    }

    /// Answers when something has changed since `version`, or `patience` is over.
    pub(crate) async fn hello_after(
        &self,
        version: &Document,
        patience: Duration,
    ) -> Result<Hello, AdminError> {
        let millis = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        let command = doc! { "hello": 1, "topologyVersion": version.clone(), "maxAwaitTimeMS": millis };
        self.hello_with(command, patience + PATIENCE).await
    }

    async fn hello_with(&self, command: Document, patience: Duration) -> Result<Hello, AdminError> {
        let answer = self.command(command, patience).await?;
        let says = |key| answer.get_bool(key).unwrap_or_default();
        let role = match (says("isWritablePrimary"), says("secondary")) {
            (true, _) => Role::Primary,
            (_, true) => Role::Secondary,
            _ => Role::Other,
        };
        Ok(Hello {
            role,
            has_primary: answer.contains_key("primary"),
            version: answer.get_document("topologyVersion").ok().cloned(),
        })
    }

    /// `None` where it is not in a set yet.
    pub(crate) async fn config(&self) -> Result<Option<SetConfig>, AdminError> {
        match self.command(doc! { "replSetGetConfig": 1 }, PATIENCE).await {
            Ok(answer) => self.config_of(answer).map(Some),
            Err(AdminError::Refused {
                code: code::NOT_YET_INITIALIZED,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// To be asked of the primary: the config, and whether it is in force (a majority has it).
    pub(crate) async fn config_in_force(&self) -> Result<(SetConfig, bool), AdminError> {
        let command = doc! { "replSetGetConfig": 1, "commitmentStatus": true };
        let answer = self.command(command, PATIENCE).await?;
        let in_force = answer.get_bool("commitmentStatus").unwrap_or_default();
        Ok((self.config_of(answer)?, in_force))
    }

    fn config_of(&self, mut answer: Document) -> Result<SetConfig, AdminError> {
        match answer.remove("config") {
            Some(mongodb::bson::Bson::Document(config)) => Ok(SetConfig(config)),
            _ => Err(self.without("config")),
        }
    }

    /// That it was done before is fine.
    pub(crate) async fn initiate(&self, config: &SetConfig) -> Result<(), AdminError> {
        let command = doc! { "replSetInitiate": config.0.clone() };
        match self.command(command, Duration::from_secs(20)).await {
            Err(AdminError::Refused {
                code: code::ALREADY_INITIALIZED,
                ..
            }) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Answers when a majority has the new config, or says why not.
    pub(crate) async fn reconfigure(&self, config: &SetConfig) -> Result<(), AdminError> {
        let patience = Duration::from_secs(10);
        let command = doc! { "replSetReconfig": config.0.clone(), "maxTimeMS": 8000 };
        self.command(command, patience).await.map(|_| ())
    }

    /// State and time since start of each member, by address.
    pub(crate) async fn status(&self) -> Result<Vec<SeatStatus>, AdminError> {
        let answer = self.command(doc! { "replSetGetStatus": 1 }, PATIENCE).await?;
        let members = answer.get_array("members").map_err(|_| self.without("members"))?;
        Ok(members
            .iter()
            .filter_map(|member| SeatStatus::of(member.as_document()?))
            .collect())
    }

    pub(crate) async fn version(&self) -> Result<String, AdminError> {
        let answer = self.command(doc! { "buildInfo": 1 }, PATIENCE).await?;
        let version = answer.get_str("version").map_err(|_| self.without("version"))?;
        Ok(version.to_string())
    }

    /// For `rest` it will not be elected again.
    pub(crate) async fn step_down(&self, catch_up: Duration, rest: Duration) -> Result<(), AdminError> {
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let command = doc! {
            "replSetStepDown": seconds(rest),
            "secondaryCatchUpPeriodSecs": seconds(catch_up),
        };
        self.command(command, catch_up + PATIENCE).await.map(|_| ())
    }

    pub(crate) async fn has_user(&self, secret: &str) -> Result<bool, AdminError> {
        let (user, _) = login(secret);
        let answer = self.command(doc! { "usersInfo": user }, PATIENCE).await?;
        let users = answer.get_array("users").map_err(|_| self.without("users"))?;
        Ok(!users.is_empty())
    }

    /// That it was done before is fine.
    pub(crate) async fn make_user(&self, secret: &str) -> Result<(), AdminError> {
        let (user, password) = login(secret);
        let command = doc! {
            "createUser": user,
            "pwd": password,
            // Whoever has the secret could say anything as a peer anyway.
            "roles": [{ "role": "root", "db": "admin" }],
            "writeConcern": { "w": "majority", "j": true, "wtimeout": 10_000 },
        };
        match self.command(command, Duration::from_secs(15)).await {
            Err(AdminError::Refused {
                code: code::USER_EXISTS,
                ..
            }) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Whether the user that was made for the secret can log in here.
    pub(crate) async fn check_login(&self, secret: &str) -> Result<(), AdminError> {
        let user = Mongod::connect(&self.address, As::User(secret))?;
        user.command(doc! { "ping": 1 }, PATIENCE).await.map(|_| ())
    }

    fn without(&self, what: &'static str) -> AdminError {
        AdminError::Answer {
            address: self.address.clone(),
            what,
        }
    }

    fn failure(&self, error: Error) -> AdminError {
        let address = self.address.clone();
        match *error.kind {
            ErrorKind::Authentication { .. } => AdminError::Login { address },
            ErrorKind::Command(ref refusal) => match refusal.code {
                code::AUTHENTICATION_FAILED | code::UNAUTHORIZED => AdminError::Login { address },
                code => AdminError::Refused {
                    address,
                    code,
                    message: refusal.message.clone(),
                },
            },
            _ => AdminError::Unreachable {
                address,
                source: error,
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeatStatus {
    pub(crate) address: String,
    pub(crate) state: String,
    pub(crate) uptime: Duration,
}

impl SeatStatus {
    fn of(member: &Document) -> Option<SeatStatus> {
        let uptime = match member.get("uptime") {
            Some(mongodb::bson::Bson::Int32(seconds)) => u64::try_from(*seconds).ok(),
            Some(mongodb::bson::Bson::Int64(seconds)) => u64::try_from(*seconds).ok(),
            _ => None,
        };
        let state = match member.get_str("stateStr").ok()? {
            "(not reachable/healthy)" => "unreachable".to_string(),
            state => state.to_ascii_lowercase(),
        };
        Some(SeatStatus {
            address: member.get_str("name").ok()?.to_string(),
            state,
            uptime: Duration::from_secs(uptime.unwrap_or_default()),
        })
    }
}

fn credential(who: As<'_>) -> Option<Credential> {
    let (user, password, source) = match who {
        As::Nobody => return None,
        As::Peer(secret) => ("__system".to_string(), secret::key(secret), "local"),
        As::User(secret) => {
            let (user, password) = login(secret);
            (user, password, "admin")
        }
    };
    Some(
        Credential::builder()
            .username(user)
            .password(password)
            .source(source.to_string())
            .mechanism(AuthMechanism::ScramSha256)
            .build(),
    )
}
