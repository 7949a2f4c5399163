//! A task as a form: its JSON, and its files as parts.

use api::{Files, NewTask};
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use model::{Content, File, FilePath, Invalid};
use utoipa::ToSchema;

use crate::admission::Admission;
use crate::body;
use crate::gateway::Gateway;
use crate::pool::Exhausted;
use crate::refusal::Refusal;

const PARTS: [&str; 5] = ["task", "source", "data", "source_zip", "data_zip"];

/// The form as it is described to programs; it is read part by part.
#[derive(ToSchema)]
#[allow(dead_code, reason = "stands for its schema only")]
pub(super) struct Form {
    task: NewTask,
    /// Files; the file name of each is its path.
    #[schema(required = false)]
    source: Vec<api::schema::Bytes>,
    /// Files for `data/`; the file name of each is its path there.
    #[schema(required = false)]
    data: Vec<api::schema::Bytes>,
    /// All source files in one zip; no other source file is given then.
    #[schema(required = false)]
    source_zip: api::schema::Bytes,
    /// All data files in one zip; no other data file is given then.
    #[schema(required = false)]
    data_zip: api::schema::Bytes,
}

pub(super) async fn read_multipart(gateway: &Gateway, request: Request) -> Result<NewTask, Refusal> {
    let limit = gateway.options.max_body;
    let (parts, body) = request.into_parts();
    body::refuse_early(&parts.headers, limit)?;
    let admission = Admission::of(&parts.extensions)?;
    let body = body::charged(&admission, &parts.headers, body).await?;
    let size = usize::try_from(limit).unwrap_or(usize::MAX);
    let body = axum::body::Body::new(http_body_util::Limited::new(body, size));
    let mut form = Multipart::from_request(Request::from_parts(parts, body), &())
        .await
        .map_err(|error| Refusal::Malformed(format!("the form cannot be read: {error}")))?;
    let broken = |error: MultipartError| broken(&error, limit);
    let mut task: Option<Bytes> = None;
    let mut attached = Attached::default();
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let part = Part::read(field).await.map_err(broken)?;
        match part.name.as_str() {
            "task" if task.is_some() => return Err(Invalid::new("task", "is given twice").into()),
            "task" => task = Some(part.bytes),
            "source" => attached.source.push(part)?,
            "data" => attached.data.push(part)?,
            "source_zip" => attached.source.set_zip(part)?,
            "data_zip" => attached.data.set_zip(part)?,
            other => return Err(unknown(other).into()),
        }
    }
    admission.start_work()?;
    let task =
        task.ok_or_else(|| Invalid::new("task", "is missing; send the task's JSON as a part of this name"))?;
    let mut task: NewTask = body::parse_with(&admission, task, api::parse).await?;
    task.source = attached.source.join("source", task.source)?;
    task.data = attached.data.join("data", task.data)?;
    Ok(task)
}

fn unknown(name: &str) -> Invalid {
    let problem = match api::nearest(name, &PARTS) {
        Some(known) => format!("is not a known part; did you mean '{known}'?"),
        None => format!("is not a known part; the known ones are {}", PARTS.join(", ")),
    };
    Invalid::new(name, problem)
}

/// A bound breaks the body off inside the form's reader, which tells it only as a broken body.
fn broken(error: &MultipartError, limit: u64) -> Refusal {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return Refusal::TooLarge { limit, actual: None };
        }
        if let Some(exhausted) = error.downcast_ref::<Exhausted>() {
            return (*exhausted).into();
        }
        cause = error.source();
    }
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::TooLarge { limit, actual: None },
        _ => Refusal::Malformed(format!("the form cannot be read: {}", error.body_text())),
    }
}

struct Part {
    name: String,
    path: Option<String>,
    bytes: Bytes,
}

impl Part {
    async fn read(field: Field<'_>) -> Result<Part, MultipartError> {
        Ok(Part {
            name: field.name().unwrap_or_default().to_string(),
            path: field.file_name().map(str::to_string),
            bytes: field.bytes().await?,
        })
    }
}

#[derive(Default)]
struct Attached {
    source: Side,
    data: Side,
}

/// What was attached to one of `source` and `data`.
#[derive(Default)]
struct Side {
    files: Vec<(FilePath, Bytes)>,
    zip: Option<Bytes>,
}

impl Side {
    fn push(&mut self, part: Part) -> Result<(), Invalid> {
        let Part { name, path, bytes } = part;
        let path = path.ok_or_else(|| {
            Invalid::new(
                &name,
                "has no file name; a file's name in the form is its path in the workspace",
            )
        })?;
        match FilePath::new(path.as_str()) {
            Ok(path) => self.files.push((path, bytes)),
            Err(error) => return Err(Invalid::new(format!("{name}.{path}"), error.to_string())),
        }
        Ok(())
    }

    fn set_zip(&mut self, part: Part) -> Result<(), Invalid> {
        match self.zip.replace(part.bytes) {
            None => Ok(()),
            Some(_) => Err(Invalid::new(
                part.name,
                "is given twice; put all files into one zip",
            )),
        }
    }

    /// Joins what is attached with what the JSON says.
    fn join(self, field: &str, written: Files) -> Result<Files, Invalid> {
        let Side { files, zip } = self;
        if let Some(zip) = zip {
            return if files.is_empty() && written.is_empty() {
                Ok(Files::Zip(Content::Inline(zip)))
            } else {
                Err(Invalid::new(
                    field,
                    "is given as a zip and also otherwise; choose one",
                ))
            };
        }
        if files.is_empty() {
            return Ok(written);
        }
        let Files::Listed(mut listed) = written else {
            return Err(Invalid::new(
                field,
                "is given as a zip and also otherwise; choose one",
            ));
        };
        for (path, bytes) in files {
            let place = format!("{field}.{path}");
            let content = Content::Inline(bytes);
            let file = File {
                content,
                executable: false,
            };
            if listed.insert(path, file).is_some() {
                return Err(Invalid::new(place, "is given twice"));
            }
        }
        Ok(Files::Listed(listed))
    }
}
