//! How a problem or a task is judged, in words.

use model::{Check, GroupScoring, JudgeProgram, StopRule, TokenCheck};

/// What the check does.
pub(in crate::pages) fn check_words(check: &Check) -> String {
    match check {
        Check::None => "Every output is accepted".into(),
        Check::Exact => "The output must be equal byte by byte".into(),
        Check::Lines => "The lines must be equal; blanks at their ends do not count".into(),
        Check::Tokens(tokens) => token_words(tokens),
        Check::Program(program) => format!("A program checks each output{}", program_words(program)),
        Check::Interactive(program) => {
            format!("A program talks with the submission{}", program_words(program))
        }
    }
}

fn token_words(tokens: &TokenCheck) -> String {
    let mut words = "The words must be equal".to_string();
    if tokens.case_sensitive {
        words.push_str(", in upper and lower case");
    }
    if tokens.space_sensitive {
        words.push_str(", with the blanks between them");
    }
    let tolerances = [
        ("absolutely", tokens.absolute_tolerance),
        ("relatively", tokens.relative_tolerance),
    ];
    let tolerances: Vec<_> = tolerances
        .into_iter()
        .filter_map(|(how, tolerance)| Some(format!("by {:e} {how}", tolerance?.as_f64())))
        .collect();
    if !tolerances.is_empty() {
        words.push_str(&format!("; numbers may differ {}", tolerances.join(" or ")));
    }
    words
}

fn program_words(program: &JudgeProgram) -> String {
    let language = program.language.as_ref().map(|language| format!("{language}, "));
    format!(
        " ({}protocol {})",
        language.unwrap_or_default(),
        program.protocol.as_str()
    )
}

/// What happens after a case that is not accepted.
pub(in crate::pages) fn stop_words(stop: StopRule) -> &'static str {
    match stop {
        StopRule::Never => "All cases run",
        StopRule::FirstFailure => "The first case that is not accepted ends the run",
    }
}

/// How the points of the cases of a group add up.
pub(in crate::pages) fn scoring_words(scoring: GroupScoring) -> &'static str {
    match scoring {
        GroupScoring::Sum => "the sum of its cases",
        GroupScoring::Min => "the least points of its cases",
        GroupScoring::PassAll => "the sum of its cases if all are accepted",
    }
}

#[cfg(test)]
mod tests {
    use model::Tolerance;

    use super::*;

    #[test]
    fn a_check_is_described() {
        let check = |check: Check, expected: &str| assert_eq!(check_words(&check), expected);
        check(Check::Exact, "The output must be equal byte by byte");
        check(Check::Tokens(TokenCheck::default()), "The words must be equal");
        let tokens = TokenCheck {
            case_sensitive: true,
            space_sensitive: false,
            absolute_tolerance: Tolerance::new(1e-6),
            relative_tolerance: Tolerance::new(1e-9),
        };
        check(
            Check::Tokens(tokens),
            "The words must be equal, in upper and lower case; numbers may differ by 1e-6 absolutely or by 1e-9 relatively",
        );
    }
}
