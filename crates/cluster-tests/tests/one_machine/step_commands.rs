//! Commands of steps: shell texts and argument lists, environment, input, and how they end.

use cluster_tests::RawHttpClient;
use serde_json::{Value, json};

use crate::harness::SingleNode;

async fn execute(web: &RawHttpClient, execute: Value) -> Value {
    let task = web.run(&json!({"execute": execute})).await;
    let mut outcome = task["result"]["execute"].clone();
    outcome["status"] = task["status"].clone();
    outcome
}

async fn assert_prints(web: &RawHttpClient, step: Value, expected: &str) {
    let outcome = execute(web, step.clone()).await;
    assert_eq!(outcome["stdout"], expected, "{step}: {outcome:#}");
    assert_eq!(
        (&outcome["status"], &outcome["stderr"]),
        (&json!("success"), &json!(""))
    );
}

#[tokio::test]
async fn commands_are_shell_texts_or_argument_lists() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    for (text, expected) in [
        ("echo one | tr a-z A-Z && echo two", "ONE\ntwo\n"),
        ("x=5; echo $((x * 2)) '$x' \"$x\"", "10 $x 5\n"),
        ("cat <<END\nhere\nEND", "here\n"),
        ("touch b a; echo *", "a b\n"),
        ("a=(x y z); [[ ${a[1]} == y ]] && echo ${#a[@]}", "3\n"),
        ("diff <(echo 1) <(echo 1) && echo same", "same\n"),
        ("echo héllo wörld ✓", "héllo wörld ✓\n"),
        ("  echo trimmed\n\n", "trimmed\n"),
    ] {
        assert_prints(web, json!({"command": text}), expected).await;
    }
    assert_prints(
        web,
        json!({"command": ["echo", "a b", "*", "$HOME", ""]}),
        "a b * $HOME \n",
    )
    .await;
    assert_prints(web, json!({"command": ["printf", "%s.", "x", "ü"]}), "x.ü.").await;
    // Arguments are never parsed by the shell.
    let args = json!(["a b", "*", "$(id)", "", "'\"", "-n"]);
    let words = "[a b][*][$(id)][]['\"][-n]";
    for command in [
        json!(["printf", "[%s]"]),
        json!("printf '[%s]'"),
        json!("printf '[%s]'\n"),
    ] {
        assert_prints(web, json!({"command": command, "args": args}), words).await;
    }
}

#[tokio::test]
async fn a_command_has_the_documented_environment() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let env =
        json!({"GREETING": "hi  there", "ünï": "é\nx", "EMPTY": "", "LANG": "C", "CONCLAVE_TASK": "forged"});
    let outcome = execute(web, json!({"command": "env -0", "env": env})).await;
    let stdout = outcome["stdout"].as_str().unwrap();
    let variables: std::collections::BTreeMap<_, _> = stdout
        .split_terminator('\0')
        .filter_map(|pair| pair.split_once('='))
        .collect();
    assert_eq!(variables["GREETING"], "hi  there");
    assert_eq!(variables["ünï"], "é\nx");
    assert_eq!((variables["EMPTY"], variables["LANG"]), ("", "C"));
    assert_ne!(variables["CONCLAVE_TASK"], "forged");
    // No variable of the server's environment is passed on.
    assert!(std::env::vars().any(|(name, _)| name.starts_with("CARGO")));
    let strays: Vec<_> = variables
        .keys()
        .filter(|name| {
            name.starts_with("CARGO") || name.starts_with("NEXTEST") || name.starts_with("CONCLAVE_NODE")
        })
        .collect();
    assert!(strays.is_empty(), "{strays:?}");

    // Without input, stdin is empty; with input, it has exactly its bytes.
    assert_prints(web, json!({"command": "cat; echo end"}), "end\n").await;
    assert_prints(
        web,
        json!({"command": "cat; echo end", "input": "a\nb"}),
        "a\nbend\n",
    )
    .await;
    assert_prints(
        web,
        json!({"command": "od -An -tx1", "input": {"base64": "AP8K"}}),
        " 00 ff 0a\n",
    )
    .await;
    assert_prints(web, json!({"command": "true", "input": "never read"}), "").await;
    assert_prints(
        web,
        json!({"command": "sh -c 'read x; echo $x'; cat", "input": "1\n2\n"}),
        "1\n2\n",
    )
    .await;
}

