//! What holds on every page: no violation of accessibility rules, nothing of other sites, no sideways scrolling on a phone,
//! a strict policy that the page needs no exception from.

use cluster_tests::{DemoSite, LAPTOP, PHONE};

#[tokio::test]
async fn pages_are_accessible_in_light_and_dark() {
    let site = DemoSite::start().await.expect("a site");
    let mut found = Vec::new();
    site.visit(async |browser| {
        for (_, path) in site.pages() {
            browser.open(&path).await;
            browser.assert_same_site().await;
            found.extend(browser.accessibility_violations().await);
            found.extend(browser.logged_errors().await);
        }
    })
    .await;
    assert!(found.is_empty(), "{} findings\n{}", found.len(), found.join("\n"));
}

#[tokio::test]
async fn pages_fit_a_phone_and_a_wall() {
    let site = DemoSite::start().await.expect("a site");
    let mut found = Vec::new();
    site.visit(async |browser| {
        for (_, path) in site.pages() {
            for (width, height) in [PHONE, LAPTOP, (3840, 2160)] {
                browser.resize((width, height)).await;
                browser.open(&path).await;
                let wide = browser.wider_than_window().await;
                if !wide.is_empty() {
                    found.push(format!("{path} at {width} px:\n{wide}"));
                }
            }
        }
    })
    .await;
    assert!(
        found.is_empty(),
        "{} pages scroll sideways\n{}",
        found.len(),
        found.join("\n")
    );
}

#[tokio::test]
async fn pages_need_nothing_that_their_policy_forbids() {
    let site = DemoSite::start().await.expect("a site");
    let missing = [
        "/tasks/01890a5d-ac96-774b-bcce-b302099a8057",
        "/tasks/x",
        "/no-such-page",
        "/?status=purple",
    ];
    let pages = site.pages().into_iter().map(|(_, path)| path);
    for path in pages.chain(missing.map(String::from)) {
        let answer = site
            .web
            .request("GET", &path)
            .header("Accept", "text/html,*/*;q=0.8");
        let answer = cluster_tests::HttpResponse::of(answer).await;
        assert!(
            answer.header("content-type").starts_with("text/html"),
            "{path}: {}",
            answer.text()
        );
        let policy = answer.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"),
            "{path}: {policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_no_inline_code(&path, &answer.text());
    }
}

/// In text, quotes are escaped: an attribute's beginning is found in tags only.
fn assert_no_inline_code(path: &str, page: &str) {
    for forbidden in [" style=\"", "<style", "javascript:", "hx-on", "js:{"] {
        assert!(!page.contains(forbidden), "{path} has {forbidden}");
    }
    for script in page.split("<script").skip(1) {
        let (tag, rest) = script.split_once('>').unwrap_or_default();
        let inert = tag.contains("type=\"application/json\"");
        assert!(
            inert || (tag.contains("src=\"/assets/") && rest.starts_with("</script>")),
            "{path}: <script{tag}>"
        );
    }
    let tags = page.split('<').filter_map(|tag| tag.split_once('>'));
    for (tag, _) in tags {
        assert!(!tag.contains(" on") || !has_handler(tag), "{path}: <{tag}>");
    }
}

/// Whether a tag has an attribute like `onclick="`.
fn has_handler(tag: &str) -> bool {
    tag.split(" on").skip(1).any(|rest| {
        let name: String = rest.chars().take_while(char::is_ascii_lowercase).collect();
        !name.is_empty() && rest[name.len()..].starts_with("=\"")
    })
}
