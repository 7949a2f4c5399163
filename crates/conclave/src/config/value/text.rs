//! Names, choices and log filters.

use model::{ExecutorName, UserName};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::ConfigValue;

/// The configuration value that says what a node logs, and in which format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogSetting {
    /// A filter in the syntax of `tracing_subscriber::EnvFilter`.
    pub(crate) filter: String,
    pub(crate) format: LogFormat,
}

/// The format of a node's log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    /// One JSON object on each line.
    Json,
}

/// The configuration value with the name of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeName(pub(crate) String);

/// The configuration value with the name of the cluster's MongoDB replica set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaSetName(pub(crate) String);

/// The configuration value that says who may read the metrics of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsSetting {
    /// `Token` if there are tokens, else `Open`.
    Auto,
    Open,
    Token,
    Off,
}

impl ConfigValue for MetricsSetting {
    const ACCEPTS: &'static str = "auto, open, token or off";

    fn parse(text: &str) -> Result<MetricsSetting, String> {
        match text {
            "auto" => Ok(MetricsSetting::Auto),
            "open" => Ok(MetricsSetting::Open),
            "token" => Ok(MetricsSetting::Token),
            "off" => Ok(MetricsSetting::Off),
            _ => Err("not one of these".to_string()),
        }
    }

    fn to_text(&self) -> String {
        match self {
            MetricsSetting::Auto => "auto",
            MetricsSetting::Open => "open",
            MetricsSetting::Token => "token",
            MetricsSetting::Off => "off",
        }
        .to_string()
    }
}

impl ConfigValue for Vec<UserName> {
    const ACCEPTS: &'static str = "names of users, separated by commas, or a list of them";
    const ACCEPTS_OR_NONE: &'static str = "names of users, separated by commas, a list of them, or none";

    fn parse(text: &str) -> Result<Vec<UserName>, String> {
        let parse_one = |item: &str| {
            let item = item.trim();
            // These come from a list that was written into a variable or a flag. No token would have such a user.
            let quotes = ['"', '\'', '[', ']'];
            if item.starts_with(quotes) || item.ends_with(quotes) {
                return Err(format!("'{item}' is no name; leave out quotes and brackets"));
            }
            UserName::new(item).map_err(|error| format!("the name '{item}' {error}"))
        };
        text.split(',').map(parse_one).collect()
    }

    fn to_text(&self) -> String {
        let names: Vec<_> = self.iter().map(UserName::as_str).collect();
        names.join(",")
    }
}

impl ConfigValue for bool {
    const ACCEPTS: &'static str = "true or false";

    fn parse(text: &str) -> Result<bool, String> {
        text.parse().map_err(|_| "not a boolean".to_string())
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl ConfigValue for LogSetting {
    const ACCEPTS: &'static str = "off, error, warn, info, debug or trace, or a list like info,judicator=debug; json or text may be in the list";

    fn parse(text: &str) -> Result<LogSetting, String> {
        let mut format = LogFormat::Text;
        let mut levels = Vec::new();
        for item in text.split(',').map(str::trim) {
            match item {
                "json" => format = LogFormat::Json,
                "text" => format = LogFormat::Text,
                "" => {}
                _ => levels.push(item),
            }
        }
        if levels.is_empty() {
            levels.push("info");
        }
        // `EnvFilter` would take an unknown level for the name of a module and log nothing else.
        for level in levels.iter().filter(|level| !level.contains(['=', '['])) {
            level
                .parse::<LevelFilter>()
                .map_err(|_| format!("'{level}' is not a log level"))?;
        }
        let filter = levels.join(",");
        EnvFilter::try_new(&filter)
            .map(|_| LogSetting { filter, format })
            .map_err(|error| error.to_string())
    }

    fn to_text(&self) -> String {
        match self.format {
            LogFormat::Text => self.filter.clone(),
            LogFormat::Json => format!("{},json", self.filter),
        }
    }
}

impl ConfigValue for NodeName {
    const ACCEPTS: &'static str = "letters, digits, '.', '_' and '-', or auto";
    const KEYWORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<NodeName, String> {
        let name = match text {
            "auto" => host_name(),
            _ => text.to_string(),
        };
        ExecutorName::parse(&name).map(|name| NodeName(name.to_string()))
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

impl ConfigValue for ReplicaSetName {
    const ACCEPTS: &'static str = "letters, digits, '.', '_' and '-'";

    fn parse(text: &str) -> Result<ReplicaSetName, String> {
        ExecutorName::parse(text).map(|name| ReplicaSetName(name.to_string()))
    }

    fn to_text(&self) -> String {
        self.0.clone()
    }
}

/// The host name, with '-' for characters that names may not have.
fn host_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    match host.trim() {
        "" => "judicator".to_string(),
        host => host
            .chars()
            .map(|letter| if is_allowed(letter) { letter } else { '-' })
            .collect(),
    }
}

impl ConfigValue for ExecutorName {
    const ACCEPTS: &'static str = "letters, digits, '.', '_' and '-'";
    const ACCEPTS_OR_NONE: &'static str = "letters, digits, '.', '_' and '-', or auto";
    const KEYWORD: Option<&'static str> = Some("auto");

    fn parse(text: &str) -> Result<ExecutorName, String> {
        ExecutorName::new(text).map_err(|error| error.to_string())
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn names_and_choices_are_checked() {
        check::<bool>("true", Ok("true"));
        check::<bool>("yes", Err("not a boolean"));
        check::<MetricsSetting>("auto", Ok("auto"));
        check::<MetricsSetting>("token", Ok("token"));
        check::<MetricsSetting>("closed", Err("not one of these"));
        check::<LogSetting>("info,judicator=debug", Ok("info,judicator=debug"));
        check::<LogSetting>("json", Ok("info,json"));
        check::<LogSetting>("debug, json", Ok("debug,json"));
        check::<LogSetting>("json,info,judicator=debug", Ok("info,judicator=debug,json"));
        check::<LogSetting>("text", Ok("info"));
        check::<LogSetting>("judicator=loud", Err("level filter"));
        check::<LogSetting>("loud", Err("'loud' is not a log level"));
        check::<LogSetting>("json,loud", Err("'loud' is not a log level"));
        check::<LogSetting>("", Ok("info"));
        check::<NodeName>("judge-1", Ok("judge-1"));
        check::<NodeName>("judge 1", Err("letters"));
        assert!(NodeName::parse("auto").is_ok());
        check::<Option<ExecutorName>>("auto", Ok("auto"));
        check::<Option<ExecutorName>>("lab-2", Ok("lab-2"));
    }
}
