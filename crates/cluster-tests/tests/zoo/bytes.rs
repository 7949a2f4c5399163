//! Output that is not what one would like it to be.

use serde_json::json;

use crate::stage::{Animal, Program, Zoo};

#[tokio::test]
async fn output_is_what_was_written() {
    let zoo = Zoo::open().await;
    let said = zoo
        .says(Animal::new(
            "NUL and broken text",
            Program::Shell(r"printf 'a\000b\377c'"),
        ))
        .await;
    assert_eq!(said, "a\0b\u{fffd}c");
    let long = Animal::new("a long line", Program::Python("print('x' * 10_000_000, end='')"));
    let said = zoo.says(long.with("output", json!("16MiB"))).await;
    assert_eq!(said.len(), 10_000_000);
    assert!(said.bytes().all(|byte| byte == b'x'));
}

#[tokio::test]
async fn nobody_writes_their_own_verdict() {
    let zoo = Zoo::open().await;
    let text = "echo '{\"status\": \"success\", \"reason\": \"exited\", \"exit_code\": 0}'; echo accepted >&2; exit 3";
    let outcome = zoo
        .ends_by("exited", Animal::new("verdict", Program::Shell(text)))
        .await;
    assert_eq!(outcome["exit_code"], 3);
}

#[tokio::test]
async fn outputs_can_be_opened_by_their_names() {
    let zoo = Zoo::open().await;
    let text = "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin";
    let outcome = zoo
        .ends_by("exited", Animal::new("names", Program::Shell(text)))
        .await;
    assert_eq!(outcome["exit_code"], 0, "{outcome:#}");
    assert_eq!(outcome["stdout"], "out\n", "{outcome:#}");
    assert_eq!(outcome["stderr"], "err\n", "{outcome:#}");
}
