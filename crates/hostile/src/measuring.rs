//! The task that measures: a fixed amount of work, of which the result is known.

use serde_json::{Value, json};

use crate::compiled;

const SOURCE: &str = include_str!("programs/measuring.c");

#[derive(Clone, Copy, Debug)]
pub struct Measuring {
    rounds: u64,
    /// What it writes where nothing went wrong.
    pub right: &'static str,
}

/// About half a second of CPU time.
pub const MEASURING: Measuring = Measuring {
    rounds: 80_000_000,
    right: "1833246c361dbdb0\n",
};

/// For machines that are emulated.
pub const EMULATED_MEASURING: Measuring = Measuring {
    rounds: 2_000_000,
    right: "fc4ba4db5a59aeb2\n",
};

/// Is never done: a neighbour that computes and means no harm.
pub const BUSY: Measuring = Measuring {
    rounds: i64::MAX as u64,
    right: "",
};

/// A quarter of it, for tests, which do not measure time.
pub const SHORT_MEASURING: Measuring = Measuring {
    rounds: 20_000_000,
    right: "d589fd1233da4d89\n",
};

impl Measuring {
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
