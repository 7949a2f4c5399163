//! Schemas match what the parsers accept.

use regex::Regex;
use serde_json::Value;

use super::*;

fn json<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap()
}

fn pattern(schema: &Value) -> Regex {
    Regex::new(schema["pattern"].as_str().unwrap()).unwrap()
}

/// Texts that match a pattern are accepted by the parser, and texts that the parser refuses do not match.
fn check(pattern: &Regex, parse: impl Fn(&str) -> bool, matching: &[&str], not_matching: &[&str]) {
    for text in matching {
        assert!(pattern.is_match(text), "{text:?} should match {pattern}");
        assert!(parse(text), "{text:?} is refused");
    }
    for text in not_matching {
        assert!(!pattern.is_match(text), "{text:?} should not match {pattern}");
        assert!(!parse(text), "{text:?} is accepted");
    }
}

/// Whether a text matches a schema. Knows only the keywords that our schemas use.
fn matches_schema(schema: &Value, text: &str) -> bool {
    let length = text.chars().count() as u64;
    let all = |word: &str| schema[word].as_array();
    schema["pattern"]
        .as_str()
        .is_none_or(|_| pattern(schema).is_match(text))
        && schema["minLength"].as_u64().is_none_or(|least| length >= least)
        && schema["maxLength"].as_u64().is_none_or(|most| length <= most)
        && all("allOf").is_none_or(|all| all.iter().all(|schema| matches_schema(schema, text)))
        && all("anyOf").is_none_or(|any| any.iter().any(|schema| matches_schema(schema, text)))
}

/// Like `check`, for a schema instead of a pattern.
fn check_schema(schema: &Value, parse: impl Fn(&str) -> bool, accepted: &[&str], refused: &[&str]) {
    for text in accepted {
        assert!(matches_schema(schema, text), "{text:?} should match {schema}");
        assert!(parse(text), "{text:?} is refused");
    }
    for text in refused {
        assert!(
            !matches_schema(schema, text),
            "{text:?} should not match {schema}"
        );
        assert!(!parse(text), "{text:?} is accepted");
    }
}

#[test]
fn durations_match_their_pattern() {
    let of_text = |text: &str| text.parse::<crate::HumanDuration>();
    let positive = |text: &str| of_text(text).is_ok_and(|span| !span.0.is_zero());
    check(
        &pattern(&json::<Duration>()["oneOf"][1]),
        positive,
        &[
            "2",
            "2s",
            "250ms",
            "1m30s",
            "1.5h",
            "0.25s",
            ".5",
            "0.000000001",
            "0.001us",
            "1d2h3m4s5ms6us7ns",
            "9999d99999h9999999m999999999s",
            "1h0m0s",
            "999999999.999999999",
        ],
        &[
            "",
            "0",
            "0s",
            "-1s",
            "1x",
            "s",
            "1 fortnight",
            "1.2.3s",
            "inf",
            "nan",
            "1e3",
            "0.0ms",
            "99999999999d",
        ],
    );
    check(
        &pattern(&json::<Wait>()),
        |text| of_text(text).is_ok(),
        &["0", "0s", "10", "1m30s", "0.5"],
        &["", "-1", "soon", "1e3", "99999999999"],
    );
}

#[test]
fn sizes_match_their_pattern() {
    let at_least =
        |least: u64| move |text: &str| text.parse::<crate::ByteSize>().is_ok_and(|size| size.0 >= least);
    check(
        &pattern(&json::<Size>()["oneOf"][1]),
        at_least(1),
        &[
            "1",
            "1b",
            "17B",
            "64k",
            "64K",
            "1MB",
            "1.5MiB",
            "0.001k",
            "256 MiB",
            "999999.999TiB",
            "3gib",
            "999999999999999999",
        ],
        &[
            "",
            "0",
            "0k",
            "-1",
            "1x",
            "k",
            "1.2.3k",
            "9999999999TiB",
            "1e3",
            "MiB",
        ],
    );
    check(
        &pattern(&json::<StackSize>()["oneOf"][1]),
        at_least(model::Limits::MIN_STACK),
        &["64k", "64KiB", "100kB", "8MiB", "65536", "100000", "1G"],
        &["1", "4096", "65535", "63k", "1k", "64kB", "0", "8", "10 kB"],
    );
}

