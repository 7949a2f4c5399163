//! How to reach etcd: endpoints, credentials and TLS files.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Error, Identity, TlsOptions};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thiserror::Error;

/// For one endpoint: to connect and receive a first answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The delay before the next endpoint is tried in parallel, so that a dead endpoint costs little time.
const CONNECT_STAGGER: Duration = Duration::from_millis(300);

/// For any call. etcd itself gives up after 7 s, so a server that takes longer hangs. Streams may last longer.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How a node reaches etcd: endpoints, login, TLS files, and the expected cluster.
#[derive(Clone, Debug)]
pub struct EtcdAccess {
    /// `host:port` each. Any one of them is enough.
    pub endpoints: Vec<String>,
    pub login: Option<EtcdLogin>,
    pub tls: Option<EtcdTls>,
    /// The id of the cluster to accept; `None` accepts any. Addresses outlive clusters: a node that lost its data may
    /// have created another cluster at its old address.
    pub cluster_id: Option<u64>,
}

/// The user name and password with which a node logs in to etcd.
#[derive(Clone)]
pub struct EtcdLogin {
    pub user: String,
    pub password: String,
}

impl std::fmt::Debug for EtcdLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EtcdLogin({}, ...)", self.user)
    }
}

/// The PEM files for TLS connections to etcd: the CA, and this node's certificate and key.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// Why a node could not connect to etcd.
#[derive(Debug, Error)]
pub enum EtcdAccessError {
    #[error("could not read {path}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no etcd endpoint is known")]
    NoEndpoint,
    #[error("could not connect to etcd at {}", .endpoints.join(", "))]
    Connect {
        endpoints: Vec<String>,
        #[source]
        source: Error,
    },
    #[error(
        "etcd at {endpoint} belongs to another cluster ({theirs:x}) than this node ({ours:x}); to move this node to \
         the other cluster, start it with a new data folder"
    )]
    AnotherCluster {
        endpoint: String,
        ours: u64,
        theirs: u64,
    },
}

/// An open etcd client, and the one etcd endpoint that it talks to.
pub(super) struct EndpointConnection {
    pub(super) endpoint: String,
    pub(super) client: Client,
}

impl EtcdAccess {
    /// The same access with other endpoints.
    pub fn with_endpoints(&self, endpoints: Vec<String>) -> EtcdAccess {
        EtcdAccess {
            endpoints,
            ..self.clone()
        }
    }

