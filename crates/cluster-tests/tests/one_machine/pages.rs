//! Web pages, API documentation and OpenAPI description.

use cluster_tests::HttpResponse;
use serde_json::{Value, json};

use crate::harness::{SingleNode, percent_encoded};

/// Every URL of the API and its methods.
const ROUTES: [(&str, &[&str]); 31] = [
    ("/api/v1/tasks", &["delete", "get", "post"]),
    ("/api/v1/tasks/batch", &["post"]),
    ("/api/v1/tasks/retry", &["post"]),
    ("/api/v1/tasks/export", &["get"]),
    ("/api/v1/tasks/{id}", &["delete", "get"]),
    ("/api/v1/tasks/{id}/events", &["get"]),
    ("/api/v1/tasks/{id}/waiting", &["get"]),
    ("/api/v1/tasks/{id}/{step}/{output}", &["get"]),
    ("/api/v1/tasks/{id}/files/{path}", &["get"]),
    ("/api/v1/tasks/{id}/files.zip", &["get"]),
    ("/api/v1/tasks/{id}/files.tar", &["get"]),
    ("/api/v1/tasks/{id}/retry", &["post"]),
    ("/api/v1/problems", &["get"]),
    ("/api/v1/problems/{name}", &["delete", "get", "put"]),
    ("/api/v1/groups", &["get"]),
    ("/api/v1/groups/{group}", &["delete", "get"]),
    ("/api/v1/groups/{group}/events", &["get"]),
    ("/api/v1/groups/{group}/retry", &["post"]),
    ("/api/v1/blobs/{sha256}", &["get", "head", "put"]),
    ("/api/v1/executors", &["get"]),
    ("/api/v1/executors/{name}/drain", &["post"]),
    ("/api/v1/executors/{name}/resume", &["post"]),
    ("/api/v1/judicators", &["get"]),
    ("/api/v1/languages", &["get"]),
    ("/api/v1/roots", &["get"]),
    ("/api/v1/stats", &["get"]),
    ("/api/v1/history", &["get"]),
    ("/healthz", &["get"]),
    ("/readyz", &["get"]),
    ("/metrics", &["get"]),
    ("/api/openapi.json", &["get"]),
];

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_api_describes_itself() {
    let node = SingleNode::up(&[]);
    let answer = node.web.get("/api/openapi.json").await;
    assert!(answer.header("content-type").starts_with("application/json"));
    let api = answer.json();
    assert!(
        api["openapi"].as_str().unwrap().starts_with("3.1"),
        "{}",
        api["openapi"]
    );
    let docs = node.web.get("/api/docs").await;
    assert!(docs.header("content-type").starts_with("text/html"));
    let docs = docs.text();
    for (path, methods) in ROUTES.iter().filter(|(path, _)| *path != "/api/openapi.json") {
        let described = &api["paths"][path];
        for method in *methods {
            let call = &described[method];
            assert!(call["summary"].is_string(), "{method} {path} is not described");
            assert!(
                call["responses"].as_object().is_some_and(|all| !all.is_empty()),
                "{method} {path}"
            );
            assert!(docs.contains(path), "{path} is not on the docs page");
        }
    }
    let known: Vec<_> = ROUTES.iter().map(|(path, _)| *path).collect();
    for path in api["paths"].as_object().unwrap().keys() {
        assert!(
            known.contains(&path.as_str()),
            "{path} is described and unknown here"
        );
    }
    let mut found = Vec::new();
    references(&api, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let target = reference
            .strip_prefix('#')
            .expect("a reference inside the document");
        assert!(api.pointer(target).is_some(), "{reference} leads nowhere");
    }
    // Every problem type links to its description.
    let problem = node.web.get("/api/v1/tasks/x").await.assert_problem(422);
    let (page, anchor) = problem["type"].as_str().unwrap().split_once('#').unwrap();
    assert_eq!(page, "/api/docs");
    assert!(
        docs.contains(&format!("id=\"{anchor}\"")),
        "{anchor} is not on the docs page"
    );
    // The example in the description works.
    let example =
        &api["paths"]["/api/v1/tasks"]["post"]["requestBody"]["content"]["application/json"]["example"];
    let task = node.web.run(example).await;
    assert_eq!(task["status"], "success", "{task:#}");
}

