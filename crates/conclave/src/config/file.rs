//! The layer of the TOML file. Each value is read as text, together with its line number.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::KEYS;
use super::layers::{LayerValue, ValueOrigin};
use super::roots::{self, RootSetting};
use super::suggest::closest_key;

/// What a TOML file sets: values of keys, and roots.
#[derive(Debug, Default)]
pub(super) struct FileLayer {
    pub(super) values: Vec<LayerValue>,
    pub(super) roots: Vec<RootSetting>,
}

pub(super) fn read(path: &Path) -> Result<FileLayer> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("could not read the configuration file {}", path.display()))?;
    parse(&text, path)
}

pub(super) fn parse(text: &str, path: &Path) -> Result<FileLayer> {
    let table = DeTable::parse(text)
        .map_err(|error| anyhow!("the configuration file {} is not TOML: {error}", path.display()))?;
    let mut reader = TomlLayerReader {
        text,
        path,
        layer: FileLayer::default(),
    };
    reader.read_table("", table.get_ref())?;
    Ok(reader.layer)
}

/// Collects the values of a TOML configuration file, which is one layer of a node's configuration.
struct TomlLayerReader<'a> {
    text: &'a str,
    path: &'a Path,
    layer: FileLayer,
}

impl TomlLayerReader<'_> {
    fn read_table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<()> {
        for (part, value) in table {
            let name = match prefix {
                "" => part.get_ref().to_string(),
                _ => format!("{prefix}.{}", part.get_ref()),
            };
            let origin = self.origin(part);
            if name == roots::SECTION {
                self.read_roots(value.get_ref(), origin)?;
                continue;
            }
            let is_section = KEYS.iter().any(|key| key.is_in_section(&name));
            match (KEYS.iter().find(|key| key.name == name), value.get_ref()) {
                (Some(key), value) => {
                    let text = text_of(value)
                        .ok_or_else(|| {
                            anyhow!(
                                "{name} in {origin} is a {}; expected {}",
                                value.type_str(),
                                key.accepts
                            )
                        })
                        .map(|text| key.relative_to(self.path, text))?;
                    self.layer.values.push(LayerValue { key, text, origin });
                }
                (None, DeValue::Table(inner)) if is_section => self.read_table(&name, inner)?,
                (None, other) if is_section => bail!(
                    "{name} in {origin} is a section, not a {}; write [{name}] and its keys below it",
                    other.type_str()
                ),
                // Continues into an unknown section, so that the error names a whole key and can suggest one.
                (None, DeValue::Table(inner)) if !inner.is_empty() => self.read_table(&name, inner)?,
                (None, _) => bail!(
                    "unknown key {name} in {origin}; did you mean {}? `conclave config` lists all keys",
                    closest_key(&name).name
                ),
            }
        }
        Ok(())
    }

    fn read_roots(&mut self, section: &DeValue<'_>, origin: ValueOrigin) -> Result<()> {
        let DeValue::Table(sections) = section else {
            bail!("roots in {origin} is no key; write [roots.NAME] and its path below it");
        };
        for (name, section) in sections {
            let origin = self.origin(name);
            let root = RootSetting::from_section(name.get_ref(), section.get_ref(), self.path, origin)?;
            self.layer.roots.push(root);
        }
        Ok(())
    }

    fn origin(&self, part: &Spanned<impl Sized>) -> ValueOrigin {
        let before = &self.text.as_bytes()[..part.span().start.min(self.text.len())];
        ValueOrigin::File {
            path: self.path.to_path_buf(),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        }
    }
}

