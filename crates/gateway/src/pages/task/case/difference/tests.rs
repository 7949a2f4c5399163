use super::*;

fn tokens() -> Check {
    Check::Tokens(TokenCheck::default())
}

/// The comparison as text: a sign and the text of each line.
fn compared(expected: &str, got: &str, check: &Check) -> Vec<String> {
    let lines = LineDifference::new(expected, got, check).lines;
    let line = |line: &ComparedLine<'_>| match *line {
        ComparedLine::Both { expected, got, text } => format!("{expected}={got} {text}"),
        ComparedLine::Missing { expected, text } => format!("-{expected} {text}"),
        ComparedLine::Extra { got, text } => format!("+{got} {text}"),
    };
    lines.iter().map(line).collect()
}

#[test]
fn lines_that_differ_are_found_between_equal_ones() {
    let check = |expected: &str, got: &str, lines: &[&str]| {
        assert_eq!(compared(expected, got, &tokens()), lines, "{expected:?} {got:?}");
    };
    check("", "", &[]);
    check("a\n", "a", &["1=1 a"]);
    check("a\nb\n", "a\nc\n", &["1=1 a", "-2 b", "+2 c"]);
    check("a\nb\nc\n", "a\nc\n", &["1=1 a", "-2 b", "3=2 c"]);
    check("a\nc\n", "a\nb\nc\n", &["1=1 a", "+2 b", "2=3 c"]);
    check(
        "1\n2\n3\n4\n",
        "2\n3\n5\n4\n",
        &["-1 1", "2=1 2", "3=2 3", "+3 5", "4=4 4"],
    );
    check("a\na\n", "a\n", &["1=1 a", "-2 a"]);
    check("a\n", "", &["-1 a"]);
    check("", "\n\n", &["+1 ", "+2 "]);
}

#[test]
fn what_the_check_ignores_is_no_difference() {
    let equal = |check: &Check, one: &str, other: &str| is_equal(check, one, other);
    assert!(equal(&tokens(), "Yes  3", " yes 3 "));
    assert!(!equal(&Check::Lines, "Yes", "yes"));
    assert!(equal(&Check::Lines, "yes  ", "yes"));
    assert!(!equal(&Check::Exact, "yes ", "yes"));
    let close = |absolute, relative| {
        Check::Tokens(TokenCheck {
            absolute_tolerance: Tolerance::new(absolute),
            relative_tolerance: Tolerance::new(relative),
            ..TokenCheck::default()
        })
    };
    assert!(equal(&close(1e-6, 0.0), "x 1.0", "x 1.0000001"));
    assert!(!equal(&close(1e-6, 0.0), "1e9", "1000000001"));
    assert!(equal(&close(0.0, 1e-6), "1e9", "1000000001"));
    assert!(!equal(&close(1e-6, 1e-6), "1.0", "nan"));
    let spaces = Check::Tokens(TokenCheck {
        space_sensitive: true,
        ..TokenCheck::default()
    });
    assert!(!equal(&spaces, "a  b", "a b"));
}

#[test]
fn a_missing_line_end_is_told_if_it_counts() {
    let shown = |check: &Check| LineDifference::new("a\n", "a", check).show().into_string();
    assert!(shown(&Check::Exact).contains("line end"));
    assert!(shown(&tokens()).contains("No line differs"));
}

#[test]
fn only_lines_around_differences_are_shown() {
    let text = |changed: usize| -> String {
        (1..=100)
            .map(|number| match number == changed {
                true => "changed\n".to_string(),
                false => format!("line {number}\n"),
            })
            .collect()
    };
    let (expected, got) = (text(0), text(50));
    let shown = LineDifference::new(&expected, &got, &tokens())
        .show()
        .into_string();
    for part in [
        "46 more lines",
        "line 47",
        "expected: ",
        "line 50",
        "changed",
        "line 53",
        "47 more lines",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(
        !shown.contains("line 46<") && !shown.contains("line 54<"),
        "{shown}"
    );
}

#[test]
fn floods_are_bounded_and_hostile_text_is_text() {
    let expected: String = (0..5_000).map(|number| format!("{number}\n")).collect();
    let got = "<script>\u{202e}x\n".repeat(5_000);
    let shown = LineDifference::new(&expected, &got, &tokens())
        .show()
        .into_string();
    assert!(shown.matches("<tr").count() <= MAX_SHOWN + 4, "{}", shown.len());
    assert!(shown.contains("Only the first 2,000 lines"), "{shown}");
    let long = "y".repeat(1 << 20);
    let shown = LineDifference::new("<b>", &long, &tokens()).show().into_string();
    assert!(
        shown.len() < 4_000 && shown.contains("&lt;b&gt;"),
        "{}",
        shown.len()
    );
    let shown = LineDifference::new("x", "<script>\u{202e}", &tokens())
        .show()
        .into_string();
    assert!(!shown.contains("<script") && shown.contains("U+202E"), "{shown}");
}
