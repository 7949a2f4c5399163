//! Whatever a task prints, names or sends is text on every page: a collection of injections reaches none of them.

use cluster_tests::{Browser, HttpResponse};
use model::TaskId;
use serde_json::{Value, json};

use crate::harness::Site;
use crate::percent_encoding::percent_encoded;

/// Each creates an element `injected-element`, or sets the global `injected`, if a page takes it for more than text.
const PAYLOADS: [&str; 22] = [
    "<script>window.injected = 1</script><injected-element>",
    "<img src=x onerror=window.injected=1><injected-element>",
    "<svg/onload=window.injected=1><injected-element></svg>",
    "<svg><style>body{display:none}</style><injected-element></svg>",
    "</title></textarea></style></script></pre></template><injected-element>",
    "\"><injected-element x=\"",
    "'><injected-element x='",
    "\" autofocus onfocus=\"window.injected=1\" data-injected=\"",
    "x' onmouseover='window.injected=1' data-injected='",
    "--><injected-element><!--",
    "]]><injected-element><![CDATA[",
    "javascript:window.injected=1//<injected-element>",
    "data:text/html,<script>window.injected=1</script><injected-element>",
    "<a href=javascript:window.injected=1>injected-element</a><injected-element>",
    "<div hx-get=/healthz hx-trigger=load hx-on::load=window.injected=1 data-injected>injected-element</div>",
    "<div sse-connect=/live/tasks hx-ext=sse data-injected>injected-element</div>",
    "{\"a\":\"</script><injected-element>\",\"__proto__\":{\"injected\":1}}",
    "<base href=//injected.invalid/><meta http-equiv=refresh content=0;url=//injected.invalid/><injected-element>",
    "&lt;injected-element&gt;&#60;injected-element&#62;<injected-element>",
    "{{constructor.constructor('window.injected=1')()}}${window.injected=1}<injected-element>",
    "\u{202e}<injected-element>\u{2066}\u{200f}txt.exe",
    "<injected-element is=x>\u{0}\u{fffd}\u{2028}\u{2029}",
];

/// What only outputs and files may contain: escape sequences of terminals, and bytes that are no text.
const TERMINAL: &[u8] = b"\x1b[31;1mred <injected-element>\x1b[0m \x1b]8;;javascript:window.injected=1\x07link\x1b]8;;\x07 \
\x1b]0;<injected-element>\x07\x1b[38;2;1;2;3m\x1b[999999999999m\x1b[?1049h\x1b]52;c;aW5qZWN0ZWQ=\x07\x1b[\x1b[;;;;m\x1b[2J\
\xff\xfe\xc3\x28\xed\xa0\x80 \x08\x08\x0d<injected-element>\x0b\x0c\x1bP<injected-element>\x1b\\ \x9b31m\n";

/// What a page shows of the payloads, and what it must not have become.
const FOUND: &str = r"
    return {
        elements: document.querySelectorAll('injected-element, [data-injected]').length,
        marker: typeof window.injected,
        inherited: typeof ({}).injected,
        base: document.baseURI === location.href.split('#')[0] || document.baseURI === location.href,
        handlers: Array.from(document.querySelectorAll('*')).flatMap(element => Array.from(element.attributes))
            .filter(attribute => attribute.name.startsWith('on') || attribute.name.startsWith('hx-on')
                || (['href', 'src', 'action', 'formaction', 'xlink:href'].includes(attribute.name)
                    && /^\s*(javascript|vbscript|data:text)/i.test(attribute.value)))
            .map(attribute => attribute.name + '=' + attribute.value),
        hidden: getComputedStyle(document.body).display === 'none',
        shown: document.documentElement.outerHTML.includes('injected-element'),
    };
";

