//! Signing in with a browser, where the server has tokens.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use cluster_tests::{HttpResponse, RawHttpClient, TestSystem, wait_until};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{SingleNode, sha256_hex, text};

const ADA: &str = "ada-has-a-long-token/+=;\"";
const BOB: &str = "bob-has-another-token";
const SOON: Duration = Duration::from_secs(60);
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// A node with tokens, and a client that does what a browser does, but shows redirects.
struct SignInTest {
    node: SingleNode,
    web: RawHttpClient,
}

impl SignInTest {
    fn new(flags: &[&str]) -> SignInTest {
        let system = TestSystem::new().expect("a folder");
        let tokens = system.folder.path().join("tokens");
        std::fs::write(&tokens, format!("{ADA} ada\n{BOB} bob\n")).expect("a file");
        let node = SingleNode::on(system, &[&["--tokens-file", text(&tokens)], flags].concat());
        let web = RawHttpClient::without_redirects(&node.system.url(""));
        SignInTest { node, web }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> HttpResponse {
        let mut request = self.web.request(method, path).header("Accept", BROWSER);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        HttpResponse::of(request).await
    }

    async fn get(&self, path: &str, cookie: &str) -> HttpResponse {
        self.send("GET", path, &[("Cookie", cookie)]).await
    }

    async fn submit(&self, token: &str, next: &str, headers: &[(&str, &str)]) -> HttpResponse {
        submit(&self.web, token, next, headers).await
    }

    /// With the port, because browsers send the cookies of a host to all its ports.
    fn cookie_name(&self) -> String {
        let url = self.node.system.url("");
        let (_, port) = url.rsplit_once(':').expect("a port");
        format!("conclave-{}", port.trim_end_matches('/'))
    }

    /// Signs in, and returns the cookie as the browser sends it.
    async fn sign_in(&self, token: &str) -> String {
        let answer = self.submit(token, "/", &[]).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        cookie_of(&answer)
    }
}

async fn submit(web: &RawHttpClient, token: &str, next: &str, headers: &[(&str, &str)]) -> HttpResponse {
    let encode = |value: &str| -> String { value.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    let mut request = web
        .request("POST", "/sign-in")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("next={}&token={}", encode(next), encode(token)));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    HttpResponse::of(request).await
}

fn cookie_of(answer: &HttpResponse) -> String {
    let set = answer.header("set-cookie");
    set.split(';').next().expect("a cookie").to_string()
}

fn assert_asks_to_sign_in(answer: &HttpResponse, path: &str) {
    assert_eq!((answer.status, answer.header("location")), (303, path));
}

#[tokio::test]
async fn a_browser_signs_in_sees_its_own_tasks_and_signs_out() {
    let test = SignInTest::new(&[]);
    let asked = test.get("/groups/a%20b?user=ada", "").await;
    assert_asks_to_sign_in(&asked, "/sign-in?next=%2Fgroups%2Fa%2520b%3Fuser%3Dada");
    let page = test.get(asked.header("location"), "").await;
    assert_eq!(page.status, 200);
    for expected in [
        "name=\"token\"",
        "value=\"/groups/a%20b?user=ada\"",
        "What is a token?",
    ] {
        assert!(page.text().contains(expected), "{expected}: {}", page.text());
    }
    assert!(
        page.header("content-security-policy")
            .contains("form-action 'self'")
    );

    let wrong = test.submit("wrong-token-of-ours", "/groups", &[]).await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, ""));
    assert_eq!(wrong.header("www-authenticate"), "Bearer");
    assert!(
        wrong.text().contains("not valid on this server"),
        "{}",
        wrong.text()
    );
    assert!(wrong.text().contains("value=\"/groups\""), "{}", wrong.text());
    assert!(
        !wrong.text().contains("wrong-token-of-ours"),
        "the page repeats the token"
    );

    // Spaces around a token come from copying it.
    let signed_in = test.submit(&format!(" {ADA}\n"), "/groups", &[]).await;
    assert_asks_to_sign_in(&signed_in, "/groups");
    let set = signed_in.header("set-cookie");
    let name = test.cookie_name();
    assert!(set.starts_with(&format!("{name}=")), "{set}");
    assert!(
        set.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200"),
        "{set}"
    );
    assert_eq!(signed_in.header("cache-control"), "no-store");
    let ada = cookie_of(&signed_in);
    let bob = test.sign_in(BOB).await;

    // Pages and calls.
    let task = json!({"execute": {"command": "echo a-task-of-ada"}});
    let request = test
        .web
        .request("POST", "/api/v1/tasks?wait=60")
        .header("Cookie", &ada);
    let task = HttpResponse::of(request.json(&task)).await.json();
    assert_eq!(task["user"], "ada");
    let id = task["id"].as_str().unwrap();
    for (cookie, sees) in [(&ada, true), (&bob, false)] {
        let list = test.get("/", cookie).await;
        assert_eq!(list.status, 200);
        assert_eq!(list.text().contains(id), sees, "{}", list.text());
        let status = if sees { 200 } else { 404 };
        assert_eq!(test.get(&format!("/tasks/{id}"), cookie).await.status, status);
        let call = format!("/api/v1/tasks/{id}/execute/stdout");
        assert_eq!(test.get(&call, cookie).await.status, status);
    }
    // The header goes on working, and an old one does not hide the cookie.
    for authorization in [format!("Bearer {BOB}"), "Bearer old-token-of-ours".into()] {
        let headers = [
            ("Cookie", bob.as_str()),
            ("Authorization", authorization.as_str()),
        ];
        assert_eq!(test.send("GET", "/", &headers).await.status, 200);
    }
    // Someone who is signed in needs no form.
    assert_asks_to_sign_in(&test.get("/sign-in?next=%2Fgroups", &ada).await, "/groups");

    let out = test.send("POST", "/sign-out", &[("Cookie", &ada)]).await;
    assert_asks_to_sign_in(&out, "/sign-in");
    let set = out.header("set-cookie");
    assert!(
        set.starts_with(&format!("{name}=;")) && set.contains("Max-Age=0"),
        "{set}"
    );
    assert_eq!(test.get("/sign-out", "").await.status, 405);
    let log = test.node.up.log();
    assert!(!log.contains(ADA) && !log.contains(BOB), "a token is in the log");
}

