//! An error in a browser is a page: what happened, to what, and what to do.

use cluster_tests::Role;

use crate::harness::Site;

#[tokio::test]
async fn errors_are_pages_with_a_way_out() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        browser.tolerate("the server responded with a status of 4");
        for path in [
            "/no-such-page",
            "/tasks/01890a5d-ac96-774b-bcce-b302099a8057",
            "/tasks/not-an-id",
            "/?status=purple",
            "/executors/nobody",
            "/run?from=01890a5d-ac96-774b-bcce-b302099a8057",
        ] {
            browser.open(path).await;
            let text = browser.text().await;
            assert!(!text.trim_start().starts_with('{'), "{path} is JSON: {text}");
            assert_eq!(browser.count("main h1").await, 1, "{path}: {text}");
            browser.assert_accessible().await;
            // The navigation is there.
            browser.control(Role::Link, "Tasks").await;
        }
    })
    .await;
}

#[tokio::test]
async fn programs_get_problem_documents() {
    let site = Site::up(&[]).await;
    for path in ["/api/v1/tasks/not-an-id", "/api/v1/no-such-call"] {
        let answer = site.web.get(path).await;
        assert_eq!(
            answer.header("content-type"),
            "application/problem+json",
            "{path}"
        );
    }
}
