//! Tests of the error pages: what they say, and that every error of the routes becomes one in a browser.

use std::net::{IpAddr, Ipv4Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use axum::body::{Body, to_bytes};
use futures::stream;
use tower::ServiceExt;

use super::*;
use crate::GatewayOptions;
use crate::fake_calls::{self, FakeCalls, task_id};
use crate::problem_response::PROBLEM_KINDS;
use crate::quota_key::QuotaKey;
use crate::routes::routes;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[test]
fn browsers_are_recognised_by_their_accept_header() {
    let check = |accept: &'static str, expected: bool| {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        assert_eq!(accepts_html(&headers), expected, "{accept}");
    };
    check(
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        true,
    );
    check("application/json, Text/HTML;q=0.5", true);
    check("text/html;q=0, */*", false);
    check("*/*", false);
    check("application/problem+json", false);
    assert!(!accepts_html(&HeaderMap::new()));
}

#[test]
fn every_problem_says_what_to_do_next_and_leads_on() {
    for kind in PROBLEM_KINDS {
        let problem = Problem {
            kind: format!("/api/docs#{}", kind.name),
            title: kind.title.into(),
            status: kind.status.as_u16(),
            detail: "it is <b>wrong</b>".into(),
            field: None,
            limit: None,
            actual: None,
        };
        let failed = |method: Method, referer: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, "a:7000".parse().unwrap());
            if let Some(referer) = referer {
                headers.insert(header::REFERER, referer.parse().unwrap());
            }
            let uri = Uri::from_static("/tasks/x?a=b");
            content(&problem, &FailedRequest { method, uri, headers }).into_string()
        };
        let shown = failed(Method::GET, None);
        assert!(shown.contains("it is &lt;b&gt;wrong"), "{shown}");
        assert!(shown.contains("href=\"/\""), "{shown}");
        assert!(!shown.contains("page before"), "{shown}");
        let is_temporary = is_temporary(problem.status);
        assert_eq!(shown.contains("href=\"/tasks/x?a=b\""), is_temporary, "{shown}");
        let is_sign_in = problem.status == 401;
        let sign_in = "href=\"/sign-in?next=%2Ftasks%2Fx%3Fa%3Db\"";
        assert_eq!(shown.contains(sign_in), is_sign_in, "{shown}");

        let shown = failed(Method::POST, Some("http://a:7000/tasks/y"));
        assert!(shown.contains("href=\"/tasks/y\""), "{shown}");
        assert!(!shown.contains("Try again<"), "{shown}");
        let shown = failed(Method::POST, Some("http://evil.example/tasks/y"));
        assert!(!shown.contains("evil"), "{shown}");
    }
}

/// Sends the request as a browser does, and returns the status and the page.
async fn page(gateway: &Arc<Gateway>, request: axum::http::request::Builder, body: Body) -> (u16, String) {
    let request = request.header(header::ACCEPT, BROWSER).body(body).unwrap();
    let response = routes(gateway.clone()).oneshot(request).await.unwrap();
    let headers = response.headers().clone();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let case = format!("{status} {headers:?} {text}");
    assert!(
        headers[header::CONTENT_TYPE]
            .to_str()
            .unwrap()
            .starts_with("text/html"),
        "{case}"
    );
    assert!(headers.contains_key(header::CONTENT_SECURITY_POLICY), "{case}");
    assert!(text.contains("<h1>") && text.contains("href=\"/\""), "{case}");
    assert!(text.contains(&format!("Status {status}")), "{case}");
    let has = |name: header::HeaderName| headers.contains_key(name);
    assert_eq!(has(header::RETRY_AFTER), matches!(status, 429 | 503), "{case}");
    assert_eq!(has(header::ALLOW), status == 405, "{case}");
    assert_eq!(has(header::WWW_AUTHENTICATE), status == 401, "{case}");
    (status, text)
}

fn with(options: GatewayOptions) -> Arc<Gateway> {
    fake_calls::gateway_with(Arc::new(FakeCalls::default()), options)
}

#[tokio::test]
async fn every_error_is_a_page_in_a_browser() {
    let gateway = with(GatewayOptions {
        max_body: 100,
        ..GatewayOptions::default()
    });
    let check = async |method: &str,
                       path: &str,
                       headers: &[(&str, &str)],
                       body: &'static str,
                       expected: (u16, &str)| {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (status, text) = page(&gateway, request, Body::from(body)).await;
        assert_eq!(status, expected.0, "{method} {path}: {text}");
        assert!(text.contains(expected.1), "{method} {path}: {text}");
    };
    let json = ("content-type", "application/json");
    let other_site = ("sec-fetch-site", "cross-site");
    check("POST", "/api/v1/tasks", &[json], "{", (400, "Malformed request")).await;
    check("POST", "/", &[], "", (405, "not allowed for /")).await;
    check("GET", "/sign-out", &[], "", (405, "not allowed for /sign-out")).await;
    check(
        "POST",
        "/sign-out",
        &[other_site],
        "",
        (403, "cross-site requests are refused"),
    )
    .await;
    check("GET", "/", &[("host", "evil.example")], "", (403, "evil.example")).await;
    check("GET", "/%3Cb%3E", &[], "", (404, "/%3Cb%3E does not exist")).await;
    check("GET", "/groups/", &[], "", (404, "does not exist")).await;
    let task = format!("/tasks/{}", task_id().0);
    check("GET", &task, &[], "", (404, "does not exist")).await;
    check("GET", &format!("/api/v1{task}"), &[], "", (404, "does not exist")).await;
    let large = "{\"execute\": {\"command\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}}";
    check("POST", "/api/v1/tasks", &[json], large, (413, "too large")).await;
    check(
        "POST",
        "/sign-in",
        &[json],
        "{}",
        (415, "send application/x-www-form-urlencoded"),
    )
    .await;
    check("GET", "/?stauts=x", &[], "", (422, "stauts")).await;
    check("GET", "/tasks/x", &[], "", (422, "Invalid")).await;
    check(
        "GET",
        "/groups",
        &[],
        "",
        (503, "the fake judicator has no such call"),
    )
    .await;
}

