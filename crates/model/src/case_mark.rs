//! Marks of cases as they come: what a follower of a judged task sees while it runs.

use std::fmt;
use std::str::FromStr;

use crate::{CaseName, Judgement, Judging, Verdict};

/// The verdict on one case of a task that still runs. The live stdout of a judged task has one line for each:
/// `INDEX VERDICT NAME`, in the order in which cases end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseMark {
    /// The place of the case in its task, from 0.
    pub index: usize,
    pub name: CaseName,
    pub verdict: Verdict,
}

impl CaseMark {
    /// The marks of a task that has ended, in the order of its cases.
    pub fn of_judgement<'a>(
        judging: &'a Judging,
        judgement: &'a Judgement,
    ) -> impl Iterator<Item = CaseMark> + 'a {
        let cases = judging.cases.iter().zip(&judgement.marks).enumerate();
        cases.map(|(index, (case, verdict))| CaseMark {
            index,
            name: case.name.clone(),
            verdict: *verdict,
        })
    }
}

impl fmt::Display for CaseMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CaseMark { index, name, verdict } = self;
        write!(f, "{index} {verdict} {name}")
    }
}

impl FromStr for CaseMark {
    type Err = String;

    fn from_str(line: &str) -> Result<CaseMark, String> {
        let wrong = || format!("'{line}' is not the mark of a case");
        let mut parts = line.splitn(3, ' ');
        let mut next = || parts.next().ok_or_else(wrong);
        let (index, verdict, name) = (next()?, next()?, next()?);
        Ok(CaseMark {
            index: index.parse().map_err(|_| wrong())?,
            name: CaseName::new(name).map_err(|_| wrong())?,
            verdict: verdict.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = CaseMark {
            index: 12,
            name: CaseName::new("secret/02 large").unwrap(),
            verdict: Verdict::WrongAnswer,
        };
        assert_eq!(mark.to_string(), "12 wrong_answer secret/02 large");
        assert_eq!(mark.to_string().parse(), Ok(mark));
        for wrong in ["", "1", "1 accepted", "x accepted a", "1 good a"] {
            assert!(wrong.parse::<CaseMark>().is_err(), "{wrong}");
        }
    }
}
