//! Lays the layers over each other and remembers where each value came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use super::keys::{Config, KEYS, Key};
use super::nearest::nearest;
use super::origin::Origin;
use super::value::Value;
use super::{check, environment, file};

/// A value that somebody gave, as text.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) key: &'static Key,
    pub(super) text: String,
    pub(super) origin: Origin,
}

/// A value from the command line: the key, the flag that said it, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flag {
    pub(crate) key: String,
    pub(crate) flag: &'static str,
    pub(crate) text: String,
}

/// A key with the value that won.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Every key's winning value.
pub(crate) struct Layers {
    settings: BTreeMap<&'static str, Setting>,
    source: Source,
}

/// Where the values were read, to read them again.
#[derive(Clone, Debug)]
enum Source {
    Gathered {
        config_file: Option<PathBuf>,
        flags: Vec<Flag>,
    },
    Resolved(PathBuf),
}

impl Layers {
    /// Reads the file, if one is named, and this process's environment.
    pub(crate) fn gather(config_file: Option<&Path>, flags: Vec<Flag>) -> Result<Layers> {
        let from_file = config_file.map(file::read).transpose()?.unwrap_or_default();
        // A variable that is not UTF-8 can be none of ours: all values that keys take are text.
        let variables = std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)));
        let source = Source::Gathered {
            config_file: config_file.map(Path::to_path_buf),
            flags: flags.clone(),
        };
        Layers::lay(from_file, environment::given(variables)?, flags, source)
    }

    /// What boot resolved and wrote down for a service: all there is to know, so the environment is not asked again.
    pub(crate) fn resolved(path: &Path) -> Result<Layers> {
        let source = Source::Resolved(path.to_path_buf());
        Layers::lay(file::read(path)?, Vec::new(), Vec::new(), source)
    }

    /// The same layers as they are now: the file may have changed.
    pub(crate) fn again(&self) -> Result<Layers> {
        match &self.source {
            Source::Gathered { config_file, flags } => Layers::gather(config_file.as_deref(), flags.clone()),
            Source::Resolved(path) => Layers::resolved(path),
        }
    }

    /// The keys that have another value in `fresh`. A key that follows from another is left out.
    pub(crate) fn changed(&self, fresh: &Layers) -> Vec<&'static str> {
        let differs = |setting: &&Setting| {
            let other = fresh.settings.get(setting.key.name);
            !matches!(setting.origin, Origin::Key(_)) && other.is_some_and(|other| other.text != setting.text)
        };
        let changed = self.settings().filter(differs);
        changed.map(|setting| setting.key.name).collect()
    }

    /// Takes the value of one key over.
    pub(crate) fn take_over(&mut self, name: &'static str, fresh: &Layers) {
        if let Some(setting) = fresh.settings.get(name) {
            self.settings.insert(name, setting.clone());
        }
    }

    /// Lets a key that nobody set follow from another one.
    pub(crate) fn follow(&mut self, name: &'static str, from: &'static str, text: String) {
        if let Some(setting) = self.settings.get_mut(name)
            && setting.origin == Origin::Default
        {
            setting.text = text;
            setting.origin = Origin::Key(from);
        }
    }

    pub(crate) fn is_default(&self, name: &str) -> bool {
        self.settings
            .get(name)
            .is_none_or(|setting| setting.origin == Origin::Default)
    }

    fn lay(
        from_file: Vec<Given>,
        from_environment: Vec<Given>,
        flags: Vec<Flag>,
        source: Source,
    ) -> Result<Layers> {
        let defaults = KEYS.iter().map(|key| Given {
            key,
            text: key.default.to_string(),
            origin: Origin::Default,
        });
        let flags: Vec<_> = flags.into_iter().map(given_by_flag).collect::<Result<_>>()?;
        let mut settings = BTreeMap::new();
        for given in defaults.chain(from_file).chain(from_environment).chain(flags) {
            let Given { key, text, origin } = given;
            settings.insert(key.name, Setting { key, text, origin });
        }
        Ok(Layers { settings, source })
    }

    /// Every value in its type, and sensible with the others.
    pub(crate) fn config(&self) -> Result<Config> {
        let config = Config::build(self)?;
        check::check(&config, self)?;
        Ok(config)
    }

    /// In the order of the table.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &Setting> {
        KEYS.iter().filter_map(|key| self.settings.get(key.name))
    }

    pub(super) fn setting(&self, name: &str) -> Result<&Setting> {
        self.settings
            .get(name)
            .ok_or_else(|| anyhow!("there is no key {name}"))
    }

    pub(super) fn read<T: Value>(&self, name: &str) -> Result<T> {
        let Setting { key, text, origin } = self.setting(name)?;
        T::parse(text).map_err(|problem| {
            anyhow!(
                "{name} ({origin}) is '{text}': {problem}; it takes {}",
                key.accepts
            )
        })
    }
}

