//! How much a first visit loads, and which pages load the editor and the charts.

use crate::harness::Site;

/// The whole first load of the list of tasks, as it is transferred.
const FIRST_LOAD_BYTES: u64 = 60_000;

/// Each file of the page and its size as transferred.
const LOADED: &str = r"
    const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
    return entries.map(entry => [new URL(entry.name).pathname, entry.encodedBodySize]);
";

#[tokio::test]
async fn the_first_page_is_light() {
    let site = Site::up(&[]).await;
    for _ in 0..3 {
        site.run(cluster_tests::shell("echo hello")).await;
    }
    site.visit(async |browser| {
        browser.open("/").await;
        browser.wait_for("main").await;
        let loaded = browser.script(LOADED, &[]).await;
        let loaded: Vec<(String, u64)> = serde_json::from_value(loaded).unwrap();
        let sum: u64 = loaded.iter().map(|(_, size)| size).sum();
        println!("{sum} bytes: {loaded:?}");
        assert!(
            loaded.iter().any(|(path, size)| path == "/" && *size > 0),
            "{loaded:?}"
        );
        assert!(
            loaded.iter().any(|(path, _)| path.starts_with("/assets/")),
            "{loaded:?}"
        );
        assert!(sum < FIRST_LOAD_BYTES, "{sum} bytes: {loaded:?}");
    })
    .await;
}

#[tokio::test]
async fn only_pages_that_need_them_load_the_editor_and_the_charts() {
    let site = Site::up(&[]).await;
    let id = site.run(cluster_tests::shell("echo hello")).await;
    site.visit(async |browser| {
        let task = format!("/tasks/{id}");
        for (path, wanted) in [
            ("/", None),
            (task.as_str(), None),
            ("/groups", None),
            ("/executors", None),
            ("/languages", None),
            ("/run", Some("/assets/editor-")),
            ("/overview", Some("/assets/charts-")),
        ] {
            browser.open(path).await;
            let loaded = browser.script(LOADED, &[]).await;
            let names: Vec<&str> = loaded
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|entry| entry[0].as_str())
                .collect();
            for island in ["/assets/editor-", "/assets/charts-"] {
                let scripts = names
                    .iter()
                    .filter(|name| name.starts_with(island) && name.ends_with(".js"));
                assert_eq!(
                    scripts.count(),
                    usize::from(wanted == Some(island)),
                    "{path}: {names:?}"
                );
            }
        }
    })
    .await;
}
