//! The layer of environment variables, `CONCLAVE_*`.

use anyhow::{Result, bail};

use super::keys::KEYS;
use super::layers::{LayerValue, ValueOrigin};
use super::suggest::misspelt_variable;

/// Variables with the prefix that are not keys of a node: the client's settings, and the path of the configuration file.
const OTHER_VARIABLES: [&str; 5] = [
    "CONCLAVE_SERVER",
    "CONCLAVE_TOKEN_FILE",
    "CONCLAVE_CA_FILE",
    "CONCLAVE_TIMEOUT",
    "CONCLAVE_CONFIG",
];

/// Reads the variables that name keys. A variable whose name is almost that of a key is an error. Other variables are ignored:
/// container platforms set variables like `CONCLAVE_GATEWAY_SERVICE_HOST`, which must not prevent a node from starting.
pub(super) fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Vec<LayerValue>> {
    let mut values = Vec::new();
    for (name, text) in variables {
        if !name.starts_with("CONCLAVE_") || OTHER_VARIABLES.contains(&name.as_str()) {
            continue;
        }
        if let Some(key) = KEYS.iter().find(|key| key.variable() == name) {
            values.push(LayerValue {
                key,
                text,
                origin: ValueOrigin::Env(name),
            });
        } else if let Some(meant) = misspelt_variable(&name) {
            bail!(
                "the environment variable {name} is not a configuration key; did you mean {}? Rename it or unset it",
                meant.variable()
            );
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(name: &str) -> Result<Vec<LayerValue>> {
        read([(name.to_string(), "7".to_string())])
    }

    #[test]
    fn keys_are_read_and_misspelt_keys_are_errors() {
        let values = read_one("CONCLAVE_EXECUTOR_SELF_KILL").unwrap();
        assert_eq!(values[0].key.name, "executor.self_kill");
        assert_eq!(values[0].origin.to_string(), "env CONCLAVE_EXECUTOR_SELF_KILL");
        assert_eq!(
            read_one("CONCLAVE_LIMITS_DEFAULT_WALL").unwrap()[0].key.name,
            "limits.default.wall"
        );
        for other in ["PATH", "CONCLAVE_SERVER", "CONCLAVE_GATEWAY_PORT_7000_TCP"] {
            assert!(read_one(other).unwrap().is_empty(), "{other}");
        }
        let error = read_one("CONCLAVE_EXECUTOR_SLOTZ").unwrap_err().to_string();
        assert!(error.contains("CONCLAVE_EXECUTOR_SLOTS"), "{error}");
    }

    #[test]
    fn no_two_keys_share_a_variable() {
        let mut names: Vec<_> = KEYS.iter().map(|key| key.variable()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KEYS.len());
    }
}
