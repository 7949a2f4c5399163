//! Options of the HTTP client.

use std::fmt;
use std::time::Duration;

use super::HttpClientError;

/// Options of the client of a gateway's HTTP API: token, trusted certificates, timeouts and retries.
#[derive(Clone)]
pub struct HttpClientOptions {
    /// Sent with every request.
    pub token: Option<String>,
    /// Certificates (PEM) of certificate authorities that are trusted in addition to those of the system.
    pub ca_certificates: Option<Vec<u8>>,
    /// A request fails if no bytes are transferred in either direction for this long.
    pub idle_timeout: Duration,
    /// A request that failed for a transient reason is repeated for this long. Zero: it is sent once. A JSON response
    /// must be complete by then, or `idle_timeout` after it began.
    pub retry_for: Duration,
    /// Ignores a proxy that is set in the environment.
    pub bypass_proxy: bool,
    /// Called before a request is repeated for the second time and each later time.
    pub on_retry: fn(&HttpClientError),
}

/// Does not show the token, which would otherwise end up in logs.
impl fmt::Debug for HttpClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClientOptions")
            .field("token", &self.token.as_ref().map(|_| "hidden"))
            .field("idle_timeout", &self.idle_timeout)
            .field("retry_for", &self.retry_for)
            .finish_non_exhaustive()
    }
}

impl Default for HttpClientOptions {
    fn default() -> HttpClientOptions {
        HttpClientOptions {
            token: None,
            ca_certificates: None,
            idle_timeout: Duration::from_secs(60),
            retry_for: Duration::ZERO,
            bypass_proxy: false,
            on_retry: |_| {},
        }
    }
}
