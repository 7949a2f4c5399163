//! The encoded form of the judgement on a task with cases.

use std::time::Duration;

use model::{Judgement, Points, Verdict};
use serde::{Deserialize, Serialize};

use super::spec::ContentDocument;

/// The encoded form of a `Judgement` in a stored task result.
#[derive(Serialize, Deserialize)]
pub(super) struct JudgementDocument<'a> {
    verdict: &'a str,
    /// Millionths of a point.
    score: u64,
    max_score: u64,
    /// The names of the verdicts that the marks have. A number would depend on the order of the variants in the model.
    names: Vec<&'a str>,
    /// For each case, the place of its verdict in `names`.
    marks: Vec<u8>,
    max_cpu: Duration,
    max_memory: u64,
    #[serde(borrow)]
    cases: ContentDocument<'a>,
}

impl<'a> From<&'a Judgement> for JudgementDocument<'a> {
    fn from(judgement: &'a Judgement) -> JudgementDocument<'a> {
        let Judgement {
            verdict,
            score,
            max_score,
            marks,
            max_cpu,
            max_memory,
            cases,
        } = judgement;
        let mut names: Vec<&str> = vec![];
        let mut place = |mark: &Verdict| {
            let name = mark.as_str();
            let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            // There are far fewer verdicts than 256.
            u8::try_from(place).unwrap_or(u8::MAX)
        };
        JudgementDocument {
            verdict: verdict.as_str(),
            score: score.millionths(),
            max_score: max_score.millionths(),
            marks: marks.iter().map(&mut place).collect(),
            names,
            max_cpu: *max_cpu,
            max_memory: *max_memory,
            cases: cases.into(),
        }
    }
}

impl TryFrom<JudgementDocument<'_>> for Judgement {
    type Error = postcard::Error;

    fn try_from(document: JudgementDocument<'_>) -> Result<Judgement, postcard::Error> {
        let verdict = |name: &str| {
            let verdict: Result<Verdict, String> = name.parse();
            verdict.map_err(|_| postcard::Error::SerdeDeCustom)
        };
        let names: Vec<_> = document
            .names
            .into_iter()
            .map(verdict)
            .collect::<Result<_, _>>()?;
        let mark = |place: u8| names.get(usize::from(place)).copied();
        let marks: Option<_> = document.marks.into_iter().map(mark).collect();
        Ok(Judgement {
            verdict: verdict(document.verdict)?,
            score: Points::from_millionths(document.score),
            max_score: Points::from_millionths(document.max_score),
            marks: marks.ok_or(postcard::Error::SerdeDeCustom)?,
            max_cpu: document.max_cpu,
            max_memory: document.max_memory,
            cases: document.cases.into(),
        })
    }
}
