//! The list of judicators with their etcd and MongoDB members.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use model::{ClusterMemberState, Health, JudicatorState, MemberLag};

use super::components::{self, NoticeKind, UserText};
use super::format;
use super::layout::{HtmlPage, Section};
use super::live::{self, LiveParts};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

/// Each list asks every etcd and MongoDB member for its state.
const LIVE_INTERVAL: Duration = Duration::from_secs(5);
/// The seconds after which a browser without scripts reloads the page.
const REFRESH_SECONDS: u32 = 15;

pub(crate) async fn judicators(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
) -> Result<Response, RequestError> {
    let judicators = gateway.calls.judicators().await?;
    let content = html! {
        h1 { "Judicators" }
        div hx-ext="sse,morph" sse-connect="/live/judicators" {
            div sse-swap="judicators" hx-swap="morph:innerHTML" { (list_of(&judicators)) }
        }
    };
    let page = HtmlPage::new(&gateway, "Judicators")
        .section(Section::Judicators)
        .caller(&caller)
        .refresh_without_script(Some(REFRESH_SECONDS));
    Ok(page.respond(&content))
}

pub(crate) async fn live_judicators(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
) -> Response {
    let rendering = gateway.clone();
    let turns = gateway.loading.clone();
    live::live_response(gateway, quota, turns, live::every(LIVE_INTERVAL), move || {
        let gateway = rendering.clone();
        async move {
            let judicators = gateway.calls.judicators().await?;
            Ok(LiveParts {
                parts: vec![("judicators", list_of(&judicators))],
                ended: false,
            })
        }
    })
}

fn list_of(judicators: &[JudicatorState]) -> Markup {
    let is_cluster = judicators
        .iter()
        .any(|judicator| judicator.etcd.is_some() || judicator.mongodb.is_some());
    html! {
        @for judicator in judicators {
            @if let Some(form) = judicator.newer_form {
                (components::notice(NoticeKind::Bad, &html! {
                    "Judicator " (UserText(&judicator.name)) " has met tasks of form " (form) ", which its version does not know, and \
                    leaves them to newer judicators. Upgrade it."
                }))
            }
        }
        @if is_cluster && !judicators.iter().any(|judicator| judicator.leader) {
            (components::notice(NoticeKind::Bad, &html! { "No judicator leads. Executors that stop reporting are not noticed until one does." }))
        }
        table class="cards" {
            caption class="visually-hidden" { "Judicators" }
            thead { tr {
                th scope="col" { "Judicator" } th scope="col" { "State" } th scope="col" { "Address" }
                th scope="col" { "Version" } th scope="col" { "Since" } th scope="col" { "Store" }
                @if is_cluster { th scope="col" { "etcd" } th scope="col" { "MongoDB" } }
            } }
            tbody { @for judicator in judicators { (row(judicator, is_cluster)) } }
        }
        @if !is_cluster {
            p class="dim" { "This is a single node. It needs no etcd, and its store is a file on its disk." }
        }
    }
}

fn row(judicator: &JudicatorState, is_cluster: bool) -> Markup {
    let (class, mark) = match judicator.health {
        Health::Alive => ("status good", "✓"),
        Health::Gone => ("status bad", "✗"),
    };
    html! {
        tr {
            th scope="row" data-label="Judicator" { (UserText(&judicator.name)) }
            td data-label="State" {
                span class=(class) { span class="dot" aria-hidden="true" { (mark) } (judicator.health.as_str()) }
                @if judicator.leader { " " span class="tag" { "leads" } }
            }
            td data-label="Address" { @if judicator.address.is_empty() { (none()) } @else { (UserText(&judicator.address)) } }
            td data-label="Version" { @if judicator.version.is_empty() { (none()) } @else { (UserText(&judicator.version)) } }
            td data-label="Since" class="tight" { @if let Some(since) = judicator.since { (format::time(since)) } @else { (none()) } }
            td data-label="Store" { (UserText(&judicator.store)) }
            @if is_cluster {
                td data-label="etcd" { (member(judicator.etcd.as_ref())) }
                td data-label="MongoDB" { (member(judicator.mongodb.as_ref())) }
            }
        }
    }
}

