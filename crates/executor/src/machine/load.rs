//! The load of this machine, which the executor reports for people to see.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use model::MachineLoad;

use super::{AvailableMemoryProbe, MachineResources, PROC};

/// Reports may follow each other quickly, and the load average changes every five seconds.
const VALID_FOR: Duration = Duration::from_secs(1);

/// Reads the load of this machine for the executor's reports, at most once a second.
#[derive(Debug)]
pub(crate) struct LoadProbe {
    memory: AvailableMemoryProbe,
    memory_total: u64,
    last: Option<(Instant, Option<MachineLoad>)>,
}

impl LoadProbe {
    pub(crate) fn new() -> LoadProbe {
        LoadProbe {
            memory: AvailableMemoryProbe::new(),
            memory_total: MachineResources::read().memory,
            last: None,
        }
    }

    /// `None` if the kernel does not say.
    pub(crate) fn load(&mut self, now: Instant) -> Option<MachineLoad> {
        match self.last {
            Some((read, load)) if now < read + VALID_FOR => load,
            _ => {
                let load = self.read();
                self.last = Some((now, load));
                load
            }
        }
    }

    fn read(&self) -> Option<MachineLoad> {
        let text = fs::read_to_string(Path::new(PROC).join("loadavg")).ok()?;
        let cores = std::thread::available_parallelism().ok()?;
        Some(MachineLoad {
            load_hundredths: parse_load_average(&text)?,
            cores: u32::try_from(cores.get()).unwrap_or(u32::MAX),
            memory_available: self.memory.available()?.min(self.memory_total),
            memory_total: self.memory_total,
        })
    }
}

/// The load average of the last minute in hundredths, from the content of `/proc/loadavg`.
fn parse_load_average(text: &str) -> Option<u32> {
    let (whole, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    let (whole, hundredths): (u32, u32) = (whole.parse().ok()?, hundredths.parse().ok()?);
    whole.checked_mul(100)?.checked_add(hundredths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_average_is_read_in_hundredths() {
        for (text, expected) in [
            ("0.00 0.01 0.05 1/123 4567\n", Some(0)),
            ("12.07 3.50 1.00 9/321 42\n", Some(1207)),
            ("", None),
            ("many 1.0", None),
        ] {
            assert_eq!(parse_load_average(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_load_of_this_machine_is_read_once_a_second() {
        let mut probe = LoadProbe::new();
        let now = Instant::now();
        let load = probe.load(now).unwrap();
        assert!(load.cores > 0 && load.memory_available <= load.memory_total);
        probe.last = Some((now, None));
        assert_eq!(probe.load(now + VALID_FOR / 2), None, "it is not read again yet");
        assert!(probe.load(now + VALID_FOR).is_some());
    }
}