#[tokio::test]
async fn calls_without_a_sign_in_are_answered_with_401_and_pages_with_the_sign_in_page() {
    let test = SignInTest::new(&["--slots", "0"]);
    let name = test.cookie_name();
    let invalid = [
        String::new(),
        format!("{name}=x"),
        format!("{name}=YWRhLWhhcy1hLWxvbmctdG9rZW4.9999999999.AAAA"),
    ];
    for cookie in invalid.iter().map(String::as_str) {
        for path in ["/", "/tasks/x", "/groups", "/languages"] {
            let expected = format!("/sign-in?next={}", path.replace('/', "%2F"));
            assert_asks_to_sign_in(&test.get(path, cookie).await, &expected);
        }
        for path in ["/api/v1/tasks", "/api/v1/stats", "/metrics"] {
            let request = test.web.request("GET", path).header("Cookie", cookie);
            let answer = HttpResponse::of(request).await;
            answer.assert_problem(401);
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            // A person who opens the address of a call sees a page, without a pop-up for a password.
            let page = test.get(path, cookie).await;
            assert_eq!((page.status, page.header("www-authenticate")), (401, "Bearer"));
            assert!(page.text().contains("href=\"/sign-in?next="), "{}", page.text());
        }
    }
    // A form leads back to the page that it is on.
    let base = test.node.system.url("");
    let referer = format!("{}/groups", base.trim_end_matches('/'));
    let headers = [("Referer", referer.as_str())];
    let form = test.send("POST", "/tasks/x/cancel", &headers).await;
    assert_asks_to_sign_in(&form, "/sign-in?next=%2Fgroups");
    // htmx opens the sign-in page instead of showing it as a part of the page.
    let part = [("Referer", referer.as_str()), ("HX-Request", "true")];
    let part = test.send("GET", "/", &part).await;
    assert_eq!(
        (part.status, part.header("hx-redirect")),
        (401, "/sign-in?next=%2Fgroups")
    );
}

