//! The content of a file or of the input: text, base64, or the name of a blob.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::{BlobHash, Content, File};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};

use crate::name;

/// `{"text" | "base64" | "blob": ..., "executable": ...}`
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    text: Option<String>,
    base64: Option<Base64>,
    blob: Option<Hash>,
    executable: Option<bool>,
}

struct Base64(Bytes);
struct Hash(BlobHash);

/// A file as it was written, before it is known whether it is a file: `{"zip": {"base64": ...}}` looks like one.
pub(crate) struct Written {
    pub(crate) content: Content,
    pub(crate) executable: Option<bool>,
    /// Given as base64 or blob, as a zip is.
    pub(crate) opaque: bool,
}

impl Written {
    pub(crate) fn file(self) -> File {
        File {
            content: self.content,
            executable: self.executable.unwrap_or(false),
        }
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Written, D::Error> {
        struct WrittenVisitor;

        impl<'de> Visitor<'de> for WrittenVisitor {
            type Value = Written;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, or an object with one of text, base64, blob")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Written, E> {
                self.visit_string(text.to_string())
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Written, E> {
                Ok(Written {
                    content: Content::Inline(text.into()),
                    executable: None,
                    opaque: false,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
                let fields = Fields::deserialize(MapAccessDeserializer::new(map))?;
                let (content, opaque) = match (fields.text, fields.base64, fields.blob) {
                    (Some(text), None, None) => (Content::Inline(text.into()), false),
                    (None, Some(Base64(bytes)), None) => (Content::Inline(bytes), true),
                    (None, None, Some(Hash(hash))) => (Content::Blob(hash), true),
                    (None, None, None) => {
                        return Err(A::Error::custom("has no content; give one of text, base64, blob"));
                    }
                    _ => return Err(A::Error::custom("give only one of text, base64, blob")),
                };
                Ok(Written {
                    content,
                    executable: fields.executable,
                    opaque,
                })
            }
        }

        deserializer.deserialize_any(WrittenVisitor)
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Base64, D::Error> {
        name::read(deserializer, "base64 text", |text| {
            STANDARD
                .decode(text)
                .map(|bytes| Base64(bytes.into()))
                .map_err(|error| format!("is not standard padded base64: {error}"))
        })
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        name::read(deserializer, "a SHA-256 in hex", |text| text.parse().map(Hash))
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
    let written = Written::deserialize(deserializer)?;
    match written.executable {
        Some(_) => Err(D::Error::custom("'executable' is for files; leave it out here")),
        None => Ok(written.content),
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

pub(crate) fn serialize_file<S: Serializer>(file: &File, serializer: S) -> Result<S::Ok, S::Error> {
    if file.executable {
        serialize_fields(&file.content, Some(true), serializer)
    } else {
        serialize(&file.content, serializer)
    }
}

/// Says `executable` even where it is false, if it is given: that keeps a file named `zip` a file.
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
