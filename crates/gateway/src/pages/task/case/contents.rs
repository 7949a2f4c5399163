//! What a case contains, as its page shows it: the beginnings of its input and its expected output, and its files.

use bytes::Bytes;
use maud::{Markup, html};
use model::{BlobHash, Case, Content};

use crate::gateway::Gateway;
use crate::pages::components::UserText;
use crate::pages::format;
use crate::pages::output_view::short_or_long_text;
use crate::pages::task::view::{FoundFile, read_head};
use crate::request_error::RequestError;

/// How much of a content is shown.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// The contents of a case as they are stored, independent of the task or problem that has them.
pub(in crate::pages) struct StoredCase {
    input: FoundFile,
    answer: Option<FoundFile>,
    args: Vec<String>,
    files: Vec<StoredFile>,
}

/// A file of a case: its path, and its size or its blob.
struct StoredFile {
    path: String,
    size: Option<usize>,
    blob: Option<BlobHash>,
}

/// The beginnings of the input and the expected output of a case. Both are `None` where they are hidden.
#[derive(Default)]
pub(in crate::pages) struct CaseContents {
    pub(in crate::pages) input: Option<ContentHead>,
    pub(in crate::pages) answer: Option<ContentHead>,
}

/// The beginning of a content, and where the whole is.
pub(in crate::pages) struct ContentHead {
    pub(in crate::pages) bytes: Bytes,
    size: u64,
    blob: Option<BlobHash>,
}

impl StoredCase {
    pub(in crate::pages) fn of(case: &Case) -> StoredCase {
        let files = case.files.iter().map(|(path, file)| StoredFile {
            path: path.to_string(),
            size: match &file.content {
                Content::Inline(bytes) => Some(bytes.len()),
                Content::Blob(_) => None,
            },
            blob: file.content.blob(),
        });
        StoredCase {
            input: FoundFile::of(&case.input),
            answer: case.answer.as_ref().map(FoundFile::of),
            args: case.args.clone(),
            files: files.collect(),
        }
    }

    pub(in crate::pages) async fn read(&self, gateway: &Gateway) -> Result<CaseContents, RequestError> {
        let input = ContentHead::read(gateway, &self.input).await?;
        let answer = match &self.answer {
            Some(answer) => Some(ContentHead::read(gateway, answer).await?),
            None => None,
        };
        Ok(CaseContents {
            input: Some(input),
            answer,
        })
    }

    pub(in crate::pages) fn arguments_and_files(&self) -> Markup {
        html! {
            @if !self.args.is_empty() {
                h3 { "Arguments" }
                p { @for arg in &self.args { code { (UserText(arg)) } " " } }
            }
            @if !self.files.is_empty() {
                h3 { "Files" }
                ul class="files" {
                    @for StoredFile { path, size, blob } in &self.files {
                        li {
                            (UserText(path))
                            @if let Some(size) = size { " " span class="dim" { (format::bytes(*size as u64)) } }
                            @if let Some(hash) = blob { " " (blob_link(hash, "Download")) }
                        }
                    }
                }
            }
        }
    }
}

/// A script must not load what a user has written as a part of the page.
fn blob_link(hash: &BlobHash, label: &str) -> Markup {
    html! { a href={ "/api/v1/blobs/" (hash) } hx-boost="false" { (label) } }
}

impl ContentHead {
    async fn read(gateway: &Gateway, found: &FoundFile) -> Result<ContentHead, RequestError> {
        match found {
            FoundFile::Inline(bytes) => {
                let end = bytes.len().min(MAX_HEAD_BYTES as usize);
                Ok(ContentHead {
                    bytes: bytes.slice(..end),
                    size: bytes.len() as u64,
                    blob: None,
                })
            }
            FoundFile::Blob { hash, .. } => {
                let size = gateway.blob_size(*hash).await?;
                Ok(ContentHead {
                    bytes: read_head(gateway, *hash, size.min(MAX_HEAD_BYTES)).await?,
                    size,
                    blob: Some(*hash),
                })
            }
        }
    }

    /// Whether there is more than is shown.
    pub(in crate::pages) fn is_part(&self) -> bool {
        self.size > self.bytes.len() as u64
    }

    pub(in crate::pages) fn section(&self, id: &str, label: &str) -> Markup {
        html! {
            div class="output" {
                h3 { (label) " " span class="dim" { (format::bytes(self.size)) } }
                (short_or_long_text(id, label, &self.bytes))
                @if let Some(hash) = &self.blob {
                    p class="dim" data-output-partial=[self.is_part().then_some(id)] {
                        @if self.is_part() { "Only the first " (format::bytes(self.bytes.len() as u64)) " are shown: " }
                        (blob_link(hash, "get all"))
                    }
                }
            }
        }
    }
}
