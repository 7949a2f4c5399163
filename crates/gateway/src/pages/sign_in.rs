//! The sign-in page, and where a browser goes that has not signed in.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::layout::{HtmlPage, html_response};
use super::problem::FailedRequest;
use crate::body::read_form;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::quota_key::QuotaKey;
use crate::request_error::RequestError;
use crate::sign_in::{self, CookieName, NextPath, SignInCookie};

/// The limit for the body of the form: a token and a path.
const MAX_FORM_BYTES: u64 = 32 << 10;

/// htmx opens the address in place of the page, instead of showing the response as a part of it.
const HX_REDIRECT: HeaderName = HeaderName::from_static("hx-redirect");

pub(crate) async fn sign_in(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
) -> Result<Response, RequestError> {
    let parameters = params::known_parameters(request.uri(), &["next"])?;
    let next = next_path(&parameters);
    // Also the way back for someone who followed a link of another site: see `asking_again`.
    if Caller::of_request(&gateway, request.headers()).is_ok() {
        return Ok(see_other(next.as_str(), None));
    }
    Ok(form(&gateway, &next, None))
}

pub(crate) async fn submit_sign_in(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
) -> Result<Response, RequestError> {
    let cookie_name = CookieName::of(request.headers());
    let address = QuotaKey::from_extensions(request.extensions());
    let fields = read_form(request, MAX_FORM_BYTES).await?;
    let next = next_path(&fields);
    let Some(tokens) = &gateway.options.tokens else {
        return Ok(see_other(next.as_str(), None));
    };
    let token = last(&fields, "token").unwrap_or_default().trim();
    let (status, problem) = match sign_in::user_of_guess(&gateway.sign_ins, &address, tokens, token)? {
        Some(_) => {
            let cookie = SignInCookie::new(token, gateway.options.sign_in_time, sign_in::now());
            if let Some(cookie) = cookie.set_header(&cookie_name) {
                return Ok(see_other(next.as_str(), Some(cookie)));
            }
            let problem = "Browsers do not keep a token as long as this one. Ask the operator of this server for a shorter one.";
            (StatusCode::UNPROCESSABLE_ENTITY, problem)
        }
        None => (
            StatusCode::UNAUTHORIZED,
            "This token is not valid on this server. Check that it is copied as a whole, or ask the operator for a new one.",
        ),
    };
    let mut response = form(&gateway, &next, Some(problem));
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    Ok(response)
}

pub(crate) async fn sign_out(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let after = match &gateway.options.tokens {
        Some(_) => "/sign-in",
        None => "/",
    };
    see_other(
        after,
        SignInCookie::removal_header(&CookieName::of(request.headers())),
    )
}

/// Answers a request for a page that needs a sign-in.
pub(super) fn ask(failed: &FailedRequest, refused: Response) -> Response {
    let header = |name: &str| failed.headers.get(name).map(|value| value.as_bytes());
    let is_read = matches!(failed.method, Method::GET | Method::HEAD);
    if header("hx-request") == Some(b"true") || failed.uri.path().starts_with("/live/") {
        // A part of a page, for which no other page can take the place.
        let mut response = refused;
        let address = NextPath::of_sending_page(&failed.headers).sign_in_address();
        if let Ok(address) = HeaderValue::try_from(address) {
            response.headers_mut().insert(HX_REDIRECT, address);
        }
        response
    } else if !is_read {
        see_other(
            &NextPath::of_sending_page(&failed.headers).sign_in_address(),
            None,
        )
    } else if header("sec-fetch-site") == Some(b"cross-site") {
        asking_again(&NextPath::of_request(&failed.uri).sign_in_address())
    } else {
        see_other(&NextPath::of_request(&failed.uri).sign_in_address(), None)
    }
}

/// The answer to someone who follows a link of another site: browsers send no `SameSite=Strict` cookie then, also if this
/// browser is signed in. This page belongs to this site, so the browser sends the cookie with what it opens next. The
/// sign-in page leads to the requested page, or asks for a token; it never leads here, so there is no loop.
fn asking_again(address: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="refresh" content={ "0; url=" (address) };
                title { "Conclave" }
            }
            body { main { h1 { "Conclave" } p { a href=(address) { "Open the page" } } } }
        }
    };
    html_response(page.into_string(), None)
}

fn form(gateway: &Gateway, next: &NextPath, problem: Option<&str>) -> Response {
    HtmlPage::new(gateway, "Sign in").respond(&form_content(next, problem))
}

fn form_content(next: &NextPath, problem: Option<&str>) -> Markup {
    html! {
        h1 { "Sign in" }
        @if let Some(problem) = problem { div id="problem" class="notice bad" role="alert" { (problem) } }
        // An error of the request leads back to its address.
        form method="post" action=(next.sign_in_address()) class="filters" {
            input type="hidden" name="next" value=(next.as_str());
            // Password managers keep the token under this name.
            input type="text" name="username" value="Conclave" autocomplete="username" hidden;
            label class="field" {
                "Token"
                input name="token" type="password" size="40" required autofocus autocomplete="current-password" spellcheck="false"
                    aria-describedby=[problem.map(|_| "problem")] aria-invalid=[problem.map(|_| "true")];
            }
            button class="primary" { "Sign in" }
        }
        h2 { "What is a token?" }
        p {
            "A token is a long secret text that tells this server who you are: you see and change your own tasks only. The operator "
            "of this server has a file with the token of each user, and gives you yours."
        }
        p {
            "It is the same token that the command line reads from a file (" code { "--token-file" } ") and that programs send as "
            code { "Authorization: Bearer TOKEN" } ". This browser keeps it in a cookie until you sign out or the sign-in expires."
        }
    }
}

fn next_path(pairs: &[(String, String)]) -> NextPath {
    NextPath::from_untrusted(last(pairs, "next").unwrap_or("/"))
}

fn last<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = pairs.iter().rev();
    values
        .find(|(found, _)| found == name)
        .map(|(_, value)| value.as_str())
}

fn see_other(address: &str, cookie: Option<HeaderValue>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let Ok(address) = HeaderValue::try_from(address) {
        headers.insert(header::LOCATION, address);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie {
        headers.insert(header::SET_COOKIE, cookie);
    }
    response
}
