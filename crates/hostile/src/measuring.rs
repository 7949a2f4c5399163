//! The measuring task: a fixed amount of work with a known result.

use serde_json::{Value, json};

use crate::compiled;

const SOURCE: &str = include_str!("programs/measuring.c");

/// A task with a fixed amount of work and a known result.
#[derive(Clone, Copy, Debug)]
pub struct MeasuringTask {
    rounds: u64,
    /// The correct output.
    pub expected_output: &'static str,
}

/// About half a second of CPU time.
pub const MEASURING_TASK: MeasuringTask = MeasuringTask {
    rounds: 80_000_000,
    expected_output: "1833246c361dbdb0\n",
};

/// For emulated machines.
pub const EMULATED_MEASURING_TASK: MeasuringTask = MeasuringTask {
    rounds: 2_000_000,
    expected_output: "fc4ba4db5a59aeb2\n",
};

/// A harmless neighbour that computes without end.
pub const BUSY_NEIGHBOUR: MeasuringTask = MeasuringTask {
    rounds: i64::MAX as u64,
    expected_output: "",
};

/// A quarter of `MEASURING_TASK`, for tests that do not measure time.
pub const SHORT_MEASURING_TASK: MeasuringTask = MeasuringTask {
    rounds: 20_000_000,
    expected_output: "d589fd1233da4d89\n",
};

impl MeasuringTask {
    pub fn source() -> &'static str {
        SOURCE
    }

    /// The program's only argument.
    pub fn argument(&self) -> String {
        self.rounds.to_string()
    }

    pub fn task(&self) -> Value {
        let mut task = compiled(SOURCE, self.rounds);
        task["execute"]["limits"] = json!({"wall": "60s", "memory": "64MiB"});
        task
    }
}
