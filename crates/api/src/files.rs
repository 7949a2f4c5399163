//! `source` and `data`: files by their path, or one zip that holds them.

use std::collections::btree_map::Entry;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Content, File, FilePath};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::bounds::{Count, Kind, rest_of_map};
use crate::content::{self, Written};
use crate::name;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    Listed(model::Files),
    /// Unpacked when the task is added.
    Zip(Content),
}

/// The one name that may stand for all files.
const ZIP: &str = "zip";

impl Files {
    pub fn is_empty(&self) -> bool {
        matches!(self, Files::Listed(files) if files.is_empty())
    }
}

impl Default for Files {
    fn default() -> Files {
        Files::Listed(model::Files::new())
    }
}

impl From<model::Files> for Files {
    fn from(files: model::Files) -> Files {
        Files::Listed(files)
    }
}

struct Path;

impl<'de> DeserializeSeed<'de> for Path {
    type Value = FilePath;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<FilePath, D::Error> {
        name::read(deserializer, "a file's path", |text| FilePath::new(text))
    }
}

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Files, D::Error> {
        struct FilesVisitor;

        impl<'de> Visitor<'de> for FilesVisitor {
            type Value = Files;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of files by path, or {\"zip\": {\"base64\" or \"blob\": ...}}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Files, A::Error> {
                let mut files = model::Files::new();
                let mut zip = None;
                let mut count = Count::new(Kind::Files);
                loop {
                    if count.is_full() {
                        count.end(rest_of_map(&mut map)?)?;
                        break;
                    }
                    let Some(path) = map.next_key_seed(Path)? else {
                        break;
                    };
                    count.add()?;
                    let written: Written = map.next_value()?;
                    if path.as_str() == ZIP && written.opaque && written.executable.is_none() && zip.is_none()
                    {
                        zip = Some(written.content);
                        continue;
                    }
                    match files.entry(path) {
                        Entry::Vacant(place) => drop(place.insert(written.file())),
                        Entry::Occupied(place) => {
                            return Err(A::Error::custom(format!("'{}' is given twice", place.key())));
                        }
                    }
                }
                match zip {
                    None => Ok(Files::Listed(files)),
                    Some(zip) if files.is_empty() => Ok(Files::Zip(zip)),
                    Some(_) => Err(A::Error::custom(
                        "'zip' stands alone: put all files into it, or none; \
                         if it is a file of that name, say \"executable\": false in it",
                    )),
                }
            }
        }

        deserializer.deserialize_map(FilesVisitor)
    }
}

impl Serialize for Files {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Files::Listed(files) => {
                let mut map = serializer.serialize_map(Some(files.len()))?;
                for (path, file) in files {
                    map.serialize_entry(path.as_str(), &Listed { path, file })?;
                }
                map.end()
            }
            Files::Zip(content) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(ZIP, &Archive(content))?;
                map.end()
            }
        }
    }
}

struct Listed<'a> {
    path: &'a FilePath,
    file: &'a File,
}

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let File { content, executable } = self.file;
        if self.path.as_str() == ZIP {
            content::serialize_fields(content, Some(*executable), serializer)
        } else {
            content::serialize_file(self.file, serializer)
        }
    }
}

struct Archive<'a>(&'a Content);

impl Serialize for Archive<'_> {
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

    fn check(json: &str, written: &str) {
        let files: Files = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let again = serde_json::to_string(&files).unwrap();
        assert_eq!(again, written);
        assert_eq!(serde_json::from_str::<Files>(&again).unwrap(), files, "{json}");
    }

    #[test]
    fn files_come_in_every_form() {
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
        assert!(serde_json::from_str::<Files>(r#"{"zip": {"base64": ""}, "a": ""}"#).is_err());
        assert!(matches!(
            serde_json::from_str(r#"{"zip": {"base64": "aGk="}}"#),
            Ok(Files::Zip(_))
        ));
    }
}
