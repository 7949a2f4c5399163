//! Which known key somebody may have meant.

use super::keys::{KEYS, Key};

/// How many letters a slip of the keyboard gets wrong at most.
const SLIP: usize = 3;

/// The key that is most like this unknown one. There always is one: the nearest may still be far.
pub(super) fn nearest(unknown: &str) -> &'static Key {
    // A known key in the wrong section is a likelier mistake than any misspelling.
    let last = unknown.rsplit('.').next().unwrap_or(unknown);
    let moved = KEYS.iter().find(|key| key.last_part() == last);
    let spelt = || {
        KEYS.iter()
            .min_by_key(|key| strsim::damerau_levenshtein(key.name, unknown))
    };
    moved.or_else(spelt).unwrap_or(&KEYS[0])
}

/// The key whose variable this name looks like a misspelling of.
pub(super) fn misspelt_variable(name: &str) -> Option<&'static Key> {
    KEYS.iter()
        .map(|key| (strsim::damerau_levenshtein(&key.variable(), name), key))
        .filter(|(distance, _)| (1..=SLIP).contains(distance))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_named() {
        let check = |unknown: &str, expected: &str| assert_eq!(nearest(unknown).name, expected, "{unknown}");
        check("executor.slot", "executor.slots");
        check("exectuor.slots", "executor.slots");
        check("node.slots", "executor.slots");
        check("judicator.lese", "judicator.lease");
        check("limits.default.memroy", "limits.default.memory");
        check("self_kill", "executor.self_kill");
    }

    #[test]
    fn only_close_variables_count_as_misspelt() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(misspelt_variable(name).map(|key| key.name), expected, "{name}");
        };
        check("CONCLAVE_EXECUTOR_SLOT", Some("executor.slots"));
        check("CONCLAVE_EXECUTOR_SELFKILL", Some("executor.self_kill"));
        check("CONCLAVE_GATEWAY_SERVICE_HOST", None);
        check("CONCLAVE_GATEWAY_PORT_7000_TCP", None);
    }
}
