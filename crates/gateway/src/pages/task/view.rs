//! The page of one file of a task: of its source, its data or its input, or one that it kept.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::TryStreamExt;
use maud::html;
use model::{BlobHash, Content, InvalidField, Task, TaskFiles, TaskId, TaskStatus};

use super::files::file_link;
use super::preview::{FileHead, FileKind, preview};
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::pages::components::UserText;
use crate::pages::format;
use crate::pages::layout::{HtmlPage, Section};
use crate::params::{self, TaskPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::tasks::blob_bytes;

/// How much of a file is read.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// An image in the page itself may have this many bytes.
const MAX_INLINE_IMAGE_BYTES: usize = 256 << 10;

/// Names a file of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FilePlace {
    Source(String),
    Data(String),
    Input,
    Kept(String),
}

impl FilePlace {
    fn name(&self) -> &str {
        match self {
            FilePlace::Source(path) | FilePlace::Data(path) | FilePlace::Kept(path) => path,
            FilePlace::Input => "standard input",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            FilePlace::Source(_) => "Source file",
            FilePlace::Data(_) => "Data file",
            FilePlace::Input => "Input",
            FilePlace::Kept(_) => "Kept file",
        }
    }
}

/// The URL of a file's page.
pub(super) fn view_link(id: TaskId, place: &FilePlace) -> String {
    let (group, path) = match place {
        FilePlace::Source(path) => ("source", path.as_str()),
        FilePlace::Data(path) => ("data", path.as_str()),
        FilePlace::Input => ("input", ""),
        FilePlace::Kept(path) => ("kept", path.as_str()),
    };
    format!("/tasks/{id}/view?in={group}&path={}", format::encode(path))
}

/// The parameters of the URL: the file, and whether a table is shown as text.
#[derive(Debug, PartialEq, Eq)]
struct ViewParameters {
    place: FilePlace,
    as_text: bool,
}

impl ViewParameters {
    fn read(uri: &Uri) -> Result<ViewParameters, InvalidField> {
        let (mut group, mut path, mut as_text) = (String::new(), String::new(), false);
        for (name, value) in params::known_parameters(uri, &["in", "path", "text"])? {
            match name.as_str() {
                "in" => group = value,
                "path" => path = value,
                _ => as_text = params::flag("text", &value)?,
            }
        }
        let place = match group.as_str() {
            "source" => FilePlace::Source(path),
            "data" => FilePlace::Data(path),
            "input" => FilePlace::Input,
            "kept" => FilePlace::Kept(path),
            _ => {
                let problem = format!("'{group}' is none of 'source', 'data', 'input' and 'kept'");
                return Err(InvalidField::new("in", problem));
            }
        };
        Ok(ViewParameters { place, as_text })
    }
}

/// A content of a task, as far as its page needs it.
enum FoundFile {
    Inline(Bytes),
    Blob { hash: BlobHash, size: Option<u64> },
}

