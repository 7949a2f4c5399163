//! Bodies that are not valid tasks. Each is refused with the reason, and nothing is added.

use serde_json::{Value, json};

use crate::harness::SingleNode;

const TASKS: &str = "/api/v1/tasks";

async fn assert_nothing_added(node: &SingleNode) {
    let found = node.web.get(TASKS).await.json();
    assert_eq!(found["tasks"], json!([]), "something was added");
    let task = node.web.run(&json!({"execute": {"command": "echo well"}})).await;
    assert_eq!(task["result"]["execute"]["stdout"], "well\n");
}

#[tokio::test]
async fn invalid_json_is_refused() {
    let node = SingleNode::up(&[]);
    let nested = |open: &str, times: usize| open.repeat(times).into_bytes();
    let within = |head: &str, open: &str| [head.as_bytes(), &nested(open, 10 << 20)].concat();
    for (body, words) in [
        ("{\"execute\":\n{\"command\": tru}}", "line 2, column"),
        ("{\"execute\": {\"command\": \"x\"}} trailing", "line 1"),
    ] {
        for (path, body) in [
            (TASKS, body.to_string()),
            ("/api/v1/tasks/batch", format!("{{\"tasks\": [{body}]}}")),
        ] {
            let problem = node.web.post_bytes(path, body).await.assert_problem(400);
            assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
        }
    }
    for path in [TASKS, "/api/v1/tasks/batch"] {
        for (body, words) in [
            (b"".to_vec(), "empty"),
            (b" \r\n\t ".to_vec(), "empty"),
            (b"{".to_vec(), "line 1"),
            (b"\xef\xbb\xbf{}".to_vec(), "line 1"),
            (b"user=ada&command=true".to_vec(), "not valid JSON"),
            (b"\0\0\0\0".to_vec(), "not valid JSON"),
            (b"<task/>".to_vec(), "not valid JSON"),
        ] {
            let problem = node.web.post_bytes(path, body).await.assert_problem(400);
            assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
        }
    }
    // Ten megabytes of nesting, in several places.
    for body in [
        nested("[", 10 << 20),
        nested("{\"a\":", 2 << 20),
        within("{\"execute\":{\"command\":", "["),
        within("{\"source\":{\"a\":", "["),
        within("{\"execute\":{\"command\":\"x\",\"args\":", "["),
        within("{\"tasks\":", "["),
    ] {
        for path in [TASKS, "/api/v1/tasks/batch"] {
            let answer = node.web.post_bytes(path, body.clone()).await;
            assert!(matches!(answer.status, 400 | 422), "{}", answer.text());
            answer.assert_problem(answer.status);
            assert!(
                answer.body.len() < 4096,
                "the complaint is {} bytes long",
                answer.body.len()
            );
        }
    }
    assert_nothing_added(&node).await;
}

#[tokio::test]
async fn text_that_is_not_utf_8_is_refused_everywhere() {
    let node = SingleNode::up(&[]);
    // Every place that takes text. One at a time gets invalid text; the others hold a harmless 1.
    let whole = r#"{"user":"@","source":{"@":"@","f":{"text":"@"}},"data":{"@":"@"},"compile":{"command":"@"},
        "execute":{"command":"@","args":["@"],"env":{"@":"@"},"input":"@","limits":{"wall":"@","memory":"@"}}}"#;
    let places = whole.matches('@').count();
    let with = |place: usize, bytes: &[u8]| {
        let mut body = Vec::new();
        for (index, part) in whole.split('@').enumerate() {
            body.extend_from_slice(part.as_bytes());
            match index {
                _ if index == place => body.extend_from_slice(bytes),
                _ if index < places => body.push(b'1'),
                _ => {}
            }
        }
        body
    };
    for place in 0..places {
        // An invalid byte, a truncated sequence, a lone surrogate, an invalid escape, a raw control character.
        for bytes in [
            &b"\xff"[..],
            b"\xc3",
            b"\xed\xa0\x80",
            b"\\ud800",
            b"\\x00",
            b"\x01",
        ] {
            let problem = node
                .web
                .post_bytes(TASKS, with(place, bytes))
                .await
                .assert_problem(400);
            let detail = problem["detail"].as_str().unwrap();
            assert!(
                detail.contains("line ") && detail.contains("column "),
                "{problem}"
            );
        }
    }
    let argv = b"{\"execute\":{\"command\":[\"echo\",\"\xff\"]}}".to_vec();
    node.web.post_bytes(TASKS, argv).await.assert_problem(400);
    assert_nothing_added(&node).await;
    // The same request with valid bytes is accepted.
    assert_eq!(node.web.post_bytes(TASKS, with(0, b"1")).await.status, 201);
}

