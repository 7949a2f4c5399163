//! Derives mongod's key file and Conclave's MongoDB login from the cluster's secret.
//!
//! The secret itself is given to no server. Each derived value has its own label, so that none of them reveals another.

use sha2::{Digest, Sha256};

/// The user and the password with which judicators log in.
pub fn login_from_secret(secret: &str) -> (String, String) {
    ("conclave".to_string(), derive("mongodb user", secret))
}

/// The content of the key file, with which the members of a replica set authenticate each other.
pub(crate) fn key_file_content(secret: &str) -> String {
    derive("mongodb key", secret)
}

fn derive(label: &str, secret: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(b"conclave ");
    hash.update(label);
    hash.update(b"\0");
    hash.update(secret);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_values_differ_by_label_and_secret_and_never_change() {
        let (user, password) = login_from_secret("correct horse battery");
        assert_eq!(user, "conclave");
        assert_eq!(password.len(), 64);
        assert_ne!(password, key_file_content("correct horse battery"));
        assert_ne!(password, login_from_secret("correct horse batterz").1);
        // A changed value would lock running clusters out.
        assert_eq!(
            key_file_content("correct horse battery"),
            derive("mongodb key", "correct horse battery")
        );
    }
}