#[test]
fn names_and_paths_match_their_pattern() {
    // Data files have shorter limits than source files.
    let is_path = |path: &str| {
        let path = model::WorkspacePath::new(path);
        path.is_ok_and(|path| path.beneath("data").is_ok())
    };
    let joined = |part: &str, count: usize| vec![part; count].join("/");
    let (part, wide) = ("x".repeat(255), "\u{1f600}".repeat(63));
    check_schema(
        &serde_json::to_value(Schema::from(path())).unwrap(),
        is_path,
        &[
            "a",
            ".a",
            "..a",
            "...",
            "a/b/c",
            "a b",
            "é/ü",
            "a/.../b",
            &part,
            &wide,
            &joined("a", 31),
            &joined(&"x".repeat(254), 4),
            &joined(&wide, 3),
        ],
        &[
            "",
            ".",
            "..",
            "/a",
            "a/",
            "a//b",
            "a/./b",
            "../a",
            "a/..",
            "a\nb",
            "a\u{7f}",
            "\0",
            &format!("{part}x"),
            &format!("{wide}\u{1f600}"),
            &joined("a", 32),
            &joined("a", 40),
            &joined(&part, 4),
            &joined(&wide, 5),
        ],
    );
    check_schema(
        &json::<User>(),
        |name| model::UserName::new(name).is_ok(),
        &[
            "a",
            "Ada Lovelace",
            "ü",
            &"ü".repeat(128),
            &"\u{1f600}".repeat(128),
        ],
        &["", "a\nb", "\u{85}", &"ü".repeat(129)],
    );
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    let of = |text: &str| text.parse::<model::TaskId>().is_ok();
    check(
        &pattern(&json::<Id>()),
        of,
        &[id, &id.to_uppercase()],
        &["", "x", &id[1..], &id.replace('-', "")],
    );
    let prefixes: Vec<_> = (4..=id.len()).map(|length| &id[..length]).collect();
    check(
        &pattern(&json::<IdPrefix>()),
        |text| text.parse::<model::TaskIdPrefix>().is_ok(),
        &prefixes,
        &[
            "",
            "018",
            "x189",
            "01890a5da",
            "01890a5d-ac967",
            &format!("{id}0"),
        ],
    );
    assert!(pattern(&json::<ChosenId>()).is_match(id));
    assert!(!pattern(&json::<ChosenId>()).is_match("db421086-a7d8-5207-b64f-249780c4999b"));
    check(
        &pattern(&json::<Cursor>()),
        |text| text.parse::<model::SearchCursor>().is_ok(),
        &[
            "6498a2c1b2d3e.01890a5dac96774bbcceb302099a8057.deadbeef",
            "-1.01890a5dac96774bbcceb302099a8057.0",
        ],
        &[
            "",
            "1",
            "1.2.3",
            "ffffffffffffffff.01890a5dac96774bbcceb302099a8057.0",
        ],
    );
}

fn spec() -> model::TaskSpec {
    let new = crate::NewTask::new(model::StepCommand::Shell("true".into()));
    model::TaskSpec::new(model::UserName::new("ada").unwrap(), new.execute.command)
}

#[test]
fn commands_match_their_schema() {
    let schema = json::<Command>();
    let accepted = |text: &str| {
        let mut spec = spec();
        spec.execute.command = model::StepCommand::Shell(text.into());
        spec.check(&TaskSizeLimits::default()).is_ok()
    };
    let spaces: String = (0..=u32::from(char::MAX))
        .filter_map(char::from_u32)
        .filter(|c| c.is_whitespace())
        .collect();
    let refused: Vec<_> = spaces.chars().map(String::from).collect();
    let mut not_matching: Vec<_> = refused.iter().map(String::as_str).collect();
    let long = "x".repeat(64 << 10);
    let too_long = "x".repeat(70_000);
    not_matching.extend(["", "\0", "a\0b", &spaces, &too_long]);
    let inside = format!("{spaces}x{spaces}");
    check_schema(
        &schema["oneOf"][0],
        accepted,
        &["true", "\u{feff}", "\u{200b}", &inside, &long],
        &not_matching,
    );
    // Regular expression engines disagree about the meaning of `\s`.
    let pattern = schema["oneOf"][0]["pattern"].as_str().unwrap();
    assert!(!pattern.contains("\\s") && !pattern.contains("\\S"), "{pattern}");
}

#[test]
fn limits_in_the_schema_are_those_of_the_server() {
    let bounds = TaskSizeLimits {
        files: 3,
        command_bytes: 300,
        args: 4,
        env: 5,
        ..TaskSizeLimits::default()
    };
    let mut schemas = serde_json::json!({});
    set_task_size_limits(&mut schemas, &bounds);
    // The server accepts as much as the schema allows, and refuses one more.
    let check = |pointer: &str, set: &dyn Fn(&mut model::TaskSpec, usize)| {
        let limit = schemas.pointer(pointer).and_then(Value::as_u64);
        let limit = limit.unwrap_or_else(|| panic!("{pointer} is missing: {schemas}"));
        let accepted = |count: u64| {
            let mut spec = spec();
            set(&mut spec, usize::try_from(count).unwrap());
            spec.check(&bounds).is_ok()
        };
        assert!(accepted(limit), "{pointer}: {limit} is refused");
        assert!(!accepted(limit + 1), "{pointer}: {} is accepted", limit + 1);
    };
    let words = |count: usize| vec!["x".to_string(); count];
    check("/Command/oneOf/0/maxLength", &|spec, count| {
        spec.execute.command = model::StepCommand::Shell("x".repeat(count));
    });
    check("/Command/oneOf/1/maxItems", &|spec, count| {
        spec.execute.command = model::StepCommand::Argv(words(count));
    });
    check("/Command/oneOf/1/items/maxLength", &|spec, count| {
        spec.execute.command = model::StepCommand::Argv(vec!["x".repeat(count)]);
    });
    check("/Word/maxLength", &|spec, count| {
        spec.execute.args = vec!["x".repeat(count)];
    });
    check("/Execute/properties/args/maxItems", &|spec, count| {
        spec.execute.args = words(count);
    });
    check("/Environment/maxProperties", &|spec, count| {
        spec.execute.env = (0..count).map(|n| (n.to_string(), String::new())).collect();
    });
    let longest = |kind: &str| schemas["Environment"][kind]["maxLength"].as_u64().unwrap();
    let name = "n".repeat(usize::try_from(longest("propertyNames")).unwrap());
    check("/Environment/additionalProperties/maxLength", &|spec, count| {
        spec.execute.env = [(name.clone(), "x".repeat(count))].into();
    });
    check("/Files/oneOf/0/maxProperties", &|spec, count| {
        let file = model::TaskFile {
            content: model::Content::empty(),
            executable: false,
        };
        let paths = (0..count).map(|n| model::WorkspacePath::new(n.to_string()).unwrap());
        spec.source = paths.map(|path| (path, file.clone())).collect();
    });
}

