//! How long, how large, how many.

use std::num::NonZeroU32;
use std::time::Duration;

use api::{Size, Span};

use super::Value;

/// How many tasks an executor runs at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots(pub(crate) u32);

/// Threads that serve requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads(pub(crate) usize);

/// A choice that is left to the node unless somebody makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Auto<T>(pub(crate) Option<T>);

/// The most that a task may ask for, where the operator bounds it further than the machines do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Most<T>(pub(crate) Option<T>);

/// Files that a process may have open. `None` is as many as are good for this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFiles(pub(crate) Option<u32>);

/// A program needs its streams and a few files and libraries.
const FEWEST_OPEN_FILES: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port(pub(crate) u16);

/// More slots than this is a slip: each is a process of its own.
const MOST_SLOTS: u32 = 4096;

impl Value for Duration {
    const ACCEPTS: &'static str = "a duration like 500ms, 10s, 5m, 2h or 7d, or a number of seconds";
    const ACCEPTS_OR_NOT: &'static str =
        "a duration like 500ms, 10s, 5m, 2h or 7d, a number of seconds, or none";

    fn parse(text: &str) -> Result<Duration, String> {
        text.parse().map(|Span(span)| span)
    }

    fn show(&self) -> String {
        let (seconds, whole) = (self.as_secs(), self.subsec_nanos() == 0);
        let unit = [("d", 86_400), ("h", 3600), ("m", 60)]
            .into_iter()
            .find(|(_, length)| whole && seconds > 0 && seconds.is_multiple_of(*length));
        match unit {
            Some((unit, length)) => format!("{}{unit}", seconds / length),
            None => Span(*self).to_string(),
        }
    }
}

impl Value for Size {
    const ACCEPTS: &'static str = "a size like 64KiB, 8MiB or 1GiB, or a number of bytes";
    const ACCEPTS_OR_NOT: &'static str = "a size like 64KiB, 8MiB or 1GiB, a number of bytes, or none";
    const ACCEPTS_OR_AUTO: &'static str = "a size like 64KiB, 8MiB or 1GiB, a number of bytes, or auto";

    fn parse(text: &str) -> Result<Size, String> {
        text.parse()
    }

    fn show(&self) -> String {
        let unit = [("GiB", 30), ("MiB", 20), ("KiB", 10)]
            .into_iter()
            .find(|(_, shift)| self.0 > 0 && self.0.is_multiple_of(1 << shift));
        match unit {
            Some((unit, shift)) => format!("{}{unit}", self.0 >> shift),
            None => self.0.to_string(),
        }
    }
}

impl Value for NonZeroU32 {
    const ACCEPTS: &'static str = "a whole number from 1";
    const ACCEPTS_OR_NOT: &'static str = "a whole number from 1, or none";
    const ACCEPTS_OR_AUTO: &'static str = "a whole number from 1, or auto";

    fn parse(text: &str) -> Result<NonZeroU32, String> {
        text.parse().map_err(|_| "not such a number".to_string())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for Slots {
    const ACCEPTS: &'static str = "a whole number from 0 to 4096, or auto";
    const WORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<Slots, String> {
        if text == "auto" {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
            return Ok(Slots(u32::try_from(cores).unwrap_or(MOST_SLOTS).min(MOST_SLOTS)));
        }
        match text.parse() {
            Ok(slots) if slots <= MOST_SLOTS => Ok(Slots(slots)),
            _ => Err("not such a number".to_string()),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for Threads {
    const ACCEPTS: &'static str = "a whole number from 1 to 1024, or auto";
    const WORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<Threads, String> {
        if text == "auto" {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
            return Ok(Threads(cores));
        }
        match text.parse() {
            Ok(threads) if (1..=1024).contains(&threads) => Ok(Threads(threads)),
            _ => Err("not such a number".to_string()),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for OpenFiles {
    const ACCEPTS: &'static str = "a whole number from 16, or auto";
    const WORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<OpenFiles, String> {
        if text == "auto" {
            return Ok(OpenFiles(None));
        }
        match text.parse() {
            Ok(files) if files >= FEWEST_OPEN_FILES => Ok(OpenFiles(Some(files))),
            _ => Err("not such a number".to_string()),
        }
    }

    fn show(&self) -> String {
        self.0.map_or("auto".to_string(), |files| files.to_string())
    }
}

impl Value for Auto<Size> {
    const ACCEPTS: &'static str = Size::ACCEPTS_OR_AUTO;
    const WORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<Auto<Size>, String> {
        match text {
            "auto" => Ok(Auto(None)),
            _ => Size::parse(text).map(|size| Auto(Some(size))),
        }
    }

    fn show(&self) -> String {
        self.0.map_or("auto".to_string(), |size| size.show())
    }
}

impl<T: Value> Value for Most<T> {
    const ACCEPTS: &'static str = T::ACCEPTS_OR_AUTO;
    const WORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<Most<T>, String> {
        match text {
            // There is no bound of the operator's either way.
            "auto" | "none" => Ok(Most(None)),
            _ => T::parse(text).map(|value| Most(Some(value))),
        }
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or("auto".to_string(), T::show)
    }
}

impl Value for Port {
    const ACCEPTS: &'static str = "a port from 1 to 65535";

    fn parse(text: &str) -> Result<Port, String> {
        match text.parse() {
            Ok(port) if port > 0 => Ok(Port(port)),
            _ => Err("not such a port".to_string()),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn amounts_survive_text() {
        check::<Duration>("10s", Ok("10s"));
        check::<Duration>("1500ms", Ok("1.5s"));
        check::<Duration>("7d", Ok("7d"));
        check::<Duration>("2", Ok("2s"));
        check::<Duration>("90m", Ok("90m"));
        check::<Duration>("soon", Err("not a duration"));
        check::<Size>("8MiB", Ok("8MiB"));
        check::<Size>("1000", Ok("1000"));
        check::<Size>("-1", Err("negative"));
        check::<NonZeroU32>("3", Ok("3"));
        check::<NonZeroU32>("0", Err("not"));
        check::<Slots>("0", Ok("0"));
        check::<Slots>("4097", Err("not"));
        assert!(Slots::parse("auto").is_ok_and(|slots| slots.0 > 0));
        check::<Threads>("3", Ok("3"));
        check::<Threads>("0", Err("not"));
        assert!(Threads::parse("auto").is_ok_and(|threads| threads.0 > 0));
        check::<OpenFiles>("auto", Ok("auto"));
        check::<OpenFiles>("16", Ok("16"));
        check::<OpenFiles>("15", Err("not"));
        check::<Auto<Size>>("auto", Ok("auto"));
        check::<Auto<Size>>("2GiB", Ok("2GiB"));
        check::<Auto<Size>>("none", Err("not a unit"));
        check::<Most<Size>>("auto", Ok("auto"));
        check::<Most<Size>>("none", Ok("auto"));
        check::<Most<NonZeroU32>>("7", Ok("7"));
        check::<Port>("2379", Ok("2379"));
        check::<Port>("0", Err("not"));
        check::<Port>("65536", Err("not"));
    }

    #[test]
    fn none_is_a_value_where_it_makes_sense() {
        check::<Option<Duration>>("none", Ok("none"));
        check::<Option<Size>>("1GiB", Ok("1GiB"));
        check::<Duration>("none", Err("not a duration"));
    }
}
