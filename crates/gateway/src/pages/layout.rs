//! The layout and the HTTP headers of every page.

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use rpc::CallError;

use crate::assets;
use crate::caller::Caller;
use crate::gateway::Gateway;

/// An entry of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Run,
    Tasks,
    Groups,
    Problems,
    Executors,
    Judicators,
    Overview,
    Languages,
    Api,
}

/// A script that only some pages load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Island {
    Editor,
    Charts,
    /// Sends the requests of the forms in the documentation of the API.
    TryIt,
}

/// A value that allows one style element which a script creates, under the Content-Security-Policy of one response.
#[derive(Clone, Debug)]
pub(super) struct StyleNonce(String);

/// The HTML frame of a gateway web page: title, navigation, style and scripts, around a content that the caller passes.
pub(super) struct HtmlPage<'a> {
    title: &'a str,
    version: &'a str,
    section: Option<Section>,
    /// The signed-in caller.
    caller: Option<&'a Caller>,
    islands: Vec<Island>,
    nonce: Option<StyleNonce>,
    /// Seconds after which the browser reloads the page if it runs no scripts.
    refresh: Option<u32>,
}

impl Section {
    /// In the order of the navigation.
    const ALL: [Section; 9] = [
        Section::Run,
        Section::Tasks,
        Section::Groups,
        Section::Problems,
        Section::Executors,
        Section::Judicators,
        Section::Overview,
        Section::Languages,
        Section::Api,
    ];

    fn link(self) -> (&'static str, &'static str) {
        match self {
            Section::Run => ("/run", "Run"),
            Section::Tasks => ("/", "Tasks"),
            Section::Groups => ("/groups", "Groups"),
            Section::Problems => ("/problems", "Problems"),
            Section::Executors => ("/executors", "Executors"),
            Section::Judicators => ("/judicators", "Judicators"),
            Section::Overview => ("/overview", "Overview"),
            Section::Languages => ("/languages", "Languages"),
            Section::Api => ("/api/docs", "API"),
        }
    }
}

impl Island {
    fn script(self) -> &'static str {
        match self {
            Island::Editor => "editor.js",
            Island::Charts => "charts.js",
            Island::TryIt => "try.js",
        }
    }

    /// The style sheet that its packages bring.
    fn style(self) -> Option<&'static str> {
        match self {
            Island::Charts => Some("charts.css"),
            Island::Editor | Island::TryIt => None,
        }
    }
}

impl StyleNonce {
    /// Fails if the system has no random numbers.
    pub(super) fn random() -> Result<StyleNonce, CallError> {
        let mut bytes = [0; 16];
        let filled = getrandom::fill(&mut bytes);
        filled.map_err(|error| CallError::Internal(format!("random numbers: {error}")))?;
        Ok(StyleNonce(format!("{:032x}", u128::from_ne_bytes(bytes))))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a> HtmlPage<'a> {
    pub(super) fn new(gateway: &'a Gateway, title: &'a str) -> HtmlPage<'a> {
        HtmlPage::of_version(&gateway.options.version, title)
    }

