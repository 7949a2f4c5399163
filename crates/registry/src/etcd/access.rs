//! How etcd is reached: addresses, and what is shown there.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thiserror::Error;

/// For one address: to connect and hear a first answer.
const CONNECT: Duration = Duration::from_secs(2);

/// The next address is tried beside the earlier ones after this time, so that a dead one costs little.
const STAGGER: Duration = Duration::from_millis(300);

/// For any call. etcd itself gives up after 7 s, so whoever takes longer hangs. Streams may last for longer.
const CALL: Duration = Duration::from_secs(10);

/// How one reaches etcd. `host:port` each; any of them will do.
#[derive(Clone, Debug)]
pub struct Access {
    pub endpoints: Vec<String>,
    pub login: Option<Login>,
    pub tls: Option<Tls>,
    /// The id of the only cluster that will do. Addresses outlive clusters: a node that lost everything may have
    /// founded another one at its old address.
    pub cluster: Option<u64>,
}

/// A user of etcd.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({}, ...)", self.user)
    }
}

/// Files in PEM: who signs, and who we are.
#[derive(Clone, Debug)]
pub struct Tls {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Error)]
pub enum AccessError {
    #[error("could not read {path}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no address of etcd is known")]
    Nowhere,
    #[error("could not reach etcd at {}", .endpoints.join(", "))]
    Connect {
        endpoints: Vec<String>,
        #[source]
        source: Error,
    },
    #[error(
        "etcd at {endpoint} belongs to another cluster ({theirs:x}) than this node ({ours:x}); if this node is to \
         change over, start it with a new data folder"
    )]
    AnotherCluster {
        endpoint: String,
        ours: u64,
        theirs: u64,
    },
}

/// A client, and the one address that it talks to.
pub(super) struct Reached {
    pub(super) endpoint: String,
    pub(super) client: Client,
}

impl Access {
    /// The same, at other addresses.
    pub fn at(&self, endpoints: Vec<String>) -> Access {
        Access {
            endpoints,
            ..self.clone()
        }
    }

    /// The same, where nothing but this cluster will do.
    pub fn of(self, cluster: Option<u64>) -> Access {
        Access { cluster, ..self }
    }

    pub fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }

    pub fn urls(&self) -> Vec<String> {
        self.endpoints.iter().map(|endpoint| self.url(endpoint)).collect()
    }

    /// A client that logged in, if there is somebody to log in as and etcd asks for it. It talks to one address: the
    /// first that answered. Whoever gets an error from it connects anew; that also logs in anew, which is needed
    /// after a restart of etcd.
    pub async fn connect(&self) -> Result<Client, AccessError> {
        Ok(self.reach().await?.client)
    }

    /// All addresses are tried, the first of them first. The client is given one address only: a client with several
    /// spreads its calls over all of them, also over those that are dead.
    pub(super) async fn reach(&self) -> Result<Reached, AccessError> {
        let options = self.options()?;
        let mut attempts: FuturesUnordered<_> = self
            .endpoints
            .iter()
            .zip(0..)
            .map(|(endpoint, turn)| {
                let options = options.clone();
                async move {
                    tokio::time::sleep(STAGGER * turn).await;
                    let client = self.ask(endpoint, options).await?;
                    Ok(Reached {
                        endpoint: endpoint.clone(),
                        client,
                    })
                }
            })
            .collect();
        let mut failure: Option<Failure> = None;
        while let Some(attempt) = attempts.next().await {
            match attempt {
                Ok(reached) => return Ok(reached),
                // What etcd says (a wrong password, for instance) tells more than that another address is dead.
                Err(error) if failure.as_ref().is_none_or(|known| !known.is_answer()) => {
                    failure = Some(error)
                }
                Err(_) => {}
            }
        }
        Err(match failure {
            Some(Failure::Etcd(source)) => AccessError::Connect {
                endpoints: self.endpoints.clone(),
                source,
            },
            Some(Failure::AnotherCluster {
                endpoint,
                ours,
                theirs,
            }) => AccessError::AnotherCluster {
                endpoint,
                ours,
                theirs,
            },
            None => AccessError::Nowhere,
        })
    }

    async fn ask(&self, endpoint: &str, options: ConnectOptions) -> Result<Client, Failure> {
        let asked = async {
            let mut client = Client::connect([self.url(endpoint)], Some(options)).await?;
            // A client connects when it is first used. This needs no quorum, and no rights.
            let status = client.status().await?;
            let cluster = status.header().map_or(0, |header| header.cluster_id());
            Ok((client, cluster))
        };
        let (mut client, theirs) = within(CONNECT, asked).await.map_err(Failure::Etcd)?;
        if let Some(ours) = self.cluster.filter(|ours| *ours != theirs) {
            return Err(Failure::AnotherCluster {
                endpoint: endpoint.to_string(),
                ours,
                theirs,
            });
        }
        self.log_in(&mut client).await.map_err(Failure::Etcd)?;
        Ok(client)
    }

    /// Has the time of any call: checking a password is hard work for etcd, by design, and it goes on with it after
    /// we hung up. Whoever came back too soon would only make a busy machine busier.
    async fn log_in(&self, client: &mut Client) -> Result<(), Error> {
        let Some(Login { user, password }) = &self.login else {
            return Ok(());
        };
        match client.update_user(Some((user.clone(), password.clone()))).await {
            // Users are set up once the cluster stands. Until then nobody is asked who they are.
            Err(error) if is_unguarded(&error) => Ok(()),
            other => other,
        }
    }

    fn url(&self, endpoint: &str) -> String {
        format!("{}://{endpoint}", self.scheme())
    }

    // There are no HTTP/2 pings: etcd hangs up on whoever pings more often than every 5 s, its proxy on whoever does
    // so more often than every 5 minutes. A peer that hangs is noticed by the time limit of a call.
    fn options(&self) -> Result<ConnectOptions, AccessError> {
        let options = ConnectOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout(CALL)
            .with_tcp_keepalive(Duration::from_secs(5))
            // A member forgets who logged in when it restarts.
            .with_auto_token_refresh(true);
        let Some(Tls { ca, cert, key }) = &self.tls else {
            return Ok(options);
        };
        let tls = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(read(ca)?))
            .identity(Identity::from_pem(read(cert)?, read(key)?));
        Ok(options.with_tls(tls))
    }
}

/// Why one address will not do.
enum Failure {
    Etcd(Error),
    AnotherCluster {
        endpoint: String,
        ours: u64,
        theirs: u64,
    },
}

impl Failure {
    /// Whether it is etcd that speaks, and not the way to it.
    fn is_answer(&self) -> bool {
        match self {
            Failure::Etcd(Error::GRpcStatus(status)) => status.message().starts_with("etcdserver:"),
            Failure::Etcd(_) => false,
            Failure::AnotherCluster { .. } => true,
        }
    }
}

/// Not to be answered in time is an error like any other.
pub(super) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let text = format!("no answer within {limit:?}");
        Err(Error::IoError(io::Error::new(io::ErrorKind::TimedOut, text)))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, AccessError> {
    std::fs::read(path).map_err(|source| AccessError::File {
        path: path.to_owned(),
        source,
    })
}

fn is_unguarded(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("authentication is not enabled"))
}
