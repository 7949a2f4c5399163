//! Suggests a known key for a misspelt one.

use super::keys::{ConfigKey, KEYS};

/// The largest edit distance that counts as a typing error.
const MAX_TYPO_DISTANCE: usize = 3;

/// The key that is most similar to an unknown one. It may still be quite different.
pub(super) fn closest_key(unknown: &str) -> &'static ConfigKey {
    // A known key in the wrong section is more likely than a misspelling.
    let short_name = unknown.rsplit('.').next().unwrap_or(unknown);
    let in_other_section = KEYS.iter().find(|key| key.short_name() == short_name);
    let misspelt = || {
        KEYS.iter()
            .min_by_key(|key| strsim::damerau_levenshtein(key.name, unknown))
    };
    in_other_section.or_else(misspelt).unwrap_or(&KEYS[0])
}

/// The key whose environment variable has almost this name.
pub(super) fn misspelt_variable(name: &str) -> Option<&'static ConfigKey> {
    KEYS.iter()
        .map(|key| (strsim::damerau_levenshtein(&key.variable(), name), key))
        .filter(|(distance, _)| (1..=MAX_TYPO_DISTANCE).contains(distance))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_key_is_suggested() {
        let check =
            |unknown: &str, expected: &str| assert_eq!(closest_key(unknown).name, expected, "{unknown}");
        check("executor.slot", "executor.slots");
        check("exectuor.slots", "executor.slots");
        check("node.slots", "executor.slots");
        check("judicator.lese", "judicator.lease");
        check("limits.default.memroy", "limits.default.memory");
        check("self_kill", "executor.self_kill");
    }

    #[test]
    fn only_similar_variables_count_as_misspelt() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(misspelt_variable(name).map(|key| key.name), expected, "{name}");
        };
        check("CONCLAVE_EXECUTOR_SLOT", Some("executor.slots"));
        check("CONCLAVE_EXECUTOR_SELFKILL", Some("executor.self_kill"));
        check("CONCLAVE_GATEWAY_SERVICE_HOST", None);
        check("CONCLAVE_GATEWAY_PORT_7000_TCP", None);
    }
}