    pub(super) fn of_version(version: &'a str, title: &'a str) -> HtmlPage<'a> {
        HtmlPage {
            title,
            version,
            section: None,
            caller: None,
            islands: vec![],
            nonce: None,
            refresh: None,
        }
    }

    pub(super) fn section(self, section: Section) -> HtmlPage<'a> {
        let section = Some(section);
        HtmlPage { section, ..self }
    }

    pub(super) fn caller(self, caller: &'a Caller) -> HtmlPage<'a> {
        let caller = Some(caller);
        HtmlPage { caller, ..self }
    }

    pub(super) fn island(mut self, island: Island) -> HtmlPage<'a> {
        self.islands.push(island);
        self
    }

    pub(super) fn nonce(self, nonce: StyleNonce) -> HtmlPage<'a> {
        let nonce = Some(nonce);
        HtmlPage { nonce, ..self }
    }

    pub(super) fn refresh_without_script(self, seconds: Option<u32>) -> HtmlPage<'a> {
        HtmlPage {
            refresh: seconds,
            ..self
        }
    }

    pub(super) fn respond(&self, content: &Markup) -> Response {
        let html = self.render(content).into_string();
        html_response(html, self.nonce.as_ref())
    }

    pub(super) fn render(&self, content: &Markup) -> Markup {
        let scripts = std::iter::once("site.js").chain(self.islands.iter().map(|island| island.script()));
        let styles =
            std::iter::once("site.css").chain(self.islands.iter().filter_map(|island| island.style()));
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    @if let Some(seconds) = self.refresh { noscript { meta http-equiv="refresh" content=(seconds); } }
                    title { (self.title) " · Conclave" }
                    link rel="icon" href="data:,";
                    @for url in styles.filter_map(assets::url) { link rel="stylesheet" href=(url); }
                    @for url in scripts.filter_map(assets::url) { script type="module" src=(url) {} }
                }
                body {
                    a class="skip" href="#content" { "Skip to the content" }
                    (self.header())
                    main id="content" tabindex="-1" { (content) }
                    (self.footer())
                    div id="announcer" class="visually-hidden" role="status" aria-live="polite" {}
                }
            }
        }
    }

    fn header(&self) -> Markup {
        html! {
            header class="site-header" {
                a class="home" href="/" { "Conclave" }
                nav aria-label="Pages" {
                    ul {
                        @for section in Section::ALL {
                            @let (url, name) = section.link();
                            li { a href=(url) aria-current=[(self.section == Some(section)).then_some("page")] { (name) } }
                        }
                    }
                }
                @if let Some(user) = self.caller.and_then(Caller::user) {
                    div class="account" {
                        bdi { (user) }
                        form action="/sign-out" method="post" { button { "Sign out" } }
                    }
                }
            }
        }
    }

    fn footer(&self) -> Markup {
        html! {
            footer class="site-footer" {
                span { "Conclave " (self.version) }
                @if let Some(url) = assets::url("licences.txt") { a href=(url) { "Licences of the scripts" } }
            }
        }
    }
}

/// The response with a rendered page.
pub(super) fn html_response(page: String, nonce: Option<&StyleNonce>) -> Response {
    (headers(nonce), Html(page)).into_response()
}

/// Allows only files of this server, so that HTML that was not escaped could run no scripts and load nothing.
fn content_security_policy(nonce: Option<&StyleNonce>) -> String {
    let nonce = nonce.map_or_else(String::new, |nonce| format!(" 'nonce-{}'", nonce.as_str()));
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'{nonce}; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}

pub(super) fn headers(nonce: Option<&StyleNonce>) -> HeaderMap {
    let fixed = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let mut headers = HeaderMap::from_iter([
        fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        fixed(header::REFERRER_POLICY, "same-origin"),
        fixed(header::CACHE_CONTROL, "no-store"),
    ]);
    // A nonce consists of hexadecimal digits.
    if let Ok(policy) = HeaderValue::try_from(content_security_policy(nonce)) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_only_files_of_this_server() {
        let page = HtmlPage::of_version("1", "<Title>")
            .section(Section::Tasks)
            .render(&html! { p { "<b>" } })
            .into_string();
        assert!(page.contains("<title>&lt;Title&gt; · Conclave</title>"), "{page}");
        assert!(
            page.contains("<a href=\"/\" aria-current=\"page\">Tasks</a>"),
            "{page}"
        );
        assert!(
            page.contains("<link rel=\"stylesheet\" href=\"/assets/site-"),
            "{page}"
        );
        assert!(
            !page.contains("<style") && !page.contains("style=") && !page.contains("//"),
            "{page}"
        );
    }

    #[test]
    fn the_policy_has_no_unsafe_source() {
        let nonce = StyleNonce::random().unwrap();
        for policy in [
            content_security_policy(None),
            content_security_policy(Some(&nonce)),
        ] {
            assert!(
                policy.starts_with("default-src 'none'; script-src 'self'; "),
                "{policy}"
            );
            assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        }
        let with_nonce = headers(Some(&nonce));
        let policy = with_nonce[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.contains(&format!("style-src 'self' 'nonce-{}';", nonce.as_str())),
            "{policy}"
        );
        assert_ne!(StyleNonce::random().unwrap().as_str(), nonce.as_str());
    }
}
