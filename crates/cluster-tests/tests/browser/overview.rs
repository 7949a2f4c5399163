//! The overview: charts drawn from the node's own figures, which a restart keeps.

use cluster_tests::{Role, shell};

use crate::harness::Site;

/// Whether each chart has drawn something: a canvas with a pixel that is not transparent.
const DRAWN: &str = r"
    const charts = Array.from(document.querySelectorAll('canvas'));
    return charts.length > 0 && charts.every(canvas => {
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return data.some(byte => byte !== 0);
    });
";

#[tokio::test]
async fn charts_are_drawn_from_figures_that_a_restart_keeps() {
    let site = Site::up(&[]).await;
    site.visit(async |browser| {
        browser.open("/overview").await;
        browser.wait_for_text("No tasks in the last hour").await;
        browser.assert_accessible().await;
    })
    .await;
    for _ in 0..5 {
        site.run(shell("true")).await;
    }
    site.run(shell("exit 3")).await;
    let site = site.stop_and_start(&[]).await;
    site.visit(async |browser| {
        browser.open("/overview").await;
        browser.wait_for_truth("all charts to be drawn", DRAWN, &[]).await;
        browser.assert_accessible().await;
        browser.click(Role::Link, "Last day").await;
        browser.wait_for_path("/overview?span=day").await;
        browser.wait_for_truth("all charts to be drawn", DRAWN, &[]).await;
    })
    .await;
}
