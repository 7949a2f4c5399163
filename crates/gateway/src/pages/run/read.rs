//! Reads the form of the page Run from a request.

use axum::extract::Request;
use axum::extract::multipart::{Field, MultipartError};
use bytes::Bytes;
use model::InvalidField;

use super::form::{RunForm, UploadedFile};
use crate::gateway::Gateway;
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::tasks::{form_error, open_form};
use crate::{body, params};

/// A form that a browser has sent. It is whole even if a control is wrong, so that nothing of it is lost.
pub(super) struct ReceivedForm {
    pub(super) form: RunForm,
    /// What is wrong with it, if that is known without looking at the task.
    pub(super) invalid: Option<InvalidField>,
    pub(super) quota: RequestQuota,
}

/// Many more than a task may have files. Protects the memory of the gateway.
const MAX_CONTROLS: usize = 10_000;

pub(super) async fn read_form(gateway: &Gateway, request: Request) -> Result<ReceivedForm, RequestError> {
    let received = match body::media_type(request.headers()).as_str() {
        "multipart/form-data" => read_multipart(gateway, request).await?,
        "application/x-www-form-urlencoded" => read_urlencoded(gateway, request).await?,
        actual => {
            return Err(RequestError::UnsupportedMediaType {
                expected: "multipart/form-data or application/x-www-form-urlencoded",
                actual: actual.to_string(),
            });
        }
    };
    received.quota.start_work()?;
    Ok(received)
}

async fn read_urlencoded(gateway: &Gateway, request: Request) -> Result<ReceivedForm, RequestError> {
    let quota = RequestQuota::from_extensions(request.extensions())?;
    let bytes = body::read_body(&quota, request, gateway.options.max_body).await?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| RequestError::Malformed("the form is not valid UTF-8".to_string()))?;
    let mut received = ReceivedForm::new(quota);
    for (name, value) in params::form_fields(text)? {
        received.take(&name, value.into())?;
    }
    Ok(received)
}

async fn read_multipart(gateway: &Gateway, request: Request) -> Result<ReceivedForm, RequestError> {
    let (mut parts, quota) = open_form(gateway, request).await?;
    let form_error = |error: MultipartError| form_error(&error, gateway.options.max_body);
    let mut received = ReceivedForm::new(quota);
    while let Some(part) = parts.next_field().await.map_err(form_error)? {
        received.take_part(part).await?.map_err(form_error)?;
    }
    Ok(received)
}

impl ReceivedForm {
    fn new(quota: RequestQuota) -> ReceivedForm {
        ReceivedForm {
            form: RunForm::default(),
            invalid: None,
            quota,
        }
    }

    async fn take_part(&mut self, part: Field<'_>) -> Result<Result<(), MultipartError>, RequestError> {
        let name = part.name().unwrap_or_default().to_string();
        let file_name = part.file_name().map(str::to_string);
        let bytes = match part.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Err(error)),
        };
        match (name.as_str(), file_name) {
            // A browser sends a control for files without a file as an empty one without a name.
            ("upload" | "input_upload" | "cases_upload", Some(path))
                if path.is_empty() && bytes.is_empty() => {}
            ("upload", Some(path)) => self.form.uploads.push(UploadedFile { path, bytes }),
            ("cases_upload", Some(path)) => self.form.case_uploads.push(UploadedFile { path, bytes }),
            ("input_upload", Some(_)) => self.form.uploaded_input = Some(bytes),
            (name, _) => self.take(name, bytes)?,
        }
        Ok(Ok(()))
    }

    fn take(&mut self, name: &str, value: Bytes) -> Result<(), RequestError> {
        let count = self.form.count_controls();
        if count >= MAX_CONTROLS {
            return Err(
                InvalidField::over_limit("form", "has too many fields", MAX_CONTROLS, count + 1).into(),
            );
        }
        let taken = match String::from_utf8(value.into()) {
            Ok(text) => self.form.take(name, text),
            Err(_) => Err(InvalidField::new(name, "is not valid UTF-8")),
        };
        if let Err(invalid) = taken {
            self.invalid.get_or_insert(invalid);
        }
        Ok(())
    }
}
