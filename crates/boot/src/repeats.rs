//! A service that fails again and again for one reason tells it once, not each time.

use std::time::{Duration, Instant};

const AGAIN: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Repeats {
    told: Option<(String, Instant)>,
}

impl Repeats {
    /// Whether this is to be told now: it differs from what was told last, or that was long ago.
    pub(crate) fn is_news(&mut self, text: &str, now: Instant) -> bool {
        let known = self
            .told
            .as_ref()
            .is_some_and(|(told, at)| told == text && now.saturating_duration_since(*at) < AGAIN);
        if !known {
            self.told = Some((text.to_string(), now));
        }
        !known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_a_minute() {
        let mut repeats = Repeats::default();
        let begun = Instant::now();
        for (second, text, expected) in [
            (0, "a", true),
            (1, "a", false),
            (59, "a", false),
            (60, "a", true),
            (61, "b", true),
            (62, "b", false),
            (63, "a", true),
        ] {
            let now = begun + Duration::from_secs(second);
            assert_eq!(repeats.is_news(text, now), expected, "{text} after {second} s");
        }
    }
}
