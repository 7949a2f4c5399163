//! The resolved settings as a file for a service to read: every value as the node understood it.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, anyhow};
use toml::Value;

use super::layers::{Layers, Setting};

impl Layers {
    /// The keys of these sections, as TOML.
    pub(crate) fn write_out(&self, sections: &[&str]) -> Result<String> {
        let mut text = String::new();
        for section in sections {
            let settings = self.settings().filter(|setting| {
                setting
                    .key
                    .name
                    .rsplit_once('.')
                    .is_some_and(|(own, _)| own == *section)
            });
            writeln!(text, "[{section}]")?;
            for setting in settings {
                let value = Value::String(resolve(setting)?);
                writeln!(text, "{} = {value}", setting.key.last_part())?;
            }
            text.push('\n');
        }
        Ok(text)
    }
}

fn resolve(setting: &Setting) -> Result<String> {
    let Setting { key, text, .. } = setting;
    let shown = (key.show)(text).map_err(|problem| anyhow!("{} is '{text}': {problem}", key.name))?;
    // Services are started elsewhere than where the operator stood.
    match key.path && !(key.words)(&shown) {
        true => Ok(std::path::absolute(Path::new(&shown))?.display().to_string()),
        false => Ok(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flag;

    #[test]
    fn a_service_reads_what_boot_resolved() {
        let set = |key: &str, text: &str| Flag {
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
        ];
        let layers = Layers::gather(None, flags).unwrap();
        let text = layers
            .write_out(&["node", "executor", "etcd", "limits.max"])
            .unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        let read = Layers::resolved(file.path()).unwrap().config().unwrap();
        assert_eq!(read.node.name.0, "n1");
        assert_eq!(read.node.data.0, std::env::current_dir().unwrap().join("data"));
        assert!(read.executor.slots.0 > 0 && !text.contains("slots = \"auto\""));
        assert_eq!(read.limits_max.wall, None);
        assert_eq!(read.etcd.members.map(|members| members.len()), Some(2));
    }
}
