//! Programs that talk with an interactor while they run, by the protocol of ICPC packages.

use serde_json::{Value, json};

use crate::harness::{JudgedTask, JudgingNode, text};

/// What every interactor of these tests begins with. A broken pipe is no failure of an interactor.
const INTERACTOR: &str = r#"
import os, signal, sys, time
case_input, answer, feedback, *args = sys.argv[1:]
def say(text):
    try: os.write(1, f'{text}\n'.encode())
    except BrokenPipeError: pass
def hear(): return sys.stdin.readline().strip()
def tell(name, text):
    with open(feedback + name, 'w') as file: file.write(text)
def accept(): os._exit(42)
def reject(): os._exit(43)
"#;

const PROGRAM: &str = "import os, signal, sys, time\n\
    def say(text): print(text, flush=True)\n\
    def hear(): return sys.stdin.readline().strip()\n";

/// The `interact` of a task with this interactor. Its own limits are those of the judge.
pub(crate) fn interactor(source: &str) -> Value {
    json!({"protocol": "icpc", "language": "python", "source": {"interact.py": format!("{INTERACTOR}{source}")}})
}

/// A task whose program talks with the interactor, in one case without contents.
pub(crate) fn interactive_task(program: &str, interact: &Value) -> Value {
    json!({
        "language": "python",
        "source_code": format!("{PROGRAM}{program}"),
        "execute": {"limits": {"cpu": "1s", "wall": "3s", "memory": "64MiB", "output": "1MiB"}},
        "interact": interact,
        "cases": [{"name": "talk"}],
    })
}

/// Guesses a number. After each guess the interactor says whether the number is lower or higher.
const GUESSER: &str = "low, high = 1, int(hear())\n\
    while True:\n    \
        middle = (low + high) // 2\n    \
        say(middle)\n    \
        told = hear()\n    \
        if told == 'lower': high = middle - 1\n    \
        elif told == 'higher': low = middle + 1\n    \
        else: break\n";

const GUESSED: &str = "secret, high = int(open(case_input).read()), int(open(answer).read())\n\
    say(high)\n\
    for turn in range(1, 20):\n    \
        guess = int(hear() or reject())\n    \
        if guess == secret:\n        \
            say('right')\n        \
            tell('judgemessage.txt', f'{turn} turns for {secret} {args}')\n        \
            tell('teammessage.txt', 'well guessed')\n        \
            tell('score.txt', str(10 - turn))\n        \
            accept()\n    \
        say('lower' if guess > secret else 'higher')\n\
    tell('judgemessage.txt', f'not found: {secret}')\n\
    reject()\n";

async fn guess(node: &JudgingNode, program: &str, stop: &str) -> JudgedTask {
    let case = |secret: u32| json!({"name": secret.to_string(), "input": secret.to_string(), "answer": "100", "points": 10});
    let mut interact = interactor(GUESSED);
    interact["args"] = json!(["a b"]);
    let mut task = interactive_task(program, &interact);
    task["cases"] = json!([case(50), case(1), case(77)]);
    task["stop"] = json!(stop);
    node.judge(&task).await
}

#[tokio::test]
async fn an_interactor_decides_and_gives_messages_and_scores() {
    let node = JudgingNode::start();
    let task = guess(&node, GUESSER, "never").await;
    task.assert_status("success", "accepted");
    assert_eq!(task.points(), [9.0, 4.0, 3.0], "{:#}", task.0);
    assert_eq!(task.score(), (16.0, 30.0));
    let check = &task.case("77")["check"];
    assert_eq!(check["exit_code"], 42);
    assert_eq!(check["message"], "well guessed");
    assert_eq!(check["judge_message"], "7 turns for 77 ['a b']");

    let stubborn = "hear()\nwhile True:\n    say(50)\n    if hear() == 'right': break\n";
    let task = guess(&node, stubborn, "first_failure").await;
    task.assert_cases(&[("50", "accepted"), ("1", "wrong_answer"), ("77", "skipped")]);
    task.assert_status("run_failed", "wrong_answer");
    assert_eq!(text(&task.case("1")["check"]["judge_message"]), "not found: 1");
    node.assert_healthy().await;
}

/// A check beside an interactor would have nothing to compare, and a program that fails decides by itself.
#[tokio::test]
async fn an_interactor_runs_beside_a_compiled_program() {
    let node = JudgingNode::start();
    let interact = json!({
        "protocol": "icpc", "language": "c",
        "source": {"interact.c": "#include <stdio.h>\nint main(void) { int sum; puts(\"20 22\"); fflush(stdout); \
            return scanf(\"%d\", &sum) == 1 && sum == 42 ? 42 : 43; }"},
    });
    let program = "#include <stdio.h>\nint main(void) { int a, b; scanf(\"%d %d\", &a, &b); printf(\"%d\\n\", a + b); }";
    let task = json!({
        "language": "c", "source_code": program, "interact": interact, "cases": [{"name": "1"}, {"name": "2"}, {"name": "3"}],
    });
    let judged = node.judge(&task).await;
    assert_eq!(judged.verdicts(), ["accepted"; 3], "{:#}", judged.0);
    assert_eq!(judged.0["result"]["compile"]["exit_code"], 0);

    let mut broken = task.clone();
    broken["source_code"] = json!("int main(void) { return }");
    node.judge(&broken)
        .await
        .assert_status("compile_failed", "compile_error");

    let mut broken = task;
    broken["interact"]["source"] = json!({"interact.c": "int main(void) { return }"});
    let judged = node.judge(&broken).await;
    judged.assert_status("system_error", "judge_error");
    assert_eq!(judged.verdicts(), ["judge_error", "skipped", "skipped"]);
}
