//! The names under which things are found in etcd.

/// Each judicator has a key below this one, named by its name.
const JUDICATORS: &str = "/conclave/judicators/";

/// Held by the one that leads.
pub(super) const LEADER: &str = "/conclave/leader";

pub(super) fn judicator(name: &str) -> String {
    format!("{JUDICATORS}{name}")
}

/// The name in a judicator's key; nothing for every other key.
pub(super) fn name_of(key: &str) -> Option<&str> {
    key.strip_prefix(JUDICATORS).filter(|name| !name.is_empty())
}

/// All judicators and the leader: the two lie side by side, so that one read and one watch tell both as of the same
/// moment. The end is not part of it.
pub(super) fn range() -> (&'static str, String) {
    (JUDICATORS, format!("{LEADER}\0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_holds_both() {
        let (from, to) = range();
        let within = |key: &str| from <= key && key < to.as_str();
        assert!(within(&judicator("a")) && within(&judicator("zz")) && within(LEADER));
        assert!(!within("/conclave/mongodb/set") && !within("/conclave/leaders") && !within("/conclave/a"));
    }

    #[test]
    fn only_a_judicators_key_has_a_name() {
        assert_eq!(name_of(&judicator("north")), Some("north"));
        for other in [LEADER, JUDICATORS, "/conclave/mongodb/set"] {
            assert_eq!(name_of(other), None, "{other}");
        }
    }
}
