//! What a judicator takes from the language of a task whose source is a blob.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::StreamExt;
use judicator::{Judicator, JudicatorOptions};
use model::{
    AddTask, BlobHash, Content, Language, LanguageExample, LanguageLimits, LanguageName, LanguageTable,
    StepCommand, TaskFile, TaskSpec, WorkspacePath,
};
use rpc::{CallError, Calls};
use sha2::{Digest, Sha256};

use super::harness::{StoreFault, options, start_with, with_deadline};
use super::sqlite_harness::{SqliteJudicator, new_id, spec};

pub(crate) fn java() -> Language {
    Language {
        name: LanguageName::new("java").unwrap(),
        title: "Java".into(),
        compiler: "javac".into(),
        aliases: vec![LanguageName::new("jdk").unwrap()],
        extensions: vec!["java".into()],
        source_name: WorkspacePath::new("Main.java").unwrap(),
        compile: None,
        execute: "java {class}".into(),
        programs: vec![],
        version: None,
        root: None,
        env: BTreeMap::new(),
        has_class_name: true,
        limits: LanguageLimits::default(),
        example: LanguageExample::default(),
    }
}

pub(crate) fn java_options() -> JudicatorOptions {
    JudicatorOptions {
        languages: LanguageTable::new(vec![java()]).unwrap(),
        ..options()
    }
}

/// A task in Java with these source files, which waits for an executor.
pub(crate) fn java_task(files: Vec<(&str, Content)>) -> AddTask {
    let file = |(path, content)| {
        let executable = false;
        (
            WorkspacePath::new(path).unwrap(),
            TaskFile { content, executable },
        )
    };
    let spec = TaskSpec {
        language: Some(LanguageName::new("jdk").unwrap()),
        source: files.into_iter().map(file).collect(),
        ..TaskSpec::new(spec().user, StepCommand::of_language())
    };
    AddTask {
        wait_for_executor: true,
        ..AddTask::new(new_id(), spec)
    }
}

/// A task in Java with this lone source file.
pub(crate) fn java_source_code(content: Content) -> AddTask {
    AddTask {
        names_source_code: true,
        ..java_task(vec![(AddTask::SOURCE_CODE, content)])
    }
}

pub(crate) async fn put(judicator: &Judicator, text: &str) -> Content {
    let hash = BlobHash(Sha256::digest(text).into());
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let bytes = futures::stream::iter([Ok(bytes)]).boxed();
    judicator.put_blob(hash, None, bytes).await.unwrap();
    Content::Blob(hash)
}

/// Adds the tasks, and returns the source files and the execute command of each.
async fn resolved(judicator: &Judicator, tasks: Vec<AddTask>) -> Vec<(Vec<String>, String)> {
    let added = with_deadline(judicator.add(tasks)).await.unwrap();
    let mut found = vec![];
    for task in added {
        let spec = judicator.get(task.id, None).await.unwrap().spec;
        let files = spec.source.keys().map(|path| path.as_str().to_string());
        found.push((files.collect(), spec.execute.command.display()));
    }
    found
}

fn expected(files: &[&str], execute: &str) -> (Vec<String>, String) {
    let files = files.iter().map(|file| (*file).to_string());
    (files.collect(), execute.to_string())
}

#[tokio::test]
async fn the_class_is_found_in_a_source_that_is_a_blob() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), java_options());
    let solution = "public class Solution { public static void main(String[] a) {} }";
    let code = put(judicator, solution).await;
    let helper = put(judicator, "package lab; class Helper {}").await;
    let main = put(
        judicator,
        "package lab; class Go { static void main(String[] a) {} }",
    )
    .await;
    let tasks = vec![
        java_source_code(code.clone()),
        java_task(vec![("lab/Helper.java", helper), ("lab/Go.java", main.clone())]),
        java_task(vec![("Main.java", main)]),
        java_source_code(code),
    ];
    let solved = expected(&["Solution.java"], "java Solution");
    let packaged = expected(&["lab/Go.java", "lab/Helper.java"], "java lab.Go");
    let named = expected(&["Main.java"], "java lab.Go");
    let expected = [solved.clone(), packaged, named, solved];
    assert_eq!(resolved(judicator, tasks).await, expected);
}

#[tokio::test]
async fn a_blob_over_one_mebibyte_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), java_options());
    let padded = |bytes: usize| {
        let class = "public class Solution { }";
        format!("{class}{}", " ".repeat(bytes - class.len()))
    };
    let read = put(judicator, &padded(1 << 20)).await;
    let left = put(judicator, &padded((1 << 20) + 1)).await;
    let tasks = vec![java_source_code(read), java_source_code(left)];
    let expected = [
        expected(&["Solution.java"], "java Solution"),
        expected(&["Main.java"], "java Main"),
    ];
    assert_eq!(resolved(judicator, tasks).await, expected);
}

#[tokio::test]
async fn all_blobs_of_a_request_together_are_read_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), java_options());
    let mut tasks = vec![];
    for number in 0..33 {
        let class = format!("public class S{number} {{ }}");
        let content = put(
            judicator,
            &format!("{class}{}", " ".repeat((1 << 20) - class.len())),
        )
        .await;
        tasks.push(java_source_code(content));
    }
    let found = resolved(judicator, tasks).await;
    for (number, (_, execute)) in found.iter().enumerate() {
        let expected = match number {
            32 => "java Main".to_string(),
            _ => format!("java S{number}"),
        };
        assert_eq!(*execute, expected);
    }
}

#[tokio::test]
async fn a_missing_source_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let SqliteJudicator { judicator, .. } = &SqliteJudicator::start_with(folder.path(), java_options());
    let missing = BlobHash([7; 32]);
    let answer = with_deadline(judicator.add(vec![java_source_code(Content::Blob(missing))])).await;
    assert_eq!(answer.err(), Some(CallError::NoBlob(missing)));
}

/// Otherwise the task would be stored under a name that its compiler refuses.
#[tokio::test]
async fn a_task_is_not_added_while_its_source_cannot_be_read() {
    let test = start_with(StoreFault::NoBlobs, java_options());
    let task = java_source_code(Content::Blob(BlobHash([7; 32])));
    let answer = with_deadline(test.judicator.add(vec![task])).await;
    assert!(matches!(answer, Err(CallError::Unavailable(_))), "{answer:?}");
}
