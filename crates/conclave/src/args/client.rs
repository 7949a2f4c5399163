//! Flags of every command that talks to a server.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::print::Form;

#[derive(Args, Debug)]
pub(crate) struct ClientFlags {
    /// Address of a gateway
    #[arg(
        long,
        value_name = "URL",
        env = "CONCLAVE_SERVER",
        default_value = "http://127.0.0.1:7000",
        help_heading = "Server"
    )]
    server: String,
    /// File with the token to show the server
    #[arg(
        long,
        value_name = "FILE",
        env = "CONCLAVE_TOKEN_FILE",
        help_heading = "Server"
    )]
    token_file: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

impl ClientFlags {
    pub(crate) fn connect(&self) -> Result<api::Client> {
        let token = self
            .token_file
            .as_ref()
            .map(|path| {
                std::fs::read_to_string(path)
                    .with_context(|| format!("could not read the token file {}", path.display()))
            })
            .transpose()?;
        Ok(api::Client::new(&self.server, token.as_deref())?)
    }

    pub(crate) fn form(&self) -> Form {
        match self.json {
            true => Form::Json,
            false => Form::People,
        }
    }
}