/// A secret in the execute step's environment must not reach the compile step.
#[tokio::test]
async fn each_step_has_its_own_environment() {
    let node = SingleNode::up(&[]);
    let show = "echo \"${FLAGS-none} ${PASSWORD-none} $LANG ${CONCLAVE_TASK:+known}\"";
    let task = json!({
        "compile": {"command": show, "env": {"FLAGS": "-O2", "LANG": "C"}},
        "execute": {"command": show, "env": {"PASSWORD": "secret"}},
    });
    let task = node.web.run(&task).await;
    assert_eq!(task["result"]["compile"]["stdout"], "-O2 none C known\n");
    assert_eq!(task["result"]["execute"]["stdout"], "none secret C.UTF-8 known\n");
    assert_eq!(task["compile"]["env"], json!({"FLAGS": "-O2", "LANG": "C"}));
    let plain = json!({"compile": {"command": show}, "execute": {"command": "true", "env": {"FLAGS": "x"}}});
    let task = node.web.run(&plain).await;
    assert_eq!(task["result"]["compile"]["stdout"], "none none C.UTF-8 known\n");
    assert_eq!(task["compile"]["env"], json!({}));
}

#[tokio::test]
async fn exit_codes_and_signals_are_reported() {
    let node = SingleNode::up(&[]);
    let web = &node.web;
    let null = Value::Null;
    for (command, status, reason, code, signal) in [
        (json!("exit 0"), "success", "exited", json!(0), null.clone()),
        (json!("exit 7"), "run_failed", "exited", json!(7), null.clone()),
        (
            json!("exit 255"),
            "run_failed",
            "exited",
            json!(255),
            null.clone(),
        ),
        (json!(["false"]), "run_failed", "exited", json!(1), null.clone()),
        (
            json!("kill -SEGV $$"),
            "run_failed",
            "signalled",
            null.clone(),
            json!(11),
        ),
        (
            json!("kill -KILL $$"),
            "run_failed",
            "signalled",
            null.clone(),
            json!(9),
        ),
        (
            json!("kill -XCPU $$"),
            "run_failed",
            "signalled",
            null.clone(),
            json!(24),
        ),
        // The shell reports a signal of its child as an exit code.
        (
            json!("sh -c 'kill -TERM $$'; exit $?"),
            "run_failed",
            "exited",
            json!(143),
            null.clone(),
        ),
        (
            json!("nowhere --to --be"),
            "run_failed",
            "exited",
            json!(127),
            null.clone(),
        ),
        (
            json!(["nowhere"]),
            "run_failed",
            "exited",
            json!(127),
            null.clone(),
        ),
        (
            json!(["./nowhere"]),
            "run_failed",
            "exited",
            json!(127),
            null.clone(),
        ),
        (
            json!(["/etc/passwd"]),
            "run_failed",
            "exited",
            json!(126),
            null.clone(),
        ),
        (json!(["/tmp"]), "run_failed", "exited", json!(126), null.clone()),
        (json!("if"), "run_failed", "exited", json!(2), null.clone()),
    ] {
        let outcome = execute(web, json!({"command": command})).await;
        assert_eq!(outcome["status"], status, "{command}: {outcome:#}");
        assert_eq!(outcome["reason"], reason, "{command}: {outcome:#}");
        assert_eq!(
            (&outcome["exit_code"], &outcome["signal"]),
            (&code, &signal),
            "{command}"
        );
    }
    for command in [json!(["nowhere"]), json!("nowhere")] {
        let outcome = execute(web, json!({"command": command})).await;
        assert!(
            outcome["stderr"].as_str().unwrap().contains("nowhere"),
            "{outcome:#}"
        );
    }
}
