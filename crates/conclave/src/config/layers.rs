//! Merges the layers of the configuration, and records the origin of each value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use model::RootName;

use super::file::FileLayer;
use super::keys::{Config, ConfigKey, KEYS};
use super::roots::{self, RootSetting};
use super::suggest::closest_key;
use super::value::ConfigValue;
use super::{check, environment, file};

/// Where the value of a configuration key was set: default, file, environment variable, flag, or another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueOrigin {
    Default,
    File {
        path: PathBuf,
        line: usize,
    },
    Env(String),
    Flag(&'static str),
    /// Derived from another key.
    Key(&'static str),
}

/// The value of a configuration key that one layer (file, environment or flags) sets, as text.
#[derive(Clone, Debug)]
pub(super) struct LayerValue {
    pub(super) key: &'static ConfigKey,
    pub(super) text: String,
    pub(super) origin: ValueOrigin,
}

/// A configuration value from the command line: the key, the flag that sets it, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigFlag {
    pub(crate) key: String,
    pub(crate) flag: &'static str,
    pub(crate) text: String,
}

/// A configuration key with its value and origin after all layers are merged.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedSetting {
    pub(crate) key: &'static ConfigKey,
    pub(crate) text: String,
    pub(crate) origin: ValueOrigin,
}

/// The merged configuration layers (defaults, file, environment, flags): a value for every key.
pub(crate) struct ConfigLayers {
    settings: BTreeMap<&'static str, ResolvedSetting>,
    roots: BTreeMap<RootName, RootSetting>,
    source: LayersSource,
}

/// Where [`ConfigLayers`] came from, so that a node can reload its configuration.
#[derive(Clone, Debug)]
enum LayersSource {
    Gathered {
        config_file: Option<PathBuf>,
        flags: Vec<ConfigFlag>,
    },
    Resolved(PathBuf),
}

impl ConfigLayers {
    /// Merges defaults, the file if one is given, this process's environment, and flags.
    pub(crate) fn gather(config_file: Option<&Path>, flags: Vec<ConfigFlag>) -> Result<ConfigLayers> {
        let from_file = config_file.map(file::read).transpose()?.unwrap_or_default();
        // A variable that is not UTF-8 cannot be a key, because all values of keys are text.
        let variables = std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        let source = LayersSource::Gathered {
            config_file: config_file.map(Path::to_path_buf),
            flags: flags.clone(),
        };
        ConfigLayers::merge(from_file, environment::read(variables)?, flags, source)
    }

    /// Reads a file that boot has resolved for a service. It has all keys, so the environment is ignored.
    pub(crate) fn from_resolved_file(path: &Path) -> Result<ConfigLayers> {
        let source = LayersSource::Resolved(path.to_path_buf());
        ConfigLayers::merge(file::read(path)?, Vec::new(), Vec::new(), source)
    }

    /// Reads the same sources again: the file may have changed.
    pub(crate) fn reload(&self) -> Result<ConfigLayers> {
        match &self.source {
            LayersSource::Gathered { config_file, flags } => {
                ConfigLayers::gather(config_file.as_deref(), flags.clone())
            }
            LayersSource::Resolved(path) => ConfigLayers::from_resolved_file(path),
        }
    }

