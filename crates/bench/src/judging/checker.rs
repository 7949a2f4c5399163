//! How often a server compiles the checker that many tasks share.

use std::path::Path;

use anyhow::{Context, Result};
use api::NewTask;
use serde::Serialize;
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::up_process::UpProcess;
use crate::{progress, raw_http, throughput};

/// A figure of the benchmark: how many compile steps of a checker so many tasks cause that share it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CheckerReuse {
    pub(crate) tasks: usize,
    pub(crate) compiles: u64,
}

/// The counter of an executor, as `/metrics` names it.
const COMPILES: &str = "conclave_checker_compiles_total";

const CHECKER: &str = r#"
#include <fstream>
#include <iostream>
#include <string>

int main(int, char **words) {
    std::ifstream answer(words[2]);
    std::string found, wanted;
    while (answer >> wanted)
        if (!(std::cin >> found) || found != wanted)
            return 43;
    return std::cin >> found ? 43 : 42;
}
"#;

pub(crate) async fn measure(tasks: usize, data: &Path) -> Result<CheckerReuse> {
    progress(format_args!("measuring {tasks} tasks with one checker"));
    let server = UpProcess::start_with_isolation(data, "2", "cell").await?;
    let batch = (0..tasks)
        .map(|number| {
            let task = json!({
                "execute": {"command": ["/bin/cat"]},
                "cases": [{"name": "1", "input": number.to_string(), "answer": number.to_string()}],
                "check": {
                    "kind": "program", "protocol": "icpc", "source": {"check.cpp": CHECKER},
                    "compile": {"command": "g++ -O2 -o check check.cpp"}, "command": ["./check"],
                },
            });
            Ok(serde_json::from_value(task)?)
        })
        .collect::<Result<Vec<NewTask>>>()?;
    throughput::run_all(&server.client, batch).await?;
    let compiles = read_counter(&server, COMPILES).await?;
    server.stop().await?;
    Ok(CheckerReuse { tasks, compiles })
}

async fn read_counter(server: &UpProcess, name: &str) -> Result<u64> {
    let mut connection = raw_http::get(&server.http_address, "/metrics").await?;
    let mut metrics = String::new();
    connection.read_to_string(&mut metrics).await?;
    find_counter(&metrics, name).with_context(|| format!("/metrics has no {name}"))
}

/// The sum over all labels.
fn find_counter(metrics: &str, name: &str) -> Option<u64> {
    let lines = metrics.lines().filter(|line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with([' ', '{']))
    });
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_over_their_labels() {
        let metrics = "# TYPE a counter\na 3\nb_total{x=\"y z\"} 4\nb_total{x=\"w\"} 5\nb_total_more 70\n";
        for (name, expected) in [("a", Some(3)), ("b_total", Some(9)), ("b", None)] {
            assert_eq!(find_counter(metrics, name), expected, "{name}");
        }
    }
}
