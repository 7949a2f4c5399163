//! Who sees what the cases of a judged task and of a problem contain.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use model::{Judging, TaskSummary, UnixTime, Verdict};
use serde_json::Value;
use tower::ServiceExt;

use crate::fake_calls::{FakeCalls, gateway_with, task_id};
use crate::fake_judging::{judged_task, judging, problem, results, user};
use crate::routes::routes;
use crate::{GatewayOptions, Tokens};

const TOKENS: &str = "token-of-the-owner bob\ntoken-of-submitter ada\ntoken-of-operator root\n";

/// What the owner of the cases alone may see, even of a sample.
const OF_THE_JUDGE: [&str; 3] = [
    "judge message of",
    "source of the checker",
    "argument of the checker",
];
/// What a case contains.
const OF_A_CASE: [&str; 4] = ["input of", "answer of", "file of", "argument of"];
/// What the program has written, which may be a copy of its input.
const OF_THE_PROGRAM: [&str; 2] = ["stdout of", "stderr of"];

/// A request to a gateway with these tokens, and whether they are needed.
struct Reader {
    folder: tempfile::TempDir,
    calls: Arc<FakeCalls>,
}

impl Reader {
    fn new() -> Reader {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokens"), TOKENS).unwrap();
        Reader {
            folder,
            calls: Arc::new(FakeCalls::default()),
        }
    }

    /// Sets the task that the judicator has, of this user and with the cases of a problem or its own.
    fn set_task(&self, of: &str, judging: Judging) {
        let mut task = judged_task(judging, &[Verdict::Accepted, Verdict::WrongAnswer]);
        task.spec.user = user(of);
        *self.calls.task.lock().unwrap() = Some(task);
    }

