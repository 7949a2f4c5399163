use super::*;

fn form(controls: &[(&str, &str)]) -> RunForm {
    let mut form = RunForm::default();
    for (name, value) in controls {
        form.take(name, value.to_string()).unwrap();
    }
    form
}

#[test]
fn a_form_is_the_task_of_the_api() {
    let check = |controls: &[(&str, &str)], expected: Value| {
        assert_eq!(form(controls).to_json().unwrap(), expected, "{controls:?}");
        let read: NewTask = serde_json::from_value(expected).unwrap();
        assert_eq!(form(controls).to_task().unwrap(), read, "{controls:?}");
    };
    check(
        &[
            ("language", "python"),
            ("path", "main.py"),
            ("text", "print(1)\r\n"),
            ("execute.input", ""),
        ],
        json!({"language": "python", "source": {"main.py": "print(1)\n"}}),
    );
    check(
        &[("language", "java"), ("path", ""), ("text", "class A {}")],
        json!({"language": "java", "source_code": "class A {}"}),
    );
    check(
        &[
            ("path", "run.sh"),
            ("text", "echo $1"),
            ("executable", "true"),
            ("path", "data/in.bin"),
            ("base64", "AP8="),
            ("path", ""),
            ("text", ""),
            ("compile.command", "true"),
            ("compile.env", "A=1\r\nB='two words'"),
            ("compile.limits.wall", " 10s "),
            ("execute.command", "./run.sh"),
            ("execute.args", "a 'b c'"),
            ("execute.input", "x\r\ny"),
            ("execute.limits.processes", "7"),
            ("execute.limits.memory", "64MiB"),
            ("execute.network", "lan"),
            ("keep", "*.txt 'a b'"),
            ("labels", "k=v"),
            ("group", "g"),
            ("priority", "-3"),
            ("attempts", "2"),
            ("wait_for_executor", "true"),
        ],
        json!({
            "source": {"run.sh": {"text": "echo $1", "executable": true}},
            "data": {"in.bin": {"base64": "AP8=", "executable": false}},
            "compile": {"command": "true", "env": {"A": "1", "B": "two words"}, "limits": {"wall": "10s"}},
            "execute": {
                "command": "./run.sh", "args": ["a", "b c"], "input": "x\ny", "network": "lan",
                "limits": {"processes": 7, "memory": "64MiB"},
            },
            "keep": ["*.txt", "a b"],
            "labels": {"k": "v"},
            "group": "g",
            "priority": -3,
            "attempts": 2,
            "wait_for_executor": true,
        }),
    );
    let blob = "0".repeat(64);
    check(
        &[
            ("execute.command", "cat"),
            ("execute.input", ""),
            ("input_blob", &blob),
        ],
        json!({"execute": {"command": "cat", "input": {"blob": blob}}}),
    );
    // A text takes the place of an input that is not shown.
    check(
        &[
            ("execute.command", "cat"),
            ("execute.input", "x"),
            ("input_blob", &blob),
        ],
        json!({"execute": {"command": "cat", "input": "x"}}),
    );
}

#[test]
fn uploads_are_files_of_the_task() {
    let upload = |path: &str| UploadedFile {
        path: path.to_string(),
        bytes: Bytes::from_static(b"\0\xff"),
    };
    let mut form = form(&[("execute.command", "ls"), ("path", "a"), ("text", "x")]);
    form.uploads = vec![upload("big.bin"), upload("data/in.bin")];
    form.uploaded_input = Some(Bytes::from_static(b"\xff"));
    let task = form.to_task().unwrap();
    let paths = |files: &api::FilesOrZip| match files {
        api::FilesOrZip::ByPath(files) => files.keys().map(ToString::to_string).collect::<Vec<_>>(),
        api::FilesOrZip::Zip(_) => vec![],
    };
    assert_eq!(
        (paths(&task.source), paths(&task.data)),
        (vec!["a".into(), "big.bin".into()], vec!["in.bin".into()])
    );
    assert_eq!(task.execute.input, Content::Inline(Bytes::from_static(b"\xff")));
    let mut twice = form.clone();
    twice.uploads.push(upload("a"));
    assert_eq!(twice.to_task().unwrap_err().field, "source.a");
    form.set("execute.input", "text");
    assert_eq!(form.to_task().unwrap_err().field, "execute.input");
}

#[test]
fn wrong_fields_are_named_as_the_form_names_them() {
    let check = |controls: &[(&str, &str)], control: &str, part: &str| {
        let invalid = form(controls).to_task().unwrap_err();
        assert_eq!(control_of(&invalid.field), Some(control), "{invalid}");
        assert!(invalid.to_string().contains(part), "{invalid}");
    };
    check(
        &[("execute.limits.wall", "soon")],
        "execute.limits.wall",
        "is not a duration",
    );
    check(
        &[("execute.limits.processes", "many")],
        "execute.limits.processes",
        "whole number",
    );
    check(
        &[("compile.limits.memory", "1 parsec")],
        "compile.limits.memory",
        "unit of size",
    );
    check(&[("execute.args", "'a")], "execute.args", "without a closing one");
    check(&[("execute.env", "A")], "execute.env", "NAME=VALUE");
    check(&[("execute.env", "A=1 A=2")], "execute.env", "twice");
    check(&[("labels", "a%=1")], "labels", "a%");
    check(&[("keep", "../x")], "keep", "");
    check(&[("language", "a b")], "language", "");
    check(&[("group", "a/b")], "group", "");
    check(&[("priority", "high")], "priority", "whole number");
    check(
        &[("path", "a"), ("text", ""), ("path", "a")],
        "source",
        "given twice",
    );
    check(
        &[("path", "../a"), ("text", "x")],
        "source",
        "inside the workspace",
    );
    check(&[("path", ""), ("text", "x")], "source", "name it");
    check(&[("path", "a"), ("blob", "x")], "source", "");
    assert_eq!(control_of("source_code"), Some("source"));
    assert_eq!(control_of("execute.args[3]"), Some("execute.args"));
    assert_eq!(control_of("execute"), Some("execute.command"));
    assert_eq!(control_of("executes"), None);
    assert_eq!(control_of("Content-Type"), None);
}

#[test]
fn controls_that_the_form_does_not_have_are_refused() {
    let check = |controls: &[(&str, &str)], part: &str| {
        let mut form = RunForm::default();
        let taken = controls
            .iter()
            .try_for_each(|(name, value)| form.take(name, value.to_string()));
        let invalid = taken.unwrap_err();
        assert!(invalid.to_string().contains(part), "{invalid}");
    };
    check(&[("wall", "1s")], "wall: is not a known field");
    check(&[("text", "x")], "before the path");
    check(&[("language", "c"), ("language", "d")], "given twice");
}
