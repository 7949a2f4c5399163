//! The files of a task on its page: those that it was given, and those that it kept.

use maud::{Markup, html};
use model::{Content, FilesLeftOut, KeptFile, LeftOutReason, Task, TaskFiles, TaskId, TaskResult};

use super::preview::ImageType;
use super::view::{FilePlace, view_link};
use crate::pages::components::{UserText, attribute_text, copy_button};
use crate::pages::format;

/// How many images are shown on the page of a task, and how large each may be.
const MAX_IMAGES: usize = 12;
const MAX_IMAGE_BYTES: u64 = 4 << 20;

/// The source, data and input of the task.
pub(super) fn given_files(task: &Task) -> Markup {
    let spec = &task.spec;
    html! {
        @if !spec.source.is_empty() { (given("Source", task.id, &spec.source, FilePlace::Source)) }
        @if !spec.data.is_empty() { (given("Data", task.id, &spec.data, FilePlace::Data)) }
        @if spec.execute.input != Content::empty() {
            h2 { "Input" }
            p {
                a href=(view_link(task.id, &FilePlace::Input)) { "Standard input" }
                " " (size(&spec.execute.input))
            }
        }
    }
}

fn given(title: &str, id: TaskId, files: &TaskFiles, place: fn(String) -> FilePlace) -> Markup {
    html! {
        h2 { (title) }
        ul class="files" {
            @for (path, file) in files {
                li {
                    a href=(view_link(id, &place(path.to_string()))) { (UserText(path.as_str())) }
                    " " (size(&file.content))
                    @if file.executable { " " span class="dim" { "executable" } }
                }
            }
        }
    }
}

fn size(content: &Content) -> Markup {
    html! {
        span class="dim" {
            @match content {
                Content::Inline(bytes) => (format::bytes(bytes.len() as u64)),
                Content::Blob(_) => "stored as a blob",
            }
        }
    }
}

/// The files that a task kept, and how many it did not.
pub(super) fn kept_files(id: TaskId, result: &TaskResult) -> Markup {
    let TaskResult {
        files,
        files_left_out,
        ..
    } = result;
    html! {
        @if !files.is_empty() {
            h2 { "Kept files" }
            (images(id, files))
            table class="cards" {
                thead { tr { th scope="col" { "File" } th scope="col" { "Size" } th scope="col" { "SHA-256" } th scope="col" { "Download" } } }
                tbody { @for file in files { (row(id, file)) } }
            }
            p {
                "All files: "
                a href={ "/api/v1/tasks/" (id) "/files.zip" } { "zip" } ", "
                a href={ "/api/v1/tasks/" (id) "/files.tar" } { "tar" }
            }
        }
        (left_out(files_left_out))
    }
}

fn row(id: TaskId, file: &KeptFile) -> Markup {
    let hash = file.blob.to_string();
    let short = hash.get(..12).unwrap_or(&hash);
    html! {
        tr {
            td data-label="File" {
                a href=(view_link(id, &FilePlace::Kept(file.path.to_string()))) { (UserText(file.path.as_str())) }
                @if file.executable { " " span class="dim" { "executable" } }
            }
            td class="tight" data-label="Size" { (format::bytes(file.size)) }
            td class="tight" data-label="SHA-256" { span class="id" title=(hash) { (short) "…" } (copy_button(&hash, "Copy the hash")) }
            td data-label="Download" { a href=(file_link(id, file.path.as_str())) { "Download" } }
        }
    }
}

/// The images among the files, by the endings of their names. The browser loads them as it shows them, and never runs them.
fn images(id: TaskId, files: &[KeptFile]) -> Markup {
    // An empty one would be shown as a broken image.
    let has_size = |file: &KeptFile| (1..=MAX_IMAGE_BYTES).contains(&file.size);
    let is_image = |file: &&KeptFile| has_size(file) && ImageType::of_name(file.path.as_str()).is_some();
    let images: Vec<_> = files.iter().filter(is_image).take(MAX_IMAGES).collect();
    html! {
        @if !images.is_empty() {
            div class="previews" {
                @for file in images {
                    a href=(view_link(id, &FilePlace::Kept(file.path.to_string()))) {
                        img src=(file_link(id, file.path.as_str())) alt=(attribute_text(file.path.as_str())) loading="lazy";
                    }
                }
            }
        }
    }
}

/// The URL of a kept file in the API, which browsers save.
pub(super) fn file_link(id: TaskId, path: &str) -> String {
    let parts: Vec<_> = path.split('/').map(format::encode).collect();
    format!("/api/v1/tasks/{id}/files/{}", parts.join("/"))
}

fn left_out(left_out: &FilesLeftOut) -> Markup {
    let FilesLeftOut { count, bytes, why } = *left_out;
    let why = why.map(|why| match why {
        LeftOutReason::TooMany => "there were too many",
        LeftOutReason::TooLarge => "they were too large",
        LeftOutReason::NotRegular => "one is not a regular file",
        LeftOutReason::BadName => "the name of one is not UTF-8 or too long",
        LeftOutReason::NoSpace => "the executor had no room or could not read them",
    });
    html! {
        @if count > 0 {
            p class="bad" {
                (count) " matching " (format::plural(count, "file")) " (" (format::bytes(bytes)) ") " @if count == 1 { "was" } @else { "were" } " not kept"
                @if let Some(why) = why { ": " (why) }
                "."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{BlobHash, WorkspacePath};

    use super::*;

    fn kept(path: &str, size: u64) -> KeptFile {
        KeptFile {
            path: WorkspacePath::new(path).unwrap(),
            size,
            blob: BlobHash([7; 32]),
            executable: false,
        }
    }

    #[test]
    fn kept_files_are_listed_with_links() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        let result = TaskResult {
            files: vec![kept("out/a \"b\"<c>?.csv", 2048)],
            files_left_out: FilesLeftOut {
                count: 3,
                bytes: 1 << 20,
                why: Some(LeftOutReason::TooMany),
            },
            ..TaskResult::default()
        };
        let shown = kept_files(id, &result).into_string();
        for expected in [
            "out/a &quot;b&quot;&lt;c&gt;?.csv",
            "files/out/a%20%22b%22%3Cc%3E%3F%2Ecsv\"",
            "2 KiB",
            "/files.zip",
            "3 matching files (1 MiB) were not kept: there were too many.",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert_eq!(kept_files(id, &TaskResult::default()).into_string(), "");
    }

    #[test]
    fn images_are_shown_within_limits() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        let count = |files: Vec<KeptFile>| images(id, &files).into_string().matches("<img").count();
        assert_eq!(
            count(vec![
                kept("a.png", 9),
                kept("b.JPG", 9),
                kept("c.svg", 9),
                kept("d.txt", 9)
            ]),
            2
        );
        assert_eq!(
            count(vec![kept("a.png", MAX_IMAGE_BYTES + 1), kept("b.png", 0)]),
            0
        );
        let many = (0..30).map(|number| kept(&format!("{number}.webp"), 9));
        assert_eq!(count(many.collect()), MAX_IMAGES);
    }
}