#[tokio::test]
async fn a_sign_in_leads_only_to_pages_of_this_server() {
    let test = SignInTest::new(&["--slots", "0"]);
    let cookie = test.sign_in(ADA).await;
    for (next, expected) in [
        ("/tasks/x?a=b", "/tasks/x?a=b"),
        ("//evil.example", "/"),
        ("///evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
        ("https://evil.example", "/"),
        ("https:evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("evil.example", "/"),
        ("", "/"),
    ] {
        assert_asks_to_sign_in(&test.submit(ADA, next, &[]).await, expected);
        let encoded: String = next.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let opened = test.get(&format!("/sign-in?next={encoded}"), &cookie).await;
        assert_asks_to_sign_in(&opened, expected);
        let form = test.get(&format!("/sign-in?next={encoded}"), "").await.text();
        assert!(form.contains(&format!("value=\"{expected}\"")), "{next}: {form}");
    }
}

#[tokio::test]
async fn a_sign_in_ends_when_it_expires_or_its_token_is_removed() {
    let test = SignInTest::new(&["--slots", "0", "--set", "gateway.sign_in_time=2s"]);
    let answer = test.submit(ADA, "/", &[]).await;
    assert!(
        answer.header("set-cookie").ends_with("; Max-Age=2"),
        "{:?}",
        answer.headers
    );
    let cookie = cookie_of(&answer);
    assert_eq!(test.get("/", &cookie).await.status, 200);
    // The server counts too: the client sends the cookie for ever.
    wait_until("the sign-in to expire", SOON, async || {
        (test.get("/", &cookie).await.status == 303).then_some(())
    })
    .await;
    assert_eq!(test.get("/api/v1/stats", &cookie).await.status, 401);

    let test = SignInTest::new(&["--slots", "0"]);
    let (ada, bob) = (test.sign_in(ADA).await, test.sign_in(BOB).await);
    let tokens = test.node.system.folder.path().join("tokens");
    std::fs::write(&tokens, format!("{BOB} bob\n")).unwrap();
    test.node.up.signal(Signal::SIGHUP);
    wait_until("the token to be removed", SOON, async || {
        (test.get("/", &ada).await.status == 303).then_some(())
    })
    .await;
    assert_eq!(test.get("/api/v1/stats", &ada).await.status, 401);
    assert_eq!(test.get("/", &bob).await.status, 200);
}

#[tokio::test]
async fn other_sites_can_neither_use_a_sign_in_nor_make_one() {
    let test = SignInTest::new(&["--slots", "0"]);
    let cookie = test.sign_in(ADA).await;
    let content = "content";
    let blob = format!("/api/v1/blobs/{}", sha256_hex(content));
    let task = r#"{"execute": {"command": "true"}}"#;
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
    ] {
        for (method, path, body) in [
            ("POST", "/api/v1/tasks", task),
            ("PUT", blob.as_str(), content),
            ("DELETE", "/api/v1/tasks?status=pending", ""),
            ("POST", "/tasks/x/cancel", ""),
            ("POST", "/sign-out", ""),
        ] {
            let request = test
                .web
                .request(method, path)
                .header("Cookie", &cookie)
                .header(name, value);
            let answer = HttpResponse::of(request.body(body)).await;
            assert_eq!(answer.status, 403, "{method} {path} {name}: {value}");
        }
        // Nobody is signed in as someone else without noticing.
        assert_eq!(test.submit(ADA, "/", &[(name, value)]).await.status, 403);
    }
    // Reading changes nothing, but a cookie does not count there either.
    for site in ["cross-site", "same-site"] {
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", site),
            ("Sec-Fetch-Mode", "no-cors"),
        ];
        assert_eq!(test.send("GET", "/api/v1/stats", &headers).await.status, 401);
        assert_eq!(test.send("GET", &blob, &headers).await.status, 401);
    }
    for site in ["same-origin", "none"] {
        let headers = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", site)];
        assert_eq!(test.send("GET", "/api/v1/stats", &headers).await.status, 200);
    }
    let own = test
        .web
        .request("PUT", &blob)
        .header("Cookie", &cookie)
        .header("Sec-Fetch-Site", "same-origin");
    assert_eq!(HttpResponse::of(own.body(content)).await.status, 201);
}

