//! The page of one file of a task: of its source, its data or its input, or one that it kept. Also of a long output of a step,
//! in parts.

use std::ops::Range;
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
use model::{BlobHash, Content, InvalidField, OutputSource, Task, TaskFiles, TaskId, TaskStatus};

use super::files::file_link;
use super::preview::{FileHead, FileKind, TEXT_ID, preview};
use super::steps::StepView;
use crate::caller::Caller;
use crate::gateway::Gateway;
use crate::pages::components::UserText;
use crate::pages::format;
use crate::pages::layout::{HtmlPage, Section};
use crate::pages::output_view::{MAX_PART_BYTES, TextPart, event_name, output_page};
use crate::params::{self, TaskPath};
use crate::request_error::RequestError;
use crate::request_quota::RequestQuota;
use crate::tasks::blob_bytes;

/// How much of a file is read at first.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// A character of UTF-8 has at most this many bytes after its first one.
const MAX_CONTINUATION_BYTES: usize = 3;
/// An image in the page itself may have this many bytes.
const MAX_INLINE_IMAGE_BYTES: usize = 256 << 10;

/// Names a file of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FilePlace {
    Source(String),
    Data(String),
    Input,
    Kept(String),
    /// Not a file, but its page is the same.
    Output(OutputSource),
}

impl FilePlace {
    fn name(&self) -> &str {
        match self {
            FilePlace::Source(path) | FilePlace::Data(path) | FilePlace::Kept(path) => path,
            FilePlace::Input => "standard input",
            FilePlace::Output(source) => source.stream.as_str(),
        }
    }

    fn title(&self) -> &'static str {
        match self {
            FilePlace::Source(_) => "Source file",
            FilePlace::Data(_) => "Data file",
            FilePlace::Input => "Input",
            FilePlace::Kept(_) => "Kept file",
            FilePlace::Output(_) => "Output",
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
        FilePlace::Output(source) => return output_page(id, *source),
    };
    format!("/tasks/{id}/view?in={group}&path={}", format::encode(path))
}

/// The parameters of the URL: the file, whether a table is shown as text, and where the part of a text begins that is shown.
#[derive(Debug, PartialEq, Eq)]
struct ViewParameters {
    place: FilePlace,
    as_text: bool,
    from: Option<u64>,
}

impl ViewParameters {
    fn read(uri: &Uri) -> Result<ViewParameters, InvalidField> {
        let (mut group, mut path, mut as_text, mut from) = (String::new(), String::new(), false, None);
        for (name, value) in params::known_parameters(uri, &["in", "path", "text", "from"])? {
            match name.as_str() {
                "in" => group = value,
                "path" => path = value,
                "from" => {
                    let problem = || format!("'{value}' is not a number of bytes");
                    from = Some(value.parse().map_err(|_| InvalidField::new("from", problem()))?);
                }
                _ => as_text = params::flag("text", &value)?,
            }
        }
        let place = match group.as_str() {
            "source" => FilePlace::Source(path),
            "data" => FilePlace::Data(path),
            "input" => FilePlace::Input,
            "kept" => FilePlace::Kept(path),
            output => {
                let mut outputs = OutputSource::ALL.into_iter();
                let found = outputs.find(|source| event_name(*source) == output);
                let problem = || {
                    format!(
                        "'{group}' is none of 'source', 'data', 'input', 'kept', and no output like 'execute-stdout'"
                    )
                };
                FilePlace::Output(found.ok_or_else(|| InvalidField::new("in", problem()))?)
            }
        };
        Ok(ViewParameters { place, as_text, from })
    }
}

