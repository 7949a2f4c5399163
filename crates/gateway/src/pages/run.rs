//! The page Run: a form that adds a task, which the script of the page makes an editor with the result beside it.

mod commands;
mod fill_in;
mod form;
mod problem;
mod read;
mod step_limits;
mod view;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{LanguagesResponse, RootsResponse};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Extension, Json};
use model::{Content, InvalidField, LanguageExample, LanguageName, TaskId, ToolRequirement};
use serde::Serialize;

use self::commands::TaskCommands;
use self::fill_in::limit_text;
use self::form::{FormContent, FormFile, LIMITS, ReferredContent, RunForm, cases_of_uploads};
use self::problem::FormProblem;
use self::read::{ReceivedForm, read_form};
use self::step_limits::{LimitSources, capacity_for};
use self::view::RunView;
use super::layout::{HtmlPage, Island, Section, StyleNonce};
use super::server_address::ServerAddress;
use crate::accept_header::accepts;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::params;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::tasks::{AcceptedTask, put_as_blob};

pub(super) use words::quote_word;

/// The languages and roots that the form offers.
struct Choices {
    table: Vec<model::Language>,
    languages: Vec<api::Language>,
    roots: Vec<api::Root>,
    executors: Vec<model::ExecutorState>,
}

impl Choices {
    async fn load(gateway: &Gateway) -> Result<Choices, RequestError> {
        let table = gateway.calls.languages().await?;
        let executors = gateway.calls.executors().await?;
        let LanguagesResponse { languages } = LanguagesResponse::new(table.clone(), &executors);
        let RootsResponse { roots } = RootsResponse::new(&executors);
        Ok(Choices {
            table,
            languages,
            roots,
            executors,
        })
    }

    /// What the limits of a task in this language follow from.
    fn limit_sources<'a>(
        &self,
        gateway: &'a Gateway,
        language: Option<&'a model::Language>,
    ) -> LimitSources<'a> {
        let requires = ToolRequirement {
            root: language.and_then(|row| row.root.clone()),
            language: language.map(|row| row.name.clone()),
            judge: None,
        };
        LimitSources {
            policy: &gateway.options.limits,
            language,
            capacity: capacity_for(&self.executors, &requires),
        }
    }

    fn row(&self, name: &str) -> Option<&model::Language> {
        let name = LanguageName::new(name.trim()).ok()?;
        let is_named = |row: &&model::Language| row.name == name || row.aliases.contains(&name);
        self.table.iter().find(is_named)
    }

    /// The language of a form that names none: one that most readers know and that an executor has.
    fn usual(&self) -> Option<&model::Language> {
        let is_offered = |name: &LanguageName| {
            let mut offered = self.languages.iter().filter(|language| language.executors > 0);
            offered.any(|language| language.name == *name)
        };
        let mut usual = ["python", "c", "cpp", "bash"]
            .into_iter()
            .filter_map(|name| self.row(name));
        usual
            .find(|row| is_offered(&row.name))
            .or_else(|| self.table.iter().find(|row| is_offered(&row.name)))
    }
}

/// A form, and what the page shows beside it.
#[derive(Default)]
struct FilledForm {
    form: RunForm,
    problem: Option<FormProblem>,
    task: Option<TaskId>,
    commands: Option<TaskCommands>,
}

pub(crate) async fn run(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    uri: Uri,
) -> Result<Response, RequestError> {
    let parameters = params::known_parameters(&uri, &["language", "from", "problem"])?;
    let value = |name: &str| {
        let mut values = parameters
            .iter()
            .rev()
            .filter(|(known, value)| known == name && !value.is_empty());
        values.next().map(|(_, value)| value.as_str())
    };
    let choices = Choices::load(&gateway).await?;
    let mut filled = match (value("from"), value("language")) {
        (Some(id), _) => {
            let id: TaskId = id
                .parse()
                .map_err(|error| InvalidField::new("from", format!("'{id}' {error}")))?;
            let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
            let task = caller.check_owner(loaded)?.task;
            let language = task
                .spec
                .language
                .as_ref()
                .and_then(|name| choices.row(name.as_str()));
            FilledForm {
                form: fill_in::from_task(&gateway, task, choices.limit_sources(&gateway, language)).await,
                task: Some(id),
                ..FilledForm::default()
            }
        }
        (None, Some(name)) => match choices.row(name) {
            Some(language) => FilledForm {
                form: fill_in::example(language),
                ..FilledForm::default()
            },
            None => unknown_language(name),
        },
        (None, None) => FilledForm {
            form: choices.usual().map(fill_in::example).unwrap_or_default(),
            ..FilledForm::default()
        },
    };
    if let Some(problem) = value("problem") {
        filled.form.set("problem", problem);
    }
    page(&gateway, &caller, &choices, &filled)
}

