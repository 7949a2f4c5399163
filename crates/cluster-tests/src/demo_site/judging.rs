//! What the demo site has for judging: a problem, and a group of submissions to it.

use model::TaskId;
use serde_json::{Value, json};

use crate::{HttpResponse, RawHttpClient, TestSystem};

/// The name of the problem.
pub(super) const PROBLEM: &str = "largest-sum";
/// The group of the submissions, of the user ada.
pub(super) const HOMEWORK: &str = "homework-4";
/// The place of a case that the shown submission answers wrongly.
pub(super) const WRONG_CASE: usize = 2;

const RIGHT: &str = "n = int(input())\nbest = total = None\nfor x in map(int, input().split()):\n    total = x if total is None or total < 0 else total + x\n    \
                     best = total if best is None else max(best, total)\nprint(best)\nprint('done')\n";
/// Takes an empty part for one of sum 0.
const WRONG: &str = "n = int(input())\nbest = total = 0\nfor x in map(int, input().split()):\n    total = max(0, total + x)\n    \
                     best = max(best, total)\nprint(best)\nprint('done')\n";
const SLOW: &str = "n = int(input())\nx = list(map(int, input().split()))\nif n > 5:\n    while True: pass\nprint(max(sum(x[i:j]) for i in range(n) for j in range(i + 1, n + 1)))\nprint('done')\n";
const CRASHES: &str = "n = int(input())\nprint([1][n - 3])\n";

fn cases() -> Value {
    let case = |name: &str, numbers: &[i32], answer: i32, points: u32| {
        let words: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        json!({
            "name": name, "input": format!("{}\n{}\n", numbers.len(), words.join(" ")), "answer": format!("{answer}\ndone\n"),
            "points": points, "group": name.split('/').next(), "sample": name.starts_with("sample"),
        })
    };
    json!([
        case("sample/1", &[1, -2, 3], 3, 0),
        case("small/1", &[4, 5, -1, 7], 15, 20),
        case("small/2", &[-3, -1, -2], -1, 20),
        case("large/1", &[2, -1, 2, -1, 2, -1, 2, -1], 5, 30),
        case("large/2", &[-5, -4, -3, -2, -1, -6], -1, 30),
    ])
}

pub(super) async fn put_problem(web: &RawHttpClient) {
    let problem = json!({
        "owner": "ada", "title": "The largest sum of neighbours", "limits": {"cpu": "500ms", "memory": "128MiB"},
        "cases": cases(), "groups": {"small": {"score": "sum"}, "large": {"score": "pass_all"}},
    });
    let request = web
        .request("PUT", &format!("/api/v1/problems/{PROBLEM}"))
        .json(&problem);
    let answer = HttpResponse::of(request).await;
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
}

/// Adds the submissions, and returns a task with cases of its own that some cases of failed.
pub(super) async fn add_submissions(system: &TestSystem) -> TaskId {
    for (author, program) in [
        ("grace", RIGHT),
        ("edsger", WRONG),
        ("alan", SLOW),
        ("charles", CRASHES),
    ] {
        let task = json!({
            "user": "ada", "group": HOMEWORK, "labels": {"author": author}, "language": "python", "source_code": program,
            "problem": PROBLEM,
        });
        system.run(task).await;
    }
    let own = json!({
        "user": "ada", "labels": {"author": "edsger"}, "language": "python", "source_code": WRONG, "cases": cases(),
        "execute": {"limits": {"cpu": "500ms", "memory": "128MiB"}},
    });
    system.run(own).await.id
}