/// Browsers send no `SameSite=Strict` cookie with a request that follows a link of another site.
#[tokio::test]
async fn a_link_of_another_site_opens_the_page_without_another_sign_in() {
    let test = SignInTest::new(&["--slots", "0"]);
    let cookie = test.sign_in(ADA).await;
    let link = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")];
    let page = test.send("GET", "/groups?user=ada", &link).await;
    assert_eq!((page.status, page.header("cache-control")), (200, "no-store"));
    let refresh = "http-equiv=\"refresh\" content=\"0; url=/sign-in?next=%2Fgroups%3Fuser%3Dada\"";
    assert!(page.text().contains(refresh), "{}", page.text());
    // What that page opens is a request of this site.
    let own = [("Sec-Fetch-Site", "same-origin"), ("Cookie", cookie.as_str())];
    let signed_in = test
        .send("GET", "/sign-in?next=%2Fgroups%3Fuser%3Dada", &own)
        .await;
    assert_asks_to_sign_in(&signed_in, "/groups?user=ada");
    // Without a sign-in the form is the end, also in a browser that takes it for a request of the other site.
    for site in ["same-origin", "cross-site"] {
        let form = test
            .send("GET", "/sign-in?next=%2Fgroups", &[("Sec-Fetch-Site", site)])
            .await;
        assert_eq!(form.status, 200);
        assert!(form.text().contains("name=\"token\""), "{}", form.text());
        assert!(!form.text().contains("refresh"), "{}", form.text());
    }
}

#[tokio::test]
async fn behind_a_tls_proxy_the_cookie_is_secure() {
    let test = SignInTest::new(&["--slots", "0"]);
    let tls = ("X-Forwarded-Proto", "https");
    let answer = test.submit(ADA, "/", &[tls]).await;
    let set = answer.header("set-cookie");
    assert!(
        set.starts_with(&format!("__Host-{}=", test.cookie_name())) && set.ends_with("; Secure"),
        "{set}"
    );
    let cookie = cookie_of(&answer);
    assert_eq!(
        test.send("GET", "/", &[tls, ("Cookie", &cookie)]).await.status,
        200
    );
    let out = test.send("POST", "/sign-out", &[tls, ("Cookie", &cookie)]).await;
    assert!(
        out.header("set-cookie")
            .starts_with(&format!("__Host-{}=;", test.cookie_name())),
        "{:?}",
        out.headers
    );
}

#[tokio::test]
async fn guesses_are_bounded_for_each_address() {
    let test = SignInTest::new(&["--slots", "0"]);
    for _ in 0..10 {
        assert_eq!(test.submit("wrong-token-of-ours", "/", &[]).await.status, 401);
    }
    let refused = test.submit(ADA, "/", &[]).await;
    assert_eq!((refused.status, refused.header("set-cookie")), (429, ""));
    assert_eq!(refused.header("retry-after"), "10");
    assert!(refused.text().contains("too many sign-ins"), "{}", refused.text());
    let other = IpAddr::from(Ipv4Addr::new(127, 0, 0, 7));
    let other = RawHttpClient::from_address(&test.node.system.url(""), other);
    assert_eq!(submit(&other, ADA, "/", &[]).await.status, 200);
    // Calls with the header are not concerned, and the pause ends.
    let request = test.web.request("GET", "/api/v1/stats").bearer_auth(ADA);
    assert_eq!(HttpResponse::of(request).await.status, 200);
    wait_until("the next sign-in", SOON, async || {
        (test.submit(ADA, "/", &[]).await.status == 303).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_without_tokens_needs_no_sign_in() {
    let node = SingleNode::up(&["--slots", "0"]);
    let web = RawHttpClient::without_redirects(&node.system.url(""));
    assert_asks_to_sign_in(&web.get("/sign-in?next=%2Fgroups").await, "/groups");
    assert_asks_to_sign_in(&submit(&web, "x", "/groups", &[]).await, "/groups");
    let request = web.request("POST", "/sign-in").json(&json!({}));
    assert_eq!(HttpResponse::of(request).await.status, 415);
    let large = "x".repeat(33 << 10);
    assert_eq!(submit(&web, &large, "/", &[]).await.status, 413);
}
