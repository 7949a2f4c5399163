//! Durations, sizes and counts.

use std::num::NonZeroU32;
use std::time::Duration;

use api::{ByteSize, HumanDuration};

use super::ConfigValue;

/// The configuration value with the number of tasks that an executor runs at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotCount(pub(crate) u32);

/// The configuration value with the number of threads that serve a gateway's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadCount(pub(crate) usize);

/// A configuration value that may be `auto` (`None`), with which the node chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AutoOr<T>(pub(crate) Option<T>);

/// The configured maximum of a limit that tasks request, or `auto` (`None`), with which only the machines bound it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxLimit<T>(pub(crate) Option<T>);

/// The configured limit on open files per process in cells, or `auto` (`None`), with which it depends on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFileLimit(pub(crate) Option<u32>);

/// A program needs its standard streams, a few libraries and a few files.
const MIN_OPEN_FILES_PER_PROCESS: u32 = 16;

/// A configuration value that is a TCP port other than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortNumber(pub(crate) u16);

/// A larger number is probably a typing error: each slot has its own processes.
const MAX_SLOTS: u32 = 4096;

impl ConfigValue for Duration {
    const ACCEPTS: &'static str = "a duration like 500ms, 10s, 5m, 2h or 7d, or a number of seconds";
    const ACCEPTS_OR_NONE: &'static str =
        "a duration like 500ms, 10s, 5m, 2h or 7d, a number of seconds, or none";

    fn parse(text: &str) -> Result<Duration, String> {
        text.parse().map(|HumanDuration(duration)| duration)
    }

    fn to_text(&self) -> String {
        let (seconds, whole) = (self.as_secs(), self.subsec_nanos() == 0);
        let unit = [("d", 86_400), ("h", 3600), ("m", 60)]
            .into_iter()
            .find(|(_, length)| whole && seconds > 0 && seconds.is_multiple_of(*length));
        match unit {
            Some((unit, length)) => format!("{}{unit}", seconds / length),
            None => HumanDuration(*self).to_string(),
        }
    }
}

impl ConfigValue for ByteSize {
    const ACCEPTS: &'static str = "a size like 64KiB, 8MiB or 1GiB, or a number of bytes";
    const ACCEPTS_OR_NONE: &'static str = "a size like 64KiB, 8MiB or 1GiB, a number of bytes, or none";
    const ACCEPTS_OR_AUTO: &'static str = "a size like 64KiB, 8MiB or 1GiB, a number of bytes, or auto";

    fn parse(text: &str) -> Result<ByteSize, String> {
        text.parse()
    }

    fn to_text(&self) -> String {
        let unit = [("GiB", 30), ("MiB", 20), ("KiB", 10)]
            .into_iter()
            .find(|(_, shift)| self.0 > 0 && self.0.is_multiple_of(1 << shift));
        match unit {
            Some((unit, shift)) => format!("{}{unit}", self.0 >> shift),
            None => self.0.to_string(),
        }
    }
}

impl ConfigValue for NonZeroU32 {
    const ACCEPTS: &'static str = "a whole number of at least 1";
    const ACCEPTS_OR_NONE: &'static str = "a whole number of at least 1, or none";
    const ACCEPTS_OR_AUTO: &'static str = "a whole number of at least 1, or auto";

