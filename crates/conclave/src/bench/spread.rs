//! What lies in the middle, and what at the end.

use std::time::Duration;

/// The smallest of these that is at least as long as `percent` of them; zero if there are none.
pub(super) fn percentile(spans: &mut [Duration], percent: usize) -> Duration {
    spans.sort_unstable();
    let rank = (spans.len() * percent).div_ceil(100);
    spans.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_those_measured() {
        let check = |spans: &[u64], percent, expected| {
            let mut spans: Vec<_> = spans.iter().map(|span| Duration::from_millis(*span)).collect();
            assert_eq!(percentile(&mut spans, percent), Duration::from_millis(expected));
        };
        check(&[], 50, 0);
        check(&[7], 99, 7);
        check(&[3, 1, 2], 50, 2);
        check(&[4, 1, 3, 2], 50, 2);
        check(&[4, 1, 3, 2], 99, 4);
    }
}
