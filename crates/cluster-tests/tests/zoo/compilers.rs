//! Those that strike while they are compiled.

use serde_json::{Value, json};

use crate::stage::Zoo;

async fn compiled(zoo: &Zoo, name: &str, file: &str, text: &str, command: &str) -> Value {
    let task = json!({
        "source": {file: text},
        "compile": {
            "command": command,
            "limits": {"wall": "30s", "cpu": "3s", "memory": "256MiB", "output": "64KiB", "file_size": "32MiB", "space": "64MiB"}
        },
        "execute": {"command": "./main"},
    });
    let task = zoo.task(&task).await;
    assert_eq!(task["status"], "compile_failed", "{name}: {task:#}");
    task["result"]["compile"].clone()
}

#[tokio::test]
async fn compilers_are_kept_in_as_well() {
    let zoo = Zoo::open().await;
    let c = "gcc -o main main.c";
    let outcome = compiled(
        &zoo,
        "random",
        "main.c",
        "#include \"/dev/random\"\nint main() {}",
        c,
    )
    .await;
    let ends = ["time_limit", "memory_limit", "wall_limit", "output_limit"];
    let reason = outcome["reason"].as_str().unwrap().to_string();
    assert!(
        ends.contains(&reason.as_str()) || outcome["exit_code"] != 0,
        "{outcome:#}"
    );

    let outcome = compiled(
        &zoo,
        "itself",
        "main.c",
        "#include \"main.c\"\n#include \"main.c\"",
        c,
    )
    .await;
    assert_ne!(outcome["exit_code"], 0, "{outcome:#}");

    let bomb = "template<int N, int M> struct A { static const int x = A<N - 1, M>::x + A<N - 1, M + N>::x; };\n\
                template<int M> struct A<0, M> { static const int x = M; };\nint main() { return A<40, 1>::x; }";
    let outcome = compiled(
        &zoo,
        "templates",
        "main.cpp",
        bomb,
        "g++ -ftemplate-depth=1000 -o main main.cpp",
    )
    .await;
    let reason = outcome["reason"].as_str().unwrap().to_string();
    assert!(ends.contains(&reason.as_str()), "{outcome:#}");

    let array = "char a[16ULL << 30] = {1};\nint main() { return a[0]; }";
    compiled(&zoo, "16 GB array", "main.c", array, c).await;

    let outcome = compiled(
        &zoo,
        "shadow",
        "main.c",
        "#include \"/etc/shadow\"\nint main() {}",
        c,
    )
    .await;
    let said = outcome["stderr"].as_str().unwrap();
    assert!(said.contains("No such file"), "{outcome:#}");
}
