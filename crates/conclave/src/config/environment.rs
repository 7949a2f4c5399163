//! The layer of `CONCLAVE_*` variables.

use anyhow::{Result, bail};

use super::keys::KEYS;
use super::layers::Given;
use super::nearest::misspelt_variable;
use super::origin::Origin;

/// Variables with our prefix that are no keys: how a client reaches its server, and which file to read.
const OTHERS: [&str; 5] = [
    "CONCLAVE_SERVER",
    "CONCLAVE_TOKEN_FILE",
    "CONCLAVE_CA_FILE",
    "CONCLAVE_TIMEOUT",
    "CONCLAVE_CONFIG",
];

/// Takes the variables that name keys. One that is nearly a key is an error; any other is none of ours:
/// container platforms put addresses into variables like `CONCLAVE_GATEWAY_SERVICE_HOST`, and that must not
/// keep a node from starting.
pub(super) fn given(variables: impl IntoIterator<Item = (String, String)>) -> Result<Vec<Given>> {
    let mut given = Vec::new();
    for (name, text) in variables {
        if !name.starts_with("CONCLAVE_") || OTHERS.contains(&name.as_str()) {
            continue;
        }
        if let Some(key) = KEYS.iter().find(|key| key.variable() == name) {
            given.push(Given {
                key,
                text,
                origin: Origin::Env(name),
            });
        } else if let Some(meant) = misspelt_variable(&name) {
            bail!(
                "the environment variable {name} sets nothing; did you mean {}? Rename it or unset it",
                meant.variable()
            );
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str) -> Result<Vec<Given>> {
        given([(name.to_string(), "7".to_string())])
    }

    #[test]
    fn keys_are_taken_and_slips_are_errors() {
        let taken = one("CONCLAVE_EXECUTOR_SELF_KILL").unwrap();
        assert_eq!(taken[0].key.name, "executor.self_kill");
        assert_eq!(taken[0].origin.to_string(), "env CONCLAVE_EXECUTOR_SELF_KILL");
        assert_eq!(
            one("CONCLAVE_LIMITS_DEFAULT_WALL").unwrap()[0].key.name,
            "limits.default.wall"
        );
        for other in ["PATH", "CONCLAVE_SERVER", "CONCLAVE_GATEWAY_PORT_7000_TCP"] {
            assert!(one(other).unwrap().is_empty(), "{other}");
        }
        let slip = one("CONCLAVE_EXECUTOR_SLOTZ").unwrap_err().to_string();
        assert!(slip.contains("CONCLAVE_EXECUTOR_SLOTS"), "{slip}");
    }

    #[test]
    fn no_two_keys_share_a_variable() {
        let mut names: Vec<_> = KEYS.iter().map(|key| key.variable()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KEYS.len());
    }
}