fn unknown_language(name: &str) -> FilledForm {
    let mut form = RunForm::default();
    form.set("language", name);
    let problem = InvalidField::new("language", format!("'{name}' is not in the language table"));
    FilledForm {
        form,
        problem: Some(FormProblem::new(&problem.into())),
        ..FilledForm::default()
    }
}

fn page(
    gateway: &Gateway,
    caller: &Caller,
    choices: &Choices,
    filled: &FilledForm,
) -> Result<Response, RequestError> {
    let nonce = StyleNonce::random()?;
    let chosen = choices.row(filled.form.get("language"));
    let content = RunView {
        gateway,
        languages: &choices.languages,
        chosen,
        default_limits: choices.limit_sources(gateway, chosen).defaults(),
        roots: &choices.roots,
        form: &filled.form,
        problem: filled.problem.as_ref(),
        task: filled.task,
        commands: filled.commands.as_ref(),
        nonce: &nonce,
    }
    .render();
    let page = HtmlPage::new(gateway, "Run")
        .section(Section::Run)
        .caller(caller)
        .island(Island::Editor)
        .nonce(nonce);
    let mut response = page.respond(&content);
    if let Some(problem) = &filled.problem {
        *response.status_mut() = status_of(problem);
    }
    Ok(response)
}

fn status_of(problem: &FormProblem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY)
}

/// The answer to the script of the page when a task was added.
#[derive(Serialize)]
struct AddedFromForm {
    id: String,
    page: String,
}

/// Adds the task of the form. A browser is redirected to the task's page, or gets the form again with what is wrong.
pub(crate) async fn add_from_form(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    request: Request,
) -> Result<Response, RequestError> {
    let is_script = is_script(request.headers());
    let mut received = match read_form(&gateway, request).await {
        Err(error) if is_script => return Ok(problem_for_script(&FormProblem::new(&error))),
        received => received?,
    };
    let added = match received.invalid.take() {
        Some(invalid) => Err(invalid.into()),
        None => add(&gateway, &caller, &received).await,
    };
    match added {
        Ok(id) if is_script => {
            let page = format!("/tasks/{id}");
            let location = [(header::LOCATION, page.clone())];
            let id = id.to_string();
            Ok((
                StatusCode::CREATED,
                no_store(),
                location,
                Json(AddedFromForm { id, page }),
            )
                .into_response())
        }
        Ok(id) => Ok(Redirect::to(&format!("/tasks/{id}")).into_response()),
        Err(error) => {
            log_if_internal(&error);
            show_again(&gateway, &caller, received, FormProblem::new(&error), is_script).await
        }
    }
}

async fn add(gateway: &Gateway, caller: &Caller, received: &ReceivedForm) -> Result<TaskId, RequestError> {
    let ReceivedForm { form, quota, .. } = received;
    if let Some(id) = &form.run_again {
        let id: TaskId = id
            .parse()
            .map_err(|error| InvalidField::new("run_again", format!("'{id}' {error}")))?;
        caller.require_owner(gateway, quota, id).await?;
        let new_id = TaskId(uuid::Uuid::now_v7());
        gateway.load_task(quota, gateway.calls.retry(id, new_id)).await?;
        return Ok(new_id);
    }
    let task = form.to_task()?;
    let prepared = AcceptedTask::new(gateway, quota, caller, None, task).await?;
    let (id, _) = prepared.add(gateway).await?;
    Ok(id)
}

/// Shows the form as curl, as a command line and as JSON.
pub(crate) async fn show_commands(
    State(gateway): State<Arc<Gateway>>,
    caller: Caller,
    request: Request,
) -> Result<Response, RequestError> {
    let is_script = is_script(request.headers());
    let server = ServerAddress::of(&caller, request.headers(), request.uri());
    let mut received = match read_form(&gateway, request).await {
        Err(error) if is_script => return Ok(problem_for_script(&FormProblem::new(&error))),
        received => received?,
    };
    let commands = match received.invalid.take() {
        Some(invalid) => Err(invalid),
        // What no server would accept is not shown.
        None => received
            .form
            .to_task()
            .and_then(|_| TaskCommands::new(&received.form, &server)),
    };
    match commands {
        Ok(commands) if is_script => Ok((no_store(), Json(commands)).into_response()),
        Ok(commands) => {
            let choices = Choices::load(&gateway).await?;
            let filled = FilledForm {
                form: keep_uploads(&gateway, received.form).await?,
                commands: Some(commands),
                ..FilledForm::default()
            };
            page(&gateway, &caller, &choices, &filled)
        }
        Err(invalid) => {
            let problem = FormProblem::new(&invalid.into());
            show_again(&gateway, &caller, received, problem, is_script).await
        }
    }
}

