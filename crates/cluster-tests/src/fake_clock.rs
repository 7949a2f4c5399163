//! A wall clock that a test sets while a node runs; the monotonic clock stays the kernel's.

use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Debug)]
pub struct FakeClock {
    offset: PathBuf,
}

impl FakeClock {
    /// Shows the right time until it is set.
    pub fn new(file: &Path) -> FakeClock {
        let clock = FakeClock {
            offset: file.to_path_buf(),
        };
        clock.set("+0d");
        clock
    }

    /// How far it is from the right time, like `+8d`. Processes see it within a second.
    pub fn set(&self, offset: &str) {
        std::fs::write(&self.offset, offset).expect("the clock is set");
    }

    /// The command and all that it starts read this clock.
    pub fn give_to(&self, command: &mut Command) {
        let library = format!(
            "/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1",
            std::env::consts::ARCH
        );
        assert!(
            Path::new(&library).exists(),
            "{library} is missing: install it with `scripts/setup test`"
        );
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.offset)
            // A process that reads the file at every look at the clock is much slower.
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}