    /// The status and the body of the answer. Without a token, the server has none.
    async fn get(&self, token: Option<&str>, path: &str) -> (u16, String) {
        let tokens = token.map(|_| Tokens::load(&self.folder.path().join("tokens")).unwrap());
        let options = GatewayOptions {
            tokens,
            operators: [user("root")].into(),
            ..GatewayOptions::default()
        };
        let mut request = Request::get(path).header(header::HOST, "localhost");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let routes = routes(gateway_with(self.calls.clone(), options));
        let response = routes
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn of_problem() -> Judging {
    Judging {
        problem: Some(problem().reference()),
        ..judging()
    }
}

fn assert_shown(body: &str, text: &str, expected: bool) {
    assert_eq!(body.contains(text), expected, "'{text}' in {body}");
}

/// Checks what an answer shows of the sample and of the secret case.
fn assert_secrets(body: &str, shown: bool) {
    for secret in OF_THE_JUDGE {
        let of_sample = format!("{secret} sample");
        let text = if secret.ends_with("of") {
            &of_sample
        } else {
            secret
        };
        assert_shown(body, text, shown);
    }
    for part in OF_A_CASE.into_iter().chain(OF_THE_PROGRAM) {
        assert_shown(body, &format!("{part} sample"), true);
        assert_shown(body, &format!("{part} secret"), shown);
    }
    // The user who submits is told this much.
    assert_shown(body, "message of secret", true);
}

fn address() -> String {
    format!("/api/v1/tasks/{}", task_id())
}

const SUBMITTER: Option<&str> = Some("token-of-submitter");
const OWNER: Option<&str> = Some("token-of-the-owner");
const OPERATOR: Option<&str> = Some("token-of-operator");

#[tokio::test]
async fn only_the_owner_and_operators_see_what_the_cases_of_a_problem_contain() {
    let reader = Reader::new();
    reader.set_task("ada", of_problem());
    for (token, shown) in [(SUBMITTER, false), (OPERATOR, true), (None, true)] {
        let (status, body) = reader.get(token, &address()).await;
        assert_eq!(status, 200, "{body}");
        assert_secrets(&body, shown);
    }
    // The cases of a problem do not make its owner the owner of the tasks.
    let (status, body) = reader.get(OWNER, &address()).await;
    assert_eq!(status, 404, "{body}");
    reader.set_task("bob", of_problem());
    let (_, body) = reader.get(OWNER, &address()).await;
    assert_secrets(&body, true);
}

#[tokio::test]
async fn cases_that_a_task_brings_itself_are_no_secret() {
    let reader = Reader::new();
    reader.set_task("ada", judging());
    let (status, body) = reader.get(SUBMITTER, &address()).await;
    assert_eq!(status, 200, "{body}");
    assert_secrets(&body, true);
}

#[tokio::test]
async fn an_export_hides_the_same() {
    for (token, shown) in [(SUBMITTER, false), (OPERATOR, true)] {
        let reader = Reader::new();
        reader.set_task("ada", of_problem());
        let summary = TaskSummary {
            id: task_id(),
            user: user("ada"),
            priority: 0,
            command: String::new(),
            status: model::TaskStatus::RunFailed,
            reason: None,
            labels: model::Labels::default(),
            group: None,
            language: None,
            executor: None,
            attempt: model::AttemptNumber(1),
            add_time: UnixTime(1),
            start_time: None,
            finish_time: None,
        };
        let page = model::Page {
            tasks: vec![summary],
            next: None,
            complete: true,
        };
        reader.calls.pages.lock().unwrap().push_back(page);
        let (status, body) = reader.get(token, "/api/v1/tasks/export?user=ada").await;
        assert_eq!(status, 200, "{body}");
        assert_secrets(&body, shown);
    }
}

#[tokio::test]
async fn a_problem_shows_its_cases_to_its_owner() {
    let reader = Reader::new();
    *reader.calls.problem.lock().unwrap() = Some(problem());
    for (token, shown) in [(SUBMITTER, false), (OWNER, true), (OPERATOR, true), (None, true)] {
        let (status, body) = reader.get(token, "/api/v1/problems/hello").await;
        assert_eq!(status, 200, "{body}");
        for part in OF_A_CASE {
            assert_shown(&body, &format!("{part} sample"), true);
            assert_shown(&body, &format!("{part} secret"), shown);
        }
        assert_shown(&body, "source of the checker", shown);
        assert_shown(&body, "\"name\":\"secret\"", true);
    }
    *reader.calls.problem.lock().unwrap() = None;
    let (status, body) = reader.get(OWNER, "/api/v1/problems/hello").await;
    assert_eq!(status, 404, "{body}");
    assert!(body.contains("problem hello does not exist"), "{body}");
}

#[tokio::test]
async fn many_results_are_read_from_their_blob() {
    let reader = Reader::new();
    reader.set_task("ada", judging());
    let verdicts = [Verdict::Accepted, Verdict::Skipped];
    let encoded = rpc::encode_case_results(&results(&judging(), &verdicts));
    let hash = reader.calls.put(&encoded);
    let set_cases = |hash| {
        let mut task = reader.calls.task.lock().unwrap();
        let result = task.as_mut().unwrap().result.as_mut().unwrap();
        result.judgement.as_mut().unwrap().cases = model::Content::Blob(hash);
    };
    set_cases(hash);
    let (_, body) = reader.get(SUBMITTER, &address()).await;
    let task: Value = serde_json::from_str(&body).unwrap();
    let cases = &task["result"]["cases"];
    assert_eq!(cases[0]["execute"]["stdout"], "stdout of sample");
    assert_eq!(cases[0]["points"], 1);
    let skipped = serde_json::json!({
        "name": "secret", "verdict": "skipped", "points": 0, "execute": null, "check": null,
    });
    assert_eq!(cases[1], skipped);
    // That a blob is lost is not the fault of the request.
    set_cases(model::BlobHash([1; 32]));
    let (status, body) = reader.get(SUBMITTER, &address()).await;
    assert_eq!(status, 500, "{body}");
}