async fn show_again(
    gateway: &Gateway,
    caller: &Caller,
    received: ReceivedForm,
    problem: FormProblem,
    is_script: bool,
) -> Result<Response, RequestError> {
    if is_script {
        return Ok(problem_for_script(&problem));
    }
    let choices = Choices::load(gateway).await?;
    let filled = FilledForm {
        form: keep_uploads(gateway, received.form).await?,
        problem: Some(problem),
        ..FilledForm::default()
    };
    page(gateway, caller, &choices, &filled)
}

/// Uploaded files larger than this become blobs when the form is shown again.
const MAX_IN_FORM: usize = 64 << 10;

/// Puts uploaded files into the form itself, because a page cannot give them back to a browser's file control.
async fn keep_uploads(gateway: &Gateway, mut form: RunForm) -> Result<RunForm, RequestError> {
    for upload in std::mem::take(&mut form.uploads) {
        form.files.push(FormFile {
            path: upload.path,
            content: content_in_form(gateway, upload.bytes).await?,
            executable: false,
        });
    }
    if let Some(bytes) = form.uploaded_input.take() {
        match content_in_form(gateway, bytes).await? {
            FormContent::Text(text) if form.get("execute.input").is_empty() => {
                form.set("execute.input", text)
            }
            FormContent::Text(_) => {}
            FormContent::Referred(referred) => form.input = Some(referred),
        }
    }
    keep_case_uploads(gateway, &mut form).await?;
    Ok(form)
}

/// Puts uploaded cases into the form itself. Files that make no cases are what is wrong with the form, and are forgotten.
async fn keep_case_uploads(gateway: &Gateway, form: &mut RunForm) -> Result<(), RequestError> {
    let uploads = std::mem::take(&mut form.case_uploads);
    if let [only] = uploads.as_slice()
        && only.is_zip()
    {
        let hash = put_as_blob(gateway, only.bytes.clone()).await?;
        form.cases_kept = Some(serde_json::json!({"zip": {"blob": hash.to_string()}}).to_string());
        return Ok(());
    }
    let mut cases = cases_of_uploads(&uploads).unwrap_or_default();
    for case in &mut cases {
        for content in [Some(&mut case.input), case.answer.as_mut()]
            .into_iter()
            .flatten()
        {
            if let Content::Inline(bytes) = content
                && bytes.len() > MAX_IN_FORM
            {
                *content = Content::Blob(put_as_blob(gateway, bytes.clone()).await?);
            }
        }
    }
    fill_in::set_cases(form, cases);
    Ok(())
}

async fn content_in_form(gateway: &Gateway, bytes: bytes::Bytes) -> Result<FormContent, RequestError> {
    if bytes.len() <= MAX_IN_FORM {
        return Ok(fill_in::form_content(&bytes));
    }
    let hash = put_as_blob(gateway, bytes).await?;
    Ok(FormContent::Referred(ReferredContent::blob(hash)))
}

/// What the script of the page needs when the reader chooses a language.
#[derive(Serialize)]
struct LanguageDefaults {
    source: String,
    example: String,
    input: &'static str,
    compile: Option<String>,
    execute: String,
    /// The default limits by the names of their controls.
    limits: BTreeMap<String, Option<String>>,
}

pub(crate) async fn language_defaults(
    State(gateway): State<Arc<Gateway>>,
    Path(name): Path<String>,
) -> Result<Response, RequestError> {
    let choices = Choices::load(&gateway).await?;
    let not_found = || InvalidField::new("language", format!("'{name}' is not in the language table"));
    let row = choices.row(&name).ok_or_else(not_found)?;
    let defaults = choices.limit_sources(&gateway, Some(row)).defaults();
    let steps = [
        ("compile", defaults.compile.unwrap_or_default()),
        ("execute", defaults.execute),
    ];
    let limits = steps.iter().flat_map(|(step, limits)| {
        LIMITS.map(|limit| (format!("{step}.limits.{limit}"), limit_text(limits, limit)))
    });
    let defaults = LanguageDefaults {
        source: row.source_name.to_string(),
        example: fill_in::example_source(row),
        input: LanguageExample::INPUT,
        compile: row.compile.clone(),
        execute: row.execute.clone(),
        limits: limits.collect(),
    };
    Ok((no_store(), Json(defaults)).into_response())
}

/// The script of the page reads answers itself; a browser wants pages.
fn is_script(headers: &HeaderMap) -> bool {
    accepts(headers, &header::ACCEPT, "application/json")
}

fn problem_for_script(problem: &FormProblem) -> Response {
    (status_of(problem), no_store(), Json(problem)).into_response()
}

fn no_store() -> [(header::HeaderName, HeaderValue); 1] {
    [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))]
}

fn log_if_internal(error: &RequestError) {
    if error.problem().status == 500 {
        tracing::error!(%error, "request failed");
    }
}