#[tokio::test]
async fn a_call_without_a_token_is_a_page_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "a-token-of-some-length ada\n").unwrap();
    let gateway = with(GatewayOptions {
        tokens: Some(crate::Tokens::load(&tokens).unwrap()),
        ..GatewayOptions::default()
    });
    let request = Request::get("/api/v1/stats?a=b");
    let (status, text) = page(&gateway, request, Body::empty()).await;
    assert_eq!(status, 401);
    assert!(
        text.contains("href=\"/sign-in?next=%2Fapi%2Fv1%2Fstats%3Fa%3Db\""),
        "{text}"
    );
}

#[tokio::test]
async fn exceeded_limits_are_pages_in_a_browser() {
    let gateway = with(GatewayOptions {
        max_requests: 4,
        ..GatewayOptions::default()
    });
    let address = |last| QuotaKey::from(IpAddr::from(Ipv4Addr::new(0, 0, 0, last)));
    // Requests without a peer address count for 0.0.0.0.
    let own = gateway.requests.acquire(&address(0), 2).unwrap();
    let (status, text) = page(&gateway, Request::get("/"), Body::empty()).await;
    assert_eq!(status, 429);
    assert!(
        text.contains("limit 2 for one caller") && text.contains("Try again"),
        "{text}"
    );
    drop(own);
    let _others = [1, 2].map(|last| gateway.requests.acquire(&address(last), 2).unwrap());
    let (status, text) = page(&gateway, Request::get("/?user=ada"), Body::empty()).await;
    assert_eq!(status, 503);
    assert!(text.contains("href=\"/?user=ada\""), "{text}");
}

#[test]
fn a_failed_sign_in_leads_back_to_its_form_and_the_requested_page() {
    let problem = Problem {
        kind: "/api/docs#too-many".into(),
        title: "Too many".into(),
        status: 429,
        detail: "wait".into(),
        field: None,
        limit: None,
        actual: None,
    };
    for method in [Method::GET, Method::POST] {
        let uri = Uri::from_static("/sign-in?next=%2Fgroups");
        let headers = HeaderMap::new();
        let shown = content(&problem, &FailedRequest { method, uri, headers }).into_string();
        assert_eq!(
            shown.matches("href=\"/sign-in?next=%2Fgroups\"").count(),
            1,
            "{shown}"
        );
    }
}

#[tokio::test]
async fn a_panic_is_a_page_in_a_browser() {
    let calls = Arc::new(FakeCalls::default());
    // The fake judicator unwraps its lock.
    let poisoned = catch_unwind(AssertUnwindSafe(|| {
        let _task = calls.task.lock();
        panic!("a panic of the test");
    }));
    assert!(poisoned.is_err());
    let gateway = fake_calls::gateway_with(calls, GatewayOptions::default());
    let path = format!("/tasks/{}", task_id().0);
    let (status, text) = page(&gateway, Request::get(&path), Body::empty()).await;
    assert_eq!(status, 500);
    assert!(
        text.contains("Internal error") && text.contains("tell the operator"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_arrives_too_slowly_is_a_page_in_a_browser() {
    let gateway = with(GatewayOptions::default());
    let body = Body::from_stream(stream::pending::<Result<bytes::Bytes, std::io::Error>>());
    let request = Request::post("/sign-in").header("content-type", "application/x-www-form-urlencoded");
    let (status, text) = page(&gateway, request, body).await;
    assert_eq!(status, 408, "{text}");
}

#[tokio::test]
async fn programs_get_problem_details() {
    let gateway = with(GatewayOptions::default());
    let check = async |method: &str, path: &str, accept: Option<&str>, expected: &str| {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = routes(gateway.clone()).oneshot(request).await.unwrap();
        let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap();
        assert!(kind.starts_with(expected), "{method} {path} {accept:?}: {kind}");
    };
    let json = Problem::MEDIA_TYPE;
    check("GET", "/api/v1/stats", None, json).await;
    check("GET", "/api/v1/stats", Some("*/*"), json).await;
    check("GET", "/api/v1/stats", Some("application/json"), json).await;
    check("GET", "/nowhere", Some("*/*"), json).await;
    check("PUT", "/", Some("*/*"), json).await;
    check("GET", "/groups", Some("*/*"), "text/html").await;
}
