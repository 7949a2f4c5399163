//! A client of the WebDriver protocol, as far as the browser tests use it.
//!
//! The protocol is a few JSON calls. The client crates cost more than that: fantoccini brings 23 crates and a licence that no other
//! dependency has, and thirtyfour turns on `serde_json/preserve_order`, with which tests would test another program.

use std::fmt;
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};

/// The key under which WebDriver passes elements in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser that does not answer must fail the test.
const ANSWERS: Duration = Duration::from_secs(150);

/// A browser session of a WebDriver server.
pub(super) struct WebDriverSession {
    http: Client,
    /// The URL of the session.
    url: String,
}

/// A command that the browser refused: an element that has gone, a script that failed.
#[derive(Debug)]
pub struct RefusedCommand {
    command: String,
    reason: String,
}

impl fmt::Display for RefusedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.command, self.reason)
    }
}

impl WebDriverSession {
    /// A new session of the server at this address.
    pub(super) async fn new(server: &str, capabilities: &Value) -> Result<WebDriverSession, RefusedCommand> {
        // The client cannot be built without a TLS provider, even for plain HTTP.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder().no_proxy().tls_certs_only([]).timeout(ANSWERS);
        let mut session = WebDriverSession {
            http: http.build().expect("an HTTP client"),
            url: server.to_string(),
        };
        let wanted = json!({"capabilities": {"alwaysMatch": capabilities}});
        let answer = session.post("session", wanted).await?;
        let id = answer["sessionId"].as_str().unwrap_or_default();
        session.url = format!("{server}/session/{id}");
        Ok(session)
    }

    pub(super) async fn get(&self, command: &str) -> Result<Value, RefusedCommand> {
        self.send(Method::GET, command, None).await
    }

    pub(super) async fn post(&self, command: &str, body: Value) -> Result<Value, RefusedCommand> {
        self.send(Method::POST, command, Some(body)).await
    }

    async fn send(
        &self,
        method: Method,
        command: &str,
        body: Option<Value>,
    ) -> Result<Value, RefusedCommand> {
        let refused = |reason: String| RefusedCommand {
            command: command.to_string(),
            reason,
        };
        let mut request = self.http.request(method, format!("{}/{command}", self.url));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.map_err(|error| refused(error.to_string()))?;
        let is_success = response.status().is_success();
        let mut answer: Value = response
            .json()
            .await
            .map_err(|error| refused(error.to_string()))?;
        let value = answer["value"].take();
        if is_success {
            return Ok(value);
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_string();
        Err(refused(format!("{}: {}", text("error"), text("message"))))
    }

    pub(super) async fn execute(&self, script: &str, arguments: &[Value]) -> Result<Value, RefusedCommand> {
        self.post("execute/sync", json!({"script": script, "args": arguments}))
            .await
    }

    /// As `execute`, for a script that calls its last argument with the result.
    pub(super) async fn execute_async(
        &self,
        script: &str,
        arguments: &[Value],
    ) -> Result<Value, RefusedCommand> {
        self.post("execute/async", json!({"script": script, "args": arguments}))
            .await
    }

    /// The elements that match a CSS selector.
    pub(super) async fn find_all(&self, css: &str) -> Result<Vec<PageElement<'_>>, RefusedCommand> {
        let found = self
            .post("elements", json!({"using": "css selector", "value": css}))
            .await?;
        Ok(self.elements(&found))
    }

    /// The elements in the result of a script.
    pub(super) fn elements(&self, list: &Value) -> Vec<PageElement<'_>> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|value| self.element(value)).collect()
    }

    pub(super) fn element(&self, value: &Value) -> Option<PageElement<'_>> {
        let id = value[ELEMENT].as_str()?.to_string();
        Some(PageElement { session: self, id })
    }

    /// The element with the focus.
    pub(super) async fn focused(&self) -> Result<PageElement<'_>, RefusedCommand> {
        let found = self.get("element/active").await?;
        self.element(&found).ok_or_else(|| RefusedCommand {
            command: "element/active".into(),
            reason: found.to_string(),
        })
    }
}

/// An element of the page that a browser shows. It becomes invalid when the page removes it.
pub struct PageElement<'a> {
    session: &'a WebDriverSession,
    id: String,
}

impl PageElement<'_> {
    /// The element as an argument of a script.
    pub fn argument(&self) -> Value {
        json!({(ELEMENT): self.id})
    }

    pub async fn click(&self) -> Result<(), RefusedCommand> {
        self.post("click", json!({})).await
    }

    /// Types a text, or chooses files by their paths.
    pub async fn type_text(&self, text: &str) -> Result<(), RefusedCommand> {
        self.post("value", json!({"text": text})).await
    }

    pub async fn is_displayed(&self) -> Result<bool, RefusedCommand> {
        Ok(self.get("displayed").await? == json!(true))
    }

    /// The name that assistive technology reads.
    pub async fn label(&self) -> Result<String, RefusedCommand> {
        let label = self.get("computedlabel").await?;
        Ok(label.as_str().unwrap_or_default().trim().to_string())
    }

    /// What assistive technology says that it is.
    pub async fn role(&self) -> Result<String, RefusedCommand> {
        let role = self.get("computedrole").await?;
        Ok(role.as_str().unwrap_or_default().to_string())
    }

    async fn get(&self, what: &str) -> Result<Value, RefusedCommand> {
        self.session.get(&format!("element/{}/{what}", self.id)).await
    }

    async fn post(&self, what: &str, body: Value) -> Result<(), RefusedCommand> {
        let command = format!("element/{}/{what}", self.id);
        self.session.post(&command, body).await.map(drop)
    }
}
