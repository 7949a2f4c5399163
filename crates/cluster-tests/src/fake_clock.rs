//! A wall clock that a test can set while a node runs (libfaketime). The monotonic clock stays the kernel's.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A wall clock for the processes of a node under test, with an offset that the test sets (libfaketime).
#[derive(Clone, Debug)]
pub struct FakeClock {
    offset: PathBuf,
}

impl FakeClock {
    /// A clock without an offset.
    pub fn new(file: &Path) -> FakeClock {
        let clock = FakeClock {
            offset: file.to_path_buf(),
        };
        clock.set("+0d");
        clock
    }

    /// Sets the offset, for example `+8d`. Processes see the change within a second.
    pub fn set(&self, offset: &str) {
        std::fs::write(&self.offset, offset).expect("the clock is set");
    }

    /// Makes the command and its descendants read this clock.
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
            // Without a cache, processes read the file for every clock read, which is much slower.
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}
