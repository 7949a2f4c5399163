//! Submissions of a contest, judged by a server, against compiling and running the same programs directly.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::NewTask;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::Serialize;
use serde_json::{Value, json};

use crate::throughput;
use crate::up_process::UpProcess;
use crate::{BenchSizes, progress};

/// A figure of the benchmark: what it takes to compile and run the submissions of a contest, directly and judged.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SubmissionTimes {
    pub(crate) submissions: usize,
    /// Of each submission.
    pub(crate) cases: usize,
    /// Direct and judged rounds alternate; the times are those of all rounds.
    pub(crate) rounds: usize,
    pub(crate) direct: WorkTimes,
    pub(crate) judged: WorkTimes,
}

/// CPU and wall time that the benchmark measured of some work of many processes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct WorkTimes {
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
}

const CASES: usize = 8;
const THREADS: usize = 2;
const COMPILER: &str = "g++";
const FLAGS: [&str; 6] = ["-std=gnu++17", "-O2", "-pipe", "-o", "main", "main.cpp"];

/// Sorts and counts as many pseudo-random numbers as its input asks for: some milliseconds of work, as usual in a contest.
const PROGRAM: &str = r#"
#include <algorithm>
#include <iostream>
#include <map>
#include <vector>

int main() {
    unsigned long count, state;
    std::cin >> count >> state;
    std::vector<unsigned> numbers(count);
    for (auto &number : numbers) {
        state = state * 6364136223846793005ul + SUBMISSION;
        number = state >> 40;
    }
    std::sort(numbers.begin(), numbers.end());
    std::map<unsigned, int> counts;
    for (auto number : numbers)
        counts[number % 1024]++;
    for (auto [number, times] : counts)
        if (times == 0)
            std::cout << number << '\n';
    std::cout << (std::is_sorted(numbers.begin(), numbers.end()) ? "sorted" : "unsorted") << '\n';
}
"#;

const ANSWER: &str = "sorted\n";

/// A source that no other submission and no other round shares.
fn source(number: usize) -> String {
    PROGRAM.replace("SUBMISSION", &format!("{}ul", 2 * number + 1))
}

fn input(case: usize) -> String {
    format!("{} {case}\n", 20_000 * (case + 1))
}

pub(crate) async fn measure(sizes: &BenchSizes, folder: &Path) -> Result<SubmissionTimes> {
    let submissions = sizes.submissions;
    let (mut direct, mut judged) = (WorkTimes::default(), WorkTimes::default());
    for round in 0..sizes.judge_rounds {
        progress(format_args!(
            "measuring {submissions} submissions with {CASES} cases each, directly and judged"
        ));
        let numbers: Vec<_> = (round * submissions..(round + 1) * submissions).collect();
        direct = direct.plus(run_directly(&numbers, &folder.join(format!("direct-{round}")))?);
        judged = judged.plus(judge(&numbers, &folder.join(format!("judged-{round}"))).await?);
    }
    Ok(SubmissionTimes {
        submissions,
        cases: CASES,
        rounds: sizes.judge_rounds,
        direct,
        judged,
    })
}

fn run_directly(numbers: &[usize], folder: &Path) -> Result<WorkTimes> {
    fs::create_dir_all(folder)?;
    for case in 0..CASES {
        fs::write(folder.join(format!("{case}.in")), input(case))?;
    }
    let cpu_before = cpu_time_of_children()?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let own = numbers.iter().skip(thread).step_by(THREADS);
                scope.spawn(move || {
                    own.copied()
                        .try_for_each(|number| compile_and_run(number, folder))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| anyhow::bail!("a thread that runs programs panicked"))
        })
    })?;
    Ok(WorkTimes {
        cpu_seconds: (cpu_time_of_children()? - cpu_before).as_secs_f64(),
        wall_seconds: began.elapsed().as_secs_f64(),
    })
}

fn compile_and_run(number: usize, inputs: &Path) -> Result<()> {
    let folder = inputs.join(number.to_string());
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("main.cpp"), source(number))?;
    let compiled = Command::new(COMPILER).args(FLAGS).current_dir(&folder).status();
    let compiled = compiled.with_context(|| format!("could not start {COMPILER}; install a C++ compiler"))?;
    ensure!(
        compiled.success(),
        "{COMPILER} could not compile the benchmark's program"
    );
    for case in 0..CASES {
        let input = File::open(inputs.join(format!("{case}.in")))?;
        let output = Command::new(folder.join("main"))
            .stdin(input)
            .stderr(Stdio::null())
            .output()?;
        ensure!(
            output.status.success() && output.stdout.ends_with(ANSWER.as_bytes()),
            "a program of the benchmark failed: {output:?}"
        );
    }
    Ok(())
}

async fn judge(numbers: &[usize], data: &Path) -> Result<WorkTimes> {
    let server = UpProcess::start_with_isolation(data, &THREADS.to_string(), "cell").await?;
    let cases: Value = (0..CASES)
        .map(|case| json!({"name": case.to_string(), "input": input(case), "answer": ANSWER}))
        .collect();
    let tasks = numbers
        .iter()
        .map(|number| {
            let task = json!({
                "source": {"main.cpp": source(*number)},
                "compile": {"command": format!("{COMPILER} {}", FLAGS.join(" "))},
                "execute": {"command": ["./main"], "limits": {"cpu": "10s", "memory": "256MiB"}},
                "cases": cases,
            });
            Ok(serde_json::from_value(task)?)
        })
        .collect::<Result<Vec<NewTask>>>()?;
    let cpu_before = server.cpu_time()?;
    let began = Instant::now();
    throughput::run_all(&server.client, tasks).await?;
    let wall_seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = (server.cpu_time()? - cpu_before).as_secs_f64();
    server.stop().await?;
    Ok(WorkTimes {
        cpu_seconds,
        wall_seconds,
    })
}

/// CPU time of the children of this process that have ended, and of their descendants.
fn cpu_time_of_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(Duration::from_secs_f64(
        seconds(usage.user_time()) + seconds(usage.system_time()),
    ))
}

impl WorkTimes {
    fn plus(self, other: WorkTimes) -> WorkTimes {
        WorkTimes {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            wall_seconds: self.wall_seconds + other.wall_seconds,
        }
    }
}

impl SubmissionTimes {
    pub(crate) fn cpu_ratio(&self) -> f64 {
        self.judged.cpu_seconds / self.direct.cpu_seconds
    }

    pub(crate) fn wall_ratio(&self) -> f64 {
        self.judged.wall_seconds / self.direct.wall_seconds
    }
}
