//! The links of a judged task: a case appears in the page, the focus stays, and what fails is shown as a page.

use cluster_tests::{Browser, HttpResponse, Key, Role};
use serde_json::{Value, json};

use crate::harness::Site;
use crate::judging::{CELLS, judged, two_cases};
use crate::sign_in::{ADA, BOB, sign_in, site_with_tokens};

async fn wait_for_focus(browser: &Browser, id: &str) {
    let script = "return document.activeElement.id === arguments[0]";
    browser
        .wait_for_truth(&format!("the focus on #{id}"), script, &[json!(id)])
        .await;
}

#[tokio::test]
async fn the_focus_stays_in_the_cases_when_they_are_walked_by_keys() {
    let site = Site::up(&CELLS).await;
    let mut cases = two_cases();
    let last = json!({"name": "last", "input": "1 2\n", "answer": "3\n"});
    cases.as_array_mut().expect("a list").push(last);
    let id = site.run(judged(&cases, json!({}))).await;
    site.visit(async |browser| {
        browser.open(&format!("/tasks/{id}")).await;
        browser.click(Role::Link, "small: accepted").await;
        browser.wait_for_text_in("#case h2", "small").await;
        browser
            .script("document.querySelector('#case [rel=next]').focus()", &[])
            .await;
        browser.press(&[Key::ENTER]).await;
        browser.wait_for_text_in("#case h2", "large").await;
        wait_for_focus(browser, "case-next").await;
        browser.press(&[Key::ENTER]).await;
        browser.wait_for_text_in("#case h2", "last").await;
        // There is no next case.
        wait_for_focus(browser, "case-title").await;
        browser.assert_accessible().await;
        // The focus on a mark stays where it is.
        browser
            .script("document.querySelector('a.mark').focus()", &[])
            .await;
        browser.press(&[Key::ENTER]).await;
        browser.wait_for_text_in("#case h2", "small").await;
        assert_eq!(browser.focused().await.0, "small: accepted");
    })
    .await;
}

#[tokio::test]
async fn a_case_that_is_refused_is_a_page_that_says_so() {
    let site = site_with_tokens(&CELLS).await;
    let task = judged(&two_cases(), json!({}));
    let request = site.web.request("POST", "/api/v1/tasks?wait=60").json(&task);
    let added = HttpResponse::of(request.bearer_auth(ADA)).await;
    let page = format!("/tasks/{}", added.json()["id"].as_str().expect("an id"));
    site.visit(async |browser| {
        for tolerated in ["the server responded with a status of", "Response Status Error Code"] {
            browser.tolerate(tolerated);
        }
        browser.open(&page).await;
        sign_in(browser, ADA).await;
        browser.wait_for_path(&page).await;
        // Someone else signs in, in another tab of this browser.
        let other = "fetch('/sign-in', {method: 'POST', body: new URLSearchParams({token: arguments[0], next: '/'})}) \
                     .then(() => { window.signedIn = true })";
        browser.script(other, &[json!(BOB)]).await;
        browser
            .wait_for_truth("the sign-in", "return window.signedIn === true", &[])
            .await;
        browser.click(Role::Link, "small: accepted").await;
        browser.wait_for_path(&format!("{page}/cases/0")).await;
        browser.wait_for_text("Not found").await;
        // A sign-in that has ended.
        browser.devtools("Network.clearBrowserCookies", json!({})).await;
        browser.open(&page).await;
        sign_in(browser, ADA).await;
        browser.wait_for_path(&page).await;
        browser.devtools("Network.clearBrowserCookies", json!({})).await;
        browser.click(Role::Link, "small: accepted").await;
        browser.wait_for_path("/sign-in?next=*").await;
    })
    .await;
}

#[tokio::test]
async fn a_case_that_no_server_sends_is_opened_as_a_page() {
    let site = Site::up(&CELLS).await;
    let id = site.run(judged(&two_cases(), json!({}))).await;
    let Site { up, system, .. } = site;
    Browser::visit(&system.url(""), async |browser| {
        browser.tolerate("net::ERR");
        browser.tolerate("htmx:");
        browser.open(&format!("/tasks/{id}")).await;
        up.kill();
        browser.click(Role::Link, "small: accepted").await;
        let elsewhere = "return location.protocol === 'chrome-error:'";
        browser
            .wait_for_truth("the browser's own page", elsewhere, &[])
            .await;
        let _again = system.up(&CELLS).expect("conclave up serves");
        browser.reload().await;
        browser.wait_for_path(&format!("/tasks/{id}/cases/0")).await;
    })
    .await;
}

/// What a user has written, as if it were the part of a page with the case. It would cancel tasks.
const PART_OF_A_PAGE: &str =
    "<div id=\"case\" hx-delete=\"/api/v1/tasks?status=pending\" hx-trigger=\"load\"></div>";

/// Adds a link of the kind that becomes a part of the page, as a page might have one by mistake.
const ADD_BOOSTED_LINK: &str = "const link = document.createElement('a'); \
    Object.assign(link, {href: document.querySelector('#case a[href^=\"/api/v1/blobs/\"]').href, textContent: 'boosted'}); \
    document.querySelector('[hx-boost=true]').append(link); htmx.process(link)";

#[tokio::test]
async fn what_a_user_has_written_never_becomes_a_part_of_a_page() {
    let site = Site::up(&[&CELLS[..], &["--slots", "0"]].concat()).await;
    let input = format!("{PART_OF_A_PAGE}{}", " ".repeat(70_000));
    let cases = json!([{"name": "one", "input": input}, {"name": "two"}]);
    let id = site.add(judged(&cases, json!({"wait_for_executor": true}))).await;
    let status = async || -> Value {
        let task = site.web.get(&format!("/api/v1/tasks/{id}")).await.json();
        task["status"].clone()
    };
    site.visit(async |browser| {
        browser.open(&format!("/tasks/{id}")).await;
        browser.click(Role::Link, "one: not judged yet").await;
        for link in ["get all", "boosted"] {
            browser.wait_for_text_in("#case h2", "one").await;
            if link == "boosted" {
                browser.script(ADD_BOOSTED_LINK, &[]).await;
            }
            browser.click(Role::Link, link).await;
            // What came of the link came before this.
            browser.click(Role::Link, "Next case").await;
            browser.wait_for_text_in("#case h2", "two").await;
            browser.click(Role::Link, "Previous case").await;
            assert_eq!(status().await, "pending", "after {link:?}");
            assert_eq!(browser.count("[hx-delete]").await, 0);
        }
    })
    .await;
}
