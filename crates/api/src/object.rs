//! Deserializing structs from JSON objects only.
//!
//! The code that serde derives also accepts a JSON list with the fields in declaration order. A user who sends a list
//! has made a mistake, which must be reported and not become a task.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

/// A struct of the HTTP API that is parsed from JSON objects only, although serde would also accept a list. Its derived
/// deserializer is an inherent function, because of `#[serde(remote = "Self")]`.
pub(crate) trait JsonObject: Sized {
    /// Ends the error message "expected ...".
    const EXPECTED: &'static str;

    fn deserialize_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// A serde visitor that parses a struct of the HTTP API from a JSON object and refuses everything else.
pub(crate) struct JsonObjectVisitor<T>(pub(crate) PhantomData<T>);

impl<'de, T: JsonObject> Visitor<'de> for JsonObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize_fields(MapAccessDeserializer::new(map))
    }
}

/// Implements serde's traits for structs with `#[serde(remote = "Self")]`.
macro_rules! impl_json_objects {
    ($($type:ident: $expected:literal;)*) => {$(
        impl $crate::object::JsonObject for $type {
            const EXPECTED: &'static str = $expected;

            fn deserialize_fields<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $type::deserialize(deserializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map($crate::object::JsonObjectVisitor(std::marker::PhantomData))
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $type::serialize(self, serializer)
            }
        }
    )*};
}

pub(crate) use impl_json_objects;