/// The examples of a schema, and of the schemas that it refers to.
fn examples<'a>(api: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let target = schema["$ref"]
        .as_str()
        .and_then(|target| api.pointer(&target[1..]));
    let schema = target.unwrap_or(schema);
    let forms = schema["oneOf"].as_array().into_iter().flatten();
    let own = schema["examples"].as_array().into_iter().flatten();
    own.chain(schema.get("example"))
        .chain(forms.flat_map(|form| examples(api, form)))
        .collect()
}

#[tokio::test]
async fn every_example_is_accepted() {
    let node = SingleNode::up(&["--slots", "0"]);
    let web = &node.web;
    let api = web.get("/api/openapi.json").await.json();
    let mut tried = 0;
    // Request bodies. At a node of their own, because the ids in them are those of other examples.
    let other = SingleNode::up(&["--slots", "0"]);
    for path in ["/api/v1/tasks", "/api/v1/tasks/batch"] {
        let body = &api["paths"][path]["post"]["requestBody"]["content"]["application/json"];
        let answer = other.web.post(path, &body["example"]).await;
        assert_eq!(answer.status, 201, "{path}: {}", answer.text());
        tried += 1;
    }
    // The example of a task's problem names this one.
    let body = &api["paths"]["/api/v1/problems/{name}"]["put"]["requestBody"]["content"]["application/json"];
    let put = web
        .request("PUT", "/api/v1/problems/hello")
        .json(&body["example"]);
    assert_eq!(HttpResponse::of(put).await.status, 200);
    tried += 1;
    // Every field of a task, separately.
    let fields = |name: &str| {
        let properties = api["components"]["schemas"][name]["properties"].as_object();
        properties.expect("a type with fields").clone()
    };
    let put = |place: &str, field: &str, example: &Value| {
        let mut task = json!({"execute": {"command": "true"}, "compile": {"command": "true"}});
        // The node has no executor. A lone source file gets its name from a language.
        task["wait_for_executor"] = json!(true);
        let judging = ["check", "interact", "stop", "groups"];
        if judging.contains(&field) {
            task["cases"] = json!([{"name": "1", "answer": "", "group": "small"}]);
        }
        if field == "source_code" {
            task["language"] = json!("text");
        }
        task.pointer_mut(place).unwrap()[field] = example.clone();
        task
    };
    for (name, place) in [("NewTask", ""), ("Compile", "/compile"), ("Execute", "/execute")] {
        for (field, schema) in fields(name) {
            for example in examples(&api, &schema) {
                let answer = web.post("/api/v1/tasks", &put(place, &field, example)).await;
                assert!(
                    matches!(answer.status, 200 | 201),
                    "{name}.{field} {example}: {}",
                    answer.text()
                );
                tried += 1;
            }
        }
    }
    for (field, schema) in fields("Limits") {
        for example in examples(&api, &schema) {
            let task = json!({"execute": {"command": "true", "limits": {(field.clone()): example}}});
            let answer = web.post("/api/v1/tasks", &task).await;
            assert_eq!(answer.status, 201, "{field} {example}: {}", answer.text());
            tried += 1;
        }
    }
    // The parameters of a search.
    for parameter in api["paths"]["/api/v1/tasks"]["get"]["parameters"]
        .as_array()
        .unwrap()
    {
        let own = parameter.get("example");
        for example in own.into_iter().chain(examples(&api, &parameter["schema"])) {
            let value = match example {
                Value::Array(values) => values
                    .iter()
                    .map(|value| value.as_str().unwrap())
                    .collect::<Vec<_>>()
                    .join(","),
                value => value.as_str().unwrap().to_string(),
            };
            let name = parameter["name"].as_str().unwrap();
            let answer = web.get(&format!("/api/v1/tasks?{name}={value}")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            tried += 1;
        }
    }
    assert!(tried > 30, "only {tried} examples were found");
}

#[tokio::test]
async fn unknown_methods_and_paths_are_refused() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    for (path, methods) in ROUTES {
        let path = path
            .replace("{id}", "01890a5d-ac96-774b-bcce-b302099a8057")
            .replace("{sha256}", &"0".repeat(64))
            .replace("{step}/{output}", "execute/stdout")
            .replace("{path}", "out/a.csv")
            .replace("{group}", "sweep-17");
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
            let known = methods.contains(&method.to_lowercase().as_str());
            if !known {
                let answer = HttpResponse::of(web.request(method, &path)).await;
                answer.assert_problem(405);
                let allow = answer.header("allow").to_lowercase();
                for method in methods {
                    assert!(allow.contains(method), "{path} allows '{allow}'");
                }
            }
        }
    }
    for path in [
        "/nothing",
        "/api",
        "/api/v1",
        "/api/v1/tasks/",
        "/api/v2/tasks",
        "//",
        "/api/v1/tasks/a/b/c/d",
    ] {
        web.get(path).await.assert_problem(404);
        // A browser gets a page with a link.
        let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let page = HttpResponse::of(web.request("GET", path).header("Accept", accept)).await;
        assert_eq!(page.status, 404);
        assert!(page.header("content-type").starts_with("text/html"), "{path}");
        let page = page.text();
        assert!(
            page.contains("Not found") && page.contains("href=\"/\""),
            "{page}"
        );
        assert!(page.contains("href=\"/api/docs\""), "{page}");
    }
    let evil = HttpResponse::of(web.request("GET", "/<script>").header("Accept", "text/html")).await;
    assert_eq!(evil.status, 404);
    assert!(!evil.text().contains("<script>"), "{}", evil.text());
}

