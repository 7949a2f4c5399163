//! A task as `multipart/form-data`: one part for the JSON, and one part for each file or zip.

use api::{CasesOrFiles, FilesOrZip, NewTask};
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use model::{Content, InvalidField, TaskFile, WorkspacePath};
use utoipa::ToSchema;

use crate::body;
use crate::gateway::Gateway;
use crate::quota_pool::QuotaExceeded;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;

const PARTS: [&str; 7] = [
    "task",
    "source",
    "data",
    "cases",
    "source_zip",
    "data_zip",
    "cases_zip",
];

/// A task as a form: its JSON without files, and its files as parts.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only defines a schema")]
#[schema(as = Form)]
pub(super) struct MultipartTask {
    task: NewTask,
    /// Source files. The file name of each part is its path.
    #[schema(required = false)]
    source: Vec<api::schema::Bytes>,
    /// Data files. The file name of each part is its path in `data/`.
    #[schema(required = false)]
    data: Vec<api::schema::Bytes>,
    /// The inputs and answers of cases: `NAME.in` with `NAME.ans` or `NAME.out`. The file name of each part is its path.
    #[schema(required = false)]
    cases: Vec<api::schema::Bytes>,
    /// A zip with all source files, instead of single source files.
    #[schema(required = false)]
    source_zip: api::schema::Bytes,
    /// A zip with all data files, instead of single data files.
    #[schema(required = false)]
    data_zip: api::schema::Bytes,
    /// A zip with the inputs and answers of all cases, instead of single ones.
    #[schema(required = false)]
    cases_zip: api::schema::Bytes,
}

/// Starts to read a form. Its body is charged to the quota of the request and ends with an error at the limit for bodies.
pub(crate) async fn open_form(
    gateway: &Gateway,
    request: Request,
) -> Result<(Multipart, RequestQuota), RequestError> {
    let limit = gateway.options.max_body;
    let (parts, body) = request.into_parts();
    body::check_content_length(&parts.headers, limit)?;
    let quota = RequestQuota::from_extensions(&parts.extensions)?;
    let body = body::charge_body(&quota, &parts.headers, body).await?;
    let size = usize::try_from(limit).unwrap_or(usize::MAX);
    let body = axum::body::Body::new(http_body_util::Limited::new(body, size));
    let form = Multipart::from_request(Request::from_parts(parts, body), &()).await;
    let form = form.map_err(|error| RequestError::Malformed(format!("the form cannot be read: {error}")))?;
    Ok((form, quota))
}

pub(super) async fn read_multipart(gateway: &Gateway, request: Request) -> Result<NewTask, RequestError> {
    let (mut form, quota) = open_form(gateway, request).await?;
    let form_error = |error: MultipartError| form_error(&error, gateway.options.max_body);
    let mut task: Option<Bytes> = None;
    let mut attached = AttachedFiles::default();
    while let Some(field) = form.next_field().await.map_err(form_error)? {
        let part = FormPart::read(field).await.map_err(form_error)?;
        match part.name.as_str() {
            "task" if task.is_some() => return Err(InvalidField::new("task", "is given twice").into()),
            "task" => task = Some(part.bytes),
            "source" => attached.source.push(part)?,
            "data" => attached.data.push(part)?,
            "cases" => attached.cases.push(part)?,
            "source_zip" => attached.source.set_zip(part)?,
            "data_zip" => attached.data.set_zip(part)?,
            "cases_zip" => attached.cases.set_zip(part)?,
            other => return Err(unknown_part(other).into()),
        }
    }
    quota.start_work()?;
    let task = task.ok_or_else(|| {
        InvalidField::new(
            "task",
            "is missing; send the JSON of the task as a part with this name",
        )
    })?;
    let mut task: NewTask = body::parse_body(&quota, task, api::parse_json).await?;
    task.source = attached.source.merge("source", task.source)?;
    task.data = attached.data.merge("data", task.data)?;
    if !attached.cases.is_empty() {
        let in_json = match task.cases {
            None => FilesOrZip::default(),
            Some(CasesOrFiles::Files(files)) => files,
            Some(CasesOrFiles::Listed(_)) => {
                let problem = "are given as a list and as files; choose one";
                return Err(InvalidField::new("cases", problem).into());
            }
        };
        let merged = attached.cases.merge("cases", in_json)?;
        task.cases = Some(CasesOrFiles::Files(merged));
    }
    Ok(task)
}

