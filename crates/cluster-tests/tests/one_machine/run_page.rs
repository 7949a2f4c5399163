//! The page Run: its form adds tasks, also without scripts, and shows what is wrong beside the field.

use cluster_tests::{HttpResponse, RawHttpClient, TestSystem};
use serde_json::{Value, json};

use crate::harness::{SingleNode, percent_encoded, text};
use crate::multipart_builder::MultipartBuilder;

/// The fields of a form, as a browser sends them.
fn form(fields: &[(&str, &str)]) -> MultipartBuilder {
    fields
        .iter()
        .fold(MultipartBuilder::default(), |form, (name, value)| {
            form.part(name, None, value.as_bytes())
        })
}

/// Sends a form as the script of the page does.
async fn send_as_script(web: &RawHttpClient, path: &str, form: MultipartBuilder) -> HttpResponse {
    HttpResponse::of(form.request(web, path).header("Accept", "application/json")).await
}

/// Adds the task of a form, and returns it when it is done.
async fn run(web: &RawHttpClient, form: MultipartBuilder) -> Value {
    let added = send_as_script(web, "/run", form).await;
    assert_eq!(added.status, 201, "{}", added.text());
    let added = added.json();
    let id = added["id"].as_str().expect("an id").to_string();
    assert_eq!(added["page"], format!("/tasks/{id}"));
    web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json()
}

/// The value of an attribute in HTML, without escapes.
fn unescaped(text: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    entities
        .iter()
        .fold(text.to_string(), |text, (entity, character)| {
            text.replace(entity, character)
        })
}

/// The fields of the form on a page, as a browser without scripts would send them.
fn fields_of(page: &str) -> Vec<(String, String)> {
    let form = page.split("<form id=\"run-form\"").nth(1).expect("a form");
    let form = form.split("</form>").next().expect("its end");
    let attribute = |tag: &str, name: &str| {
        let value = tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?;
        Some(unescaped(value))
    };
    let mut fields = vec![];
    let mut select = None;
    for piece in form.split('<').skip(1) {
        let (tag, content) = piece.split_once('>').unwrap_or((piece, ""));
        let name = attribute(tag, "name");
        match (tag.split(' ').next().unwrap_or_default(), name) {
            ("select", name) => select = name,
            ("option", _) if tag.ends_with(" selected") => {
                let value = attribute(tag, "value").expect("a value");
                fields.push((select.clone().expect("a select"), value));
            }
            ("textarea", Some(name)) => {
                let content = content.strip_prefix('\n').expect("a line end that HTML drops");
                fields.push((name, unescaped(content)));
            }
            ("input", Some(name))
                if !tag.contains("type=\"file\"")
                    && (!tag.contains("type=\"checkbox\"") || tag.contains(" checked")) =>
            {
                fields.push((name, attribute(tag, "value").unwrap_or_default()));
            }
            _ => {}
        }
    }
    fields
}

async fn send_fields(web: &RawHttpClient, fields: &[(String, String)]) -> Value {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    run(web, form(&fields)).await
}