fn member(member: Option<&ClusterMemberState>) -> Markup {
    let Some(member) = member else {
        return none();
    };
    html! {
        div {
            span class={ "status " (member_class(&member.state)) } { (UserText(&member.state)) }
            " " (UserText(&member.address))
        }
        div class="dim" {
            @if member.version.is_empty() { "does not answer" } @else { "version " (UserText(&member.version)) }
            @if let Some(lag) = member.lag { ", " (lag_words(lag)) }
            @if let Some(uptime) = member.uptime { ", up for " (uptime_words(uptime)) }
        }
    }
}

/// The states that serve are good. Of the others, those of which a member gets out by itself are busy.
fn member_class(state: &str) -> &'static str {
    match state {
        "leader" | "follower" | "primary" | "secondary" => "good",
        "unreachable" | "down" | "removed" | "rollback" | "unknown" => "bad",
        _ => "busy",
    }
}

fn lag_words(lag: MemberLag) -> String {
    match lag {
        MemberLag::Time(Duration::ZERO) | MemberLag::Entries(0) => "no lag".to_string(),
        MemberLag::Time(time) => format!("{} s behind", time.as_secs()),
        MemberLag::Entries(1) => "1 entry behind".to_string(),
        MemberLag::Entries(entries) => format!("{entries} entries behind"),
    }
}

/// Without the seconds of a long time, which would change all the time.
fn uptime_words(uptime: Duration) -> String {
    let minutes = uptime.as_secs() / 60;
    match (minutes / 60 / 24, minutes / 60 % 24, minutes % 60) {
        (0, 0, 0) => format!("{} s", uptime.as_secs()),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

fn none() -> Markup {
    html! { span class="dim" { "–" } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judicator(name: &str, leader: bool, mongodb: Option<ClusterMemberState>) -> JudicatorState {
        JudicatorState {
            name: name.into(),
            address: "10.0.0.1:7010".into(),
            health: Health::Alive,
            leader,
            store: "mongodb".into(),
            version: "1".into(),
            newer_form: None,
            since: None,
            etcd: None,
            mongodb,
        }
    }

    #[test]
    fn members_are_shown_with_state_lag_and_uptime() {
        let member = ClusterMemberState {
            address: "10.0.0.1:27017".into(),
            state: "secondary".into(),
            version: "6.0".into(),
            uptime: Some(Duration::from_secs(26 * 3600)),
            lag: Some(MemberLag::Time(Duration::from_secs(7))),
        };
        let shown = list_of(&[judicator("j1", true, Some(member))]).into_string();
        for expected in ["status good", "7 s behind", "up for 1 d 2 h", "leads"] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert!(!shown.contains("single node"), "{shown}");
        let single = list_of(&[judicator("<b>", true, None)]).into_string();
        assert!(
            single.contains("single node") && single.contains("&lt;b&gt;"),
            "{single}"
        );
        assert!(!single.contains("MongoDB</th>"), "{single}");
    }

    #[test]
    fn lags_and_uptimes_are_in_words() {
        for (lag, expected) in [
            (MemberLag::Time(Duration::ZERO), "no lag"),
            (MemberLag::Entries(0), "no lag"),
            (MemberLag::Entries(1), "1 entry behind"),
            (MemberLag::Entries(12), "12 entries behind"),
        ] {
            assert_eq!(lag_words(lag), expected);
        }
        for (seconds, expected) in [
            (9, "9 s"),
            (60, "1 min"),
            (3700, "1 h 1 min"),
            (200_000, "2 d 7 h"),
        ] {
            assert_eq!(uptime_words(Duration::from_secs(seconds)), expected);
        }
    }
}