fn given_by_flag(Flag { key, flag, text }: Flag) -> Result<Given> {
    match KEYS.iter().find(|known| known.name == key) {
        Some(key) => Ok(Given {
            key,
            text,
            origin: Origin::Flag(flag),
        }),
        None => bail!(
            "{flag} names an unknown key, {key}; did you mean {}? `conclave config` lists every key",
            nearest(&key).name
        ),
    }
}

impl Key {
    /// A path in a file is meant from where the file lies, wherever the node is started.
    pub(super) fn relative_to(&self, file: &Path, text: String) -> String {
        if !self.path || (self.words)(&text) {
            return text;
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        let path: PathBuf = folder.join(&text);
        path.to_str().map_or(text, str::to_string)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn lay(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Layers> {
        let variables = variables
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()));
        let flags = flags.iter().map(|(key, text)| Flag {
            key: key.to_string(),
            flag: "--set",
            text: text.to_string(),
        });
        Layers::lay(
            file::parse(file, Path::new("node.toml"))?,
            environment::given(variables)?,
            flags.collect(),
            Source::Gathered {
                config_file: None,
                flags: Vec::new(),
            },
        )
    }

    #[test]
    fn a_changed_file_shows_which_keys_it_changes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[node]\nlog = 'info'\n[executor]\nslots = 1").unwrap();
        let mut layers = Layers::gather(Some(file.path()), Vec::new()).unwrap();
        layers.follow("judicator.name", "node.name", "n1".to_string());
        assert!(layers.changed(&layers.again().unwrap()).is_empty());
        std::fs::write(file.path(), "[node]\nlog = 'debug'\n[executor]\nslots = 2").unwrap();
        let fresh = layers.again().unwrap();
        assert_eq!(layers.changed(&fresh), ["node.log", "executor.slots"]);
        layers.take_over("node.log", &fresh);
        assert_eq!(layers.changed(&fresh), ["executor.slots"]);
    }

    #[test]
    fn the_later_layer_wins_and_is_named() {
        const FILE: &str = "[executor]\nslots = 3";
        const ENV: &[(&str, &str)] = &[("CONCLAVE_EXECUTOR_SLOTS", "5")];
        let check = |layers: Result<Layers>, slots: u32, origin: &str| {
            let layers = layers.unwrap();
            assert_eq!(layers.config().unwrap().executor.slots.0, slots);
            assert_eq!(
                layers.setting("executor.slots").unwrap().origin.to_string(),
                origin
            );
        };
        check(lay(FILE, &[], &[]), 3, "node.toml:2");
        check(lay(FILE, ENV, &[]), 5, "env CONCLAVE_EXECUTOR_SLOTS");
        check(lay(FILE, ENV, &[("executor.slots", "7")]), 7, "flag --set");
    }

    #[test]
    fn defaults_make_a_sensible_node() {
        let layers = lay("", &[], &[("node.data", "/data")]).unwrap();
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
    fn the_example_of_a_single_node_is_understood() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/node.toml");
        let layers = Layers::resolved(&path).unwrap();
        assert!(layers.config().is_ok());
        // No other machine joins, so no address is opened for them.
        assert!(layers.is_default("judicator.listen"));
    }

    #[test]
    fn the_examples_are_understood() {
        for name in ["judicator", "executor", "gateway"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/{name}.toml"));
            let layers = Layers::resolved(&path).unwrap();
            assert!(layers.config().is_ok(), "{name}");
            assert!(!layers.is_default("node.name") && !layers.is_default("secrets.cluster_file"));
        }
    }

    #[test]
    fn wrong_values_name_key_source_and_what_is_taken() {
        let check = |file: &str, flags: &[(&str, &str)], parts: &[&str]| {
            let wrong = lay(file, &[], flags)
                .and_then(|layers| layers.config())
                .unwrap_err()
                .to_string();
            for part in parts {
                assert!(wrong.contains(part), "gave: {wrong}");
            }
        };
        check(
            "[executor]\nslots = 'many'",
            &[],
            &["executor.slots (node.toml:2)", "'many'", "it takes"],
        );
        check("", &[("executor.slotz", "1")], &["--set", "executor.slots"]);
        check("", &[("executor.isolation", "jail")], &["no isolation"]);
    }
}
