//! Administrative commands to one mongod, over a direct connection.
//!
//! With a secret, the daemon logs in as `__system`, the user as which the members of a replica set authenticate each
//! other; the password is the content of the key file. That works from every machine, and on a mongod that is in no
//! set and has no users. So the bootstrap needs no localhost exception, and can continue wherever it was interrupted.

use std::time::Duration;

use mongodb::Client;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{AuthMechanism, ClientOptions, Credential, ServerAddress};
use thiserror::Error;

use super::config::ReplicaSetConfig;
use super::secret::{self, login_from_secret};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// For commands that mongod executes at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(4);

mod code {
    pub(super) const UNAUTHORIZED: i32 = 13;
    pub(super) const AUTHENTICATION_FAILED: i32 = 18;
    pub(super) const ALREADY_INITIALIZED: i32 = 23;
    pub(super) const NOT_YET_INITIALIZED: i32 = 94;
    pub(super) const USER_EXISTS: i32 = 51003;
}

/// Why an administrative command of the mongod daemon to a mongod failed.
#[derive(Debug, Error)]
pub enum MongodCommandError {
    #[error("{address} is not a valid address")]
    Address {
        address: String,
        #[source]
        source: Error,
    },
    #[error("the command to mongod at {address} timed out after {timeout:?}")]
    Timeout { address: String, timeout: Duration },
    #[error("could not connect to mongod at {address}")]
    Unreachable {
        address: String,
        #[source]
        source: Error,
    },
    #[error("mongod at {address} does not accept this node's secret")]
    Login { address: String },
    #[error("mongod at {address} refused the command: {message} (code {code})")]
    Refused {
        address: String,
        code: i32,
        message: String,
    },
    #[error("the answer of mongod at {address} has no field {field}")]
    MissingField { address: String, field: &'static str },
}

/// As which MongoDB user the mongod daemon's client logs in to a mongod.
#[derive(Clone, Copy)]
enum LoginAs<'a> {
    Anonymous,
    /// As `__system`, like a member of the same set.
    SetMember(&'a str),
    /// As the user that judicators log in as.
    User(&'a str),
}

/// A client of the mongod daemon for administrative commands to one mongod. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MongodClient {
    address: String,
    client: Client,
}

/// The answer of a mongod to `hello`: its role in the replica set, and whether it sees a primary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HelloReply {
    pub(crate) role: MemberRole,
    /// Whether it sees a primary.
    pub(crate) has_primary: bool,
    /// mongod changes it whenever the rest of its answer changes; with it, `hello` can wait for the next change.
    pub(crate) topology_version: Option<Document>,
}

/// The role of a mongod in its replica set, according to its answer to `hello`: primary, secondary, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberRole {
    Primary,
    Secondary,
    /// It is starting, copying data, removed, or in no set.
    Other,
}

impl MongodClient {
    pub(crate) fn at(address: &str, secret: Option<&str>) -> Result<MongodClient, MongodCommandError> {
        MongodClient::connect(address, secret.map_or(LoginAs::Anonymous, LoginAs::SetMember))
    }

    fn connect(address: &str, login: LoginAs<'_>) -> Result<MongodClient, MongodCommandError> {
        let invalid = |source| MongodCommandError::Address {
            address: address.to_string(),
            source,
        };
        let mut options = ClientOptions::builder()
            .hosts(vec![ServerAddress::parse(address).map_err(invalid)?])
            .direct_connection(true)
            .app_name("conclave mongodb daemon".to_string())
            .connect_timeout(CONNECT_TIMEOUT)
            .server_selection_timeout(CONNECT_TIMEOUT)
            .max_pool_size(4)
            .build();
        options.credential = credential(login);
        Ok(MongodClient {
            address: address.to_string(),
            client: Client::with_options(options).map_err(invalid)?,
        })
    }

