//! A list of names and values.

use std::fmt;

use super::table::sanitize_cell;

/// Names and values that a client command prints, one pair on each line, with the values aligned.
#[derive(Default)]
pub(crate) struct KeyValueList {
    pairs: Vec<(String, String)>,
}

impl KeyValueList {
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl ToString) {
        self.pairs.push((name.into(), sanitize_cell(&value.to_string())));
    }

    pub(crate) fn add_if_some(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

impl fmt::Display for KeyValueList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .pairs
            .iter()
            .map(|(name, _)| name.chars().count())
            .max()
            .unwrap_or(0);
        for (name, value) in &self.pairs {
            writeln!(f, "{}", format!("{name:<width$}  {value}").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_aligned() {
        let mut list = KeyValueList::default();
        list.add("id", 7);
        list.add("status", "run_failed");
        list.add_if_some("executor", None::<String>);
        assert_eq!(list.to_string(), "id      7\nstatus  run_failed\n");
    }
}