#[tokio::test]
async fn examples_on_the_docs_page_use_the_servers_address() {
    let node = SingleNode::up(&["--slots", "1"]);
    let docs = node.web.get("/api/docs").await.text();
    let own = node.system.url("/api/v1/tasks?wait=10");
    assert!(docs.contains(&own), "{own} is not in the examples");
    assert!(!docs.contains('`'), "the docs page shows Markdown");
    let host = "a'$(reboot)<script>";
    let docs = HttpResponse::of(node.web.request("GET", "/api/docs").header("Host", host)).await;
    assert!(
        !docs.text().contains("reboot"),
        "the docs page repeats what it should not"
    );
    // Singular for one executor and one slot.
    node.web.run(&json!({"execute": {"command": "true"}})).await;
    let page = node.web.get("/").await.text();
    assert!(page.contains("</b> executor</li>"), "{page}");
    assert!(page.contains("</b> slot in use"), "{page}");
}

#[tokio::test]
async fn pages_escape_everything_that_tasks_contain() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let evil = "<script>alert('x')</script>\"&";
    let task = web
        .run(&json!({
            "user": evil,
            "source": {(format!("{}", evil.replace('/', "-"))): evil},
            "data": {"d": evil},
            "keep": ["*"],
            "group": evil.replace('/', "-"),
            "labels": {"k": evil},
            "compile": {"command": format!("cat <<'E'\n{evil}\nE")},
            "execute": {
                "command": "cat; cat data/d >&2", "args": [evil], "env": {(evil): evil}, "input": evil,
            },
        }))
        .await;
    let list_command = web
        .run(&json!({"user": "ada", "execute": {"command": ["echo", "<script>alert(1)</script>"]}}))
        .await;
    let id = |task: &Value| task["id"].as_str().unwrap().to_string();
    for path in [
        "/".to_string(),
        format!("/?user={}", evil.replace('&', "%26").replace('"', "%22")),
        "/?text=script".to_string(),
        "/groups".to_string(),
        format!(
            "/groups/{}?user={}",
            percent_encoded(&evil.replace('/', "-")),
            percent_encoded(evil)
        ),
        format!("/tasks/{}", id(&task)),
        format!("/tasks/{}", id(&list_command)),
    ] {
        let page = web.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.header("content-type").starts_with("text/html"));
        assert!(
            page.header("content-security-policy")
                .contains("default-src 'none'")
        );
        let page = page.text();
        assert!(
            !page.contains("<script>"),
            "{path} runs what a task says:\n{page}"
        );
        assert!(
            page.contains("&lt;script&gt;"),
            "{path} does not show it:\n{page}"
        );
    }
    let first = web.get("/").await.text();
    for task in [&task, &list_command] {
        assert!(
            first.contains(&format!("href=\"/tasks/{}\"", id(task))),
            "{first}"
        );
    }
    let none = web.get("/?user=nobody").await.text();
    assert!(!none.contains(&id(&task)));
    // A kept file has a link that leads to it.
    let page = web.get(&format!("/tasks/{}", id(&task))).await.text();
    let links = page
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let file = links.filter(|link| link.contains("/files/")).collect::<Vec<_>>();
    assert_eq!(file.len(), 1, "{page}");
    let answer = web.get(&file[0].replace("&amp;", "&")).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, evil));
    let page = web.get(&format!("/tasks/{}", id(&list_command))).await.text();
    assert!(page.contains("success") && page.contains("ada"), "{page}");
    // Unknown pages and invalid searches are answered with a page.
    for (path, status) in [
        ("/tasks/01890a5d-ac96-774b-bcce-b302099a8057", 404),
        ("/tasks/<script>", 422),
        ("/?stauts=x", 422),
    ] {
        let page = web.get(path).await;
        assert_eq!(page.status, status);
        assert!(page.header("content-type").starts_with("text/html"), "{path}");
        assert!(!page.text().contains("<script>"), "{path}");
    }
}

