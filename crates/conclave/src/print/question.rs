//! Questions to the user before something that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Result, bail};

/// Asks on the terminal. Without a terminal there is nobody to ask, and `without_terminal` is the error.
pub(crate) fn confirm(question: &str, without_terminal: &str) -> Result<bool> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        bail!("{without_terminal}");
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(is_yes(&answer))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_is_a_yes() {
        for answer in ["y\n", "Yes\n", " y "] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n\n", "yes please\n"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }
}
