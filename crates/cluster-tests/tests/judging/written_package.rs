//! Problem packages, written for the tests in each of the formats, with submissions for every kind of verdict.

use std::fs;
use std::path::{Path, PathBuf};

/// A problem package in a folder of a test.
pub(crate) struct WrittenPackage {
    pub(crate) folder: PathBuf,
}

/// Every program reads two numbers, and writes their sum.
pub(crate) const RIGHT: &str = "print(sum(map(int, input().split())))\n";
/// Differs from the right one if the first number is 20.
pub(crate) const WRONG: &str = "a, b = map(int, input().split())\nprint(0 if a == 20 else a + b)\n";
const RIGHT_IN_C: &str =
    "#include <stdio.h>\nint main(void) { int a, b; scanf(\"%d %d\", &a, &b); printf(\"%d\\n\", a + b); }\n";
const SLOW: &str = "#include <stdio.h>\nint main(void) { int a, b; scanf(\"%d %d\", &a, &b); while (a == 20) __asm__ volatile(\"\"); \
    printf(\"%d\\n\", a + b); }\n";
pub(crate) const CRASH: &str = "a, b = map(int, input().split())\nassert a != 20\nprint(a + b)\n";
pub(crate) const NO_PROGRAM: &str = "int main(void) { return nothing; }\n";

impl WrittenPackage {
    /// An empty package.
    pub(crate) fn new(parent: &Path, name: &str) -> WrittenPackage {
        let folder = parent.join(name);
        fs::create_dir(&folder).expect("a new folder");
        WrittenPackage { folder }
    }

