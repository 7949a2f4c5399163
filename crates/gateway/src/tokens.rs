//! The tokens of the server: a file with a line `TOKEN USER` for each token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use model::{NameError, UserName};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The API tokens that the gateway accepts and their users, read from a file. Clones share the tokens, so `reload`
/// changes them for all clones.
///
/// Only hashes of tokens are in memory, so that no token can end up in a log or a core dump.
#[derive(Clone)]
pub struct Tokens {
    path: PathBuf,
    entries: Arc<RwLock<Vec<TokenEntry>>>,
}

/// The hash of an API token that the gateway accepts, and the user of the token.
struct TokenEntry {
    hash: [u8; 32],
    user: UserName,
}

/// Why the gateway cannot use the file of API tokens.
#[derive(Debug, Error)]
pub enum TokensError {
    #[error("cannot read the tokens in {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{path} contains no tokens; write a line `TOKEN USER` for each token")]
    Empty { path: PathBuf },
    #[error("line {line} of {path} has no user; write `TOKEN USER`")]
    MissingUser { path: PathBuf, line: usize },
    #[error("line {line} of {path}: the user {source}")]
    InvalidUser {
        path: PathBuf,
        line: usize,
        source: NameError,
    },
    #[error("line {line} of {path}: the token has {actual} characters; use at least {limit}")]
    TooShort {
        path: PathBuf,
        line: usize,
        limit: usize,
        actual: usize,
    },
    #[error("line {line} of {path} repeats the token of an earlier line")]
    Duplicate { path: PathBuf, line: usize },
}

/// Shorter tokens could be guessed.
const MIN_TOKEN_LENGTH: usize = 16;

impl Tokens {
    /// Reads a file of tokens. Empty lines and lines that begin with `#` are skipped.
    pub fn load(path: &Path) -> Result<Tokens, TokensError> {
        Ok(Tokens {
            path: path.to_path_buf(),
            entries: Arc::new(RwLock::new(read_file(path)?)),
        })
    }

    /// Reads the file again, for all clones. On an error, the old tokens stay valid.
    pub fn reload(&self) -> Result<(), TokensError> {
        let entries = read_file(&self.path)?;
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = entries;
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user of a token. Takes the same time for every token, valid or not, against timing attacks.
    pub(crate) fn user(&self, token: &str) -> Option<UserName> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let found = entries.iter().fold(None, |found, entry| {
            let differs = entry
                .hash
                .iter()
                .zip(hash)
                .fold(0, |differs, (one, other)| differs | (one ^ other));
            if differs == 0 { Some(&entry.user) } else { found }
        });
        found.cloned()
    }
}

fn read_file(path: &Path) -> Result<Vec<TokenEntry>, TokensError> {
    let text = std::fs::read_to_string(path).map_err(|source| TokensError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    let mut entries: Vec<TokenEntry> = Vec::new();
    for (index, content) in text.lines().enumerate() {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let entry = parse_line(path, index + 1, content)?;
        if entries.iter().any(|other| other.hash == entry.hash) {
            return Err(TokensError::Duplicate {
                path: path.to_path_buf(),
                line: index + 1,
            });
        }
        entries.push(entry);
    }
    if entries.is_empty() {
        return Err(TokensError::Empty {
            path: path.to_path_buf(),
        });
    }
    Ok(entries)
}

fn parse_line(path: &Path, line: usize, content: &str) -> Result<TokenEntry, TokensError> {
    let path = path.to_path_buf();
    let Some((token, user)) = content.split_once(char::is_whitespace) else {
        return Err(TokensError::MissingUser { path, line });
    };
    if token.len() < MIN_TOKEN_LENGTH {
        return Err(TokensError::TooShort {
            path,
            line,
            limit: MIN_TOKEN_LENGTH,
            actual: token.len(),
        });
    }
    match UserName::new(user.trim()) {
        Ok(user) => Ok(TokenEntry {
            hash: Sha256::digest(token).into(),
            user,
        }),
        Err(source) => Err(TokensError::InvalidUser { path, line, source }),
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Tokens({} entries)", entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Tokens, TokensError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        Tokens::load(&path)
    }

    #[test]
    fn tokens_belong_to_users() {
        let tokens = load("# staff\n\n0123456789abcdef ada\nfedcba9876543210\tAlan Turing\n").unwrap();
        let check = |token: &str, user: Option<&str>| {
            assert_eq!(tokens.user(token).as_ref().map(UserName::as_str), user);
        };
        check("0123456789abcdef", Some("ada"));
        check("fedcba9876543210", Some("Alan Turing"));
        check("0123456789abcdeg", None);
        check("", None);
        assert!(!format!("{tokens:?}").contains("0123"));
    }

    #[test]
    fn errors_name_the_line_but_not_the_token() {
        let check = |text: &str, problem: &str| {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
            assert!(!error.contains("0123456789abcdef"), "{error}");
        };
        check("", "contains no tokens");
        check("0123456789abcdef", "line 1");
        check("short ada", "at least 16");
        check("0123456789abcdef ada\n0123456789abcdef bob", "line 2");
        check("0123456789abcdef \u{7}", "control");
    }

    #[test]
    fn a_reload_reaches_every_clone_and_a_bad_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "0123456789abcdef ada\n").unwrap();
        let tokens = Tokens::load(&path).unwrap();
        let in_use = tokens.clone();
        std::fs::write(&path, "fedcba9876543210 bob\n").unwrap();
        tokens.reload().unwrap();
        assert_eq!(in_use.user("0123456789abcdef"), None);
        assert!(in_use.user("fedcba9876543210").is_some());

        std::fs::write(&path, "fedcba9876543210 bob\nshort ada\n").unwrap();
        let wrong = tokens.reload().unwrap_err().to_string();
        assert!(wrong.contains("line 2") && wrong.contains("tokens"), "{wrong}");
        assert!(in_use.user("fedcba9876543210").is_some());
    }
}
