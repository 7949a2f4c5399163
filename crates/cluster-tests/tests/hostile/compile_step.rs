//! Programs that attack during the compile step.

use serde_json::{Value, json};

use crate::harness::HostileTestNode;

/// Limits that suffice for a compiler, so that each program reaches the one that it is about.
fn default_limits() -> Value {
    json!({
        "wall": "60s", "cpu": "40s", "memory": "128MiB", "output": "64KiB", "file_size": "32MiB", "space": "64MiB"
    })
}

async fn compiled(node: &HostileTestNode, name: &str, text: &str, limits: Value) -> Value {
    let task = json!({
        "source": {"main.cpp": text},
        "compile": {"command": "exec g++ -ftemplate-depth=1000 -o main main.cpp", "limits": limits},
        "execute": {"command": "./main"},
    });
    let task = node.task(&task).await;
    assert_eq!(task["status"], "compile_failed", "{name}: {task:#}");
    task["result"]["compile"].clone()
}

const TEMPLATES: &str = r#"
typedef unsigned long Number;
template<int N, Number M> struct A { static const Number x = A<N - 1, 2 * M>::x + A<N - 1, 2 * M + 1>::x; };
template<Number M> struct A<0, M> { static const Number x = 1; };
int main() { return A<40, 1>::x; }
"#;

#[tokio::test]
async fn compile_steps_are_limited_too() {
    let node = HostileTestNode::start().await;
    let mut hurry = default_limits();
    hurry["cpu"] = json!("500ms");
    hurry["memory"] = json!("1GiB");
    for (name, text, limits, reason, words) in [
        (
            "random",
            "#include \"/dev/random\"\nint main() {}",
            default_limits(),
            "memory_limit",
            "",
        ),
        (
            "itself",
            "#include \"main.cpp\"\n#include \"main.cpp\"",
            default_limits(),
            "output_limit",
            "#include nested depth",
        ),
        ("templates", TEMPLATES, default_limits(), "memory_limit", ""),
        ("templates, in a hurry", TEMPLATES, hurry, "time_limit", ""),
        (
            "16 GB array",
            "char a[16ULL << 30] = {1};\nint main() { return a[0]; }",
            default_limits(),
            "exited",
            "File size limit exceeded signal terminated program as",
        ),
        (
            "shadow",
            "#include \"/etc/shadow\"\nint main() {}",
            default_limits(),
            "exited",
            "/etc/shadow: No such file or directory",
        ),
    ] {
        let outcome = compiled(&node, name, text, limits).await;
        assert_eq!(outcome["reason"], reason, "{name}: {outcome:#}");
        let said = outcome["stderr"].as_str().unwrap_or_default();
        assert!(said.contains(words), "{name}: {outcome:#}");
    }
}
