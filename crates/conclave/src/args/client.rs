//! Flags of every command that talks to a server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use api::{Client, ClientError, ClientOptions, Span};
use clap::Args;

use crate::print::{Form, complain};

#[derive(Args, Debug)]
pub(crate) struct ClientFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Print JSON, one object on each line, for programs
    #[arg(long, help_heading = None::<&str>)]
    json: bool,
}

/// They may stand before the command's name or after it, so the environment and the defaults come last, by hand.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ServerFlags {
    /// Address of a gateway, http:// or https:// [env: CONCLAVE_SERVER] [default: http://127.0.0.1:7000]
    #[arg(long, value_name = "URL", help_heading = "Server")]
    server: Option<String>,
    /// File with the token to show the server [env: CONCLAVE_TOKEN_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// File (PEM) with certificates to trust besides the system's, for https:// [env: CONCLAVE_CA_FILE]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca_file: Option<PathBuf>,
    /// Give up on a call without an answer after this time, repeats included [env: CONCLAVE_TIMEOUT] [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = timeout, help_heading = "Server")]
    timeout: Option<Span>,
}

const SERVER: &str = "http://127.0.0.1:7000";
const TIMEOUT: Span = Span(Duration::from_secs(60));

impl ClientFlags {
    pub(crate) fn connect(&self) -> Result<Client> {
        self.server.connect()
    }

    pub(crate) fn form(&self) -> Form {
        match self.json {
            true => Form::Json,
            false => Form::People,
        }
    }

    /// Takes what was given before the command's name; what was given after it is stronger.
    pub(crate) fn take_missing(&mut self, earlier: ServerFlags) {
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
    /// The first flag that is set.
    pub(crate) fn given(&self) -> Option<&'static str> {
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

    fn connect(&self) -> Result<Client> {
        let server = match (&self.server, variable("CONCLAVE_SERVER")) {
            (Some(server), _) => server.clone(),
            (None, Some(server)) => server,
            (None, None) => SERVER.to_string(),
        };
        let Span(timeout) = match (self.timeout, variable("CONCLAVE_TIMEOUT")) {
            (Some(span), _) => span,
            (None, Some(text)) => timeout(&text)
                .map_err(anyhow::Error::msg)
                .context("CONCLAVE_TIMEOUT")?,
            (None, None) => TIMEOUT,
        };
        let token = read(&self.token_file, "CONCLAVE_TOKEN_FILE", "token file")?;
        let authorities = read(&self.ca_file, "CONCLAVE_CA_FILE", "file of certificates")?;
        let options = ClientOptions {
            token: token
                .map(String::from_utf8)
                .transpose()
                .map_err(|_| ClientError::Token)?,
            authorities,
            // A server that takes the first attempt and stays silent gets a second one, on a new connection.
            silence: timeout / 2,
            repeat_for: timeout,
            on_repeat: |error| complain(format_args!("{error}; trying again")),
            ..ClientOptions::default()
        };
        Ok(Client::with(&server, options)?)
    }
}

fn read(flag: &Option<PathBuf>, name: &str, what: &str) -> Result<Option<Vec<u8>>> {
    let path = flag.clone().or_else(|| variable(name).map(PathBuf::from));
    path.map(|path| {
        std::fs::read(&path).with_context(|| format!("could not read the {what} {}", path.display()))
    })
    .transpose()
}

/// A variable that is set to nothing counts as not set.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn timeout(text: &str) -> Result<Span, String> {
    match text.parse()? {
        Span(Duration::ZERO) => Err("must be more than zero".to_string()),
        span => Ok(span),
    }
}
