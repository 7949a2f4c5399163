//! The configuration of a node. Its layers are: defaults, one TOML file, environment variables, flags. A later layer overrides
//! an earlier one.
//!
//! Every key is declared once, in `keys`. That table yields the typed [`Config`], the names of the environment variables, the
//! output of `conclave config`, and the list in docs/configuration.md.

mod check;
mod environment;
mod file;
mod keys;
mod layers;
mod resolved;
mod roots;
mod suggest;
mod value;

pub(crate) use keys::Config;
pub(crate) use layers::{ConfigFlag, ConfigLayers};
pub(crate) use value::{
    ConfigValue, HostAddress, HostPort, InitialMember, IsolationMode, LogFormat, LogSetting, MetricsSetting,
};