    /// The driver has no timeout for commands, and its futures must not be dropped before they complete. So the
    /// command runs in a task, and only the wait for it ends.
    pub(crate) async fn command(
        &self,
        command: Document,
        timeout: Duration,
    ) -> Result<Document, MongodCommandError> {
        let database = self.client.database("admin");
        #[expect(
            clippy::disallowed_methods,
            reason = "a driver call must not be dropped midway, so its task may outlive the timeout"
        )]
        let answer = tokio::spawn(async move { database.run_command(command).await });
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => answer.map_err(|error| self.failure(error)),
            // A task that panicked has no answer either.
            Ok(Err(_)) | Err(_) => Err(MongodCommandError::Timeout {
                address: self.address.clone(),
                timeout,
            }),
        }
    }

    pub(crate) async fn hello(&self) -> Result<HelloReply, MongodCommandError> {
        self.hello_with(doc! { "hello": 1 }, COMMAND_TIMEOUT).await
    }

    /// Returns when something has changed since `version`, or after `wait`.
    pub(crate) async fn hello_after(
        &self,
        version: &Document,
        wait: Duration,
    ) -> Result<HelloReply, MongodCommandError> {
        let millis = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let command = doc! { "hello": 1, "topologyVersion": version.clone(), "maxAwaitTimeMS": millis };
        self.hello_with(command, wait + COMMAND_TIMEOUT).await
    }

    async fn hello_with(
        &self,
        command: Document,
        timeout: Duration,
    ) -> Result<HelloReply, MongodCommandError> {
        let answer = self.command(command, timeout).await?;
        let flag = |key| answer.get_bool(key).unwrap_or_default();
        let role = match (flag("isWritablePrimary"), flag("secondary")) {
            (true, _) => MemberRole::Primary,
            (_, true) => MemberRole::Secondary,
            _ => MemberRole::Other,
        };
        Ok(HelloReply {
            role,
            has_primary: answer.contains_key("primary"),
            topology_version: answer.get_document("topologyVersion").ok().cloned(),
        })
    }

    /// Returns `None` if mongod is in no replica set yet.
    pub(crate) async fn config(&self) -> Result<Option<ReplicaSetConfig>, MongodCommandError> {
        match self
            .command(doc! { "replSetGetConfig": 1 }, COMMAND_TIMEOUT)
            .await
        {
            Ok(answer) => self.config_of(answer).map(Some),
            Err(MongodCommandError::Refused {
                code: code::NOT_YET_INITIALIZED,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the primary's config, and whether it is committed (a majority has it).
    pub(crate) async fn config_and_commitment(&self) -> Result<(ReplicaSetConfig, bool), MongodCommandError> {
        let command = doc! { "replSetGetConfig": 1, "commitmentStatus": true };
        let answer = self.command(command, COMMAND_TIMEOUT).await?;
        let is_committed = answer.get_bool("commitmentStatus").unwrap_or_default();
        Ok((self.config_of(answer)?, is_committed))
    }

    fn config_of(&self, mut answer: Document) -> Result<ReplicaSetConfig, MongodCommandError> {
        match answer.remove("config") {
            Some(mongodb::bson::Bson::Document(config)) => Ok(ReplicaSetConfig(config)),
            _ => Err(self.missing("config")),
        }
    }

    /// Succeeds also if the set was initiated before.
    pub(crate) async fn initiate(&self, config: &ReplicaSetConfig) -> Result<(), MongodCommandError> {
        let command = doc! { "replSetInitiate": config.0.clone() };
        match self.command(command, Duration::from_secs(20)).await {
            Err(MongodCommandError::Refused {
                code: code::ALREADY_INITIALIZED,
                ..
            }) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Returns when a majority has the new config, or with an error.
    pub(crate) async fn reconfigure(&self, config: &ReplicaSetConfig) -> Result<(), MongodCommandError> {
        let command = doc! { "replSetReconfig": config.0.clone(), "maxTimeMS": 8000 };
        self.command(command, Duration::from_secs(10)).await.map(drop)
    }

    /// The state of each member, as this mongod sees it.
    pub(crate) async fn status(&self) -> Result<Vec<SetMemberStatus>, MongodCommandError> {
        let answer = self
            .command(doc! { "replSetGetStatus": 1 }, COMMAND_TIMEOUT)
            .await?;
        let members = answer.get_array("members").map_err(|_| self.missing("members"))?;
        let committed = answer.get_document("optimes").ok();
        let committed_term = committed.and_then(|times| term_of(times, "lastCommittedOpTime"));
        Ok(members
            .iter()
            .filter_map(|member| SetMemberStatus::parse(member.as_document()?, committed_term))
            .collect())
    }

    pub(crate) async fn version(&self) -> Result<String, MongodCommandError> {
        let answer = self.command(doc! { "buildInfo": 1 }, COMMAND_TIMEOUT).await?;
        let version = answer.get_str("version").map_err(|_| self.missing("version"))?;
        Ok(version.to_string())
    }

    /// Makes a primary step down. It is not elected again for `no_reelection`.
    pub(crate) async fn step_down(
        &self,
        catch_up: Duration,
        no_reelection: Duration,
    ) -> Result<(), MongodCommandError> {
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let command = doc! {
            "replSetStepDown": seconds(no_reelection),
            "secondaryCatchUpPeriodSecs": seconds(catch_up),
        };
        self.command(command, catch_up + COMMAND_TIMEOUT).await.map(drop)
    }

    pub(crate) async fn has_user(&self, secret: &str) -> Result<bool, MongodCommandError> {
        let (user, _) = login_from_secret(secret);
        let answer = self.command(doc! { "usersInfo": user }, COMMAND_TIMEOUT).await?;
        let users = answer.get_array("users").map_err(|_| self.missing("users"))?;
        Ok(!users.is_empty())
    }

    /// Succeeds also if the user exists.
    pub(crate) async fn create_user(&self, secret: &str) -> Result<(), MongodCommandError> {
        let (user, password) = login_from_secret(secret);
        let command = doc! {
            "createUser": user,
            "pwd": password,
            // A client that has the secret could log in as `__system` and do everything anyway.
            "roles": [{ "role": "root", "db": "admin" }],
            "writeConcern": { "w": "majority", "j": true, "wtimeout": 10_000 },
        };
        match self.command(command, Duration::from_secs(15)).await {
            Err(MongodCommandError::Refused {
                code: code::USER_EXISTS,
                ..
            }) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Checks that the user which was created for the secret can log in.
    pub(crate) async fn check_login(&self, secret: &str) -> Result<(), MongodCommandError> {
        let user = MongodClient::connect(&self.address, LoginAs::User(secret))?;
        user.command(doc! { "ping": 1 }, COMMAND_TIMEOUT).await.map(drop)
    }

    fn missing(&self, field: &'static str) -> MongodCommandError {
        MongodCommandError::MissingField {
            address: self.address.clone(),
            field,
        }
    }

    fn failure(&self, error: Error) -> MongodCommandError {
        let address = self.address.clone();
        match *error.kind {
            ErrorKind::Authentication { .. } => MongodCommandError::Login { address },
            ErrorKind::Command(ref refusal) => match refusal.code {
                code::AUTHENTICATION_FAILED | code::UNAUTHORIZED => MongodCommandError::Login { address },
                code => MongodCommandError::Refused {
                    address,
                    code,
                    message: refusal.message.clone(),
                },
            },
            _ => MongodCommandError::Unreachable {
                address,
                source: error,
            },
        }
    }
}

/// A replica set member in a mongod's answer to `replSetGetStatus`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetMemberStatus {
    pub(crate) address: String,
    pub(crate) state: String,
    pub(crate) uptime: Duration,
    /// The time of the last write that the member has, in seconds of the primary's clock.
    pub(crate) last_write: Option<u32>,
}

impl SetMemberStatus {
    /// A secondary that has nothing of the term in which the set last committed may still have to roll back writes of an
    /// earlier primary. Until then no majority may depend on it, so its state is `catching up`.
    fn parse(member: &Document, committed_term: Option<i64>) -> Option<SetMemberStatus> {
        let uptime = match member.get("uptime") {
            Some(mongodb::bson::Bson::Int32(seconds)) => u64::try_from(*seconds).ok(),
            Some(mongodb::bson::Bson::Int64(seconds)) => u64::try_from(*seconds).ok(),
            _ => None,
        };
        let state = match member.get_str("stateStr").ok()? {
            "(not reachable/healthy)" => "unreachable".to_string(),
            "SECONDARY" if term_of(member, "optime") < committed_term => "catching up".to_string(),
            state => state.to_ascii_lowercase(),
        };
        Some(SetMemberStatus {
            address: member.get_str("name").ok()?.to_string(),
            state,
            uptime: Duration::from_secs(uptime.unwrap_or_default()),
            last_write: last_write_of(member),
        })
    }
}

/// The election term of an optime. Old members may report none.
fn term_of(document: &Document, optime: &str) -> Option<i64> {
    document.get_document(optime).ok()?.get_i64("t").ok()
}

fn last_write_of(member: &Document) -> Option<u32> {
    let optime = member.get_document("optime").ok()?;
    let timestamp = optime.get_timestamp("ts").ok()?;
    // A member that is not reachable reports the beginning of time.
    Some(timestamp.time).filter(|seconds| *seconds > 0)
}

fn credential(login: LoginAs<'_>) -> Option<Credential> {
    let (user, password, source) = match login {
        LoginAs::Anonymous => return None,
        LoginAs::SetMember(secret) => ("__system".to_string(), secret::key_file_content(secret), "local"),
        LoginAs::User(secret) => {
            let (user, password) = login_from_secret(secret);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_of_a_member_is_read_from_its_optime() {
        let check = |time: u32, expected: Option<u32>| {
            let timestamp = mongodb::bson::Timestamp { time, increment: 3 };
            let optime = doc! { "ts": timestamp, "t": 1_i64 };
            let member = doc! { "name": "a:1", "stateStr": "SECONDARY", "optime": optime };
            let status = SetMemberStatus::parse(&member, None).unwrap();
            assert_eq!(status.last_write, expected);
        };
        check(1_700_000_000, Some(1_700_000_000));
        check(0, None);
    }

    #[test]
    fn a_secondary_without_anything_of_the_committed_term_is_catching_up() {
        let check = |state: &str, term: i64, committed: Option<i64>, expected: &str| {
            let member = doc! { "name": "a:1", "stateStr": state, "uptime": 7, "optime": { "t": term } };
            let status = SetMemberStatus::parse(&member, committed).unwrap();
            assert_eq!(status.state, expected, "{state} {term} {committed:?}");
        };
        check("SECONDARY", 2, Some(2), "secondary");
        // A primary was elected and has not committed anything yet.
        check("SECONDARY", 2, Some(1), "secondary");
        check("SECONDARY", 1, Some(2), "catching up");
        check("SECONDARY", 1, None, "secondary");
        check("PRIMARY", 1, Some(2), "primary");
        check("ROLLBACK", 1, Some(2), "rollback");
        check("(not reachable/healthy)", 1, Some(2), "unreachable");
    }
}