async fn assert_text_only(browser: &Browser, path: &str) -> bool {
    browser.open(path).await;
    let found = browser.script(FOUND, &[]).await;
    assert_eq!(
        (
            &found["elements"],
            &found["marker"],
            &found["inherited"],
            &found["base"],
            &found["handlers"],
            &found["hidden"]
        ),
        (
            &json!(0),
            &json!("undefined"),
            &json!("undefined"),
            &json!(true),
            &json!([]),
            &json!(false)
        ),
        "{path}: {found:#}"
    );
    browser.assert_same_site().await;
    browser.assert_nothing_logged().await;
    found["shown"] == json!(true)
}

/// A payload without the characters that names may not contain.
fn name(payload: &str) -> String {
    payload.chars().filter(|char| !char.is_control()).collect()
}

/// A payload as one part of a path.
fn file_name(payload: &str) -> String {
    name(payload).replace('/', "∕")
}

/// A task whose every field is the payload.
fn task_of(payload: &str) -> Value {
    let file = file_name(payload);
    // Names of groups are parts of paths, too.
    let shortened: String = file.chars().take(60).collect();
    let printed = payload.replace('\0', "");
    json!({
        "user": shortened,
        "group": shortened,
        "labels": {"injected-element": name(payload)},
        "source": {
            "run.sh": "cat; printf '%s' \"$PAYLOAD\"; printf '%s' \"$PAYLOAD\" >&2; cp -r kept/. .; exit 3",
            (format!("kept/{file}")): printed,
            (format!("kept/{file}.csv")): format!("a,b\n{printed},\"{printed}\"\n"),
            (format!("kept/{file}.svg")): "<svg xmlns='http://www.w3.org/2000/svg'><script>window.injected=1</script></svg>",
            (format!("kept/{file}.html")): printed,
        },
        "compile": {"command": format!("true {}", shell_quoted(&printed))},
        "execute": {
            "command": "sh run.sh",
            "args": [printed],
            "env": {"PAYLOAD": printed},
            "input": printed,
        },
        "keep": ["*"],
    })
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A task that prints bytes which are no text.
fn terminal_task() -> Value {
    let octal: String = TERMINAL.iter().map(|byte| format!("\\{byte:03o}")).collect();
    json!({
        "user": "terminal",
        "source": {"run.sh": format!("printf '{octal}'; printf '{octal}' >&2; printf '{octal}' > kept.txt; exit 1")},
        "execute": {"command": "sh run.sh"},
        "keep": ["kept.txt"],
    })
}

/// The pages that show a task and its group.
fn pages_of(id: TaskId, task: &Value) -> Vec<String> {
    let text = |name: &str| percent_encoded(task[name].as_str().unwrap_or_default());
    vec![
        format!("/tasks/{id}"),
        format!("/run?from={id}"),
        format!("/?user={}", text("user")),
        format!("/groups/{}?user={}", text("group"), text("user")),
    ]
}

#[tokio::test]
async fn everything_that_a_task_contains_is_text() {
    let site = Site::up(&["--slots", "4"]).await;
    let mut tasks = Vec::new();
    for payload in PAYLOADS {
        let task = task_of(payload);
        let answer = site.web.post("/api/v1/tasks", &task).await;
        assert_eq!(answer.status, 201, "{payload}: {}", answer.text());
        let id: TaskId = answer.json()["id"].as_str().unwrap().parse().unwrap();
        tasks.push((id, task));
    }
    let terminal = site.run(terminal_task()).await;
    for (id, _) in &tasks {
        let done = site.system.done(*id).await;
        assert!(done.result.is_some(), "{done:?}");
    }
    site.visit(async |browser| {
        for (id, task) in &tasks {
            let mut shown = 0;
            for path in pages_of(*id, task) {
                shown += u32::from(assert_text_only(browser, &path).await);
            }
            assert!(shown > 0, "no page shows anything of {task:#}");
            // Its files, by the links of its page.
            browser.open(&format!("/tasks/{id}")).await;
            let links = "return Array.from(document.querySelectorAll('a[href*=\"/view?\"]'), link => link.getAttribute('href'))";
            let links: Vec<String> = serde_json::from_value(browser.script(links, &[]).await).unwrap();
            assert!(!links.is_empty());
            for link in links {
                assert!(link.starts_with("/tasks/"), "{link}");
                assert_text_only(browser, &link).await;
            }
        }
        for path in [
            "/",
            "/groups",
            &format!("/tasks/{terminal}"),
            "/overview",
            "/executors",
        ] {
            assert_text_only(browser, path).await;
        }
    })
    .await;
}

/// A judged task and a problem whose every field is the payload. The checker says what the input says.
fn judging_of(payload: &str) -> (Value, Value) {
    let shortened: String = file_name(payload).chars().take(60).collect();
    let printed = payload.replace('\0', "");
    let checker = "import sys\ntext = open(sys.argv[1]).read()\n\
                   for name in ('teammessage.txt', 'judgemessage.txt'): open(sys.argv[3] + name, 'w').write(text)\nsys.exit(43)\n";
    let cases = json!([
        {"name": shortened, "group": shortened, "input": printed, "answer": format!("{printed}\n"), "sample": true, "args": [printed],
         "files": {(file_name(payload)): printed}},
    ]);
    let check = json!({"kind": "program", "protocol": "icpc", "language": "python", "source_code": checker});
    let task = json!({
        "user": shortened, "group": shortened, "execute": {"command": "cat; cat >&2"}, "cases": cases, "check": check,
        "groups": {(shortened.as_str()): {"score": "min"}},
    });
    let problem =
        json!({"owner": shortened, "title": name(payload), "cases": cases, "groups": task["groups"]});
    (task, problem)
}

#[tokio::test]
async fn everything_that_is_judged_is_text() {
    let site = Site::up(&["--slots", "4", "--judge-without-cells"]).await;
    let mut pages = vec!["/problems".to_string()];
    for (number, payload) in PAYLOADS.into_iter().enumerate() {
        let (task, problem) = judging_of(payload);
        let path = format!("/api/v1/problems/p{number}");
        let answer = HttpResponse::of(site.web.request("PUT", &path).json(&problem)).await;
        assert!(matches!(answer.status, 200 | 201), "{payload}: {}", answer.text());
        let id = site.run(task.clone()).await;
        let text = |field: &str| percent_encoded(task[field].as_str().unwrap_or_default());
        pages.extend([
            format!("/tasks/{id}"),
            format!("/tasks/{id}/cases/0"),
            format!("/run?from={id}"),
            format!("/groups/{}/results?user={}", text("group"), text("user")),
            format!("/problems/p{number}"),
            format!("/problems/p{number}/cases/0"),
        ]);
    }
    site.visit(async |browser| {
        let mut shown = 0;
        for path in &pages {
            shown += u32::from(assert_text_only(browser, path).await);
        }
        assert!(shown > 0, "no page shows anything of the payloads");
    })
    .await;
}

#[tokio::test]
async fn everything_in_an_address_is_text() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        // The status of error pages.
        browser.tolerate("Failed to load resource: the server responded with a status of 4");
        for payload in PAYLOADS {
            let text = percent_encoded(payload);
            for path in [
                format!("/?text={text}&user={text}&label={text}&group={text}&executor={text}"),
                format!("/?status={text}&order={text}&from={text}"),
                format!("/?after={text}"),
                format!("/tasks/{text}"),
                format!("/groups/{text}?user={text}"),
                format!("/executors/{text}"),
                format!("/run?language={text}"),
                format!("/run?from={text}"),
                format!("/run?problem={text}"),
                format!("/problems/{text}"),
                format!("/groups/g/results?sort={text}&order={text}"),
                format!("/sign-in?next={text}"),
                format!("/{text}"),
            ] {
                assert_text_only(browser, &path).await;
            }
        }
    })
    .await;
}
