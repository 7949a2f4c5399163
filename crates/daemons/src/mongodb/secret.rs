//! What is derived from the cluster's secret: mongod's key file, and the user that Conclave logs in as.
//!
//! The secret itself is given to nobody. Each use has a label of its own, so that knowing one does not tell another.

use sha2::{Digest, Sha256};

/// The user whom judicators log in as, and the password.
pub fn login(secret: &str) -> (String, String) {
    ("conclave".to_string(), derived("mongodb user", secret))
}

/// What the members of a replica set know each other by: the content of the key file.
pub(crate) fn key(secret: &str) -> String {
    derived("mongodb key", secret)
}

fn derived(label: &str, secret: &str) -> String {
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
    fn what_is_derived_differs_by_label_and_secret_and_stays_the_same() {
        let (user, password) = login("correct horse battery");
        assert_eq!(user, "conclave");
        assert_eq!(password.len(), 64);
        assert_ne!(password, key("correct horse battery"));
        assert_ne!(password, login("correct horse batterz").1);
        // Running clusters rely on it: another value here locks them out.
        assert_eq!(
            key("correct horse battery"),
            derived("mongodb key", "correct horse battery")
        );
    }
}