#[tokio::test]
async fn the_plain_form_adds_a_task_and_redirects_to_its_page() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let fields = [
        ("path", "main.sh"),
        ("text", "cat; cat big.bin\r\n"),
        ("execute.command", "sh main.sh"),
        ("execute.input", "in\r\nput"),
    ];
    let whole = form(&fields)
        .part("upload", Some("big.bin"), b"\xff\0")
        .part("upload", Some(""), b"");
    // The client follows the redirect.
    let page = HttpResponse::of(whole.request(web, "/run").header("Sec-Fetch-Site", "same-origin")).await;
    assert_eq!(page.status, 200, "{}", page.text());
    let tasks = web.get("/api/v1/tasks").await.json();
    let id = tasks["tasks"][0]["id"].as_str().expect("a task").to_string();
    assert!(page.text().contains(&id), "{}", page.text());
    let task = web.get(&format!("/api/v1/tasks/{id}?wait=60")).await.json();
    assert_eq!(task["status"], "success", "{task:#}");
    assert_eq!(task["source"]["main.sh"], "cat; cat big.bin\n");
    assert_eq!(task["source"]["big.bin"]["base64"], "/wA=");
    assert_eq!(task["execute"]["input"], "in\nput");
    // Forms without files may be sent in the other encoding.
    let request = web
        .request("POST", "/run")
        .header("Content-Type", "application/x-www-form-urlencoded");
    let added = HttpResponse::of(
        request
            .header("Accept", "application/json")
            .body("execute.command=echo+a%2Bb&wait_for_executor="),
    )
    .await;
    assert_eq!(added.status, 201, "{}", added.text());
    let again = HttpResponse::of(
        web.request("POST", "/run")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("Accept", "application/json")
            .body(format!("run_again={id}")),
    )
    .await;
    let again = again.json();
    let repeated = web
        .get(&format!("/api/v1/tasks/{}", again["id"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(repeated["retry_of"], id.as_str(), "{repeated:#}");
    let evil = form(&fields)
        .request(web, "/run")
        .header("Sec-Fetch-Site", "cross-site");
    assert_eq!(HttpResponse::of(evil).await.status, 403);
}

#[tokio::test]
async fn a_wrong_field_shows_the_form_again_with_what_was_typed() {
    let node = SingleNode::up(&["--slots", "0"]);
    let web = &node.web;
    let typed = [
        ("path", "a <b>.sh"),
        ("text", "\r\n\r\necho '<script>'\r\n"),
        ("execute.command", "sh 'a <b>.sh'"),
        ("execute.args", "one 'two words'"),
        ("labels", "k=v"),
    ];
    let check = async |field: &str, value: &str, words: &str| {
        let mut fields = typed.to_vec();
        fields.retain(|(name, _)| *name != field);
        fields.push((field, value));
        let whole = form(&fields)
            .part("upload", Some("note.txt"), "kept é".as_bytes())
            .part("upload", Some("bin"), b"\0");
        let page = HttpResponse::of(whole.request(web, "/run")).await;
        assert_eq!(page.status, 422, "{field}: {}", page.text());
        let page = page.text();
        let control = field.replace(['.', '_'], "-");
        let error = page
            .split(&format!("id=\"error-run-{control}\">"))
            .nth(1)
            .unwrap_or_default();
        assert!(
            error.split('<').next().is_some_and(|error| error.contains(words)),
            "{field}: {page}"
        );
        assert!(!page.contains("<script>"), "{page}");
        let kept = fields_of(&page);
        for (name, value) in fields {
            let expected = (name.to_string(), value.replace("\r\n", "\n"));
            assert!(kept.contains(&expected), "{expected:?} is lost: {kept:?}");
        }
        assert!(kept.contains(&("path".into(), "note.txt".into())), "{kept:?}");
        assert!(kept.contains(&("text".into(), "kept é".into())), "{kept:?}");
        assert!(kept.contains(&("base64".into(), "AA==".into())), "{kept:?}");
    };
    check("execute.limits.wall", "soon", "is not a duration").await;
    check("execute.limits.wall", "400h", "more than the operator allows").await;
    check("compile.limits.memory", "many", "unit of size").await;
    check("execute.args", "'open", "without a closing one").await;
    check("language", "klingon", "klingon").await;
    check("execute.command", "", "missing or empty").await;
    check("group", "a/b", "").await;
    // The script gets the name of the control.
    let answer = send_as_script(
        web,
        "/run",
        form(&[("execute.command", "x"), ("execute.limits.cpu", "x")]),
    )
    .await;
    assert_eq!(
        (answer.status, answer.json()["control"].as_str()),
        (422, Some("execute.limits.cpu"))
    );
    // What belongs to no control is above the form.
    let page =
        HttpResponse::of(form(&[("execute.command", "x"), ("colour", "red")]).request(web, "/run")).await;
    assert_eq!(page.status, 422);
    assert!(
        page.text().contains("colour: is not a known field"),
        "{}",
        page.text()
    );
    let answer = HttpResponse::of(
        web.request("POST", "/run")
            .header("Content-Type", "text/plain")
            .body("x"),
    )
    .await;
    assert_eq!(answer.status, 415);
    let tasks = web.get("/api/v1/tasks").await.json();
    assert_eq!(tasks["tasks"], json!([]), "a wrong form has added a task");
}

#[tokio::test]
async fn the_example_of_a_language_runs() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    for language in ["c", "python", "text"] {
        let page = web.get(&format!("/run?language={language}")).await;
        assert_eq!(page.status, 200);
        let page = page.text();
        assert!(
            page.contains("value=\"60s\"") || page.contains("placeholder=\""),
            "{page}"
        );
        let fields = fields_of(&page);
        assert!(
            fields.contains(&("language".into(), language.into())),
            "{fields:?}"
        );
        if language == "text" {
            continue;
        }
        let task = send_fields(web, &fields).await;
        assert_eq!(
            task["result"]["execute"]["stdout"], "Hello, Conclave!\n",
            "{task:#}"
        );
        let defaults = web.get(&format!("/run/languages/{language}")).await.json();
        assert_eq!(
            task["source"][defaults["source"].as_str().unwrap()],
            defaults["example"]
        );
    }
    let page = web.get("/run?language=klingon").await;
    assert_eq!(page.status, 422);
    assert!(
        page.text().contains("is not in the language table"),
        "{}",
        page.text()
    );
    assert_eq!(web.get("/run?colour=red").await.status, 422);
    assert_eq!(web.get("/run/languages/klingon").await.status, 422);
    assert_eq!(web.get("/run").await.status, 200);
}

#[tokio::test]
async fn the_form_of_a_task_describes_the_same_task() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let large = "x".repeat(40 << 10);
    let original = web
        .run(&json!({
            "language": "python",
            "source": {
                "main.py": "\nimport sys, os\nprint(sys.argv[1:], os.environ['A'], input())\n",
                "lib/large.txt": large,
                "crlf.txt": "a\r\nb",
                "huge.bin": {"base64": "AAEC"},
                "run": {"text": "#!/bin/sh\n", "executable": true},
            },
            "data": {"in.txt": "<data>"},
            "execute": {
                "args": ["a b", "", "it's", "two\nlines"], "env": {"A": "1 <2>"}, "input": "\n in",
                "limits": {"wall": "7s", "memory": "100MiB", "processes": 20},
            },
            "keep": ["*.txt"], "labels": {"k": "v w"}, "group": "g", "priority": -1, "user": "ada",
        }))
        .await;
    assert_eq!(original["status"], "success", "{original:#}");
    let page = web
        .get(&format!("/run?from={}", original["id"].as_str().unwrap()))
        .await;
    assert_eq!(page.status, 200, "{}", page.text());
    let fields = fields_of(&page.text());
    // What the language has given is left to it.
    assert!(
        fields.contains(&("execute.command".into(), String::new())),
        "{fields:?}"
    );
    assert!(
        fields.contains(&("execute.limits.cpu".into(), String::new())),
        "{fields:?}"
    );
    let again = send_fields(web, &fields).await;
    for field in [
        "source", "data", "language", "compile", "execute", "keep", "labels", "group", "priority", "user",
        "root",
    ] {
        assert_eq!(again[field], original[field], "{field}");
    }
    let none = web.get("/run?from=01890a5d-ac96-774b-bcce-b302099a8057").await;
    assert_eq!(none.status, 404);
    assert_eq!(
        web.get(&format!("/run?from={}", percent_encoded("<x>")))
            .await
            .status,
        422
    );
    // A program with its arguments and no shell is one that the shell executes.
    let list = web
        .run(&json!({"execute": {"command": ["printf", "%s|", "a b", "$HOME"]}}))
        .await;
    let page = web
        .get(&format!("/run?from={}", list["id"].as_str().unwrap()))
        .await
        .text();
    let again = send_fields(web, &fields_of(&page)).await;
    assert_eq!(again["result"]["execute"]["stdout"], "a b|$HOME|", "{again:#}");
}

