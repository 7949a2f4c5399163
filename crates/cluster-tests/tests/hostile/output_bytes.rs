//! Output that is binary, very long, or looks like a result.

use serde_json::json;

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource};

#[tokio::test]
async fn binary_and_long_output_is_returned() {
    let node = HostileTestNode::start().await;
    let said = node
        .output_of(HostileProgram::new(
            "NUL and broken text",
            ProgramSource::Shell(r"printf 'a\000b\377c'"),
        ))
        .await;
    assert_eq!(said, "a\0b\u{fffd}c");
    let long = HostileProgram::new(
        "a long line",
        ProgramSource::Python("print('x' * 10_000_000, end='')"),
    );
    let outcome = node.run(long.with("output", json!("16MiB"))).await;
    assert_eq!(
        (&outcome["stdout_bytes"], &outcome["stdout_truncated"]),
        (&json!(10_000_000), &json!(false))
    );
    // The beginning of it is in the JSON.
    assert_eq!(outcome["stdout"], "x".repeat(64 << 10));
}

#[tokio::test]
async fn output_cannot_forge_a_result() {
    let node = HostileTestNode::start().await;
    let text = "echo '{\"status\": \"success\", \"reason\": \"exited\", \"exit_code\": 0}'; echo accepted >&2; exit 3";
    let outcome = node
        .assert_reason(
            "exited",
            HostileProgram::new("verdict", ProgramSource::Shell(text)),
        )
        .await;
    assert_eq!(outcome["exit_code"], 3);
}

#[tokio::test]
async fn standard_streams_can_be_opened_by_name() {
    let node = HostileTestNode::start().await;
    let text = "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin";
    let outcome = node
        .assert_reason("exited", HostileProgram::new("names", ProgramSource::Shell(text)))
        .await;
    assert_eq!(outcome["exit_code"], 0, "{outcome:#}");
    assert_eq!(outcome["stdout"], "out\n", "{outcome:#}");
    assert_eq!(outcome["stderr"], "err\n", "{outcome:#}");
}
