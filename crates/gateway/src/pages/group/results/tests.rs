use model::{Labels, LanguageName, TaskId, TaskStatus, UnixTime, UserName, Verdict};

use super::*;
use crate::pages::task::case_strip_fixtures::judged_task;

fn key() -> GroupKey {
    GroupKey {
        user: UserName::new("ada l").unwrap(),
        group: GroupName::new("a&b?").unwrap(),
    }
}

fn submission(number: u128, marks: &[Verdict]) -> Submission {
    let mut task = judged_task(marks);
    task.id = TaskId(uuid::Uuid::from_u128(number));
    let summary = model::TaskSummary {
        id: task.id,
        user: key().user,
        priority: 0,
        command: "true".into(),
        status: task.status,
        reason: None,
        labels: Labels::new([("file".into(), format!("=<b>{number}"))].into()).unwrap(),
        group: Some(key().group),
        language: LanguageName::new("cpp").ok(),
        executor: None,
        attempt: task.attempt,
        add_time: UnixTime(i64::try_from(number).unwrap()),
        start_time: None,
        finish_time: None,
    };
    Submission::of(&task, &CaseLists::default(), summary).unwrap()
}

fn results() -> GroupResults {
    GroupResults::of([
        submission(1, &[Verdict::WrongAnswer, Verdict::Accepted, Verdict::Skipped]),
        submission(2, &[Verdict::Accepted, Verdict::Accepted]),
    ])
}

fn sorting(pairs: &[(&str, &str)]) -> Sorting {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    Sorting::read(&pairs).unwrap()
}

#[test]
fn the_table_has_a_row_for_each_submission_and_a_column_for_each_case() {
    let shown = results().show(&key(), sorting(&[])).into_string();
    for expected in [
        "<bdi>3</bdi></th>",
        "1: wrong answer",
        "/tasks/00000000-0000-0000-0000-000000000002/cases/1\"",
        "href=\"/groups/a%26b%3F/results?user=ada%20l&amp;sort=score&amp;order=desc\"",
        "aria-sort=\"ascending\"",
        "file==&lt;b&gt;1",
        "1<span class=\"dim\"> of 3</span>",
        ">20.0 ms</td>",
        ">1 MiB</td>",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert_eq!(shown.matches("data-case=").count(), 5, "{shown}");
    assert!(!shown.contains("<b>1"), "{shown}");
}

#[test]
fn rows_are_sorted_by_the_chosen_column() {
    let check = |pairs: &[(&str, &str)], expected: [u128; 2]| {
        let mut results = results();
        sorting(pairs).sort(&mut results.submissions);
        let ids = results
            .submissions
            .iter()
            .map(|submission| submission.summary.id.0.as_u128());
        assert_eq!(ids.collect::<Vec<_>>(), expected, "{pairs:?}");
    };
    check(&[], [1, 2]);
    check(&[("order", "desc")], [2, 1]);
    check(&[("sort", "verdict")], [2, 1]);
    check(&[("sort", "score")], [2, 1]);
    check(&[("sort", "score"), ("order", "asc")], [1, 2]);
}

#[test]
fn the_file_has_all_cases_and_no_formulas() {
    let file: String = results().into_csv(sorting(&[])).collect();
    let lines: Vec<_> = file.split("\r\n").collect();
    assert!(
        lines[0].starts_with("task,user,labels,") && lines[0].ends_with(",added,1,2,3"),
        "{file}"
    );
    assert!(
        lines[1].contains(",file==<b>1,cpp,run_failed,wrong_answer,1,3,"),
        "{file}"
    );
    assert!(lines[1].ends_with(",wrong_answer,accepted,skipped"), "{file}");
    assert!(lines[2].ends_with(",accepted,accepted,"), "{file}");
}

#[test]
fn a_task_that_is_not_judged_is_no_submission() {
    let mut task = judged_task(&[Verdict::Accepted]);
    let summary = submission(1, &[]).summary;
    let lists = CaseLists::default();
    assert!(Submission::of(&task, &lists, summary.clone()).is_some());
    task.spec.judging = None;
    assert!(Submission::of(&task, &lists, summary).is_none());
    let shown = GroupResults::default().show(&key(), sorting(&[])).into_string();
    assert!(shown.contains("No task of this group is judged"), "{shown}");
}

#[test]
fn wide_tables_are_cut() {
    let marks = vec![Verdict::Accepted; 300];
    let submissions = (0..100).map(|number| submission(number, &marks));
    let results = GroupResults::of(submissions);
    let shown = results.show(&key(), sorting(&[])).into_string();
    assert_eq!(shown.matches("data-case=").count(), MAX_MARKS);
    assert!(
        shown.contains("Only the first 200 of 300 cases"),
        "{}",
        shown.len()
    );
}

#[test]
fn a_submission_that_runs_shows_its_status() {
    let mut running = submission(1, &[Verdict::Accepted]);
    running.judgement = None;
    running.summary.status = TaskStatus::Running;
    let shown = GroupResults::of([running])
        .show(&key(), sorting(&[]))
        .into_string();
    assert!(
        shown.contains("running") && shown.contains("not judged yet"),
        "{shown}"
    );
}

#[test]
fn submissions_share_the_list_of_their_cases_and_many_lists_are_not_kept() {
    let lists = CaseLists::default();
    let submission = |number: u128, names: &dyn Fn(usize) -> String| {
        let mut task = judged_task(&[Verdict::Accepted; 5_000]);
        let judging = task.spec.judging.as_mut().unwrap();
        for (index, case) in judging.cases.iter_mut().enumerate() {
            case.name = CaseName::new(names(index)).unwrap();
        }
        let summary = submission(number, &[]).summary;
        Submission::of(&task, &lists, summary).unwrap()
    };
    let same: Vec<_> = (0..9)
        .map(|number| submission(number, &|index| index.to_string()))
        .collect();
    assert!(
        same.iter()
            .all(|one| std::sync::Arc::ptr_eq(&one.cases, &same[0].cases))
    );
    let of_their_own = (0..9).map(|number| submission(number, &|index| format!("{number}-{index}")));
    let submissions: Vec<_> = same.into_iter().chain(of_their_own).collect();
    let results = GroupResults::of(submissions);
    assert_eq!(results.cases.len(), 20_000);
    let shown = results.show(&key(), sorting(&[])).into_string();
    assert!(shown.contains("show no marks"), "{}", shown.len());
}
