//! Points and scores in JSON: numbers, and whole numbers without a fraction.

use model::Points;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

pub(crate) fn serialize<S: Serializer>(points: &Points, serializer: S) -> Result<S::Ok, S::Error> {
    score::serialize(&points.as_f64(), serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Points, D::Error> {
    let points = f64::deserialize(deserializer)?;
    Points::from_f64(points)
        .ok_or_else(|| D::Error::custom(format!("must be a number from 0 to {}", Points::MAX)))
}

/// A sum of points, which may be more than one case can have.
pub(crate) mod score {
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    /// Whole numbers up to this are exact.
    const MAX_EXACT: f64 = (1u64 << 53) as f64;

    pub(crate) fn serialize<S: Serializer>(score: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        match score.fract() == 0.0 && (0.0..=MAX_EXACT).contains(score) {
            true => serializer.serialize_u64(*score as u64),
            false => serializer.serialize_f64(*score),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        f64::deserialize(deserializer)
    }
}

/// A score that may be null.
pub(crate) mod optional_score {
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::Serializer;

    pub(crate) fn serialize<S: Serializer>(score: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        match score {
            Some(score) => super::score::serialize(score, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Option::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use model::Points;

    /// Points as the value of a field in JSON.
    #[derive(serde::Serialize, serde::Deserialize)]
    struct PointsValue(#[serde(with = "super")] Points);

    #[test]
    fn points_are_numbers_from_zero() {
        let check = |json: &str, expected: Result<&str, &str>| {
            let read: Result<PointsValue, _> = serde_json::from_str(json);
            match (read, expected) {
                (Ok(points), Ok(written)) => {
                    assert_eq!(serde_json::to_string(&points).unwrap(), written, "{json}");
                }
                (Err(error), Err(problem)) => {
                    assert!(error.to_string().contains(problem), "{json}: {error}");
                }
                (read, _) => panic!("{json}: {:?}", read.map(|PointsValue(points)| points)),
            }
        };
        check("10", Ok("10"));
        check("10.0", Ok("10"));
        check("0", Ok("0"));
        check("2.5", Ok("2.5"));
        check("1000000", Ok("1000000"));
        check("1000000.5", Err("from 0 to 1000000"));
        check("-1", Err("from 0 to 1000000"));
        check("\"10\"", Err("invalid type: string"));
        check("null", Err("invalid type: null"));
    }
}
