//! Programs that look everywhere for answers, inputs of other cases, and the checker, while it runs and between cases.

use serde_json::{Value, json};

use crate::harness::{JudgedTask, JudgingNode, text};
use crate::interaction::{interactive_task, interactor};

/// Prints where it finds the secrets of these tests, and what is open to it besides its own streams. The secrets are not
/// spelled here, so that it does not find itself.
const HUNTER: &str = r#"
import os, sys
secret_of = lambda what: ('SEC' + 'RET-' + what).encode()
secrets = [secret_of(what) for what in ('ANSWER-', 'INPUT-', 'CHECKER-', 'FILE-')]
own, found = set(), []
def look(where, data):
    for secret in secrets:
        at = data.find(secret)
        while at >= 0:
            name = data[at:at + 24].split()[0]
            if name not in own: found.append(f'{where}: {name.decode(errors="replace")}')
            at = data.find(secret, at + 1)
def look_into(path):
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        look(path, os.read(file, 1 << 20))
    except OSError:
        pass
    os.close(file)
def hunt():
    for top in os.listdir('/'):
        if top in ('proc', 'usr', 'lib', 'lib32', 'lib64', 'libx32', 'bin', 'sbin'): continue
        for folder, _, names in os.walk('/' + top, followlinks=False):
            look(folder, folder.encode())
            for name in names:
                look(folder, name.encode())
                look_into(os.path.join(folder, name))
    for pid in os.listdir('/proc'):
        if not pid.isdigit(): continue
        for name in ('cmdline', 'environ', 'maps', 'mountinfo', 'stack', 'syscall'): look_into(f'/proc/{pid}/{name}')
        for kind in ('fd', 'root', 'cwd'):
            base = f'/proc/{pid}/{kind}'
            try:
                for name in os.listdir(base): look_into(f'{base}/{name}')
            except OSError: pass
        if int(pid) not in (os.getpid(), os.getppid()): found.append(f'process {pid}')
    for name in ('net/unix', 'keys', 'mounts'): look_into('/proc/' + name)
    for kind in ('shm', 'msg', 'sem'):
        found.extend(f'{kind}: {line}' for line in open('/proc/sysvipc/' + kind).readlines()[1:])
    for descriptor in range(3, 256):
        try: found.append(f'descriptor {descriptor}: {os.readlink(f"/proc/self/fd/{descriptor}")}')
        except OSError: pass
    # The input may be a file that holds more than what is read from its position on.
    try: look('stdin', os.pread(0, 1 << 20, 0))
    except OSError: pass
"#;

/// Leaves its own input wherever a later case might find it.
const LEAVE_TRACES: &str = r#"
def leave(secret):
    for folder in ('.', '/tmp', '/dev/shm', '/var/tmp', '/'):
        try: open(os.path.join(folder, f'left-{os.getpid()}'), 'wb').write(secret)
        except OSError: pass
    import ctypes
    libc = ctypes.CDLL(None)
    libc.shmget(0x5ec7e7, 4096, 0o1666)
    libc.msgget(0x5ec7e7, 0o1666)
"#;

fn hunter(end: &str) -> String {
    format!("{HUNTER}{LEAVE_TRACES}{end}")
}

/// Six cases with secrets in all that they have.
fn secret_cases() -> Value {
    let case = |index: usize| {
        json!({
            "name": format!("case-{index}"),
            "input": format!("SECRET-INPUT-{index}\n"),
            "answer": format!("SECRET-ANSWER-{index}\n"),
            "files": {format!("own-{index}"): format!("SECRET-FILE-{index}\n")},
        })
    };
    (1..=6).map(case).collect()
}

fn assert_nothing_found(task: &JudgedTask) {
    for case in task.cases() {
        let outcome = &case["execute"];
        assert_eq!(text(&outcome["stdout"]), "nothing\n", "{case:#}");
        assert_eq!(
            (text(&outcome["stderr"]), &outcome["exit_code"]),
            ("", &json!(0)),
            "{case:#}"
        );
    }
}

const REPORT: &str = "number = sys.stdin.readline().strip().rsplit('-', 1)[1]\n\
    own = {secret_of('INPUT-' + number), secret_of('FILE-' + number)}\n\
    hunt()\n\
    leave(secret_of('INPUT-' + number))\n\
    print('\\n'.join(found) or 'nothing')\n";

/// The checker takes its time, so that the next case runs beside it.
const SLOW_CHECKER: &str = "import sys, time\nmark = 'SECRET-CHECKER-1'\ntime.sleep(0.2)\n\
    wanted = open(sys.argv[2]).read()\nassert wanted.startswith('SECRET-ANSWER-')\n\
    sys.exit(42 if sys.stdin.read() == wanted else 43)";