    fn parse(text: &str) -> Result<NonZeroU32, String> {
        text.parse().map_err(|_| "not a number in this range".to_string())
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ConfigValue for SlotCount {
    const ACCEPTS: &'static str = "a whole number from 0 to 4096, or auto";
    const KEYWORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<SlotCount, String> {
        if text == "auto" {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
            return Ok(SlotCount(
                u32::try_from(cores).unwrap_or(MAX_SLOTS).min(MAX_SLOTS),
            ));
        }
        match text.parse() {
            Ok(slots) if slots <= MAX_SLOTS => Ok(SlotCount(slots)),
            _ => Err("not a number in this range".to_string()),
        }
    }

    fn to_text(&self) -> String {
        self.0.to_string()
    }
}

impl ConfigValue for ThreadCount {
    const ACCEPTS: &'static str = "a whole number from 1 to 1024, or auto";
    const KEYWORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<ThreadCount, String> {
        if text == "auto" {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
            return Ok(ThreadCount(cores));
        }
        match text.parse() {
            Ok(threads) if (1..=1024).contains(&threads) => Ok(ThreadCount(threads)),
            _ => Err("not a number in this range".to_string()),
        }
    }

    fn to_text(&self) -> String {
        self.0.to_string()
    }
}

impl ConfigValue for OpenFileLimit {
    const ACCEPTS: &'static str = "a whole number of at least 16, or auto";
    const KEYWORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<OpenFileLimit, String> {
        if text == "auto" {
            return Ok(OpenFileLimit(None));
        }
        match text.parse() {
            Ok(files) if files >= MIN_OPEN_FILES_PER_PROCESS => Ok(OpenFileLimit(Some(files))),
            _ => Err("not a number in this range".to_string()),
        }
    }

    fn to_text(&self) -> String {
        self.0.map_or("auto".to_string(), |files| files.to_string())
    }
}

impl ConfigValue for AutoOr<ByteSize> {
    const ACCEPTS: &'static str = ByteSize::ACCEPTS_OR_AUTO;
    const KEYWORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<AutoOr<ByteSize>, String> {
        match text {
            "auto" => Ok(AutoOr(None)),
            _ => ByteSize::parse(text).map(|size| AutoOr(Some(size))),
        }
    }

    fn to_text(&self) -> String {
        self.0.map_or("auto".to_string(), |size| size.to_text())
    }
}

impl<T: ConfigValue> ConfigValue for MaxLimit<T> {
    const ACCEPTS: &'static str = T::ACCEPTS_OR_AUTO;
    const KEYWORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<MaxLimit<T>, String> {
        match text {
            // Both mean that the operator sets no maximum.
            "auto" | "none" => Ok(MaxLimit(None)),
            _ => T::parse(text).map(|value| MaxLimit(Some(value))),
        }
    }

    fn to_text(&self) -> String {
        self.0.as_ref().map_or("auto".to_string(), T::to_text)
    }
}

impl ConfigValue for PortNumber {
    const ACCEPTS: &'static str = "a port from 1 to 65535";

    fn parse(text: &str) -> Result<PortNumber, String> {
        match text.parse() {
            Ok(port) if port > 0 => Ok(PortNumber(port)),
            _ => Err("not a port".to_string()),
        }
    }

    fn to_text(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn numbers_are_parsed_and_printed() {
        check::<Duration>("10s", Ok("10s"));
        check::<Duration>("1500ms", Ok("1.5s"));
        check::<Duration>("7d", Ok("7d"));
        check::<Duration>("2", Ok("2s"));
        check::<Duration>("90m", Ok("90m"));
        check::<Duration>("soon", Err("not a duration"));
        check::<ByteSize>("8MiB", Ok("8MiB"));
        check::<ByteSize>("1000", Ok("1000"));
        check::<ByteSize>("-1", Err("negative"));
        check::<NonZeroU32>("3", Ok("3"));
        check::<NonZeroU32>("0", Err("not"));
        check::<SlotCount>("0", Ok("0"));
        check::<SlotCount>("4097", Err("not"));
        assert!(SlotCount::parse("auto").is_ok_and(|slots| slots.0 > 0));
        check::<ThreadCount>("3", Ok("3"));
        check::<ThreadCount>("0", Err("not"));
        assert!(ThreadCount::parse("auto").is_ok_and(|threads| threads.0 > 0));
        check::<OpenFileLimit>("auto", Ok("auto"));
        check::<OpenFileLimit>("16", Ok("16"));
        check::<OpenFileLimit>("15", Err("not"));
        check::<AutoOr<ByteSize>>("auto", Ok("auto"));
        check::<AutoOr<ByteSize>>("2GiB", Ok("2GiB"));
        check::<AutoOr<ByteSize>>("none", Err("not a unit"));
        check::<MaxLimit<ByteSize>>("auto", Ok("auto"));
        check::<MaxLimit<ByteSize>>("none", Ok("auto"));
        check::<MaxLimit<NonZeroU32>>("7", Ok("7"));
        check::<PortNumber>("2379", Ok("2379"));
        check::<PortNumber>("0", Err("not"));
        check::<PortNumber>("65536", Err("not"));
    }

    #[test]
    fn none_is_accepted_by_optional_values_only() {
        check::<Option<Duration>>("none", Ok("none"));
        check::<Option<ByteSize>>("1GiB", Ok("1GiB"));
        check::<Duration>("none", Err("not a duration"));
    }
}