/// The text of a value. A list becomes its items separated by commas, as in a variable or a flag.
fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_string()),
        DeValue::Float(number) => Some(number.as_str().to_string()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_string))
                .collect();
            Some(items?.join(","))
        }
        DeValue::Integer(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Vec<LayerValue>> {
        parse(text, Path::new("node.toml")).map(|layer| layer.values)
    }

    #[test]
    fn values_are_read_as_text_with_their_line() {
        let check = |text: &str, name: &str, value: &str, line: usize| {
            let values = parse_text(text).unwrap();
            assert_eq!(values[0].key.name, name, "{text}");
            assert_eq!(values[0].text, value, "{text}");
            assert_eq!(
                values[0].origin.to_string(),
                format!("node.toml:{line}"),
                "{text}"
            );
        };
        check("[executor]\n\nslots = 4", "executor.slots", "4", 3);
        check("judicator.lease = '20s'", "judicator.lease", "20s", 1);
        check("# first\n[limits.max]\nwall = 2.5", "limits.max.wall", "2.5", 3);
        check("[node]\ninsecure = true", "node.insecure", "true", 2);
        check(
            "[executor]\njudicators = ['a:1', 'b:2']",
            "executor.judicators",
            "a:1,b:2",
            2,
        );
    }

    #[test]
    fn errors_name_the_key_the_line_and_a_suggestion() {
        let check = |text: &str, parts: &[&str]| {
            let error = parse_text(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text:?}: {error}");
            }
        };
        check(
            "[executor]\nslot = 4",
            &["executor.slot", "node.toml:2", "executor.slots"],
        );
        check("[exectuor]\nslots = 4", &["exectuor.slots", "executor.slots"]);
        check("executor = 4", &["executor in node.toml:1", "section"]);
        check("[executor]\nslots = {}", &["executor.slots", "table"]);
        check("[executor]\nslots = 0x10", &["executor.slots", "integer"]);
        check("nonsense = 1", &["unknown key nonsense"]);
        check("[executor\nslots = 4", &["node.toml", "not TOML"]);
    }

    #[test]
    fn sections_of_roots_are_read() {
        let text =
            "[roots.contest]\npath = '/srv/contest'\n[roots.'gcc-12.2']\npath = 'gcc'\n[node]\nlog = 'info'";
        let layer = parse(text, Path::new("/etc/conclave/n.toml")).unwrap();
        let roots: Vec<_> = layer
            .roots
            .iter()
            .map(|root| {
                (
                    root.name.as_str(),
                    root.path.to_str().unwrap(),
                    root.origin.to_string(),
                )
            })
            .collect();
        assert_eq!(
            roots,
            [
                ("contest", "/srv/contest", "/etc/conclave/n.toml:1".to_string()),
                (
                    "gcc-12.2",
                    "/etc/conclave/gcc",
                    "/etc/conclave/n.toml:3".to_string()
                ),
            ]
        );
        assert_eq!(layer.values.len(), 1);
        let check = |text: &str, parts: &[&str]| {
            let error = parse(text, Path::new("n.toml")).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{text:?}: {error}");
            }
        };
        check(
            "[roots.a]\npaht = '/x'",
            &["roots.a.paht", "n.toml:1", "roots.a.path"],
        );
        check("[roots.a]", &["[roots.a]", "has no path"]);
        check("[roots.a]\npath = 3", &["[roots.a]", "has no path"]);
        check("[roots.a]\npath = ''", &["roots.a.path", "empty"]);
        check("[roots]\na = '/x'", &["roots.a", "is a section"]);
        check("roots = '/x'", &["n.toml:1", "[roots.NAME]"]);
        check("[roots.A]\npath = '/x'", &["'A'", "n.toml:1", "lower-case"]);
    }

    #[test]
    fn paths_in_the_file_are_relative_to_the_file() {
        let values = parse(
            "[secrets]\ncluster_file = 'secret'",
            Path::new("/etc/conclave/n.toml"),
        )
        .unwrap()
        .values;
        assert_eq!(values[0].text, "/etc/conclave/secret");
        let values = parse(
            "[secrets]\ncluster_file = 'none'",
            Path::new("/etc/conclave/n.toml"),
        )
        .unwrap()
        .values;
        assert_eq!(values[0].text, "none");
    }
}
