//! The package sources of this machine, for a root of the same release of Debian.
//!
//! They work where the machine is: behind a proxy, with a local mirror, without a network. Sources of other releases, and those
//! that are disabled, are left out.

/// The sources in a file of apt that are for this release: the lines of a `.list` file that begin with `deb`.
pub(super) fn lines_of_suite(text: &str, suite: &str) -> String {
    let mut lines = String::new();
    for line in text.lines().map(str::trim) {
        let Some(rest) = line.strip_prefix("deb") else {
            continue;
        };
        let rest = rest.trim_start();
        // Options may contain spaces.
        let without_options = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']').map_or("", |(_, rest)| rest),
            None => rest,
        };
        let named = without_options.split_whitespace().nth(1);
        // A line of source packages begins with `deb-src`.
        if !rest.starts_with('-') && named.is_some_and(|named| is_of_suite(named, suite)) {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    lines
}

/// The sources in a file of apt that are for this release: the paragraphs of a `.sources` file.
pub(super) fn paragraphs_of_suite(text: &str, suite: &str) -> String {
    let mut kept = String::new();
    let without_comments: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for paragraph in without_comments.split(|line| line.trim().is_empty()) {
        let field = |name: &str| {
            let value = paragraph.iter().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.trim().eq_ignore_ascii_case(name).then_some(value)
            });
            value.unwrap_or_default().split_whitespace()
        };
        let is_disabled = field("Enabled").any(|word| word.eq_ignore_ascii_case("no"));
        let is_binary = field("Types").any(|kind| kind == "deb");
        if is_binary && !is_disabled && field("Suites").any(|named| is_of_suite(named, suite)) {
            for line in paragraph {
                kept.push_str(line);
                kept.push('\n');
            }
            kept.push('\n');
        }
    }
    kept
}

/// The first mirror of the release itself, not of its updates, for a tool that accepts only one.
pub(super) fn first_mirror(lines: &str, paragraphs: &str, suite: &str) -> Option<String> {
    let from_lines = lines.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| !word.contains(":/"));
        let (url, named) = (words.next()?, words.next()?);
        (named == suite).then(|| url.to_string())
    });
    let from_paragraphs = || {
        paragraphs.split("\n\n").find_map(|paragraph| {
            let field = |name: &str| {
                let line = paragraph.lines().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.trim().eq_ignore_ascii_case(name).then_some(value)
                });
                line.unwrap_or_default().split_whitespace()
            };
            let is_release = field("Suites").any(|named| named == suite);
            field("URIs").next().filter(|_| is_release).map(str::to_string)
        })
    };
    from_lines.or_else(from_paragraphs)
}

/// The options in the output of `apt-config dump` that say how to download: proxies, retries, addresses.
pub(super) fn download_options(dump: &str) -> Vec<String> {
    const PREFIXES: [&str; 6] = [
        "Acquire::http",
        "Acquire::https",
        "Acquire::Retries",
        "Acquire::ForceIPv",
        "Acquire::Check-Valid-Until",
        "Acquire::Max-FutureTime",
    ];
    let is_kept = |line: &&str| PREFIXES.iter().any(|prefix| line.starts_with(prefix));
    dump.lines()
        .filter(is_kept)
        .map(|line| line.trim_end().trim_end_matches(';').to_string())
        .collect()
}

/// The release itself, or its updates: `bookworm`, `bookworm-security`, `bookworm/updates`.
fn is_of_suite(named: &str, suite: &str) -> bool {
    named
        .strip_prefix(suite)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_other_releases_and_disabled_ones_are_left_out() {
        let lines = "# comment\n\
             deb http://a/debian bookworm main contrib\n\
             deb-src http://a/debian bookworm main\n\
             deb [arch=amd64 signed-by=/x.gpg] https://b/debian bookworm-updates main\n\
             deb http://c/debian trixie main\n\
             deb http://d/debian bookwormish main\n\
             # deb http://e/debian bookworm main\n";
        assert_eq!(
            lines_of_suite(lines, "bookworm"),
            "deb http://a/debian bookworm main contrib\n\
             deb [arch=amd64 signed-by=/x.gpg] https://b/debian bookworm-updates main\n"
        );
        let paragraphs = "Types: deb\n# comment\nURIs: http://a/debian\nSuites: bookworm bookworm-updates\nComponents: main\n\n\
             Types: deb-src\nURIs: http://b\nSuites: bookworm\n\n\
             Enabled: no\nTypes: deb\nURIs: http://c\nSuites: bookworm\n\n\n\
             Types: deb\nURIs: http://d\nSuites: nodistro\n\n\
             Types: deb deb-src\nURIs: http://e\nSuites: bookworm-security\nSigned-By: /x.gpg\n";
        let kept = paragraphs_of_suite(paragraphs, "bookworm");
        let mirrors: Vec<&str> = kept
            .lines()
            .filter_map(|line| line.strip_prefix("URIs: "))
            .collect();
        assert_eq!(mirrors, ["http://a/debian", "http://e"]);
        assert!(kept.contains("Signed-By: /x.gpg\n") && !kept.contains("comment"));
    }

    #[test]
    fn the_first_mirror_is_one_of_the_release() {
        let lines =
            "deb http://s/debian-security bookworm-security main\ndeb [a=b] http://a/debian bookworm main\n";
        let paragraphs = "Types: deb\nURIs: http://p/debian http://q\nSuites: bookworm-updates bookworm\n\n";
        let check = |lines: &str, paragraphs: &str, expected: Option<&str>| {
            assert_eq!(first_mirror(lines, paragraphs, "bookworm").as_deref(), expected);
        };
        check(lines, paragraphs, Some("http://a/debian"));
        check("", paragraphs, Some("http://p/debian"));
        check("", "", None);
    }

    #[test]
    fn options_of_downloads_are_passed_on() {
        let dump = "APT \"\";\nAcquire \"\";\nAcquire::http \"\";\nAcquire::http::Proxy \"http://p:1\";\nDPkg::Hook \"rm\";\n";
        assert_eq!(
            download_options(dump),
            ["Acquire::http \"\"", "Acquire::http::Proxy \"http://p:1\""]
        );
    }
}
