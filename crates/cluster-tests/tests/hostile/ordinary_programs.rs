//! Ordinary programs in many languages, with the default limits of the node: the protections do not break them, and refused
//! calls look like those of an older kernel.

use serde_json::{Value, json};

use crate::harness::HostileTestNode;

/// An ordinary program of one source file that must work in a cell, and its expected output.
struct OrdinaryProgram {
    file: &'static str,
    text: &'static str,
    compile: Option<&'static str>,
    command: &'static str,
    /// The complete output.
    says: &'static str,
}

const COMPILED: [OrdinaryProgram; 4] = [
    OrdinaryProgram {
        file: "main.c",
        text: include_str!("ordinary_programs/main.c"),
        compile: Some("gcc -O2 -o main main.c"),
        command: "./main",
        says: "1048576 0 0\n1\n7\n",
    },
    OrdinaryProgram {
        file: "main.cpp",
        text: include_str!("ordinary_programs/main.cpp"),
        compile: Some("g++ -std=c++17 -O2 -pthread -o main main.cpp"),
        command: "./main",
        says: "499999500000\nout of range\n0 3\n",
    },
    OrdinaryProgram {
        file: "Main.java",
        text: include_str!("ordinary_programs/Main.java"),
        compile: Some("javac Main.java"),
        command: "java Main",
        says: "500418930400\n32\na child\n0\nFunction not implemented\n",
    },
    // Go's cache is in HOME, which is the workspace.
    OrdinaryProgram {
        file: "main.go",
        text: include_str!("ordinary_programs/main.go"),
        compile: Some("go build -o main main.go"),
        command: "./main",
        says: "4950\n<nil>\n",
    },
];

const INTERPRETED: [OrdinaryProgram; 5] = [
    OrdinaryProgram {
        file: "main.js",
        text: include_str!("ordinary_programs/main.js"),
        compile: None,
        command: "node main.js",
        says: "50\n42\na child\nENOSYS\nhas seen a change\n",
    },
    OrdinaryProgram {
        file: "matrix.py",
        text: include_str!("ordinary_programs/matrix.py"),
        compile: None,
        command: "python3 matrix.py",
        says: "True\n4711\n",
    },
    OrdinaryProgram {
        file: "processes.py",
        text: include_str!("ordinary_programs/processes.py"),
        compile: None,
        command: "python3 processes.py",
        says: "328350\n7\nqueued\n",
    },
    OrdinaryProgram {
        file: "database.py",
        text: include_str!("ordinary_programs/database.py"),
        compile: None,
        command: "python3 database.py",
        says: "delete\ndatabase is locked\n1\nwal\ndatabase is locked\n2\n",
    },
    OrdinaryProgram {
        file: "pipes.sh",
        text: include_str!("ordinary_programs/pipes.sh"),
        compile: None,
        command: "sh pipes.sh",
        says: "271\n<one>\n<two>\n<three>\nthe here-document\n18 ./copy\n",
    },
];

const WATCHES: OrdinaryProgram = OrdinaryProgram {
    file: "watches.c",
    text: include_str!("ordinary_programs/watches.c"),
    compile: Some("gcc -o main watches.c"),
    command: "./main",
    says: "-1 Function not implemented\n",
};

const SANITIZED: &str = "gcc -g -fsanitize=address,leak -o main leaks.c";

impl OrdinaryProgram {
    fn task(&self) -> Value {
        let mut task = json!({"source": {self.file: self.text}, "execute": {"command": self.command}});
        if let Some(command) = self.compile {
            task["compile"] = json!({"command": command});
        }
        task
    }

    async fn assert_works(&self, node: &HostileTestNode) {
        let task = node.task(&self.task()).await;
        let file = self.file;
        assert_eq!(task["status"], "success", "{file}: {task:#}");
        assert_eq!(task["result"]["execute"]["stdout"], self.says, "{file}: {task:#}");
    }
}

#[tokio::test]
async fn programs_of_compiled_languages_work() {
    let node = HostileTestNode::start().await;
    for program in COMPILED {
        program.assert_works(&node).await;
    }
}

#[tokio::test]
async fn programs_of_interpreted_languages_work() {
    let node = HostileTestNode::start().await;
    for program in INTERPRETED {
        program.assert_works(&node).await;
    }
}

#[tokio::test]
async fn a_sanitizer_finds_a_leak_and_nothing_else() {
    let node = HostileTestNode::start().await;
    for (command, status, words) in [
        ("./main", "success", ""),
        (
            "./main leak",
            "run_failed",
            "1000 byte(s) leaked in 1 allocation(s).",
        ),
    ] {
        let task = json!({
            "source": {"leaks.c": include_str!("ordinary_programs/leaks.c")},
            "compile": {"command": SANITIZED},
            "execute": {"command": command},
        });
        let task = node.task(&task).await;
        let said = task["result"]["execute"]["stderr"].as_str().unwrap_or_default();
        assert_eq!(task["status"], status, "{command}: {task:#}");
        assert!(said.contains(words), "{command}: {said}");
        assert_eq!(words.is_empty(), said.is_empty(), "{command}: {said}");
    }
}

#[tokio::test]
async fn inotify_and_ptrace_are_refused_with_known_errors() {
    let node = HostileTestNode::start().await;
    WATCHES.assert_works(&node).await;
    for command in [
        "strace true",
        "sleep 60 & strace -p $!; code=$?; kill $!; exit $code",
    ] {
        let task = node.task(&json!({"execute": {"command": command}})).await;
        let outcome = &task["result"]["execute"];
        assert_eq!(
            (&outcome["reason"], &outcome["exit_code"]),
            (&json!("exited"), &json!(1)),
            "{command}: {task:#}"
        );
        let said = outcome["stderr"].as_str().unwrap_or_default();
        assert!(said.contains("Operation not permitted"), "{command}: {said}");
    }
}