pub(crate) async fn view_file(
    State(gateway): State<Arc<Gateway>>,
    Extension(quota): Extension<RequestQuota>,
    caller: Caller,
    TaskPath(id): TaskPath,
    uri: Uri,
) -> Result<Response, RequestError> {
    let ViewParameters { place, as_text } = ViewParameters::read(&uri)?;
    let loaded = gateway.load_task(&quota, gateway.calls.get(id, None)).await?;
    let loaded = caller.check_owner(loaded)?;
    let found = find(&loaded.task, &place);
    let status = loaded.task.status;
    // A slow blob must not keep others from loading tasks.
    drop(loaded);
    let found = found.ok_or_else(|| no_file(id, &place, status))?;
    let (bytes, size, whole_url) = match found {
        FoundFile::Inline(bytes) => {
            let size = bytes.len() as u64;
            (bytes, Some(size), None)
        }
        FoundFile::Blob { hash, size } => {
            let size = match size {
                Some(size) => size,
                None => gateway.blob_size(hash).await?,
            };
            let url = match &place {
                FilePlace::Kept(path) => file_link(id, path),
                _ => format!("/api/v1/blobs/{hash}"),
            };
            let head = read_head(&gateway, hash, size.min(MAX_HEAD_BYTES)).await?;
            (head, Some(size), Some(url))
        }
    };
    let kind = match FileKind::of(place.name(), &bytes) {
        FileKind::Table(_) if as_text => FileKind::Text,
        kind => kind,
    };
    let image_url = match (kind, &whole_url) {
        (FileKind::Image(image), None) if bytes.len() <= MAX_INLINE_IMAGE_BYTES => Some(format!(
            "data:{};base64,{}",
            image.media_type(),
            STANDARD.encode(&bytes)
        )),
        (_, url) => url.clone(),
    };
    let shown = &bytes[..bytes.len().min(MAX_HEAD_BYTES as usize)];
    let file = FileHead {
        name: place.name(),
        bytes: shown,
        size,
        image_url,
    };
    let content = html! {
        h1 { (place.title()) " " (UserText(place.name())) }
        p {
            a href={ "/tasks/" (id) } { "Back to the task" }
            @if let Some(size) = size { " · " (format::bytes(size)) }
            @if let Some(url) = &whole_url { " · " a href=(url) { "Download" } }
            @if matches!(kind, FileKind::Table(_)) { " · " a href={ (view_link(id, &place)) "&text=true" } { "Show as text" } }
            @if as_text { " · " a href=(view_link(id, &place)) { "Show as a table" } }
        }
        (preview(&file, kind))
    };
    // Without the name: a title shows hidden characters as they are.
    let title = format!("{} of task {id}", place.title());
    let page = HtmlPage::new(&gateway, &title)
        .section(Section::Tasks)
        .caller(&caller);
    Ok(page.respond(&content))
}

fn find(task: &Task, place: &FilePlace) -> Option<FoundFile> {
    let given = |files: &TaskFiles, path: &str| {
        let found = files.iter().find(|(known, _)| known.as_str() == path);
        found.map(|(_, file)| FoundFile::of(&file.content))
    };
    match place {
        FilePlace::Source(path) => given(&task.spec.source, path),
        FilePlace::Data(path) => given(&task.spec.data, path),
        FilePlace::Input => Some(FoundFile::of(&task.spec.execute.input)),
        FilePlace::Kept(path) => {
            let files = &task.result.as_ref()?.files;
            let file = files.iter().find(|file| file.path.as_str() == path)?;
            Some(FoundFile::Blob {
                hash: file.blob,
                size: Some(file.size),
            })
        }
    }
}

impl FoundFile {
    /// The bytes are copied, because they may be a slice of an RPC message with the whole task.
    fn of(content: &Content) -> FoundFile {
        match content {
            Content::Inline(bytes) => FoundFile::Inline(Bytes::copy_from_slice(bytes)),
            Content::Blob(hash) => FoundFile::Blob {
                hash: *hash,
                size: None,
            },
        }
    }
}

fn no_file(id: TaskId, place: &FilePlace, status: TaskStatus) -> RequestError {
    let path = place.name().to_string();
    RequestError::NoFile { id, path, status }
}

async fn read_head(gateway: &Gateway, hash: BlobHash, length: u64) -> Result<Bytes, RequestError> {
    let chunks: Vec<Bytes> = blob_bytes(&gateway.calls, hash, 0..length)
        .await?
        .try_collect()
        .await?;
    Ok(chunks.concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_url() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        for place in [
            FilePlace::Source("a b/<c>&d=e#.py".into()),
            FilePlace::Data("ü".into()),
            FilePlace::Kept("../x".into()),
        ] {
            let uri: Uri = view_link(id, &place).parse().unwrap();
            let as_text = false;
            assert_eq!(ViewParameters::read(&uri), Ok(ViewParameters { place, as_text }));
        }
        let read = |query: &str| ViewParameters::read(&format!("/x?{query}").parse().unwrap());
        let input = ViewParameters {
            place: FilePlace::Input,
            as_text: true,
        };
        assert_eq!(read("in=input&path=&text=true"), Ok(input));
        assert_eq!(read("path=a").unwrap_err().field, "in");
        assert_eq!(read("in=source&path=a&other=1").unwrap_err().field, "other");
    }
}
