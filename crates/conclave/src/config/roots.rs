//! The sections `[roots.NAME]`: root file systems that the operator manages. Their names are the operator's, so they are not in
//! the table of keys.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use model::RootName;
use toml::de::DeValue;

use super::layers::ValueOrigin;

/// A section `[roots.NAME]`, or the flag `--set roots.NAME.path=PATH`: a root that the operator manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootSetting {
    pub(crate) name: RootName,
    pub(crate) path: PathBuf,
    pub(crate) origin: ValueOrigin,
}

/// The section above all roots.
pub(super) const SECTION: &str = "roots";
const PATH: &str = "path";

impl RootSetting {
    /// Reads one section of a file. `origin` tells where a key of the file is.
    pub(super) fn from_section(
        name: &str,
        section: &DeValue<'_>,
        file: &Path,
        section_origin: ValueOrigin,
    ) -> Result<RootSetting> {
        let DeValue::Table(keys) = section else {
            bail!(
                "{SECTION}.{name} in {section_origin} is a section, not a {}; write [{SECTION}.{name}], and {PATH} = \"...\" below it",
                section.type_str()
            );
        };
        for (key, _) in keys {
            if key.get_ref() != PATH {
                bail!(
                    "unknown key {SECTION}.{name}.{} in {section_origin}; did you mean {SECTION}.{name}.{PATH}?",
                    key.get_ref()
                );
            }
        }
        let path = keys.iter().next().and_then(|(_, value)| value.get_ref().as_str());
        let path = path.ok_or_else(|| {
            anyhow!(
                "[{SECTION}.{name}] in {section_origin} has no {PATH}; write {PATH} = \"/a/folder\" below it"
            )
        })?;
        let folder = file.parent().unwrap_or(Path::new(""));
        RootSetting::new(name, folder.join(path), section_origin)
    }

    /// The root of a flag like `--set roots.contest.path=/srv/contest`. `None` if the key is not of a root.
    pub(super) fn from_flag(key: &str, text: &str, flag: &'static str) -> Option<Result<RootSetting>> {
        let key = key.strip_prefix(SECTION)?.strip_prefix('.')?;
        Some(
            match key.strip_suffix(PATH).and_then(|name| name.strip_suffix('.')) {
                Some(name) => RootSetting::new(name, text.into(), ValueOrigin::Flag(flag)),
                None => Err(anyhow!(
                    "{flag} sets an unknown key, {SECTION}.{key}; did you mean {SECTION}.NAME.{PATH}?"
                )),
            },
        )
    }

    fn new(name: &str, path: PathBuf, origin: ValueOrigin) -> Result<RootSetting> {
        let root = RootName::new(name)
            .map_err(|error| anyhow!("the name of the root '{name}' ({origin}) {error}"))?;
        if path.as_os_str().is_empty() {
            bail!("{SECTION}.{name}.{PATH} ({origin}) is empty; expected a path");
        }
        // Wardens have another working directory.
        let path = std::path::absolute(&path)
            .map_err(|error| anyhow!("{SECTION}.{name}.{PATH} ({origin}) has no absolute path: {error}"))?;
        Ok(RootSetting {
            name: root,
            path,
            origin,
        })
    }

    /// The key as `conclave config` shows it.
    pub(crate) fn key(&self) -> String {
        format!("{SECTION}.{}.{PATH}", self.name)
    }

    /// The section as TOML.
    pub(super) fn to_toml(&self) -> String {
        // A name may contain dots, so it is quoted.
        let path = toml::Value::String(self.path.display().to_string());
        format!("[{SECTION}.\"{}\"]\n{PATH} = {path}\n\n", self.name)
    }
}
