use axum::body::{Body, to_bytes};
use model::{BlobHash, Content, JudgeProtocol};
use rpc::Calls;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::fake_calls::{FakeCalls, gateway_with};
use crate::fake_judging::user;
use crate::routes::routes;
use crate::{GatewayOptions, Tokens};

/// The tokens of the requests are the names of the users with this before them.
const TOKEN: &str = "a-token-of-the-user-";

/// A gateway with tokens, and the judicator that it calls.
struct TokenGateway {
    folder: tempfile::TempDir,
    calls: Arc<FakeCalls>,
}

impl TokenGateway {
    fn new() -> TokenGateway {
        let folder = tempfile::tempdir().unwrap();
        let lines = ["ada", "bob", "root"].map(|name| format!("{TOKEN}{name} {name}\n"));
        std::fs::write(folder.path().join("tokens"), lines.concat()).unwrap();
        TokenGateway {
            folder,
            calls: Arc::new(FakeCalls::default()),
        }
    }

    /// The status and the body of the answer to this user.
    async fn put(&self, name: &str, body: &Value) -> (u16, Value) {
        let options = GatewayOptions {
            tokens: Some(Tokens::load(&self.folder.path().join("tokens")).unwrap()),
            operators: [user("root")].into(),
            ..GatewayOptions::default()
        };
        let request = Request::put("/api/v1/problems/hello")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}{name}"))
            .body(Body::from(body.to_string()))
            .unwrap();
        let routes = routes(gateway_with(self.calls.clone(), options));
        let response = routes.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    fn stored(&self) -> model::JudgeProblem {
        self.calls.problem.lock().unwrap().clone().unwrap()
    }
}

#[tokio::test]
async fn a_problem_is_stored_with_its_contents_as_blobs() {
    let gateway = TokenGateway::new();
    let large = "x".repeat(1000);
    let new = json!({
        "title": "Hello",
        "cases": [{"name": "1", "input": large, "answer": "small", "points": 2.5}],
        "check": {"kind": "program", "protocol": "testlib", "language": "cpp", "source_code": large},
        "limits": {"cpu": "1s"},
    });
    let (status, answer) = gateway.put("ada", &new).await;
    assert_eq!(status, 200, "{answer}");
    let stored = gateway.stored();
    let blob = Content::Blob(BlobHash::of(large.as_bytes()));
    assert_eq!((stored.owner.as_str(), stored.title.as_str()), ("ada", "Hello"));
    assert_eq!(stored.judging.cases[0].input, blob);
    assert_eq!(
        stored.judging.cases[0].answer,
        Some(Content::Inline("small".into()))
    );
    let program = stored.judging.check.program().unwrap();
    assert_eq!(program.protocol, JudgeProtocol::Testlib);
    assert!(program.source.values().all(|file| file.content == blob));
    assert_eq!(stored.limits.cpu, Some(std::time::Duration::from_secs(1)));
    // The blobs are at the judicator.
    let found = gateway.calls.get_blob(BlobHash::of(large.as_bytes())).await;
    assert!(found.is_ok());
    // The answer is what the owner may see.
    assert_eq!(answer["cases"][0]["answer"], "small");
    assert_eq!(
        answer["check"]["source_code"]["blob"],
        BlobHash::of(large.as_bytes()).to_string()
    );
}

#[tokio::test]
async fn the_owner_is_the_user_of_the_token_unless_an_operator_names_one() {
    let gateway = TokenGateway::new();
    let problem = |owner: Option<&str>| json!({"owner": owner, "cases": [{"name": "1"}]});
    let check = async |caller: &str, owner: Option<&str>, expected: Result<&str, &str>| {
        let (status, answer) = gateway.put(caller, &problem(owner)).await;
        match expected {
            Ok(expected) => assert_eq!((status, gateway.stored().owner.as_str()), (200, expected)),
            Err(field) => assert_eq!((status, &answer["field"]), (422, &json!(field)), "{answer}"),
        }
    };
    check("ada", None, Ok("ada")).await;
    check("ada", Some("ada"), Ok("ada")).await;
    check("ada", Some("bob"), Err("owner")).await;
    check("root", None, Ok("root")).await;
    check("root", Some("bob"), Ok("bob")).await;
}

#[tokio::test]
async fn errors_name_the_place() {
    let gateway = TokenGateway::new();
    let check = async |problem: Value, field: &str, words: &str| {
        let (status, answer) = gateway.put("ada", &problem).await;
        assert_eq!((status, &answer["field"]), (422, &json!(field)), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains(words), "{answer}");
    };
    check(json!({}), "cases", "is missing").await;
    check(json!({"cases": {"README": ""}}), "cases", "has no file NAME.in").await;
    check(json!({"cases": {"1.ans": ""}}), "cases.1.ans", "add 1.in").await;
    let program = json!({"protocol": "icpc", "source_code": "x"});
    let cases = json!([{"name": "1"}]);
    check(
        json!({"cases": cases, "interact": program}),
        "interact.source_code",
        "needs a language",
    )
    .await;
    check(
        json!({"cases": cases, "check": {"kind": "none"}, "interact": program}),
        "interact.source_code",
        "needs a language",
    )
    .await;
    check(
        json!({"cases": [{"name": "1", "files": {"zip": {"base64": "aGk="}}}]}),
        "cases[0].files",
        "is not a zip",
    )
    .await;
}
