//! Integers in JSON. JSON has only one type of number, and some programs write `2.0` for `2`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// An integer in the JSON of a request, which may be written as a float without a fraction (`2.0`).
struct Integer<T>(T);

impl<'de, T> Deserialize<'de> for Integer<T>
where
    IntegerVisitor<T>: Visitor<'de, Value = T>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Integer<T>, D::Error> {
        deserializer
            .deserialize_any(IntegerVisitor(PhantomData))
            .map(Integer)
    }
}

/// A serde visitor that parses a JSON number, also `2.0`, as an integer in the range of its type.
pub(crate) struct IntegerVisitor<T>(PhantomData<T>);

macro_rules! impl_integer_visitors {
    ($($type:ty),*) => {$(
        impl Visitor<'_> for IntegerVisitor<$type> {
            type Value = $type;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {} to {}", <$type>::MIN, <$type>::MAX)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<$type, E> {
                number
                    .try_into()
                    .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<$type, E> {
                number
                    .try_into()
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<$type, E> {
                // The cast saturates at the limits of i64, which are out of range as well.
                match number.fract() == 0.0 {
                    true => self.visit_i64(number as i64),
                    false => Err(E::invalid_type(Unexpected::Float(number), &self)),
                }
            }
        }
    )*};
}

impl_integer_visitors!(i32, u32);

pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    IntegerVisitor<T>: Visitor<'de, Value = T>,
{
    Integer::deserialize(deserializer).map(|Integer(number)| number)
}

/// Like [`deserialize`], for a field that may be null.
pub(crate) fn deserialize_optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    IntegerVisitor<T>: Visitor<'de, Value = T>,
{
    let number: Option<Integer<T>> = Option::deserialize(deserializer)?;
    Ok(number.map(|Integer(number)| number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_every_spelling() {
        let check = |json: &str, expected: Option<i32>| {
            let read: Result<Integer<i32>, _> = serde_json::from_str(json);
            assert_eq!(read.ok().map(|Integer(number)| number), expected, "{json}");
        };
        check("7", Some(7));
        check("-7", Some(-7));
        check("7.0", Some(7));
        check("7e2", Some(700));
        check("-2147483648", Some(i32::MIN));
        check("2147483648", None);
        check("1e300", None);
        check("7.5", None);
        check("\"7\"", None);
        check("true", None);
        let negative: Result<Integer<u32>, _> = serde_json::from_str("-1");
        let problem = negative.map(|_| ()).unwrap_err().to_string();
        assert!(
            problem.contains("a whole number from 0 to 4294967295"),
            "{problem}"
        );
    }
}
