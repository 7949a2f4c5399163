use super::*;

fn read(json: &str) -> Check {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

#[test]
fn checks_are_read_in_every_form_and_written_in_one() {
    let check = |json: &str, written: &str| {
        let parsed = read(json);
        assert_eq!(serde_json::to_string(&parsed).unwrap(), written, "{json}");
        assert_eq!(read(written), parsed, "{json}");
    };
    for kind in ["none", "exact", "lines"] {
        let json = format!(r#"{{"kind":"{kind}"}}"#);
        check(&json, &json);
    }
    let tokens = r#"{"kind":"tokens","case_sensitive":false,"space_sensitive":false}"#;
    check(r#"{"kind": "tokens"}"#, tokens);
    check(
        r#"{"case_sensitive": true, "kind": "tokens", "space_sensitive": true}"#,
        r#"{"kind":"tokens","case_sensitive":true,"space_sensitive":true}"#,
    );
    let with = |tolerances: &str| tokens.replace('}', &format!(",{tolerances}}}"));
    check(
        r#"{"kind": "tokens", "float_tolerance": 1e-6}"#,
        &with(r#""float_absolute_tolerance":1e-6,"float_relative_tolerance":1e-6"#),
    );
    check(
        r#"{"kind": "tokens", "float_absolute_tolerance": 0}"#,
        &with(r#""float_absolute_tolerance":0.0"#),
    );
    // The more specific one counts.
    check(
        r#"{"kind": "tokens", "float_tolerance": 0.5, "float_relative_tolerance": 0.25}"#,
        &with(r#""float_absolute_tolerance":0.5,"float_relative_tolerance":0.25"#),
    );
    check(
        r#"{"kind": "program", "protocol": "testlib", "language": "CPP", "source": {"check.cpp": "x"}, "args": []}"#,
        r#"{"kind":"program","protocol":"testlib","language":"cpp","source":{"check.cpp":"x"}}"#,
    );
    let whole = r#"{"kind":"program","protocol":"icpc","root":"contest","source_code":"x","compile":{"command":"a","env":{},"network":null,"limits":LIMITS},"command":["./v","-x"],"args":["strict"],"env":{"A":"b"}}"#;
    let limits = serde_json::to_string(&Limits::default()).unwrap();
    let whole = whole.replace("LIMITS", &limits);
    check(&whole, &whole);
}
