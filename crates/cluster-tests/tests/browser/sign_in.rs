//! Signing in with a token: the asked page opens afterwards, each user sees their own tasks, operators see all.

use cluster_tests::{Browser, HttpResponse, Role, TestSystem};
use serde_json::{Value, json};

use crate::harness::Site;

const ADA: &str = "ada-has-a-long-token";
const BOB: &str = "bob-has-another-token";
const OLGA: &str = "olga-operates-this-server";

async fn site_with_tokens(flags: &[&str]) -> Site {
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

async fn sign_in(browser: &Browser, token: &str) {
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
