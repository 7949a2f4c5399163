//! Flags of the commands that call a server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use api::{HttpClient, HttpClientError, HttpClientOptions, HumanDuration};
use clap::Args;

use crate::print::{OutputFormat, print_message};

/// Flags of every command that calls a server.
#[derive(Args, Debug)]
pub(crate) struct ClientFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Print JSON, one object on each line, for programs
    #[arg(long, help_heading = None::<&str>)]
    json: bool,
}

/// Flags that say how to reach the server: URL, token, certificates and timeout.
///
/// These flags may stand before or after the command's name. Clap would apply variables and defaults to each place, so this
/// module applies them itself after both places are merged.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServerFlags {
    /// URL of a gateway, http:// or https:// [env: CONCLAVE_SERVER] [default: http://127.0.0.1:7000]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    server: Option<String>,
    /// File with the token to send to the server [env: CONCLAVE_TOKEN_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// PEM file of additional CA certificates to trust for https:// [env: CONCLAVE_CA_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca_file: Option<PathBuf>,
    /// Give up on a request without a response after this time, retries included [env: CONCLAVE_TIMEOUT] [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_timeout, help_heading = "Server")]
    timeout: Option<HumanDuration>,
}

const DEFAULT_SERVER: &str = "http://127.0.0.1:7000";
const DEFAULT_TIMEOUT: HumanDuration = HumanDuration(Duration::from_secs(60));

impl ClientFlags {
    pub(crate) fn connect(&self) -> Result<HttpClient> {
        self.server.connect()
    }

    pub(crate) fn output_format(&self) -> OutputFormat {
        match self.json {
            true => OutputFormat::Json,
            false => OutputFormat::Text,
        }
    }

    /// Adds the flags given before the command's name. A flag given after the name has precedence.
    pub(crate) fn fill_missing_from(&mut self, earlier: ServerFlags) {
        let ServerFlags {
            server,
            token_file,
            ca_file,
            timeout,
        } = &mut self.server;
        *server = server.take().or(earlier.server);
        *token_file = token_file.take().or(earlier.token_file);
        *ca_file = ca_file.take().or(earlier.ca_file);
        *timeout = timeout.or(earlier.timeout);
    }
}

impl ServerFlags {
    /// The name of the first flag that is set.
    pub(crate) fn first_given_flag(&self) -> Option<&'static str> {
        let ServerFlags {
            server,
            token_file,
            ca_file,
            timeout,
        } = self;
        let flags = [
            ("--server", server.is_some()),
            ("--token-file", token_file.is_some()),
            ("--ca-file", ca_file.is_some()),
            ("--timeout", timeout.is_some()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    fn connect(&self) -> Result<HttpClient> {
        let server = match (&self.server, environment_variable("CONCLAVE_SERVER")) {
            (Some(server), _) => server.clone(),
            (None, Some(server)) => server,
            (None, None) => DEFAULT_SERVER.to_string(),
        };
        let HumanDuration(timeout) = match (self.timeout, environment_variable("CONCLAVE_TIMEOUT")) {
            (Some(timeout), _) => timeout,
            (None, Some(text)) => parse_timeout(&text)
                .map_err(anyhow::Error::msg)
                .context("CONCLAVE_TIMEOUT")?,
            (None, None) => DEFAULT_TIMEOUT,
        };
        let token = read_file(&self.token_file, "CONCLAVE_TOKEN_FILE", "token file")?;
        let ca_certificates = read_file(&self.ca_file, "CONCLAVE_CA_FILE", "certificate file")?;
        let options = HttpClientOptions {
            token: token
                .map(String::from_utf8)
                .transpose()
                .map_err(|_| HttpClientError::InvalidToken)?,
            ca_certificates,
            // Half of the timeout, so that a server which accepts the connection and stays silent gets a second attempt.
            idle_timeout: timeout / 2,
            retry_for: timeout,
            on_retry: |error| print_message(format_args!("{error}; retrying")),
            ..HttpClientOptions::default()
        };
        Ok(HttpClient::with_options(&server, options)?)
    }
}

/// Reads the file that the flag or else the environment variable names.
fn read_file(flag: &Option<PathBuf>, name: &str, what: &str) -> Result<Option<Vec<u8>>> {
    let path = flag
        .clone()
        .or_else(|| environment_variable(name).map(PathBuf::from));
    path.map(|path| {
        std::fs::read(&path).with_context(|| format!("could not read the {what} {}", path.display()))
    })
    .transpose()
}

/// A variable with an empty value counts as unset.
fn environment_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn parse_timeout(text: &str) -> Result<HumanDuration, String> {
    match text.parse()? {
        HumanDuration(Duration::ZERO) => Err("must be more than zero".to_string()),
        timeout => Ok(timeout),
    }
}
