//! Names and values, one below the other.

use std::fmt;

use super::table::on_one_line;

#[derive(Default)]
pub(crate) struct Pairs {
    pairs: Vec<(String, String)>,
}

impl Pairs {
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl ToString) {
        self.pairs.push((name.into(), on_one_line(&value.to_string())));
    }

    /// Nothing is said of what is not there.
    pub(crate) fn add_if_some(&mut self, name: impl Into<String>, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

impl fmt::Display for Pairs {
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
    fn values_line_up() {
        let mut pairs = Pairs::default();
        pairs.add("id", 7);
        pairs.add("status", "run_failed");
        pairs.add_if_some("executor", None::<String>);
        assert_eq!(pairs.to_string(), "id      7\nstatus  run_failed\n");
    }
}
