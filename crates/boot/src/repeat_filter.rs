//! Suppresses repeated log messages.

use std::time::{Duration, Instant};

/// A repeated message is logged again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// Lets boot log a message that repeats, such as the failure of a service, only once a minute.
#[derive(Debug, Default)]
pub(crate) struct RepeatedMessageFilter {
    last: Option<(String, Instant)>,
}

impl RepeatedMessageFilter {
    /// Whether to log this message: it differs from the last one, or that was logged a minute ago.
    pub(crate) fn should_log(&mut self, text: &str, now: Instant) -> bool {
        let is_repeat = self
            .last
            .as_ref()
            .is_some_and(|(last, at)| last == text && now.saturating_duration_since(*at) < REPEAT_INTERVAL);
        if !is_repeat {
            self.last = Some((text.to_string(), now));
        }
        !is_repeat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_message_is_logged_once_a_minute() {
        let mut filter = RepeatedMessageFilter::default();
        let start = Instant::now();
        for (second, text, expected) in [
            (0, "a", true),
            (1, "a", false),
            (59, "a", false),
            (60, "a", true),
            (61, "b", true),
            (62, "b", false),
            (63, "a", true),
        ] {
            let now = start + Duration::from_secs(second);
            assert_eq!(filter.should_log(text, now), expected, "{text} after {second} s");
        }
    }
}
