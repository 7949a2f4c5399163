//! Signing in with a token: the asked page opens afterwards, each user sees their own tasks, operators see all.

use cluster_tests::{Browser, HttpResponse, Role, TestSystem};
use serde_json::{Value, json};

use crate::harness::Site;

pub(crate) const ADA: &str = "ada-has-a-long-token";
pub(crate) const BOB: &str = "bob-has-another-token";
const OLGA: &str = "olga-operates-this-server";

pub(crate) async fn site_with_tokens(flags: &[&str]) -> Site {
    let system = TestSystem::new().expect("a folder");
    let tokens = system.folder.path().join("tokens");
    std::fs::write(&tokens, format!("{ADA} ada\n{BOB} Bob Bobson\n{OLGA} olga\n")).expect("a file");
    let tokens = tokens.display().to_string();
    Site::on(system, &[&["--tokens-file", &tokens], flags].concat()).await
}

async fn run_as(site: &Site, token: &str, command: &str) -> String {
    let task = json!({"execute": {"command": command}});
    let request = site.web.request("POST", "/api/v1/tasks?wait=60").json(&task);
    let answer = HttpResponse::of(request.bearer_auth(token)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_string()
}

pub(crate) async fn sign_in(browser: &Browser, token: &str) {
    browser.fill("Token", token).await;
    browser.click(Role::Button, "Sign in").await;
}

#[tokio::test]
async fn the_requested_page_opens_after_signing_in() {
    let site = site_with_tokens(&[]).await;
    let id = run_as(&site, ADA, "echo from ada").await;
    site.visit(async |browser| {
        browser.tolerate("the server responded with a status of 401");
        browser.open(&format!("/tasks/{id}")).await;
        browser.wait_for_path("/sign-in?next=*").await;
        browser.assert_accessible().await;
        // The reader can type at once.
        assert_eq!(browser.focused().await.0, "Token");
        sign_in(browser, "no-such-token").await;
        browser.wait_for_text("not valid").await;
        browser.assert_accessible().await;
        sign_in(browser, ADA).await;
        browser.wait_for_path(&format!("/tasks/{id}")).await;
        browser.wait_for_text("from ada").await;

        let cookies = browser.devtools("Network.getCookies", json!({})).await;
        let cookies = cookies["cookies"].as_array().unwrap().clone();
        assert_eq!(cookies.len(), 1, "{cookies:?}");
        let cookie = &cookies[0];
        assert_eq!(
            (&cookie["httpOnly"], &cookie["sameSite"]),
            (&Value::from(true), &"Strict".into()),
            "{cookie}"
        );
        assert_eq!(browser.script("return document.cookie", &[]).await, "");

        // A new start of the page is still signed in; signing out ends that.
        browser.open("/").await;
        browser.wait_for_text("ada").await;
        browser.click(Role::Button, "Sign out").await;
        browser.wait_for_path("/sign-in").await;
        browser.open("/groups").await;
        browser.wait_for_path("/sign-in?next=*").await;
    })
    .await;
}

#[tokio::test]
async fn the_page_says_when_the_sign_in_has_expired() {
    // Long enough to sign in on a busy machine.
    let site = site_with_tokens(&["--set", "gateway.sign_in_time=20s"]).await;
    site.visit(async |browser| {
        browser.tolerate("the server responded with a status of 401");
        // What htmx says of a stream that ends.
        browser.tolerate("[object Event]");
        browser.open("/groups").await;
        sign_in(browser, ADA).await;
        browser.wait_for_path("/groups").await;
        browser.open("/").await;
        browser.wait_for_text("You are not signed in any more").await;
        // What others add now does not come.
        run_as(&site, ADA, "echo too late").await;
        browser.assert_accessible().await;
        assert!(!browser.text().await.contains("too late"));
        browser.click(Role::Link, "Sign in").await;
        browser.wait_for_path("/sign-in?next=%2F").await;
        sign_in(browser, ADA).await;
        browser.wait_for_text("echo too late").await;
    })
    .await;
}

#[tokio::test]
async fn two_users_in_two_browsers_see_their_own_tasks() {
    let site = site_with_tokens(&[]).await;
    let of_ada = run_as(&site, ADA, "echo alpha").await;
    let of_bob = run_as(&site, BOB, "echo beta").await;
    site.visit(async |first| {
        site.visit(async |second| {
            for (browser, token, own, other) in
                [(first, ADA, "alpha", "beta"), (second, BOB, "beta", "alpha")]
            {
                browser.open("/").await;
                sign_in(browser, token).await;
                browser.wait_for_text(&format!("echo {own}")).await;
                assert!(!browser.text().await.contains(other));
            }
            // The other's task does not exist.
            second.tolerate("the server responded with a status of 404");
            second.open(&format!("/tasks/{of_ada}")).await;
            second.wait_for_text("Not found").await;
            assert!(!second.text().await.contains("alpha"));
            // What one adds appears for him, and not for the other.
            first.open("/").await;
            second.open("/").await;
            run_as(&site, BOB, "echo gamma").await;
            second.wait_for_text("echo gamma").await;
            run_as(&site, ADA, "echo delta").await;
            first.wait_for_text("echo delta").await;
            assert!(!first.text().await.contains("gamma"));
            // One signs out, and the other stays.
            first.click(Role::Button, "Sign out").await;
            first.wait_for_path("/sign-in").await;
            second.open(&format!("/tasks/{of_bob}")).await;
            second.wait_for_text("beta").await;
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn operators_see_the_tasks_of_all() {
    let site = site_with_tokens(&["--set", "gateway.operators=olga"]).await;
    run_as(&site, ADA, "echo alpha").await;
    run_as(&site, BOB, "echo beta").await;
    site.visit(async |browser| {
        browser.open("/").await;
        sign_in(browser, OLGA).await;
        browser.wait_for_text("echo alpha").await;
        browser.wait_for_text("echo beta").await;
        // Only operators may drain.
        browser.open("/executors").await;
        browser.click(Role::Link, &host_name()).await;
        browser.control(Role::Button, "Drain").await;
        browser.click(Role::Button, "Sign out").await;
        browser.wait_for_path("/sign-in").await;
        browser.open("/executors").await;
        sign_in(browser, ADA).await;
        browser.wait_for_path("/executors").await;
        assert!(!browser.has_control(Role::Button, "Drain").await);
    })
    .await;
}

/// The name of the executor of `conclave up`.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
    name.trim().to_string()
}

#[tokio::test]
async fn servers_on_two_ports_of_a_host_keep_their_sign_ins() {
    let first = site_with_tokens(&["--slots", "0"]).await;
    let second = site_with_tokens(&["--slots", "0"]).await;
    first
        .visit(async |browser| {
            browser.open("/").await;
            sign_in(browser, ADA).await;
            browser.wait_for_path("/").await;
            let other = json!(second.system.url("/"));
            browser.script("location.href = arguments[0]", &[other]).await;
            browser.wait_for_path("/sign-in?next=*").await;
            sign_in(browser, BOB).await;
            browser.wait_for_text("Bob Bobson").await;
            browser.open("/").await;
            browser.wait_for_text("ada").await;
            browser.click(Role::Button, "Sign out").await;
            browser.wait_for_path("/sign-in").await;
            let other = json!(second.system.url("/groups"));
            browser.script("location.href = arguments[0]", &[other]).await;
            browser.wait_for_text("Bob Bobson").await;
        })
        .await;
}

#[tokio::test]
async fn a_run_after_the_sign_in_has_ended_says_so() {
    let site = site_with_tokens(&["--slots", "0"]).await;
    site.visit(async |browser| {
        browser.tolerate("the server responded with a status of 401");
        browser.open("/run?language=bash").await;
        sign_in(browser, ADA).await;
        browser.wait_for(".cm-content").await;
        browser.devtools("Network.clearBrowserCookies", json!({})).await;
        browser.click(Role::Button, "Run").await;
        browser
            .wait_for_text_in("#run-message", "You are not signed in any more.")
            .await;
        assert!(!browser.text().await.contains("status 200"));
    })
    .await;
}
