//! The content of a file or of the input in JSON: text, base64, or the hash of a blob.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::{BlobHash, Content, TaskFile};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};

use crate::serde_text;

/// The content of a task's file or input as a JSON object `{"text" | "base64" | "blob": ..., "executable": ...}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentFields {
    text: Option<String>,
    base64: Option<Base64Bytes>,
    blob: Option<BlobHashText>,
    executable: Option<bool>,
}

/// The bytes of a task's file or input, which are base64 text in JSON.
struct Base64Bytes(Bytes);

/// The hash of the blob that holds a task's file or input, which is hexadecimal text in JSON.
struct BlobHashText(BlobHash);

/// The JSON value of one path in `source` or `data` of a task: a file, or the zip of `{"zip": {"base64": ...}}`.
pub(crate) struct ParsedFile {
    pub(crate) content: Content,
    pub(crate) executable: Option<bool>,
    /// True for base64 and blob, the two forms in which a zip can be given.
    pub(crate) may_be_zip: bool,
}

impl ParsedFile {
    pub(crate) fn into_file(self) -> TaskFile {
        TaskFile {
            content: self.content,
            executable: self.executable.unwrap_or(false),
        }
    }
}

impl<'de> Deserialize<'de> for ParsedFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ParsedFile, D::Error> {
        /// A serde visitor that parses a file of a task from JSON: text, or an object with the content.
        struct ParsedFileVisitor;

        impl<'de> Visitor<'de> for ParsedFileVisitor {
            type Value = ParsedFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, or an object with one of text, base64, blob")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ParsedFile, E> {
                self.visit_string(text.to_string())
            }

            fn visit_string<E: Error>(self, text: String) -> Result<ParsedFile, E> {
                Ok(ParsedFile {
                    content: Content::Inline(text.into()),
                    executable: None,
                    may_be_zip: false,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ParsedFile, A::Error> {
                let fields = ContentFields::deserialize(MapAccessDeserializer::new(map))?;
                let (content, may_be_zip) = match (fields.text, fields.base64, fields.blob) {
                    (Some(text), None, None) => (Content::Inline(text.into()), false),
                    (None, Some(Base64Bytes(bytes)), None) => (Content::Inline(bytes), true),
                    (None, None, Some(BlobHashText(hash))) => (Content::Blob(hash), true),
                    (None, None, None) => {
                        return Err(A::Error::custom("has no content; give one of text, base64, blob"));
                    }
                    _ => return Err(A::Error::custom("give only one of text, base64, blob")),
                };
                Ok(ParsedFile {
                    content,
                    executable: fields.executable,
                    may_be_zip,
                })
            }
        }

        deserializer.deserialize_any(ParsedFileVisitor)
    }
}

impl<'de> Deserialize<'de> for Base64Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Base64Bytes, D::Error> {
        serde_text::deserialize_text(deserializer, "base64 text", |text| {
            STANDARD
                .decode(text)
                .map(|bytes| Base64Bytes(bytes.into()))
                .map_err(|error| format!("is not standard padded base64: {error}"))
        })
    }
}

impl<'de> Deserialize<'de> for BlobHashText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BlobHashText, D::Error> {
        serde_text::deserialize_text(deserializer, "a SHA-256 in hex", |text| {
            text.parse().map(BlobHashText)
        })
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
    let parsed = ParsedFile::deserialize(deserializer)?;
    match parsed.executable {
        Some(_) => Err(D::Error::custom("'executable' is for files; leave it out here")),
        None => Ok(parsed.content),
    }
}

pub(crate) fn serialize<S: Serializer>(content: &Content, serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        Content::Inline(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serialize_fields(content, None, serializer),
        },
        Content::Blob(_) => serialize_fields(content, None, serializer),
    }
}

pub(crate) fn serialize_file<S: Serializer>(file: &TaskFile, serializer: S) -> Result<S::Ok, S::Error> {
    if file.executable {
        serialize_fields(&file.content, Some(true), serializer)
    } else {
        serialize(&file.content, serializer)
    }
}

/// Writes `executable` if it is given, even if it is false: `"executable": false` marks a file that is named `zip`.
pub(crate) fn serialize_fields<S: Serializer>(
    content: &Content,
    executable: Option<bool>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    match content {
        Content::Inline(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => map.serialize_entry("text", text)?,
            Err(_) => map.serialize_entry("base64", &STANDARD.encode(bytes))?,
        },
        Content::Blob(hash) => map.serialize_entry("blob", &hash.to_string())?,
    }
    if let Some(executable) = executable {
        map.serialize_entry("executable", &executable)?;
    }
    map.end()
}
/// A content that may be null.
pub(crate) mod optional {
    use model::Content;
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    /// A content in JSON, as the value of an optional field.
    #[derive(serde::Deserialize)]
    struct ContentValue(#[serde(with = "super")] Content);

    pub(crate) fn serialize<S: Serializer>(
        content: &Option<Content>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match content {
            Some(content) => super::serialize(content, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Content>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map(|ContentValue(content)| content))
    }
}
