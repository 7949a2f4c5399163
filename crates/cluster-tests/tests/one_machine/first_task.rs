use cluster_tests::TestSystem;
use model::TaskStatus;
use serde_json::json;

#[tokio::test]
async fn a_program_is_compiled_and_run() {
    let system = TestSystem::new().unwrap();
    let _up = system.up(&[]).unwrap();
    let task = system
        .run(json!({
            "user": "alice",
            "source": {"main.cpp": "#include <iostream>\nint main() { std::string s; std::cin >> s; std::cout << \"From \" << s; }"},
            "data": {"table.csv": "1,2"},
            "compile": {"command": "g++ -o main main.cpp"},
            "execute": {"command": "./main && cat data/table.csv", "input": "Hello"},
        }))
        .await;
    let result = task.result.unwrap();
    let compile = result.compile.unwrap();
    assert_eq!((compile.exit_code, compile.stderr.as_str()), (Some(0), ""));
    assert_eq!(result.execute.unwrap().stdout, "From Hello1,2");
    assert_eq!(
        (task.status, task.attempt, task.executor),
        (TaskStatus::Success, 1, None)
    );
}

/// `scripts/up` installs gcc and no other compiler.
#[tokio::test]
async fn the_task_in_the_readme_runs_on_a_fresh_machine() {
    let readme = include_str!("../../../../README.md");
    assert!(!readme.contains("g++"));
    let (_, body) = readme.split_once("-d '{").unwrap();
    let (body, _) = body.split_once("\n    }'").unwrap();
    let system = TestSystem::new().unwrap();
    let _up = system.up(&[]).unwrap();
    let task = serde_json::from_str(&format!("{{{body}}}")).unwrap();
    let task = system.run(task).await;
    assert_eq!(task.status, TaskStatus::Success);
    assert_eq!(task.result.unwrap().execute.unwrap().stdout, "From Hello");
}
