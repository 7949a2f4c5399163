//! The kept files and the attempts of a task, on its page.

use maud::{Markup, html};
use model::{AttemptRecord, FilesLeftOut, LeftOutReason, TaskId, TaskResult};

use super::format;

pub(super) fn kept_files(id: TaskId, result: &TaskResult) -> Markup {
    let TaskResult {
        files,
        files_left_out,
        ..
    } = result;
    html! {
        @if !files.is_empty() {
            h2 { "Kept files" }
            div class="scroll" { table {
                thead { tr { th { "File" } th { "Size" } th { "SHA-256" } } }
                tbody {
                    @for file in files {
                        tr {
                            td {
                                a href=(file_link(id, file.path.as_str())) { (file.path) }
                                @if file.executable { " " span class="dim" { "executable" } }
                            }
                            td class="tight" { (format::bytes(file.size)) }
                            td class="id" { (file.blob) }
                        }
                    }
                }
            } }
            p {
                "All files: "
                a href={ "/api/v1/tasks/" (id) "/files.zip" } { "zip" } ", "
                a href={ "/api/v1/tasks/" (id) "/files.tar" } { "tar" }
            }
        }
        (left_out(files_left_out))
    }
}

fn file_link(id: TaskId, path: &str) -> String {
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

/// Where the task ran. One attempt that goes on is shown, too.
pub(super) fn attempts(ran_on: &[AttemptRecord]) -> Markup {
    html! {
        @if !ran_on.is_empty() {
            h2 { "Attempts" }
            div class="scroll" { table {
                thead { tr { th { "Attempt" } th { "Executor" } th { "Started" } th { "Ended" } th { "How" } } }
                tbody {
                    @for record in ran_on {
                        tr {
                            td { (record.attempt) }
                            td { (record.executor) }
                            td class="tight" { (format::time(record.start_time)) }
                            td class="tight" { @if let Some((time, _)) = record.end { (format::time(time)) } }
                            td { @if let Some((_, end)) = record.end { (end.as_str().replace('_', " ")) } @else { "running" } }
                        }
                    }
                }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{BlobHash, KeptFile, WorkspacePath};

    use super::*;

    #[test]
    fn files_are_links_and_what_was_left_out_is_said() {
        let id = TaskId(uuid::Uuid::from_u128(7));
        let result = TaskResult {
            files: vec![KeptFile {
                path: WorkspacePath::new("out/a b?.csv").unwrap(),
                size: 2048,
                blob: BlobHash([1; 32]),
                executable: false,
            }],
            files_left_out: FilesLeftOut {
                count: 3,
                bytes: 1 << 20,
                why: Some(LeftOutReason::TooMany),
            },
            ..TaskResult::default()
        };
        let shown = kept_files(id, &result).into_string();
        for expected in [
            "/files/out/a%20b%3F%2Ecsv\"",
            "2 KiB",
            "/files.zip",
            "3 matching files (1 MiB) were not kept: there were too many.",
        ] {
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        assert_eq!(kept_files(id, &TaskResult::default()).into_string(), "");
    }
}
