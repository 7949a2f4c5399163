//! The documentation of the API: examples with the server's own address, and a form that sends a call.

use cluster_tests::{Role, shell};

use crate::harness::Site;

#[tokio::test]
async fn a_call_is_tried_on_the_page() {
    let site = Site::up(&[]).await;
    let id = site.run(shell("echo tried")).await;
    site.visit(async |browser| {
        browser.open("/api/docs").await;
        assert!(
            browser
                .text()
                .await
                .contains(&format!("curl '{}/api/v1/tasks", browser.site()))
        );
        // The name begins with "Try it", which sighted readers see alone.
        browser.click(Role::Summary, ": Get a task").await;
        browser.fill("id", &id.to_string()).await;
        browser.click(Role::Button, "Send").await;
        browser.wait_for_text_in("[data-try-status]", "200").await;
        browser.wait_for_text_in("[data-try-body]", "tried").await;
        browser.assert_accessible().await;
    })
    .await;
}