    /// The same access, restricted to this cluster.
    pub fn with_cluster_id(self, cluster_id: Option<u64>) -> EtcdAccess {
        EtcdAccess { cluster_id, ..self }
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

    /// Connects to the first endpoint that answers, and logs in if there is a login and etcd has authentication enabled.
    /// After an error the caller should connect again: that also logs in again, which a restart of etcd requires.
    pub async fn connect(&self) -> Result<Client, EtcdAccessError> {
        Ok(self.connect_to_any().await?.client)
    }

    /// Tries all endpoints, in their order. The client gets one endpoint only, because a client with several spreads its
    /// calls over all of them, dead ones included.
    pub(super) async fn connect_to_any(&self) -> Result<EndpointConnection, EtcdAccessError> {
        let options = self.options()?;
        let mut attempts: FuturesUnordered<_> = self
            .endpoints
            .iter()
            .zip(0..)
            .map(|(endpoint, turn)| {
                let options = options.clone();
                async move {
                    tokio::time::sleep(CONNECT_STAGGER * turn).await;
                    let client = self.connect_to(endpoint, options).await?;
                    Ok(EndpointConnection {
                        endpoint: endpoint.clone(),
                        client,
                    })
                }
            })
            .collect();
        let mut failure: Option<EndpointFailure> = None;
        while let Some(attempt) = attempts.next().await {
            match attempt {
                Ok(connection) => return Ok(connection),
                // An answer of etcd (a wrong password, for example) explains more than a dead endpoint.
                Err(error) if failure.as_ref().is_none_or(|known| !known.is_answer()) => {
                    failure = Some(error)
                }
                Err(_) => {}
            }
        }
        Err(match failure {
            Some(EndpointFailure::Etcd(source)) => EtcdAccessError::Connect {
                endpoints: self.endpoints.clone(),
                source,
            },
            Some(EndpointFailure::AnotherCluster {
                endpoint,
                ours,
                theirs,
            }) => EtcdAccessError::AnotherCluster {
                endpoint,
                ours,
                theirs,
            },
            None => EtcdAccessError::NoEndpoint,
        })
    }

    async fn connect_to(&self, endpoint: &str, options: ConnectOptions) -> Result<Client, EndpointFailure> {
        let asked = async {
            let mut client = Client::connect([self.url(endpoint)], Some(options)).await?;
            // A client connects on its first request. A status request needs no quorum and no permission.
            let status = client.status().await?;
            let cluster = status.header().map_or(0, |header| header.cluster_id());
            Ok((client, cluster))
        };
        let (mut client, theirs) = with_timeout(CONNECT_TIMEOUT, asked)
            .await
            .map_err(EndpointFailure::Etcd)?;
        if let Some(ours) = self.cluster_id.filter(|ours| *ours != theirs) {
            return Err(EndpointFailure::AnotherCluster {
                endpoint: endpoint.to_string(),
                ours,
                theirs,
            });
        }
        self.log_in(&mut client).await.map_err(EndpointFailure::Etcd)?;
        Ok(client)
    }

    /// May take as long as any call. Checking a password is slow by design (bcrypt), and etcd continues after a client
    /// disconnects, so an early retry would only add load.
    async fn log_in(&self, client: &mut Client) -> Result<(), Error> {
        let Some(EtcdLogin { user, password }) = &self.login else {
            return Ok(());
        };
        match client.update_user(Some((user.clone(), password.clone()))).await {
            // Authentication is enabled only after the cluster has been set up.
            Err(error) if is_auth_disabled(&error) => Ok(()),
            other => other,
        }
    }

    fn url(&self, endpoint: &str) -> String {
        format!("{}://{endpoint}", self.scheme())
    }

    // No HTTP/2 keep-alive pings: etcd closes connections that ping more often than every 5 s, and its proxy those that
    // ping more often than every 5 minutes. The time limit of a call detects a server that hangs.
    fn options(&self) -> Result<ConnectOptions, EtcdAccessError> {
        let options = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIMEOUT)
            .with_timeout(CALL_TIMEOUT)
            .with_tcp_keepalive(Duration::from_secs(5))
            // A member drops all login tokens when it restarts.
            .with_auto_token_refresh(true);
        let Some(EtcdTls { ca, cert, key }) = &self.tls else {
            return Ok(options);
        };
        let tls = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(read(ca)?))
            .identity(Identity::from_pem(read(cert)?, read(key)?));
        Ok(options.with_tls(tls))
    }
}

/// Why an etcd endpoint cannot be used: it fails, or it belongs to another etcd cluster.
enum EndpointFailure {
    Etcd(Error),
    AnotherCluster {
        endpoint: String,
        ours: u64,
        theirs: u64,
    },
}

impl EndpointFailure {
    /// Whether etcd itself answered, as opposed to a failure of the network.
    fn is_answer(&self) -> bool {
        match self {
            EndpointFailure::Etcd(Error::GRpcStatus(status)) => status.message().starts_with("etcdserver:"),
            EndpointFailure::Etcd(_) => false,
            EndpointFailure::AnotherCluster { .. } => true,
        }
    }
}

/// Turns a call that takes too long into an error.
pub(super) async fn with_timeout<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let text = format!("no answer within {limit:?}");
        Err(Error::IoError(io::Error::new(io::ErrorKind::TimedOut, text)))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, EtcdAccessError> {
    std::fs::read(path).map_err(|source| EtcdAccessError::File {
        path: path.to_owned(),
        source,
    })
}

fn is_auth_disabled(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if status.message().contains("authentication is not enabled"))
}
