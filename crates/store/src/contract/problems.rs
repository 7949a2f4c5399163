//! Contract cases: problems, and the blobs that they keep.

use std::sync::Arc;

use model::{
    BlobHash, Content, JudgeProblem, Limits, ProblemEditor, ProblemName, ProblemRef, ProblemSummary,
    StoreAge, UnixTime, UserName,
};

use super::fixtures::{add_task_with, hash_of, judging, put_blob, read_blob};
use crate::{ProblemBounds, RetentionSummary, StoreError, TaskStore};

/// An age before every stamp.
const BEFORE_ALL: StoreAge = StoreAge(0);
/// An age after every stamp.
const AFTER_ALL: StoreAge = StoreAge(i64::MAX);
const BOUNDS: ProblemBounds = ProblemBounds {
    per_owner: 3,
    total: 4,
};

fn user(name: &str) -> UserName {
    UserName::new(name).unwrap()
}

fn name(name: &str) -> ProblemName {
    ProblemName::new(name).unwrap()
}

fn owned_by(owner: &str) -> ProblemEditor {
    ProblemEditor::Owner(user(owner))
}

/// A problem whose first input and first answer are these blobs.
fn problem(owner: &str, title: &str, blobs: [BlobHash; 2]) -> JudgeProblem {
    let mut judging = judging();
    let [input, answer] = blobs.map(Content::Blob);
    judging.cases[0].input = input;
    judging.cases[0].answer = Some(answer);
    JudgeProblem {
        name: name(title),
        owner: user(owner),
        title: format!("The problem {title}"),
        limits: Limits {
            memory: Some(1 << 20),
            ..Limits::default()
        },
        judging,
        update_time: UnixTime(1_700_000_000_000_001),
    }
}

async fn blobs(store: &Arc<dyn TaskStore>, texts: [&str; 2]) -> [BlobHash; 2] {
    let mut hashes = [hash_of(b""); 2];
    for (hash, text) in hashes.iter_mut().zip(texts) {
        *hash = put_blob(&**store, text.as_bytes()).await.unwrap();
    }
    hashes
}

async fn put(store: &Arc<dyn TaskStore>, problem: JudgeProblem) -> Result<JudgeProblem, StoreError> {
    let editor = ProblemEditor::Owner(problem.owner.clone());
    store.put_problem(problem, editor, BOUNDS).await
}

/// Removes what nothing uses, and returns how many blobs that were.
async fn unused_blobs(store: &Arc<dyn TaskStore>) -> usize {
    let retired = store.apply_retention(BEFORE_ALL, AFTER_ALL, 100).await.unwrap();
    let RetentionSummary { tasks, blobs, more } = retired;
    assert_eq!((tasks, more), (0, false));
    blobs
}

pub async fn a_problem_is_read_as_it_was_put(store: Arc<dyn TaskStore>) {
    assert_eq!(store.problem(name("sum")).await.unwrap(), None);
    assert_eq!(store.problems().await.unwrap(), []);
    let blobs = blobs(&store, ["in", "ans"]).await;
    let sum = problem("ada", "sum", blobs);
    let max = problem("bob", "max", blobs);
    for problem in [&sum, &max] {
        assert_eq!(&put(&store, problem.clone()).await.unwrap(), problem);
        assert_eq!(
            store.problem(problem.name.clone()).await.unwrap().as_ref(),
            Some(problem)
        );
    }
    let summary = |problem: &JudgeProblem| ProblemSummary {
        name: problem.name.clone(),
        owner: problem.owner.clone(),
        title: problem.title.clone(),
        cases: 2,
        update_time: problem.update_time,
    };
    assert_eq!(store.problems().await.unwrap(), [summary(&max), summary(&sum)]);
    assert!(store.remove_problem(name("sum"), owned_by("ada")).await.unwrap());
    assert!(!store.remove_problem(name("sum"), owned_by("ada")).await.unwrap());
    assert_eq!(store.problem(name("sum")).await.unwrap(), None);
    assert_eq!(store.problems().await.unwrap(), [summary(&max)]);
}

pub async fn only_the_owner_and_operators_replace_a_problem(store: Arc<dyn TaskStore>) {
    let blobs = blobs(&store, ["in", "ans"]).await;
    put(&store, problem("ada", "sum", blobs)).await.unwrap();
    let theirs = problem("eve", "sum", blobs);
    let check_refused = |refused: StoreError| {
        let expected = ProblemRef {
            name: name("sum"),
            owner: user("ada"),
        };
        assert!(
            matches!(&refused, StoreError::NotOwner(found) if *found == expected),
            "{refused:?}"
        );
    };
    check_refused(put(&store, theirs.clone()).await.unwrap_err());
    check_refused(
        store
            .remove_problem(name("sum"), owned_by("eve"))
            .await
            .unwrap_err(),
    );
    // An operator changes the content, not the owner.
    let mut changed = theirs;
    changed.title = "Changed".into();
    changed.judging.cases.truncate(1);
    let stored = store
        .put_problem(changed.clone(), ProblemEditor::Operator, BOUNDS)
        .await
        .unwrap();
    changed.owner = user("ada");
    assert_eq!(stored, changed);
    assert_eq!(store.problem(name("sum")).await.unwrap(), Some(changed));
    assert_eq!(store.problems().await.unwrap()[0].cases, 1);
    let removed = store.remove_problem(name("sum"), ProblemEditor::Operator).await;
    assert!(removed.unwrap());
}

