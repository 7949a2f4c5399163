//! The keys of the registry in etcd.

/// Prefix of the judicators' keys. The rest of the key is the name of the judicator.
const JUDICATORS: &str = "/conclave/judicators/";

/// The key that the leader holds.
pub(super) const LEADER: &str = "/conclave/leader";

pub(super) fn judicator(name: &str) -> String {
    format!("{JUDICATORS}{name}")
}

/// The name in a judicator's key; `None` for any other key.
pub(super) fn name_of(key: &str) -> Option<&str> {
    key.strip_prefix(JUDICATORS).filter(|name| !name.is_empty())
}

/// The range that holds all judicators and the leader: start, and end (exclusive). The keys are adjacent, so that one
/// read or one watch covers both at the same revision.
pub(super) fn range() -> (&'static str, String) {
    (JUDICATORS, format!("{LEADER}\0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_covers_the_judicators_and_the_leader() {
        let (from, to) = range();
        let is_in_range = |key: &str| from <= key && key < to.as_str();
        assert!(is_in_range(&judicator("a")) && is_in_range(&judicator("zz")) && is_in_range(LEADER));
        assert!(
            !is_in_range("/conclave/mongodb/set")
                && !is_in_range("/conclave/leaders")
                && !is_in_range("/conclave/a")
        );
    }

    #[test]
    fn only_the_key_of_a_judicator_contains_a_name() {
        assert_eq!(name_of(&judicator("north")), Some("north"));
        for other in [LEADER, JUDICATORS, "/conclave/mongodb/set"] {
            assert_eq!(name_of(other), None, "{other}");
        }
    }
}
