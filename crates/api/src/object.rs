//! Structures that are read from JSON objects only.
//!
//! What serde derives would also take a list with the fields in their order. Nobody means that, and it would
//! turn a mistake into a task.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

/// A structure whose derived reading was put aside by `#[serde(remote = "Self")]`.
pub(crate) trait Object: Sized {
    const EXPECTED: &'static str;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

pub(crate) struct ObjectVisitor<T>(pub(crate) PhantomData<T>);

impl<'de, T: Object> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::read(MapAccessDeserializer::new(map))
    }
}

/// Gives structures with `#[serde(remote = "Self")]` their serde traits back.
macro_rules! objects {
    ($($type:ident: $expected:literal;)*) => {$(
        impl $crate::object::Object for $type {
            const EXPECTED: &'static str = $expected;

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $type::deserialize(deserializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map($crate::object::ObjectVisitor(std::marker::PhantomData))
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $type::serialize(self, serializer)
            }
        }
    )*};
}

pub(crate) use objects;
