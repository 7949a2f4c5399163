//! Whole numbers: JSON has only one kind of number, and some writers write `2.0` for `2`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

struct Whole<T>(T);

impl<'de, T> Deserialize<'de> for Whole<T>
where
    Bounds<T>: Visitor<'de, Value = T>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole<T>, D::Error> {
        deserializer.deserialize_any(Bounds(PhantomData)).map(Whole)
    }
}

/// Reads a number within the bounds of its type.
pub(crate) struct Bounds<T>(PhantomData<T>);

macro_rules! visitors {
    ($($type:ty),*) => {$(
        impl Visitor<'_> for Bounds<$type> {
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
                // A float beyond 64 bits becomes the nearest number that fits, which is out of bounds as well.
                match number.fract() == 0.0 {
                    true => self.visit_i64(number as i64),
                    false => Err(E::invalid_type(Unexpected::Float(number), &self)),
                }
            }
        }
    )*};
}

visitors!(i32, u32);

pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    Bounds<T>: Visitor<'de, Value = T>,
{
    Whole::deserialize(deserializer).map(|Whole(number)| number)
}

/// The same for a field that may be null.
pub(crate) fn deserialize_optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    Bounds<T>: Visitor<'de, Value = T>,
{
    let number: Option<Whole<T>> = Option::deserialize(deserializer)?;
    Ok(number.map(|Whole(number)| number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_in_every_spelling() {
        let check = |json: &str, expected: Option<i32>| {
            let read: Result<Whole<i32>, _> = serde_json::from_str(json);
            assert_eq!(read.ok().map(|Whole(number)| number), expected, "{json}");
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
        let negative: Result<Whole<u32>, _> = serde_json::from_str("-1");
        let problem = negative.map(|_| ()).unwrap_err().to_string();
        assert!(
            problem.contains("a whole number from 0 to 4294967295"),
            "{problem}"
        );
    }
}
