//! Reads what a program that judges has left in its feedback folder.
//!
//! A program that judges is somebody's code like any other: its files may be links, pipes, endless or no text.

use std::fs::File;
use std::io::Read;

use model::Points;
use nix::errno::Errno;
use sandbox::{OpenPurpose, WardenError};

use super::super::step::on_warden_error;
use super::super::{RunContext, RunFailure};
use super::program::FEEDBACK;
use crate::attempt_control::AttemptRevoked;
use crate::slot_pool::ReadyWarden;

/// How many bytes of each message are kept.
const MAX_MESSAGE: usize = 4 << 10;

/// The files of the feedback folder of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Feedback {
    /// For the user who submitted the program.
    pub(super) team_message: String,
    /// For the owner of the cases.
    pub(super) judge_message: String,
    score: Option<String>,
    score_multiplier: Option<String>,
}

pub(super) fn read_feedback(
    context: RunContext<'_>,
    cell: &mut ReadyWarden<'_>,
) -> Result<Feedback, RunFailure> {
    context
        .control()
        .start_operation("read the messages of the program that judges")
        .map_err(|AttemptRevoked| RunFailure::Revoked)?;
    let mut folder = match cell.workspace.open_directory(cell.warden) {
        Ok(folder) => folder,
        // Without a cell, the program can remove its workspace.
        Err(_) => return Ok(Feedback::default()),
    };
    let mut read = |name: &str| -> Result<Option<String>, WardenError> {
        let path = format!("{FEEDBACK}/{name}");
        let opened = folder.open(path.as_bytes(), OpenPurpose::Content)?;
        Ok(opened.and_then(read_text).ok())
    };
    let mut read_all = || -> Result<Feedback, WardenError> {
        Ok(Feedback {
            judge_message: read("judgemessage.txt")?.unwrap_or_default(),
            team_message: read("teammessage.txt")?.unwrap_or_default(),
            score: read("score.txt")?,
            score_multiplier: read("score_multiplier.txt")?,
        })
    };
    let feedback = read_all();
    drop(folder);
    feedback.map_err(|error| on_warden_error(context, cell.workspace, error))
}

/// The beginning of a regular file.
fn read_text(file: File) -> nix::Result<String> {
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        return Err(Errno::EINVAL);
    }
    let mut bytes = Vec::new();
    file.take(MAX_MESSAGE as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| Errno::EIO)?;
    Ok(shortened(&bytes, MAX_MESSAGE))
}

/// The first bytes as text, with a mark if there are more.
pub(super) fn shortened(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
    match bytes.len() > most {
        true => format!("{text}..."),
        false => text.into_owned(),
    }
}

impl Feedback {
    /// The points that the files give to a case that is worth so many. The error says what is wrong with them.
    pub(super) fn score(&self, worth: Points) -> Result<Option<Points>, String> {
        if let Some(score) = &self.score {
            return parse_points("score.txt", score, 1.0).map(Some);
        }
        let multiplier = self.score_multiplier.as_ref();
        multiplier
            .map(|multiplier| parse_points("score_multiplier.txt", multiplier, worth.as_f64()))
            .transpose()
    }
}

fn parse_points(file: &str, text: &str, factor: f64) -> Result<Points, String> {
    let number = text.trim().parse::<f64>().ok();
    let points = number.and_then(|number| Points::from_f64(number * factor));
    points.ok_or_else(|| {
        let found = shortened(text.trim().as_bytes(), 100);
        let most = Points::MAX;
        format!(
            "the program that judges wrote '{found}' to {file}, which is no number of points from 0 to {most}"
        )
    })
}

/// The points that a testlib checker gives on stderr: `points X`. `None` if there are none.
pub(super) fn testlib_points(stderr: &str) -> Result<Option<Points>, String> {
    let mut words = stderr.split_whitespace();
    let number = match words.next() {
        Some("points") => words.next().and_then(|word| word.parse().ok()),
        _ => None,
    };
    Ok(number.and_then(Points::from_f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_from_either_file() {
        let check = |score: Option<&str>, multiplier: Option<&str>, expected: Option<Option<f64>>| {
            let feedback = Feedback {
                score: score.map(Into::into),
                score_multiplier: multiplier.map(Into::into),
                ..Feedback::default()
            };
            let found = feedback.score(Points::from_f64(20.0).unwrap());
            assert_eq!(
                found.ok(),
                expected.map(|points| points.and_then(Points::from_f64)),
                "{score:?}"
            );
        };
        check(None, None, Some(None));
        check(Some("12.5\n"), None, Some(Some(12.5)));
        check(None, Some(" 0.25"), Some(Some(5.0)));
        check(Some("1"), Some("0.25"), Some(Some(1.0)));
        for wrong in ["", "x", "-1", "nan", "inf", "1e300"] {
            check(Some(wrong), None, None);
        }
    }

    #[test]
    fn points_of_testlib_are_on_stderr() {
        let check = |stderr: &str, expected: Option<f64>| {
            let expected = expected.and_then(Points::from_f64);
            assert_eq!(testlib_points(stderr), Ok(expected), "{stderr}");
        };
        check("points 7.5 good\n", Some(7.5));
        check("\npoints 0", Some(0.0));
        check("points", None);
        check("points x", None);
        check("points -3", None);
        check("ok 7", None);
        check("", None);
    }

    #[test]
    fn messages_are_cut_and_become_text() {
        assert_eq!(shortened(b"abc", 3), "abc");
        assert_eq!(shortened(b"abcd", 3), "abc...");
        assert_eq!(shortened(b"\xff", 3), "\u{fffd}");
    }
}
