//! Names and choices.

use model::ExecutorName;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::Value;

/// Which lines are logged, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// In the syntax of `tracing_subscriber::EnvFilter`.
    pub(crate) filter: String,
    pub(crate) format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    /// One JSON object on each line.
    Json,
}

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

impl Value for Log {
    const ACCEPTS: &'static str = "off, error, warn, info, debug or trace, or a list like info,judicator=debug; json or text may be in the list";

    fn parse(text: &str) -> Result<Log, String> {
        let mut format = LogFormat::Text;
        let mut levels = Vec::new();
        for word in text.split(',').map(str::trim) {
            match word {
                "json" => format = LogFormat::Json,
                "text" => format = LogFormat::Text,
                "" => {}
                _ => levels.push(word),
            }
        }
        if levels.is_empty() {
            levels.push("info");
        }
        // The library takes a word that is no level for the name of a part, and would then log nothing else.
        for word in levels.iter().filter(|part| !part.contains(['=', '['])) {
            word.parse::<LevelFilter>()
                .map_err(|_| format!("'{word}' is no level"))?;
        }
        let filter = levels.join(",");
        EnvFilter::try_new(&filter)
            .map(|_| Log { filter, format })
            .map_err(|wrong| wrong.to_string())
    }

    fn show(&self) -> String {
        match self.format {
            LogFormat::Text => self.filter.clone(),
            LogFormat::Json => format!("{},json", self.filter),
        }
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
        check::<Log>("info,judicator=debug", Ok("info,judicator=debug"));
        check::<Log>("json", Ok("info,json"));
        check::<Log>("debug, json", Ok("debug,json"));
        check::<Log>("json,info,judicator=debug", Ok("info,judicator=debug,json"));
        check::<Log>("text", Ok("info"));
        check::<Log>("judicator=loud", Err("level filter"));
        check::<Log>("loud", Err("'loud' is no level"));
        check::<Log>("json,loud", Err("'loud' is no level"));
        check::<Log>("", Ok("info"));
        check::<NodeName>("judge-1", Ok("judge-1"));
        check::<NodeName>("judge 1", Err("letters"));
        assert!(NodeName::parse("auto").is_ok());
        check::<Option<ExecutorName>>("auto", Ok("auto"));
        check::<Option<ExecutorName>>("lab-2", Ok("lab-2"));
    }
}