#[test]
fn base64_matches_its_pattern() {
    use base64::Engine;
    let schema = json::<Content>();
    check(
        &pattern(&schema["oneOf"][2]["properties"]["base64"]),
        |text| base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        &["", "//79", "YQ==", "YWI=", "YWJj"],
        &["YQ", "YQ=", "YR==", "YWJ=", "Y-==", "YQ==\n"],
    );
}

#[test]
fn examples_are_accepted() {
    let files = json::<Files>();
    for example in files["oneOf"][0]["examples"].as_array().unwrap() {
        serde_json::from_value::<crate::FilesOrZip>(example.clone()).unwrap();
    }
    for (schema, is_duration) in [
        (json::<Duration>(), true),
        (json::<Size>(), false),
        (json::<StackSize>(), false),
    ] {
        for form in schema["oneOf"].as_array().unwrap() {
            for example in form["examples"].as_array().into_iter().flatten() {
                let accepted = match is_duration {
                    true => serde_json::from_value::<crate::HumanDuration>(example.clone()).is_ok(),
                    false => serde_json::from_value::<crate::ByteSize>(example.clone()).is_ok(),
                };
                assert!(accepted, "{example}");
            }
        }
    }
}

#[test]
fn patterns_groups_and_labels_match_their_schema() {
    check_schema(
        &json::<KeepPattern>(),
        |text| model::KeepPattern::new(text).is_ok(),
        &[
            "report.pdf",
            "out/*.csv",
            "*",
            "**",
            "**/*.log",
            "a/**/b",
            "?",
            "a*b*c",
            ".a",
            "..a",
            ".*",
            "..*",
            "...",
            "*.*",
            "é*",
            "a/.b/..c/*",
        ],
        &[
            "", ".", "..", "/a", "a/", "a//b", "a/./b", "../a", "a/..", "a**", "**a", "a**b", "***", ".**",
            "..**", "a\nb", "*/",
        ],
    );
    let longest = "x".repeat(128);
    check_schema(
        &json::<GroupName>(),
        |text| model::GroupName::new(text).is_ok(),
        &["a", "sweep 17", ".a", "..a", "...", "é", &longest],
        &["", ".", "..", "a/b", "/", "a\nb", &format!("{longest}x")],
    );
    check_schema(
        &json::<GroupCursor>(),
        |text| text.parse::<crate::GroupCursor>().is_ok(),
        &["ada/sweep-17", "lab/ada/.a", "a/..b"],
        &["", "ada", "ada/", "/g", "ada/.", "ada/.."],
    );
    let parse_label = |text: &str| crate::parse_query([("label", text)]).is_ok();
    check_schema(
        &json::<Label>(),
        parse_label,
        &[
            "a:b",
            "a/b.c-d_e:",
            "a:b:c",
            "a:é ü",
            &format!("{}:{}", "k".repeat(64), "v".repeat(256)),
        ],
        &[
            "a",
            ":b",
            "a b:c",
            "é:x",
            "a:\n",
            &format!("{}:", "k".repeat(65)),
            &format!("a:{}", "v".repeat(257)),
        ],
    );
    let labels = json::<Labels>();
    assert_eq!(labels["maxProperties"], 16);
    for pair in ["a:b", "a/b.c-d_e:"] {
        let (key, value) = pair.split_once(':').unwrap();
        assert!(
            matches_schema(&labels["propertyNames"], key)
                && matches_schema(&labels["additionalProperties"], value)
        );
    }
}

#[test]
fn names_of_judging_match_their_pattern() {
    let long = "x".repeat(65);
    check(
        &pattern(&json::<ProblemName>()),
        |name| model::ProblemName::new(name).is_ok(),
        &["a", "A-plus_b.2", "0", &long[1..]],
        &["", ".hidden", "-a", "a/b", "a b", "ü", &long],
    );
    check_schema(
        &json::<CaseName>(),
        |name| model::CaseName::new(name).is_ok(),
        &["1", "secret/01 large", "ü", &"\u{1f600}".repeat(128)],
        &["", "a\nb", "\0", &"x".repeat(129)],
    );
}