#[tokio::test]
async fn fields_of_the_wrong_type_are_named() {
    let node = SingleNode::up(&[]);
    let wrong = [
        json!(7),
        json!(true),
        json!([7]),
        json!({"x": 1}),
        json!(7.5),
        json!(""),
    ];
    // (field, which of the wrong values are valid there, the field in the error)
    let places: [(&str, &[usize]); 18] = [
        ("/user", &[]),
        ("/id", &[]),
        ("/priority", &[0]),
        ("/source", &[]),
        ("/data", &[]),
        ("/source/f", &[5]),
        ("/compile", &[]),
        ("/compile/command", &[]),
        ("/compile/env", &[]),
        ("/compile/env/A", &[5]),
        ("/execute", &[]),
        ("/execute/command", &[]),
        ("/execute/args", &[]),
        ("/execute/env", &[]),
        ("/execute/env/A", &[5]),
        ("/execute/input", &[5]),
        ("/execute/limits", &[]),
        ("/execute/limits/wall", &[0, 4]),
    ];
    for (place, right) in places {
        for (index, value) in wrong
            .iter()
            .enumerate()
            .filter(|(index, _)| !right.contains(index))
        {
            let mut task = json!({
                "user": "u", "id": "01890a5d-ac96-774b-bcce-b302099a8057", "priority": 0,
                "source": {"f": ""}, "data": {}, "compile": {"command": "true", "env": {"A": "b"}},
                "execute": {"command": "true", "args": [], "env": {"A": "b"}, "input": "", "limits": {"wall": 1}},
            });
            *task.pointer_mut(place).unwrap() = value.clone();
            let problem = node.web.post(TASKS, &task).await.assert_problem(422);
            let field = problem["field"].as_str().unwrap();
            let expected = place[1..].replace('/', ".");
            // Inside of an object or a list the error may be about an element.
            assert!(field.starts_with(&expected), "{place} {index}: {problem}");
        }
    }
    for (task, field) in [
        (json!({}), "execute.command"),
        (json!({"execute": {}}), "execute.command"),
        (
            json!({"compile": {}, "execute": {"command": "x"}}),
            "compile.command",
        ),
        (json!({"execute": null}), "execute"),
        (json!({"execute": {"command": null}}), "execute.command"),
        (json!({"execute": {"command": "  \n"}}), "execute.command"),
        (json!({"execute": {"command": []}}), "execute.command"),
        (json!({"execute": {"command": [""]}}), "execute.command"),
        (json!({"execute": {"command": "a\0b"}}), "execute.command"),
        (json!({"execute": {"command": ["a", "\0"]}}), "execute.command"),
        (
            json!({"execute": {"command": "x", "args": ["ok", "\0"]}}),
            "execute.args[1]",
        ),
        (
            json!({"execute": {"command": "x", "env": {"A=B": ""}}}),
            "execute.env",
        ),
        (
            json!({"execute": {"command": "x", "env": {"": ""}}}),
            "execute.env",
        ),
        (
            json!({"execute": {"command": "x", "env": {"A": "\0"}}}),
            "execute.env.A",
        ),
        (
            json!({"user": "x".repeat(129), "execute": {"command": "x"}}),
            "user",
        ),
        (json!({"user": "a\nb", "execute": {"command": "x"}}), "user"),
        (
            json!({"priority": 3_000_000_000u64, "execute": {"command": "x"}}),
            "priority",
        ),
        (
            json!({"id": "01890a5dac96774bbcceb302099a8057", "execute": {"command": "x"}}),
            "id",
        ),
        (
            json!({"execute": {"command": "x".repeat(70_000)}}),
            "execute.command",
        ),
        (
            json!({"execute": {"command": "x", "args": vec!["a"; 1001]}}),
            "execute.args",
        ),
        // Each is within its limit, but all together are not.
        (
            json!({"execute": {"command": "x", "args": vec!["x".repeat(60_000); 150]}}),
            "execute",
        ),
    ] {
        let problem = node.web.post(TASKS, &task).await.assert_problem(422);
        assert_eq!(problem["field"], field, "{problem}");
    }
    assert_nothing_added(&node).await;
}

#[tokio::test]
async fn unknown_fields_are_named_with_a_suggestion() {
    let node = SingleNode::up(&[]);
    for (place, name, meant) in [
        ("", "usr", "user"),
        ("", "Execute", "execute"),
        ("", "sources", "source"),
        ("/execute", "comand", "command"),
        ("/execute", "stdin", "the known ones are"),
        ("/execute/limits", "mem", "memory"),
        ("/execute/limits", "procs", "processes"),
        ("/compile", "comands", "command"),
        ("/source/f", "txt", "text"),
        ("/source/f", "Base64", "base64"),
    ] {
        let mut task = json!({
            "source": {"f": {"text": ""}}, "compile": {"command": "true", "limits": {}},
            "execute": {"command": "true", "limits": {}},
        });
        task.pointer_mut(place).unwrap()[name] = Value::Null;
        let answer = node.web.post(TASKS, &task).await;
        let field = format!("{place}/{name}")[1..].replace('/', ".");
        answer.assert_problem_at(422, &field, meant);
    }
    for twice in [
        r#"{"execute": {"command": "a"}, "execute": {"command": "b"}}"#,
        r#"{"execute": {"command": "a", "command": "b"}}"#,
        r#"{"source": {"f": "1", "f": "2"}, "execute": {"command": "a"}}"#,
    ] {
        node.web.post_bytes(TASKS, twice).await.assert_problem(422);
    }
    assert_nothing_added(&node).await;
}