fn unknown_part(name: &str) -> InvalidField {
    let problem = match api::closest_match(name, &PARTS) {
        Some(known) => format!("is not a known part; did you mean '{known}'?"),
        None => format!("is not a known part; the known ones are {}", PARTS.join(", ")),
    };
    InvalidField::new(name, problem)
}

/// Finds the exceeded limit among the sources of the error, as the parser of the form only reports a failed body.
pub(crate) fn form_error(error: &MultipartError, limit: u64) -> RequestError {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return RequestError::BodyTooLarge { limit, actual: None };
        }
        if let Some(exceeded) = error.downcast_ref::<QuotaExceeded>() {
            return (*exceeded).into();
        }
        cause = error.source();
    }
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => RequestError::BodyTooLarge { limit, actual: None },
        _ => RequestError::Malformed(format!("the form cannot be read: {}", error.body_text())),
    }
}

/// A part of a `multipart/form-data` request that adds a task to the gateway: the task's JSON, a file or a zip.
struct FormPart {
    name: String,
    path: Option<String>,
    bytes: Bytes,
}

impl FormPart {
    async fn read(field: Field<'_>) -> Result<FormPart, MultipartError> {
        Ok(FormPart {
            name: field.name().unwrap_or_default().to_string(),
            path: field.file_name().map(str::to_string),
            bytes: field.bytes().await?,
        })
    }
}

/// The files and zips in all parts of a `multipart/form-data` request that adds a task to the gateway.
#[derive(Default)]
struct AttachedFiles {
    source: FieldAttachments,
    data: FieldAttachments,
    cases: FieldAttachments,
}

/// The form parts of a new task for one of its fields `source`, `data` and `cases`: single files, or one zip.
#[derive(Default)]
struct FieldAttachments {
    files: Vec<(WorkspacePath, Bytes)>,
    zip: Option<Bytes>,
}

impl FieldAttachments {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.zip.is_none()
    }

    fn push(&mut self, part: FormPart) -> Result<(), InvalidField> {
        let FormPart { name, path, bytes } = part;
        let path = path.ok_or_else(|| {
            InvalidField::new(
                &name,
                "has no file name; the file name is the path in the workspace",
            )
        })?;
        match WorkspacePath::new(path.as_str()) {
            Ok(path) => self.files.push((path, bytes)),
            Err(error) => return Err(InvalidField::new(format!("{name}.{path}"), error.to_string())),
        }
        Ok(())
    }

    fn set_zip(&mut self, part: FormPart) -> Result<(), InvalidField> {
        match self.zip.replace(part.bytes) {
            None => Ok(()),
            Some(_) => Err(InvalidField::new(
                part.name,
                "is given twice; put all files into one zip",
            )),
        }
    }

    /// Merges the attached files with the files in the JSON.
    fn merge(self, field: &str, in_json: FilesOrZip) -> Result<FilesOrZip, InvalidField> {
        let FieldAttachments { files, zip } = self;
        if let Some(zip) = zip {
            return if files.is_empty() && in_json.is_empty() {
                Ok(FilesOrZip::Zip(Content::Inline(zip)))
            } else {
                Err(InvalidField::new(
                    field,
                    "is given as a zip and as files; choose one",
                ))
            };
        }
        if files.is_empty() {
            return Ok(in_json);
        }
        let FilesOrZip::ByPath(mut merged) = in_json else {
            return Err(InvalidField::new(
                field,
                "is given as a zip and as files; choose one",
            ));
        };
        for (path, bytes) in files {
            let file_field = format!("{field}.{path}");
            let content = Content::Inline(bytes);
            let file = TaskFile {
                content,
                executable: false,
            };
            if merged.insert(path, file).is_some() {
                return Err(InvalidField::new(file_field, "is given twice"));
            }
        }
        Ok(FilesOrZip::ByPath(merged))
    }
}