    pub(crate) fn with(self, path: &str, text: &str) -> WrittenPackage {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    pub(crate) fn path(&self) -> &str {
        self.folder.to_str().expect("a path in UTF-8")
    }

    /// The cases of all packages: one sample, three secret ones.
    pub(crate) fn with_cases(mut self) -> WrittenPackage {
        for (name, input, answer) in [
            ("sample/1", "1 2\n", "3\n"),
            ("secret/1-small", "20 22\n", "42\n"),
            ("secret/2-large", "2000000 3000000\n", "5000000\n"),
            ("secret/3-negative", "-5 2\n", "-3\n"),
        ] {
            self = self
                .with(&format!("data/{name}.in"), input)
                .with(&format!("data/{name}.ans"), answer);
        }
        self
    }

    /// Submissions for the folders that all formats have.
    fn with_submissions(self) -> WrittenPackage {
        self.with("submissions/accepted/right.py", RIGHT)
            .with("submissions/accepted/right.c", RIGHT_IN_C)
            .with("submissions/wrong_answer/wrong.py", WRONG)
            .with("submissions/time_limit_exceeded/slow.c", SLOW)
            .with("submissions/run_time_error/crash.py", CRASH)
    }

    /// A legacy package with the additions of DOMjudge.
    pub(crate) fn legacy(parent: &Path) -> WrittenPackage {
        WrittenPackage::new(parent, "sum")
            .with("problem.yaml", "name: Sum of two\nlimits:\n  memory: 256\n")
            .with("domjudge-problem.ini", "timelimit = '1'\n")
            .with_cases()
            .with_submissions()
            .with(
                "submissions/mixed/either.py",
                &format!("# @EXPECTED_RESULTS@: CORRECT, WRONG-ANSWER\n{WRONG}"),
            )
            .with("submissions/compiler_error/none.c", NO_PROGRAM)
    }

    /// A legacy package with a checker that needs its flags.
    pub(crate) fn with_validator(parent: &Path) -> WrittenPackage {
        const VALIDATOR: &str = "import sys\n\
            case_input, answer, feedback, *flags = sys.argv[1:]\n\
            assert flags == ['strict', '7'], flags\n\
            a, b = map(int, open(case_input).read().split())\n\
            words = sys.stdin.read().split()\n\
            open(feedback + '/judgemessage.txt', 'w').write(f'{a} and {b}: {words}')\n\
            sys.exit(42 if words == [str(a + b)] and int(open(answer).read()) == a + b else 43)\n";
        WrittenPackage::new(parent, "checked")
            .with(
                "problem.yaml",
                "name: Checked\nvalidation: custom\nvalidator_flags: strict 7\n",
            )
            .with(".timelimit", "1\n")
            .with_cases()
            .with_submissions()
            .with("output_validators/check/check.py", VALIDATOR)
    }

    /// A scoring package of the newest format, whose time limit follows from its submissions. One of them is fast enough in
    /// one group of cases only.
    pub(crate) fn scored(parent: &Path) -> WrittenPackage {
        const SLOW_IN_SECOND: &str = "import time\na, b = map(int, input().split())\n\
            while a == 20 and time.process_time() < 3: pass\nprint(a + b)\n";
        let mut package = WrittenPackage::new(parent, "scored").with(
            "problem.yaml",
            "problem_format_version: 2025-09\nname: Scored\nuuid: 7d1a4c0e-0f0a-4a9d-9a63-0d7d64a1a6b2\ntype: scoring\n",
        );
        for (name, input, answer) in [
            ("sample/1", "1 2\n", "3\n"),
            ("secret/first/1", "5 7\n", "12\n"),
            ("secret/second/1", "20 22\n", "42\n"),
        ] {
            package = package
                .with(&format!("data/{name}.in"), input)
                .with(&format!("data/{name}.ans"), answer);
        }
        package
            .with("data/secret/first/test_group.yaml", "max_score: 40\n")
            .with("data/secret/second/test_group.yaml", "max_score: 60\n")
            .with("submissions/accepted/right.c", RIGHT_IN_C)
            .with("submissions/mixed/slow_in_second.py", SLOW_IN_SECOND)
            .with(
                "submissions/submissions.yaml",
                "mixed/slow_in_second.py:\n  secret/first: {permitted: [AC]}\n  secret/second: {required: [TLE]}\n",
            )
    }

    /// A package of the newest format, in which the program asks for the second number.
    pub(crate) fn interactive(parent: &Path) -> WrittenPackage {
        const INTERACTOR: &str = "#include <stdio.h>\n#include <signal.h>\n\
            int main(int count, char **words) {\n    \
                int a, b, sum;\n    \
                signal(SIGPIPE, SIG_IGN);\n    \
                FILE *input = fopen(words[1], \"r\");\n    \
                if (count < 4 || input == NULL || fscanf(input, \"%d %d\", &a, &b) != 2) return 1;\n    \
                printf(\"%d\\n\", a); fflush(stdout);\n    \
                if (scanf(\" more\") == EOF) return 43;\n    \
                printf(\"%d\\n\", b); fflush(stdout);\n    \
                return scanf(\"%d\", &sum) == 1 && sum == a + b ? 42 : 43;\n}\n";
        const TALKER: &str = "a = int(input())\nprint('more', flush=True)\nb = int(input())\nprint(a + b)\n";
        WrittenPackage::new(parent, "talk")
            .with(
                "problem.yaml",
                "problem_format_version: 2025-09\nname: Talk\nuuid: 7d1a4c0e-0f0a-4a9d-9a63-0d7d64a1a6b1\n\
                 type: interactive\nlimits:\n  time_limit: 1\n",
            )
            .with_cases()
            .with("output_validator/interact.c", INTERACTOR)
            .with("submissions/accepted/talk.py", TALKER)
            .with(
                "submissions/wrong_answer/deaf.py",
                "a = int(input())\nprint('more', flush=True)\nprint(a)\n",
            )
            .with("submissions/wrong_answer/leaves.py", "input()\n")
            .with("submissions/time_limit_exceeded/busy.py", "while True: pass\n")
            .with(
                "submissions/run_time_error/throws.py",
                "input()\nraise ValueError()\n",
            )
    }
}