#[tokio::test]
async fn only_the_owner_of_a_task_may_run_it_again() {
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, "ada-has-a-long-token ada\nbob-has-another-token bob\n").expect("a file");
    let node = SingleNode::on(system, &["--tokens-file", text(&tokens)]);
    let as_user = |method: &str, path: &str, token: &str| node.web.request(method, path).bearer_auth(token);
    let task = json!({"execute": {"command": "echo ada-only"}});
    let added = as_user("POST", "/api/v1/tasks?wait=60", "ada-has-a-long-token").json(&task);
    let id = HttpResponse::of(added).await.json()["id"]
        .as_str()
        .expect("an id")
        .to_string();
    let page = format!("/run?from={id}");
    let own = HttpResponse::of(as_user("GET", &page, "ada-has-a-long-token")).await;
    assert!(own.text().contains("ada-only"), "{}", own.text());
    let other = HttpResponse::of(as_user("GET", &page, "bob-has-another-token")).await;
    assert_eq!(other.status, 404, "{}", other.text());
    let again = form(&[("run_again", &id)])
        .request(&node.web, "/run")
        .header("Accept", "application/json");
    assert_eq!(
        HttpResponse::of(again.bearer_auth("bob-has-another-token"))
            .await
            .status,
        404
    );
    let forged = form(&[("execute.command", "true"), ("user", "ada")]).request(&node.web, "/run");
    let forged = HttpResponse::of(forged.bearer_auth("bob-has-another-token")).await;
    assert_eq!(forged.status, 422, "{}", forged.text());
}