    /// The keys that have another value in `fresh`, except for derived keys.
    pub(crate) fn changed_keys(&self, fresh: &ConfigLayers) -> Vec<&'static str> {
        let differs = |setting: &&ResolvedSetting| {
            let other = fresh.settings.get(setting.key.name);
            !matches!(setting.origin, ValueOrigin::Key(_))
                && other.is_some_and(|other| other.text != setting.text)
        };
        let changed = self.settings().filter(differs);
        let mut changed: Vec<_> = changed.map(|setting| setting.key.name).collect();
        let paths = |layers: &ConfigLayers| -> Vec<_> {
            let roots = layers.roots.values();
            roots.map(|root| (root.name.clone(), root.path.clone())).collect()
        };
        if paths(self) != paths(fresh) {
            changed.push(roots::SECTION);
        }
        changed
    }

    /// Copies the value of one key from `fresh`.
    pub(crate) fn copy_setting(&mut self, name: &'static str, fresh: &ConfigLayers) {
        if let Some(setting) = fresh.settings.get(name) {
            self.settings.insert(name, setting.clone());
        }
    }

    /// Sets a key that no layer sets, from the value of another key.
    pub(crate) fn derive(&mut self, name: &'static str, from: &'static str, text: String) {
        if let Some(setting) = self.settings.get_mut(name)
            && setting.origin == ValueOrigin::Default
        {
            setting.text = text;
            setting.origin = ValueOrigin::Key(from);
        }
    }

    pub(crate) fn is_default(&self, name: &str) -> bool {
        self.settings
            .get(name)
            .is_none_or(|setting| setting.origin == ValueOrigin::Default)
    }

    fn merge(
        from_file: FileLayer,
        from_environment: Vec<LayerValue>,
        flags: Vec<ConfigFlag>,
        source: LayersSource,
    ) -> Result<ConfigLayers> {
        let defaults = KEYS.iter().map(|key| LayerValue {
            key,
            text: key.default.to_string(),
            origin: ValueOrigin::Default,
        });
        let mut roots = from_file.roots;
        let mut flag_values = Vec::new();
        for flag in flags {
            match RootSetting::from_flag(&flag.key, &flag.text, flag.flag) {
                Some(root) => roots.push(root?),
                None => flag_values.push(flag_value(flag)?),
            }
        }
        let mut settings = BTreeMap::new();
        for value in defaults
            .chain(from_file.values)
            .chain(from_environment)
            .chain(flag_values)
        {
            let LayerValue { key, text, origin } = value;
            settings.insert(key.name, ResolvedSetting { key, text, origin });
        }
        let roots = roots.into_iter().map(|root| (root.name.clone(), root)).collect();
        Ok(ConfigLayers {
            settings,
            roots,
            source,
        })
    }

    /// Parses every value, and checks that they are consistent.
    pub(crate) fn config(&self) -> Result<Config> {
        let config = Config::build(self)?;
        check::check(&config, self)?;
        Ok(config)
    }

    /// The roots that the operator manages, by name.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &RootSetting> {
        self.roots.values()
    }

    /// All settings, in the order of `KEYS`.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &ResolvedSetting> {
        KEYS.iter().filter_map(|key| self.settings.get(key.name))
    }

    pub(super) fn setting(&self, name: &str) -> Result<&ResolvedSetting> {
        self.settings
            .get(name)
            .ok_or_else(|| anyhow!("there is no configuration key {name}"))
    }

    pub(super) fn read<T: ConfigValue>(&self, name: &str) -> Result<T> {
        let ResolvedSetting { key, text, origin } = self.setting(name)?;
        T::parse(text).map_err(|problem| {
            anyhow!(
                "{name} ({origin}) is '{text}': {problem}; expected {}",
                key.accepts
            )
        })
    }
}

fn flag_value(ConfigFlag { key, flag, text }: ConfigFlag) -> Result<LayerValue> {
    match KEYS.iter().find(|known| known.name == key) {
        Some(key) => Ok(LayerValue {
            key,
            text,
            origin: ValueOrigin::Flag(flag),
        }),
        None => bail!(
            "{flag} sets an unknown key, {key}; did you mean {}? `conclave config` lists all keys",
            closest_key(&key).name
        ),
    }
}