/// A content of a task, as far as its page needs it.
pub(super) enum FoundFile {
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
    let ViewParameters { place, as_text, from } = ViewParameters::read(&uri)?;
    let wanted = match from {
        Some(from) => from..from.saturating_add(MAX_PART_BYTES),
        None => 0..MAX_HEAD_BYTES,
    };
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
            // Contents inside a task are small.
            let Range { start, end } = with_cut_character(&wanted, size)?;
            let bytes = from.map_or(bytes.clone(), |_| bytes.slice(start as usize..end as usize));
            (bytes, size, None)
        }
        FoundFile::Blob { hash, size } => {
            let size = match size {
                Some(size) => size,
                None => gateway.blob_size(hash).await?,
            };
            let url = match &place {
                FilePlace::Kept(path) => file_link(id, path),
                FilePlace::Output(source) => {
                    let (step, stream) = (source.step.as_str(), source.stream.as_str());
                    format!("/api/v1/tasks/{id}/{step}/{stream}")
                }
                _ => format!("/api/v1/blobs/{hash}"),
            };
            let range = with_cut_character(&wanted, size)?;
            (read_range(&gateway, hash, range).await?, size, Some(url))
        }
    };
    let shown_range = wanted.start..wanted.end.min(size);
    let kind = match FileKind::of(place.name(), &bytes) {
        FileKind::Table(_) if as_text => FileKind::Text,
        _ if from.is_some() || matches!(place, FilePlace::Output(_)) => FileKind::Text,
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
    let shown = match kind {
        FileKind::Text => whole_characters(&bytes, &shown_range),
        _ => &bytes[..bytes.len().min(MAX_HEAD_BYTES as usize)],
    };
    let file = FileHead {
        name: place.name(),
        bytes: shown,
        size: Some(size),
        image_url,
    };
    let link = view_link(id, &place);
    let part = TextPart {
        text_id: TEXT_ID,
        shown: shown_range,
        size,
        page: &link,
    };
    let content = html! {
        h1 { (place.title()) " " (UserText(place.name())) }
        p {
            a href={ "/tasks/" (id) } { "Back to the task" }
            " · " (format::bytes(size))
            @if let Some(url) = &whole_url { " · " a href=(url) { "Download" } }
            @if matches!(kind, FileKind::Table(_)) { " · " a href={ (link) "&text=true" } { "Show as text" } }
            @if as_text { " · " a href=(link) { "Show as a table" } }
        }
        @if matches!(kind, FileKind::Text) { (part.notice()) }
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
        FilePlace::Output(source) => {
            let steps = StepView::of(task);
            let step = steps.iter().find(|step| step.name == source.step)?;
            let captured = step.captured(source.stream)?;
            Some(match captured.blob {
                Some(hash) => FoundFile::Blob {
                    hash,
                    size: Some(captured.size),
                },
                None => FoundFile::Inline(Bytes::copy_from_slice(&captured.head)),
            })
        }
    }
}

/// The bytes to read for a part: with the rest of a character that its end cuts.
fn with_cut_character(part: &Range<u64>, size: u64) -> Result<Range<u64>, InvalidField> {
    if part.start > size {
        let problem = "is beyond the end";
        return Err(InvalidField::over_limit("from", problem, size, part.start));
    }
    let end = part.end.saturating_add(MAX_CONTINUATION_BYTES as u64);
    Ok(part.start..end.min(size))
}

/// The characters that begin in the part. The bytes are those of `with_cut_character`.
fn whole_characters<'b>(bytes: &'b [u8], part: &Range<u64>) -> &'b [u8] {
    let continuation = |bytes: &[u8]| {
        let most = bytes.iter().take(MAX_CONTINUATION_BYTES);
        most.take_while(|byte| **byte & 0xc0 == 0x80).count()
    };
    let length = usize::try_from(part.end - part.start).unwrap_or(bytes.len());
    let end = length.min(bytes.len());
    let end = end + continuation(&bytes[end..]);
    let start = if part.start == 0 { 0 } else { continuation(bytes) };
    &bytes[start.min(end)..end]
}

impl FoundFile {
    /// The bytes are copied, because they may be a slice of an RPC message with the whole task.
    pub(super) fn of(content: &Content) -> FoundFile {
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

pub(super) async fn read_head(gateway: &Gateway, hash: BlobHash, length: u64) -> Result<Bytes, RequestError> {
    read_range(gateway, hash, 0..length).await
}

async fn read_range(gateway: &Gateway, hash: BlobHash, range: Range<u64>) -> Result<Bytes, RequestError> {
    let chunks: Vec<Bytes> = blob_bytes(&gateway.calls, hash, range)
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
            FilePlace::Output(OutputSource::ALL[3]),
        ] {
            let uri: Uri = view_link(id, &place).parse().unwrap();
            let expected = ViewParameters {
                place,
                as_text: false,
                from: None,
            };
            assert_eq!(ViewParameters::read(&uri), Ok(expected));
        }
        let read = |query: &str| ViewParameters::read(&format!("/x?{query}").parse().unwrap());
        let input = ViewParameters {
            place: FilePlace::Input,
            as_text: true,
            from: Some(7),
        };
        assert_eq!(read("in=input&path=&text=true&from=7"), Ok(input));
        assert_eq!(read("in=input&from=-7").unwrap_err().field, "from");
        assert_eq!(read("path=a").unwrap_err().field, "in");
        assert_eq!(read("in=source&path=a&other=1").unwrap_err().field, "other");
    }

    #[test]
    fn parts_of_a_text_have_each_character_once() {
        let text = "aé€😀b".as_bytes();
        for length in 1..=text.len() as u64 {
            let mut joined = vec![];
            let mut from = 0;
            while from < text.len() as u64 {
                let part = from..from + length;
                let read = with_cut_character(&part, text.len() as u64).unwrap();
                let bytes = &text[read.start as usize..read.end as usize];
                let shown = whole_characters(bytes, &part);
                assert!(std::str::from_utf8(shown).is_ok(), "{part:?}");
                joined.extend_from_slice(shown);
                from += length;
            }
            assert_eq!(joined, text, "{length}");
        }
        assert_eq!(with_cut_character(&(8..9), 7).unwrap_err().field, "from");
    }
}
