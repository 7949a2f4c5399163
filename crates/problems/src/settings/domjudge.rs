//! What DOMjudge adds to packages: `domjudge-problem.ini` and `.timelimit`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::PackageSettings;
use super::limit_keys::positive_seconds;
use crate::error::PackageError;
use crate::folder::PackageFolder;

/// Keys of the file that are not about judging.
const OTHER_KEYS: [&str; 7] = [
    "allow_judge",
    "allow_submit",
    "color",
    "externalid",
    "points",
    "probid",
    "short-name",
];

pub(super) fn add_settings(
    folder: &PackageFolder,
    ini: Option<PathBuf>,
    settings: &mut PackageSettings,
    warnings: &mut Vec<String>,
) -> Result<(), PackageError> {
    // In the order in which they win.
    let mut limits: Vec<(PathBuf, Duration)> = vec![];
    if let Some(time) = settings.limits.time {
        limits.push((settings.path.clone(), time));
    }
    if let Some(path) = ini {
        for (key, value) in entries(&folder.text(&path)?) {
            match key.as_str() {
                "timelimit" => limits.push((path.clone(), time_limit(&path, "timelimit", &value)?)),
                "name" if settings.title.is_none() => settings.title = Some(value),
                "name" => {}
                "special_compare" | "special_run" => warnings.push(format!(
                    "{}: {key} names a program of a DOMjudge server and is ignored: only programs of the package judge",
                    path.display()
                )),
                other if OTHER_KEYS.contains(&other) => {}
                other => warnings.push(format!("{}: {other}: unknown key, ignored", path.display())),
            }
        }
    }
    if let Some(entry) = folder.find(".timelimit")? {
        let time = time_limit(&entry.path, "the time limit", &folder.text(&entry.path)?)?;
        limits.push((entry.path, time));
    }
    if let [(used, time), others @ ..] = limits.as_slice() {
        settings.limits.time = Some(*time);
        for (other, _) in others.iter().filter(|(_, other)| other != time) {
            warnings.push(format!(
                "{}: another time limit than in {}, which is used",
                other.display(),
                used.display()
            ));
        }
    }
    Ok(())
}

fn time_limit(path: &Path, name: &str, text: &str) -> Result<Duration, PackageError> {
    positive_seconds(text).ok_or_else(|| PackageError::TimeLimit {
        path: path.to_path_buf(),
        problem: format!(
            "{name} must be a number of seconds above 0, not '{}'",
            text.trim()
        ),
    })
}

/// The lines `key = value`. Values may be quoted; comments begin with `;` or `#`.
fn entries(text: &str) -> Vec<(String, String)> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines = lines.filter(|line| !line.starts_with([';', '#', '[']));
    let entry = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim();
        let quoted = ['"', '\''].into_iter().find_map(|quote| {
            let rest = value.strip_prefix(quote)?;
            rest.find(quote).map(|end| &rest[..end])
        });
        let value = quoted.unwrap_or_else(|| value.split(';').next().unwrap_or_default().trim());
        Some((key.trim().to_string(), value.to_string()))
    };
    lines.filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_be_quoted() {
        let text = "; comment\n[x]\ntimelimit = '2.5' ; why\nname=\"A ; B\"\ncolor = red ; c\n\nbroken\n";
        let expected = [("timelimit", "2.5"), ("name", "A ; B"), ("color", "red")];
        let expected = expected.map(|(key, value)| (key.to_string(), value.to_string()));
        assert_eq!(entries(text), expected);
    }
}