#[tokio::test]
async fn programs_find_no_answers_and_no_other_cases() {
    let node = JudgingNode::start();
    let program = hunter(REPORT);
    let checker = json!({"kind": "program", "protocol": "icpc", "language": "python", "source": {"SECRET-CHECKER-0.py": SLOW_CHECKER}});
    let task = json!({
        "source": {"main.py": program},
        "execute": {"command": ["/usr/bin/python3", "-S", "main.py"], "limits": {"wall": "60s"}},
        "cases": secret_cases(),
        "check": checker,
    });
    // Two at once, so that each could also find the other's.
    let tasks = futures::future::join(node.judge(&task), node.judge(&task)).await;
    for task in [tasks.0, tasks.1] {
        task.assert_status("run_failed", "wrong_answer");
        assert_eq!(task.verdicts(), ["wrong_answer"; 6]);
        assert_nothing_found(&task);
    }
    let mut built_in = task;
    built_in["check"] = json!({"kind": "exact"});
    let task = node.judge(&built_in).await;
    task.assert_status("run_failed", "wrong_answer");
    assert_nothing_found(&task);
    node.assert_healthy().await;
}

/// The harness is worth something: a program finds what it is given.
#[tokio::test]
async fn a_hunter_finds_what_is_there() {
    let node = JudgingNode::start();
    let end = "hunt()\nprint('\\n'.join(found) or 'nothing')\n";
    let task = node
        .judge(&json!({
            "source": {"main.py": hunter(end), "hint": "SECRET-ANSWER-7"},
            "execute": {"command": ["/usr/bin/python3", "-S", "main.py"]},
            "cases": [{"name": "1", "input": "SECRET-INPUT-8", "files": {"more": "SECRET-FILE-9"}}],
        }))
        .await;
    let found = text(&task.cases()[0]["execute"]["stdout"]);
    for secret in [
        "/box/hint: SECRET-ANSWER-7",
        "/box/more: SECRET-FILE-9",
        "stdin: SECRET-INPUT-8",
    ] {
        assert!(found.contains(secret), "no {secret} in {found}");
    }
}

#[tokio::test]
async fn compile_steps_find_no_cases() {
    let node = JudgingNode::start();
    let end = "hunt()\nprint('\\n'.join(found) or 'nothing')\n";
    let task = node
        .judge(&json!({
            "source": {"hunt.py": hunter(end)},
            "compile": {"command": "python3 -S hunt.py > found; cat found"},
            "execute": {"command": "cat found"},
            "cases": secret_cases(),
            "check": {"kind": "exact"},
        }))
        .await;
    assert_eq!(task.0["result"]["compile"]["stdout"], "nothing\n", "{:#}", task.0);
    assert_nothing_found(&task);
}

#[tokio::test]
async fn programs_find_nothing_of_their_interactor() {
    let node = JudgingNode::start();
    let program = hunter(
        "word = sys.stdin.readline().strip()\nhunt()\nprint('\\n'.join(found) or 'nothing', flush=True)\n",
    );
    let judge = "secret = 'SECRET-CHECKER-2'\nsay('go')\nsaid = hear()\n\
        tell('judgemessage.txt', said)\ntime.sleep(0.1)\naccept() if said == 'nothing' else reject()";
    let mut interact = interactor(judge);
    interact["args"] = json!(["SECRET-ANSWER-argument"]);
    let mut task = interactive_task("", &interact);
    task["source_code"] = json!(program);
    task["cases"] = secret_cases();
    for case in task["cases"].as_array_mut().expect("cases") {
        case.as_object_mut().expect("a case").remove("files");
    }
    task["execute"]["limits"] = json!({"wall": "60s"});
    let task = node.judge(&task).await;
    let said: Vec<_> = task
        .cases()
        .iter()
        .map(|case| text(&case["check"]["judge_message"]))
        .collect();
    assert_eq!(said, ["nothing"; 6], "{:#}", task.0);
    task.assert_status("success", "accepted");
}

/// A checker reads what the program wrote, and nothing else of the program.
#[tokio::test]
async fn checkers_do_not_share_the_files_of_the_program() {
    let node = JudgingNode::start();
    let end = "secrets = [secret_of('FILE-')]\nhunt()\n\
        open(sys.argv[3] + 'judgemessage.txt', 'w').write('\\n'.join(found) or 'nothing')\nsys.exit(42)\n";
    let task = node
        .judge(&json!({
            "source": {"SECRET-FILE-source": "SECRET-FILE-source"},
            "execute": {"command": "cat; for folder in . /tmp /dev/shm; do echo SECRET-FILE-left > $folder/SECRET-FILE-left; done"},
            "cases": secret_cases(),
            "check": {"kind": "program", "protocol": "icpc", "language": "python", "source": {"check.py": hunter(end)}},
        }))
        .await;
    let said: Vec<_> = task
        .cases()
        .iter()
        .map(|case| text(&case["check"]["judge_message"]))
        .collect();
    assert_eq!(said, ["nothing"; 6], "{:#}", task.0);
}
