//! Names and choices.

use model::ExecutorName;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFilter(pub(crate) String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeName(pub(crate) String);

/// The name of a replica set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetName(pub(crate) String);

/// Who may read the metrics of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metrics {
    /// `Token` where there are tokens, else `Open`.
    Auto,
    Open,
    Token,
    Off,
}

impl Value for Metrics {
    const ACCEPTS: &'static str = "auto, open, token or off";

    fn parse(text: &str) -> Result<Metrics, String> {
        match text {
            "auto" => Ok(Metrics::Auto),
            "open" => Ok(Metrics::Open),
            "token" => Ok(Metrics::Token),
            "off" => Ok(Metrics::Off),
            _ => Err("none of these".to_string()),
        }
    }

    fn show(&self) -> String {
        match self {
            Metrics::Auto => "auto",
            Metrics::Open => "open",
            Metrics::Token => "token",
            Metrics::Off => "off",
        }
        .to_string()
    }
}

impl Value for bool {
    const ACCEPTS: &'static str = "true or false";

    fn parse(text: &str) -> Result<bool, String> {
        text.parse().map_err(|_| "neither".to_string())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for LogFilter {
    const ACCEPTS: &'static str =
        "off, error, warn, info, debug or trace, or a list like info,judicator=debug";

    fn parse(text: &str) -> Result<LogFilter, String> {
        // The library takes a word that is no level for the name of a part, and would then log nothing else.
        let words = text.split(',').filter(|part| !part.contains(['=', '[']));
        for word in words {
            word.trim()
                .parse::<LevelFilter>()
                .map_err(|_| format!("'{word}' is no level"))?;
        }
        EnvFilter::try_new(text)
            .map(|_| LogFilter(text.to_string()))
            .map_err(|wrong| wrong.to_string())
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Value for NodeName {
    const ACCEPTS: &'static str = "letters, digits, '.', '_' and '-', or auto";
    const WORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<NodeName, String> {
        let name = match text {
            "auto" => host_name(),
            _ => text.to_string(),
        };
        ExecutorName::parse(&name).map(|name| NodeName(name.to_string()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Value for SetName {
    const ACCEPTS: &'static str = "letters, digits, '.', '_' and '-'";

    fn parse(text: &str) -> Result<SetName, String> {
        ExecutorName::parse(text).map(|name| SetName(name.to_string()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// The host's name in the alphabet of names.
fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    match host.trim() {
        "" => "judicator".to_string(),
        host => host
            .chars()
            .map(|letter| if fits(letter) { letter } else { '-' })
            .collect(),
    }
}

impl Value for ExecutorName {
    const ACCEPTS: &'static str = "letters, digits, '.', '_' and '-'";
    const ACCEPTS_OR_NOT: &'static str = "letters, digits, '.', '_' and '-', or auto";
    const WORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<ExecutorName, String> {
        ExecutorName::new(text).map_err(|wrong| wrong.to_string())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn words_are_checked() {
        check::<bool>("true", Ok("true"));
        check::<bool>("yes", Err("neither"));
        check::<Metrics>("auto", Ok("auto"));
        check::<Metrics>("token", Ok("token"));
        check::<Metrics>("closed", Err("none of these"));
        check::<LogFilter>("info,judicator=debug", Ok("info,judicator=debug"));
        check::<LogFilter>("judicator=loud", Err("level filter"));
        check::<LogFilter>("loud", Err("'loud' is no level"));
        check::<NodeName>("judge-1", Ok("judge-1"));
        check::<NodeName>("judge 1", Err("letters"));
        assert!(NodeName::parse("auto").is_ok());
        check::<Option<ExecutorName>>("auto", Ok("auto"));
        check::<Option<ExecutorName>>("lab-2", Ok("lab-2"));
    }
}
