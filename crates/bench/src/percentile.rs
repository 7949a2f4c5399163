//! Percentiles of measured durations.

use std::time::Duration;

/// The smallest duration that is at least as long as `percent` percent of all (nearest rank); zero for an empty slice.
pub(crate) fn percentile(durations: &mut [Duration], percent: usize) -> Duration {
    durations.sort_unstable();
    let rank = (durations.len() * percent).div_ceil(100);
    durations.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let check = |durations: &[u64], percent, expected| {
            let mut durations: Vec<_> = durations
                .iter()
                .map(|millis| Duration::from_millis(*millis))
                .collect();
            assert_eq!(
                percentile(&mut durations, percent),
                Duration::from_millis(expected)
            );
        };
        check(&[], 50, 0);
        check(&[7], 99, 7);
        check(&[3, 1, 2], 50, 2);
        check(&[4, 1, 3, 2], 50, 2);
        check(&[4, 1, 3, 2], 99, 4);
    }
}
