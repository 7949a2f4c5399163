use std::path::Path;

use super::YamlFile;

fn parse(text: &str) -> Result<YamlFile, String> {
    YamlFile::parse(Path::new("x.yaml"), text).map_err(|error| error.to_string())
}

#[test]
fn broken_files_are_refused_with_their_line() {
    let deep = "[".repeat(40);
    for (text, expected) in [
        ("a: 1\nb: [1, 2\nc: 3\n", "x.yaml:3: broken YAML: "),
        ("a: 1\na: 2\n", "x.yaml:2: broken YAML: the key 'a' twice"),
        ("a: \"open\n", "x.yaml:"),
        (
            "? [a]\n: 1\n",
            "x.yaml:1: broken YAML: a key that is no plain text",
        ),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: broken YAML: a second document"),
        ("a: &x [*x]\n", "x.yaml:1: broken YAML: "),
        (&deep, "x.yaml:1: broken YAML: "),
    ] {
        let found = parse(text).unwrap_err();
        assert!(found.starts_with(expected), "{text:?}: {found}");
    }
}

#[test]
fn aliases_cannot_fill_the_memory() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let alias = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", "));
    }
    assert!(parse(&text).unwrap_err().contains("more than 100000 values"));
}

#[test]
fn values_are_found_by_their_keys() {
    let file =
        parse("\u{feff}limits: {time: 1.5, memory: &m 2048}\nempty:\nnone: ~\nother: *m\nwords: a  b\n")
            .unwrap();
    let view = file.view().unwrap();
    let limits = view.get("limits").unwrap();
    assert_eq!(limits.get("time").unwrap().number().unwrap(), 1.5);
    assert_eq!(view.get("other").unwrap().text().unwrap(), "2048");
    assert_eq!(view.get("words").unwrap().words().unwrap(), ["a", "b"]);
    assert!(view.get("empty").is_none() && view.get("none").is_none() && view.get("missing").is_none());
    let found = limits.get("time").unwrap().boolean().unwrap_err().to_string();
    assert_eq!(found, "x.yaml:1: limits.time must be true or false, not '1.5'");
    assert!(parse("").unwrap().view().unwrap().entries().is_empty());
    let found = parse("- a\n").unwrap().view().unwrap_err().to_string();
    assert_eq!(found, "x.yaml:1: broken YAML: a mapping (key: value) is expected");
}
