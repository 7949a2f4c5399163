//! What a node is told: defaults, then one TOML file, then the environment, then flags. The later one wins.
//!
//! Every key is declared once, in `keys`. From that table come the typed [`Config`], the names of the
//! environment variables, the `conclave config` listing and the list in docs/configuration.md.

mod check;
mod environment;
mod file;
mod keys;
mod layers;
mod nearest;
mod origin;
mod resolved;
mod value;

pub(crate) use keys::Config;
pub(crate) use layers::{Flag, Layers};
pub(crate) use value::{Address, Founder, Host, Isolation, Log, LogFormat, Metrics, Value};