impl ConfigKey {
    /// A relative path in a file is relative to the folder of the file.
    pub(super) fn relative_to(&self, file: &Path, text: String) -> String {
        if !self.is_path || (self.is_keyword)(&text) {
            return text;
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        let path: PathBuf = folder.join(&text);
        path.to_str().map_or(text, str::to_string)
    }
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueOrigin::Default => f.write_str("default"),
            ValueOrigin::File { path, line } => write!(f, "{}:{line}", path.display()),
            ValueOrigin::Env(name) => write!(f, "env {name}"),
            ValueOrigin::Flag(flag) => write!(f, "flag {flag}"),
            ValueOrigin::Key(key) => write!(f, "by {key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn merge(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<ConfigLayers> {
        let variables = variables
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()));
        let flags = flags.iter().map(|(key, text)| ConfigFlag {
            key: key.to_string(),
            flag: "--set",
            text: text.to_string(),
        });
        ConfigLayers::merge(
            file::parse(file, Path::new("node.toml"))?,
            environment::read(variables)?,
            flags.collect(),
            LayersSource::Gathered {
                config_file: None,
                flags: Vec::new(),
            },
        )
    }

    #[test]
    fn reloading_reports_the_keys_that_changed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[node]\nlog = 'info'\n[executor]\nslots = 1").unwrap();
        let mut layers = ConfigLayers::gather(Some(file.path()), Vec::new()).unwrap();
        layers.derive("judicator.name", "node.name", "n1".to_string());
        assert!(layers.changed_keys(&layers.reload().unwrap()).is_empty());
        std::fs::write(file.path(), "[node]\nlog = 'debug'\n[executor]\nslots = 2").unwrap();
        let fresh = layers.reload().unwrap();
        assert_eq!(layers.changed_keys(&fresh), ["node.log", "executor.slots"]);
        layers.copy_setting("node.log", &fresh);
        assert_eq!(layers.changed_keys(&fresh), ["executor.slots"]);
        std::fs::write(file.path(), "[executor]\nslots = 2\n[roots.a]\npath = '/a'").unwrap();
        assert_eq!(
            fresh.changed_keys(&fresh.reload().unwrap()),
            ["node.log", "roots"]
        );
    }

    #[test]
    fn a_flag_overrides_the_root_of_a_file() {
        const FILE: &str = "[roots.a]\npath = '/a'\n[roots.'b.c']\npath = '/b'";
        let flags = [("roots.b.c.path", "/other"), ("roots.d.path", "/d")];
        let layers = merge(FILE, &[], &flags).unwrap();
        let roots: Vec<_> = layers
            .roots()
            .map(|root| (root.key(), root.path.to_str().unwrap(), root.origin.to_string()))
            .collect();
        let row = |key: &str, path: &'static str, origin: &str| (key.to_string(), path, origin.to_string());
        assert_eq!(
            roots,
            [
                row("roots.a.path", "/a", "node.toml:1"),
                row("roots.b.c.path", "/other", "flag --set"),
                row("roots.d.path", "/d", "flag --set"),
            ]
        );
        assert_eq!(layers.config().unwrap().roots.len(), 3);
        for (key, part) in [("roots.a", "roots.NAME.path"), ("roots.A.path", "lower-case")] {
            let error = merge("", &[], &[(key, "/x")]).err().unwrap().to_string();
            assert!(error.contains(part), "{key}: {error}");
        }
    }

    #[test]
    fn a_later_layer_overrides_and_is_shown_as_the_origin() {
        const FILE: &str = "[executor]\nslots = 3";
        const ENV: &[(&str, &str)] = &[("CONCLAVE_EXECUTOR_SLOTS", "5")];
        let check = |layers: Result<ConfigLayers>, slots: u32, origin: &str| {
            let layers = layers.unwrap();
            assert_eq!(layers.config().unwrap().executor.slots.0, slots);
            assert_eq!(
                layers.setting("executor.slots").unwrap().origin.to_string(),
                origin
            );
        };
        check(merge(FILE, &[], &[]), 3, "node.toml:2");
        check(merge(FILE, ENV, &[]), 5, "env CONCLAVE_EXECUTOR_SLOTS");
        check(merge(FILE, ENV, &[("executor.slots", "7")]), 7, "flag --set");
    }

    #[test]
    fn the_defaults_are_valid() {
        let layers = merge("", &[], &[("node.data", "/data")]).unwrap();
        let config = layers.config().unwrap();
        assert_eq!(config.judicator.lease, Duration::from_secs(10));
        assert_eq!(config.executor.self_kill, Duration::from_secs(7));
        assert_eq!(
            config.judicator.keep_done,
            Some(Duration::from_secs(7 * 24 * 3600))
        );
        assert_eq!(config.limits_max.memory.0, None);
        assert_eq!(layers.settings().count(), KEYS.len());
    }

    #[test]
    fn the_example_of_a_single_node_is_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/node.toml");
        let layers = ConfigLayers::from_resolved_file(&path).unwrap();
        assert!(layers.config().is_ok());
        // The example is for one machine, so it opens no RPC address.
        assert!(layers.is_default("judicator.listen"));
    }

    #[test]
    fn the_examples_of_cluster_nodes_are_valid() {
        for name in ["judicator", "executor", "gateway"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/{name}.toml"));
            let layers = ConfigLayers::from_resolved_file(&path).unwrap();
            assert!(layers.config().is_ok(), "{name}");
            assert!(!layers.is_default("node.name") && !layers.is_default("secrets.cluster_file"));
        }
    }

    #[test]
    fn errors_name_key_origin_and_accepted_values() {
        let check = |file: &str, flags: &[(&str, &str)], parts: &[&str]| {
            let error = merge(file, &[], flags)
                .and_then(|layers| layers.config())
                .unwrap_err()
                .to_string();
            for part in parts {
                assert!(error.contains(part), "{error}");
            }
        };
        check(
            "[executor]\nslots = 'many'",
            &[],
            &["executor.slots (node.toml:2)", "'many'", "expected"],
        );
        check("", &[("executor.slotz", "1")], &["--set", "executor.slots"]);
        check("", &[("executor.isolation", "jail")], &["unknown isolation"]);
    }
}