pub async fn the_number_of_problems_is_bounded(store: Arc<dyn TaskStore>) {
    let blobs = blobs(&store, ["in", "ans"]).await;
    for title in ["a", "b", "c"] {
        put(&store, problem("ada", title, blobs)).await.unwrap();
    }
    let refused = put(&store, problem("ada", "d", blobs)).await.unwrap_err();
    let limit = BOUNDS.per_owner;
    assert!(
        matches!(&refused, StoreError::TooManyProblemsOfOwner { owner, limit: of } if *owner == user("ada") && *of == limit),
        "{refused:?}"
    );
    put(&store, problem("bob", "d", blobs)).await.unwrap();
    let refused = put(&store, problem("bob", "e", blobs)).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::TooManyProblems { limit: 4 }),
        "{refused:?}"
    );
    // One that exists is replaced, and a removed one makes room.
    put(&store, problem("ada", "a", blobs)).await.unwrap();
    store.remove_problem(name("a"), owned_by("ada")).await.unwrap();
    put(&store, problem("bob", "e", blobs)).await.unwrap();
}

pub async fn a_problem_with_a_missing_blob_is_refused(store: Arc<dyn TaskStore>) {
    let [input, answer] = blobs(&store, ["in", "ans"]).await;
    let missing = hash_of(b"missing");
    let original = problem("ada", "sum", [input, answer]);
    put(&store, original.clone()).await.unwrap();
    for title in ["sum", "max"] {
        let refused = put(&store, problem("ada", title, [missing, answer]))
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, StoreError::BlobNotFound(hash) if *hash == missing),
            "{refused:?}"
        );
    }
    assert_eq!(store.problem(name("sum")).await.unwrap(), Some(original));
    assert_eq!(store.problem(name("max")).await.unwrap(), None);
    assert_eq!(unused_blobs(&store).await, 0);
}

pub async fn a_blob_is_kept_while_a_problem_uses_it(store: Arc<dyn TaskStore>) {
    let [shared, first] = blobs(&store, ["shared", "first"]).await;
    let [second, own] = blobs(&store, ["second", "own"]).await;
    put(&store, problem("ada", "sum", [shared, first])).await.unwrap();
    put(&store, problem("ada", "max", [shared, own])).await.unwrap();
    assert_eq!(unused_blobs(&store).await, 1, "the second one");
    // The same content again, and then other content.
    put(&store, problem("ada", "sum", [shared, first])).await.unwrap();
    assert_eq!(unused_blobs(&store).await, 0);
    assert_eq!(put_blob(&*store, b"second").await.unwrap(), second);
    put(&store, problem("ada", "sum", [shared, second]))
        .await
        .unwrap();
    assert_eq!(unused_blobs(&store).await, 1, "the first one");
    assert_eq!(read_blob(&*store, first).await, None);
    assert_eq!(read_blob(&*store, second).await.as_deref(), Some(&b"second"[..]));
    store.remove_problem(name("sum"), owned_by("ada")).await.unwrap();
    assert_eq!(unused_blobs(&store).await, 1, "the second one");
    assert_eq!(read_blob(&*store, shared).await.as_deref(), Some(&b"shared"[..]));
    store.remove_problem(name("max"), owned_by("ada")).await.unwrap();
    assert_eq!(unused_blobs(&store).await, 2);
}

/// A task that was judged by a problem has its cases, also when the problem is gone.
pub async fn a_task_keeps_the_blobs_of_its_problem(store: Arc<dyn TaskStore>) {
    let blobs = blobs(&store, ["in", "ans"]).await;
    let problem = put(&store, problem("ada", "sum", blobs)).await.unwrap();
    let id = add_task_with(&*store, |spec| {
        spec.problem = Some(problem.name.clone());
        spec.judging = Some(problem.judging.clone());
    })
    .await;
    store.remove_problem(name("sum"), owned_by("ada")).await.unwrap();
    assert_eq!(unused_blobs(&store).await, 0);
    assert_eq!(
        store.get(id).await.unwrap().unwrap().spec.judging,
        Some(problem.judging)
    );
    store.cancel(id).await.unwrap();
    let retired = store.apply_retention(AFTER_ALL, AFTER_ALL, 100).await.unwrap();
    assert_eq!((retired.tasks, retired.blobs), (1, 2));
}
