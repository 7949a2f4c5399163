//! Points of cases and scores of tasks.

use std::fmt;
use std::iter::Sum;

/// A number of points, exact to a millionth, so that sums and comparisons do not depend on rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Points(u64);

const SCALE: u64 = 1_000_000;

impl Points {
    pub const ZERO: Points = Points(0);
    pub const ONE: Points = Points(SCALE);
    /// The most points of one case. Scores of all cases together stay far below the largest number.
    pub const MAX: Points = Points(1_000_000 * SCALE);

    /// `None` if the number is negative, not finite, or more than [`Points::MAX`].
    pub fn from_f64(points: f64) -> Option<Points> {
        let is_valid = points.is_finite() && (0.0..=Points::MAX.as_f64()).contains(&points);
        // At most 10^12, which is exact in both types.
        is_valid.then(|| Points((points * SCALE as f64).round() as u64))
    }

    /// Far below 2^53 millionths in practice, so the conversion is exact enough for people.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / SCALE as f64
    }

    pub fn from_millionths(millionths: u64) -> Points {
        Points(millionths)
    }

    pub fn millionths(self) -> u64 {
        self.0
    }
}

impl Sum for Points {
    fn sum<I: Iterator<Item = Points>>(points: I) -> Points {
        Points(points.fold(0, |sum, points| sum.saturating_add(points.0)))
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_f64().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasonable_numbers_are_points() {
        for (number, expected) in [
            (0.0, Some(0)),
            (0.1, Some(100_000)),
            (10.0, Some(10 * SCALE)),
            (1e6, Some(Points::MAX.0)),
            (1e6 + 1.0, None),
            (-0.5, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
        ] {
            assert_eq!(
                Points::from_f64(number).map(Points::millionths),
                expected,
                "{number}"
            );
        }
        assert_eq!(Points::from_millionths(2_500_000).to_string(), "2.5");
        assert_eq!(Points::ONE.to_string(), "1");
        let tenth = Points::from_millionths(100_000);
        assert_eq!([tenth; 10].into_iter().sum::<Points>(), Points::ONE);
    }
}
