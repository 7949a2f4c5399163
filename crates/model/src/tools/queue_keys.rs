//! The queue keys of the tasks that an executor may claim.

/// The first character of the queue keys of tasks whose judge programs need tools of their own. It sorts before all
/// others, so these keys come first.
pub(super) const JUDGED_PREFIX: char = '+';
/// The part of such a key for a task whose steps need nothing.
const NOTHING: &str = "/";

/// The queue keys of the tasks that an executor may claim, besides tasks without a requirement.
///
/// An executor with n languages may claim tasks of n times n pairs of languages: one for the steps, one for the program that
/// judges. They are not listed. Instead a store asks for the next key from one that it has found in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueKeys {
    /// Sorted.
    of_steps: Vec<String>,
}

impl QueueKeys {
    pub(super) fn new(mut of_steps: Vec<String>) -> QueueKeys {
        of_steps.sort_unstable();
        QueueKeys { of_steps }
    }

    /// Whether tasks with this key have a judge program that needs tools of its own.
    pub fn is_judged(key: &str) -> bool {
        key.starts_with(JUDGED_PREFIX)
    }

    /// The keys without a program that judges, sorted. All others come before them.
    pub fn of_steps(&self) -> &[String] {
        &self.of_steps
    }

    pub fn is_empty(&self) -> bool {
        self.of_steps.is_empty()
    }

    pub fn contains(&self, key: &str) -> bool {
        let contains = |key: &str| {
            self.of_steps
                .binary_search_by(|own| own.as_str().cmp(key))
                .is_ok()
        };
        match key.strip_prefix(JUDGED_PREFIX).map(|both| both.split_once(' ')) {
            Some(Some((steps, judge))) => (steps == NOTHING || contains(steps)) && contains(judge),
            Some(None) => false,
            None => contains(key),
        }
    }

    /// The first key that is not less than this text.
    pub fn first_from(&self, text: &str) -> Option<String> {
        if text.starts_with(|first| first > JUDGED_PREFIX) {
            return self.step_key_from(text).map(String::from);
        }
        let both = text.strip_prefix(JUDGED_PREFIX).unwrap_or_default();
        let (steps, judge) = both.split_once(' ').unwrap_or((both, ""));
        let least_judge = self.of_steps.first()?;
        let mut pairs = [NOTHING]
            .into_iter()
            .filter(|nothing| *nothing >= steps)
            .chain(self.step_keys_from(steps).iter().map(String::as_str))
            // The first pair may be over with this judge; the one after it is not.
            .take(2);
        let pair = pairs.find_map(|own| match own == steps {
            true => Some((own, self.step_key_from(judge)?)),
            false => Some((own, least_judge.as_str())),
        });
        Some(match pair {
            Some((steps, judge)) => format!("{JUDGED_PREFIX}{steps} {judge}"),
            None => least_judge.clone(),
        })
    }

    /// The first key that is greater than this one.
    pub fn first_after(&self, key: &str) -> Option<String> {
        self.first_from(&format!("{key}\0"))
    }

    fn step_keys_from(&self, text: &str) -> &[String] {
        &self.of_steps[self.of_steps.partition_point(|key| key.as_str() < text)..]
    }

    fn step_key_from(&self, text: &str) -> Option<&str> {
        self.step_keys_from(text).first().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(own: &[&str]) -> QueueKeys {
        QueueKeys::new(own.iter().map(|key| key.to_string()).collect())
    }

    /// The definition of the set: every key of steps, and every pair of nothing or such a key with another one.
    fn all(own: &QueueKeys) -> Vec<String> {
        let mut all = own.of_steps.clone();
        for steps in [NOTHING]
            .into_iter()
            .chain(own.of_steps.iter().map(String::as_str))
        {
            all.extend(own.of_steps.iter().map(|judge| format!("+{steps} {judge}")));
        }
        all.sort();
        all
    }

    #[test]
    fn the_keys_are_visited_in_their_order() {
        for own in [
            keys(&[]),
            keys(&["/c"]),
            keys(&["/c", "/c++", "/cpp", "lab/", "lab/c", "lab-2/c"]),
        ] {
            let all = all(&own);
            let mut visited = vec![];
            let mut next = own.first_from("");
            while let Some(key) = next {
                next = own.first_after(&key);
                assert!(own.contains(&key), "{key}");
                visited.push(key);
            }
            assert_eq!(visited, all);
        }
    }

    #[test]
    fn the_next_key_is_found_from_any_text() {
        let own = keys(&["/c", "/cpp", "lab/", "lab/r"]);
        let all = all(&own);
        let others = [
            "",
            "+",
            "+/",
            "+/b",
            "+/c",
            "+/c ",
            "+/c /z",
            "+/d /c",
            "+lab/r zzz",
            "+z",
            "/",
            "/d",
            "zzz",
        ];
        for text in others.into_iter().chain(all.iter().map(String::as_str)) {
            let expected = all.iter().find(|key| key.as_str() >= text);
            assert_eq!(own.first_from(text).as_ref(), expected, "{text:?}");
            assert_eq!(own.contains(text), all.iter().any(|key| key == text), "{text:?}");
        }
    }
}
