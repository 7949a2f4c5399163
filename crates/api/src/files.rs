//! The fields `source` and `data` in JSON: files by path, or one zip that holds all of them.

use std::collections::btree_map::Entry;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Content, TaskFile, WorkspacePath};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::content::{self, ParsedFile};
use crate::item_limits::{CountedItem, ItemCounter, count_rest_of_map};
use crate::serde_text;

/// The field `source` or `data` of a task as a user sends it in JSON: a map from path to file, or one zip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesOrZip {
    ByPath(model::TaskFiles),
    /// The gateway unpacks it when the task is added.
    Zip(Content),
}

/// The key that holds all files as a zip, if its value has the form of a zip.
const ZIP: &str = "zip";

impl FilesOrZip {
    pub fn is_empty(&self) -> bool {
        matches!(self, FilesOrZip::ByPath(files) if files.is_empty())
    }
}

impl Default for FilesOrZip {
    fn default() -> FilesOrZip {
        FilesOrZip::ByPath(model::TaskFiles::new())
    }
}

impl From<model::TaskFiles> for FilesOrZip {
    fn from(files: model::TaskFiles) -> FilesOrZip {
        FilesOrZip::ByPath(files)
    }
}

/// A serde seed that parses a key of `source` or `data` in a task's JSON as a path in the workspace.
struct WorkspacePathSeed;

impl<'de> DeserializeSeed<'de> for WorkspacePathSeed {
    type Value = WorkspacePath;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<WorkspacePath, D::Error> {
        serde_text::deserialize_text(deserializer, "a file's path", |text| WorkspacePath::new(text))
    }
}

impl<'de> Deserialize<'de> for FilesOrZip {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FilesOrZip, D::Error> {
        /// A serde visitor that parses `source` or `data` of a task from JSON: a map from path to file, or one zip.
        struct FilesVisitor;

        impl<'de> Visitor<'de> for FilesVisitor {
            type Value = FilesOrZip;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of files by path, or {\"zip\": {\"base64\" or \"blob\": ...}}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FilesOrZip, A::Error> {
                let mut files = model::TaskFiles::new();
                let mut zip = None;
                let mut count = ItemCounter::new(CountedItem::Files);
                loop {
                    if count.is_full() {
                        count.finish(count_rest_of_map(&mut map)?)?;
                        break;
                    }
                    let Some(path) = map.next_key_seed(WorkspacePathSeed)? else {
                        break;
                    };
                    count.add()?;
                    let parsed: ParsedFile = map.next_value()?;
                    if path.as_str() == ZIP
                        && parsed.may_be_zip
                        && parsed.executable.is_none()
                        && zip.is_none()
                    {
                        zip = Some(parsed.content);
                        continue;
                    }
                    match files.entry(path) {
                        Entry::Vacant(entry) => drop(entry.insert(parsed.into_file())),
                        Entry::Occupied(entry) => {
                            return Err(A::Error::custom(format!("'{}' is given twice", entry.key())));
                        }
                    }
                }
                match zip {
                    None => Ok(FilesOrZip::ByPath(files)),
                    Some(zip) if files.is_empty() => Ok(FilesOrZip::Zip(zip)),
                    Some(_) => Err(A::Error::custom(
                        "'zip' stands alone: put all files into the zip, or give each file by its path; \
                         for a file named zip, add \"executable\": false to it",
                    )),
                }
            }
        }

        deserializer.deserialize_map(FilesVisitor)
    }
}

impl Serialize for FilesOrZip {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FilesOrZip::ByPath(files) => {
                let mut map = serializer.serialize_map(Some(files.len()))?;
                for (path, file) in files {
                    map.serialize_entry(path.as_str(), &FileEntry { path, file })?;
                }
                map.end()
            }
            FilesOrZip::Zip(content) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(ZIP, &ZipContent(content))?;
                map.end()
            }
        }
    }
}

/// A file of a task to serialize as JSON, with its path, which decides the form.
struct FileEntry<'a> {
    path: &'a WorkspacePath,
    file: &'a TaskFile,
}

impl Serialize for FileEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TaskFile { content, executable } = self.file;
        if self.path.as_str() == ZIP {
            content::serialize_fields(content, Some(*executable), serializer)
        } else {
            content::serialize_file(self.file, serializer)
        }
    }
}

/// Serializes the content of a zip for a task's JSON: as base64 or as a blob's hash, never as text.
struct ZipContent<'a>(&'a Content);

impl Serialize for ZipContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match self.0 {
            Content::Inline(bytes) => map.serialize_entry("base64", &STANDARD.encode(bytes))?,
            Content::Blob(hash) => map.serialize_entry("blob", &hash.to_string())?,
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, parsed: &str) {
        let files: FilesOrZip = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let again = serde_json::to_string(&files).unwrap();
        assert_eq!(again, parsed);
        assert_eq!(
            serde_json::from_str::<FilesOrZip>(&again).unwrap(),
            files,
            "{json}"
        );
    }

    #[test]
    fn files_are_read_in_every_form_and_written_in_one() {
        let hash = "a7".repeat(32);
        check("{}", "{}");
        check(r#"{"main.cpp": "int x;"}"#, r#"{"main.cpp":"int x;"}"#);
        check(r#"{"a": {"text": "x"}}"#, r#"{"a":"x"}"#);
        check(r#"{"a": {"base64": "aGk="}}"#, r#"{"a":"hi"}"#);
        check(r#"{"a": {"base64": "//8="}}"#, r#"{"a":{"base64":"//8="}}"#);
        check(
            r#"{"a": {"text": "x", "executable": true}}"#,
            r#"{"a":{"text":"x","executable":true}}"#,
        );
        check(
            &format!(r#"{{"a": {{"blob": "{hash}"}}}}"#),
            &format!(r#"{{"a":{{"blob":"{hash}"}}}}"#),
        );
    }

    #[test]
    fn a_zip_is_not_a_file_named_zip() {
        check(r#"{"zip": {"base64": "aGk="}}"#, r#"{"zip":{"base64":"aGk="}}"#);
        check(r#"{"zip": "hi"}"#, r#"{"zip":{"text":"hi","executable":false}}"#);
        check(
            r#"{"zip": {"base64": "//8=", "executable": false}}"#,
            r#"{"zip":{"base64":"//8=","executable":false}}"#,
        );
        assert!(serde_json::from_str::<FilesOrZip>(r#"{"zip": {"base64": ""}, "a": ""}"#).is_err());
        assert!(matches!(
            serde_json::from_str(r#"{"zip": {"base64": "aGk="}}"#),
            Ok(FilesOrZip::Zip(_))
        ));
    }
}