#[tokio::test]
async fn cross_site_cancels_are_refused() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let gate = node.gate("gate");
    let task = web
        .post("/api/v1/tasks", &json!({"execute": {"command": gate.wait()}}))
        .await
        .json();
    let id = task["id"].as_str().unwrap();
    let page = format!("/tasks/{id}/cancel");
    assert!(web.get(&format!("/tasks/{id}")).await.text().contains(&page));
    let forms = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
    ];
    for (name, value) in forms {
        for path in [page.as_str(), "/api/v1/tasks"] {
            let request = web.request("POST", path).header(name, value);
            assert_eq!(
                HttpResponse::of(request.body("{}")).await.status,
                403,
                "{name}: {value}"
            );
        }
    }
    let path = format!("/api/v1/tasks/{id}");
    assert_eq!(web.get(&path).await.json()["done"], false);
    // The button redirects to the task's page, also when it is pressed twice.
    for _ in 0..2 {
        let own = web.request("POST", &page).header("Sec-Fetch-Site", "same-origin");
        let answer = HttpResponse::of(own).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("cancelled"), "{}", answer.text());
    }
    assert_eq!(web.get(&path).await.json()["status"], "cancelled");
}

#[tokio::test]
async fn requests_for_foreign_host_names_are_refused() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let call = |method: &str, path: &str, host: &str| {
        let request = web.request(method, path).header("Host", host);
        HttpResponse::of(request.body(r#"{"execute": {"command": "true"}}"#))
    };
    for (method, path) in [
        ("GET", "/api/v1/tasks"),
        ("GET", "/api/v1/stats"),
        ("POST", "/api/v1/tasks"),
    ] {
        call(method, path, "evil.example:7000")
            .await
            .assert_problem_at(403, "Host", "IP address");
    }
    let page = call("GET", "/", "evil.example").await;
    assert_eq!(page.status, 403);
    assert!(page.text().contains("tokens"), "{}", page.text());
    assert_eq!(web.get("/api/v1/tasks").await.json()["tasks"], json!([]));
    for host in ["localhost", "localhost:1", "127.0.0.1", "[::1]:7000"] {
        assert_eq!(call("GET", "/", host).await.status, 200, "{host}");
    }
    assert_eq!(call("GET", "/healthz", "evil.example").await.status, 200);
}

#[tokio::test]
async fn the_list_of_tasks_is_paged() {
    let node = SingleNode::up(&["--slots", "0"]);
    let web = &node.web;
    let tasks: Vec<_> = (0..120)
        .map(|n| json!({"execute": {"command": format!("task-{n:03}-&")}}))
        .collect();
    web.post("/api/v1/tasks/batch", &json!({"tasks": tasks})).await;
    let mut path = "/?text=-%26".to_string();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let page = web.get(&path).await.text();
        let found = (0..120)
            .filter(|n| page.contains(&format!("task-{n:03}-&amp;")))
            .rev();
        seen.extend(found);
        let link = page
            .split("<a class=\"button\" href=\"")
            .find(|rest| rest.contains("\">Next page"));
        match link.and_then(|rest| rest.split('"').next()) {
            Some(next) => path = next.replace("&amp;", "&"),
            None => break,
        }
    }
    assert_eq!(seen, (0..120).rev().collect::<Vec<_>>());
}
