//! Writes the resolved settings as TOML, for the services of a cluster node.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, anyhow};
use toml::Value;

use super::layers::{ConfigLayers, ResolvedSetting};

impl ConfigLayers {
    /// The settings of these sections, as TOML.
    pub(crate) fn to_toml(&self, sections: &[&str]) -> Result<String> {
        let mut text = String::new();
        for section in sections {
            let settings = self.settings().filter(|setting| {
                setting
                    .key
                    .name
                    .rsplit_once('.')
                    .is_some_and(|(prefix, _)| prefix == *section)
            });
            writeln!(text, "[{section}]")?;
            for setting in settings {
                let value = Value::String(resolve(setting)?);
                writeln!(text, "{} = {value}", setting.key.short_name())?;
            }
            text.push('\n');
        }
        // Cells use both.
        if sections.contains(&"sandbox") {
            for root in self.roots() {
                text.push_str(&root.to_toml());
            }
        }
        Ok(text)
    }
}

fn resolve(setting: &ResolvedSetting) -> Result<String> {
    let ResolvedSetting { key, text, .. } = setting;
    let value = (key.normalize)(text).map_err(|problem| anyhow!("{} is '{text}': {problem}", key.name))?;
    // A service may have another working directory, so a relative path must become absolute.
    match key.is_path && !(key.is_keyword)(&value) {
        true => Ok(std::path::absolute(Path::new(&value))?.display().to_string()),
        false => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFlag;

    #[test]
    fn a_service_reads_the_settings_that_boot_resolved() {
        let set = |key: &str, text: &str| ConfigFlag {
            key: key.to_string(),
            flag: "--set",
            text: text.to_string(),
        };
        let flags = vec![
            set("node.name", "n1"),
            set("node.data", "data"),
            set("executor.slots", "auto"),
            set("limits.max.wall", "none"),
            set("etcd.members", "a=x:1,b=y:2"),
            set("roots.gcc-12.2.path", "gcc \"12\""),
        ];
        let layers = ConfigLayers::gather(None, flags).unwrap();
        let text = layers
            .to_toml(&["node", "executor", "etcd", "limits.max", "sandbox"])
            .unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        let read = ConfigLayers::from_resolved_file(file.path())
            .unwrap()
            .config()
            .unwrap();
        assert_eq!(read.node.name.0, "n1");
        assert_eq!(read.node.data.0, std::env::current_dir().unwrap().join("data"));
        assert!(read.executor.slots.0 > 0 && !text.contains("slots = \"auto\""));
        assert_eq!(read.limits_max.wall, None);
        assert_eq!(read.roots[0].name.as_str(), "gcc-12.2");
        assert_eq!(
            read.roots[0].path,
            std::env::current_dir().unwrap().join("gcc \"12\"")
        );
        assert_eq!(read.roots_folder(), read.node.data.0.join("roots"));
        assert!(!layers.to_toml(&["node"]).unwrap().contains("gcc"));
        assert_eq!(read.etcd.members.map(|members| members.len()), Some(2));
    }
}
