//! The command line of the program that makes a root file system.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use super::apt_sources::{download_options, first_mirror, lines_of_suite, paragraphs_of_suite};
use super::{BuildError, BuildOptions, PipRequirement};

/// The program that makes a root file system of Debian packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DebianTool {
    Mmdebstrap,
    Debootstrap,
}

/// The program with its arguments, ready to start. It writes a tar archive to stdout.
pub(super) struct PreparedTool {
    /// The program and its arguments.
    pub(super) words: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// The signal that stops it, with all that it has started.
    pub(super) stop_signal: Signal,
    /// What the root is made of, for people.
    pub(super) description: String,
}

/// The package sources that the program uses.
enum PackageSources {
    Mirror(String),
    /// Files with sources of this machine, and the first mirror in them.
    Files(Vec<PathBuf>, Option<String>),
}

const DEFAULT_SUITE: &str = "bookworm";
const DEFAULT_MIRROR: &str = "http://deb.debian.org/debian";
/// What `pip` needs in a root, and the library that compiled Python packages expect on every system.
const PIP_PACKAGES: [&str; 4] = ["ca-certificates", "libstdc++6", "python3", "python3-pip"];

/// A shell script that installs Python packages into the root `$1` with its own `pip`. It is passed in a variable: the tool of an
/// ordinary user runs it as another user, to whom the files of this one are closed.
/// How this machine downloads (index, proxy, certificates) applies,
/// and none of it stays in the root.
const PIP_HOOK: &str = r#"set -eu
exec >&2
work=$1/tmp/conclave-pip
mkdir -p "$work/.config/pip"
printf '%s\n' REQUIREMENTS > "$work/requirements.txt"
for file in "${PIP_CERT:-}" "${REQUESTS_CA_BUNDLE:-}" "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt; do
    if [ -n "$file" ] && [ -f "$file" ]; then
        cp -L "$file" "$work/ca.crt"
        break
    fi
done
[ ! -f /etc/pip.conf ] || cp -L /etc/pip.conf "$work/.config/pip/pip.conf"
for file in "${PIP_CONFIG_FILE:-}" "${HOME:-}/.config/pip/pip.conf" "${HOME:-}/.pip/pip.conf"; do
    if [ -n "$file" ] && [ -f "$file" ]; then
        cp -L "$file" "$work/pip.conf"
        break
    fi
done
if [ ! -e "$work/ca.crt" ]; then
    cp -L "$1/etc/ssl/certs/ca-certificates.crt" "$work/ca.crt"
fi
echo "I: installing Python packages with pip..."
ca=/tmp/conclave-pip/ca.crt
chroot "$1" env -u SSL_CERT_DIR PIP_CERT=$ca REQUESTS_CA_BUNDLE=$ca CURL_CA_BUNDLE=$ca SSL_CERT_FILE=$ca \
    HOME=/tmp/conclave-pip TMPDIR=/tmp PIP_CONFIG_FILE=/tmp/conclave-pip/pip.conf \
    PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 \
    python3 -m pip install --no-cache-dir --no-input --requirement /tmp/conclave-pip/requirements.txt
rm -rf "$work"
"#;

const PIP_HOOK_VARIABLE: &str = "CONCLAVE_PIP_HOOK";
/// The tool prints this line.
const RUN_PIP_HOOK: &str = r#"eval "$CONCLAVE_PIP_HOOK""#;

/// Makes a folder, and writes it as an archive, as `mmdebstrap` does in one step.
const DEBOOTSTRAP_SCRIPT: &str = r#"
set -eu
folder=$1 hook=$2 suite=$3 mirror=$4 packages=$5
debootstrap --variant=minbase ${packages:+"--include=$packages"} "$suite" "$folder" "$mirror" >&2
[ -z "$hook" ] || sh -c "$hook" hook "$folder"
exec tar --numeric-owner --one-file-system -C "$folder" -c .
"#;

impl DebianTool {
    /// The tool that this machine has.
    pub(super) fn find() -> Result<DebianTool, BuildError> {
        if find_program("mmdebstrap").is_some() {
            return Ok(DebianTool::Mmdebstrap);
        }
        match (find_program("debootstrap").is_some(), geteuid().is_root()) {
            (true, true) => Ok(DebianTool::Debootstrap),
            (true, false) => Err(BuildError::NeedsRoot),
            (false, _) => Err(BuildError::NoTool),
        }
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            DebianTool::Mmdebstrap => "mmdebstrap",
            DebianTool::Debootstrap => "debootstrap",
        }
    }

    /// Writes the files that the tool needs to `scratch`.
    pub(super) fn prepare(self, options: &BuildOptions, scratch: &Path) -> io::Result<PreparedTool> {
        let machine_suite = suite_of_this_machine();
        let suite = match &options.suite {
            Some(suite) => suite.to_string(),
            None => machine_suite.clone().unwrap_or_else(|| DEFAULT_SUITE.to_string()),
        };
        let sources = match &options.mirror {
            Some(mirror) => PackageSources::Mirror(mirror.to_string()),
            None if machine_suite.as_deref() == Some(&suite) => sources_of_this_machine(&suite, scratch)?,
            None => PackageSources::Mirror(DEFAULT_MIRROR.to_string()),
        };
        let packages = packages_to_install(options).join(",");
        let hook = match options.pip.is_empty() {
            true => None,
            false => Some(RUN_PIP_HOOK),
        };
        let namespaces = separate_namespaces();
        let arguments = match self {
            DebianTool::Mmdebstrap => mmdebstrap_arguments(&suite, &sources, &packages, hook),
            DebianTool::Debootstrap => debootstrap_arguments(&suite, &sources, &packages, hook, scratch),
        };
        let words = namespaces.iter().map(OsString::from).chain(arguments);
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        if geteuid().is_root() {
            // On the disk of the roots, and removed with the work folder. An ordinary user's tool maps user ids, to which
            // that folder is closed.
            environment.insert("TMPDIR".into(), scratch.into());
        }
        environment.insert("PATH".into(), search_path());
        // Messages of packages must not ask questions, and names of files must not depend on the locale.
        environment.insert("DEBIAN_FRONTEND".into(), "noninteractive".into());
        environment.insert("LC_ALL".into(), "C.UTF-8".into());
        environment.insert(PIP_HOOK_VARIABLE.into(), pip_hook(options).into());
        Ok(PreparedTool {
            words: words.collect(),
            environment,
            stop_signal: match namespaces.is_empty() {
                true => Signal::SIGTERM,
                // The first process outside of the namespaces ignores others, and all that is in them ends with it.
                false => Signal::SIGKILL,
            },
            description: describe(self, &suite, options),
        })
    }
}

fn mmdebstrap_arguments(
    suite: &str,
    sources: &PackageSources,
    packages: &str,
    hook: Option<&str>,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![
        "mmdebstrap".into(),
        "--variant=essential".into(),
        "--format=tar".into(),
        // Files of the tool are temporary, so they need not be on the disk.
        "--dpkgopt=force-unsafe-io".into(),
    ];
    if !packages.is_empty() {
        arguments.push(format!("--include={packages}").into());
    }
    if let Some(hook) = hook {
        arguments.push(format!("--customize-hook={hook}").into());
    }
    let options = download_options(&apt_configuration());
    arguments.extend(options.iter().map(|option| format!("--aptopt={option}").into()));
    // The archive goes to stdout.
    arguments.extend([suite.into(), "-".into()]);
    match sources {
        PackageSources::Mirror(mirror) => arguments.push(mirror.into()),
        PackageSources::Files(files, _) => arguments.extend(files.iter().map(OsString::from)),
    }
    arguments
}

fn debootstrap_arguments(
    suite: &str,
    sources: &PackageSources,
    packages: &str,
    hook: Option<&str>,
    scratch: &Path,
) -> Vec<OsString> {
    let mirror = match sources {
        PackageSources::Mirror(mirror) => mirror.as_str(),
        PackageSources::Files(_, first) => first.as_deref().unwrap_or(DEFAULT_MIRROR),
    };
    vec![
        "sh".into(),
        "-c".into(),
        DEBOOTSTRAP_SCRIPT.into(),
        "debootstrap".into(),
        scratch.join("debootstrap").into(),
        hook.unwrap_or_default().into(),
        suite.into(),
        mirror.into(),
        packages.into(),
    ]
}

/// Runs the tool in its own mount and process namespaces, so that all of its processes and mounts end with it, even if this process
/// is killed. Empty where the machine does not allow that.
fn separate_namespaces() -> Vec<&'static str> {
    const WRAPPER: [&str; 11] = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ];
    let works = || {
        let probe = Command::new(WRAPPER[0])
            .args(&WRAPPER[1..])
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        probe.is_ok_and(|status| status.success())
    };
    match geteuid().is_root() && works() {
        true => WRAPPER.to_vec(),
        false => Vec::new(),
    }
}

/// Copies the sources for this release to files in `scratch`.
fn sources_of_this_machine(suite: &str, scratch: &Path) -> io::Result<PackageSources> {
    let (mut lines, mut paragraphs) = (String::new(), String::new());
    let parts = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten()
        .flatten();
    let mut paths: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    paths.sort();
    paths.insert(0, "/etc/apt/sources.list".into());
    for path in paths {
        let extension = path.extension().and_then(|extension| extension.to_str());
        // A file that cannot be read is none of apt's for this user either.
        let text = || fs::read_to_string(&path).unwrap_or_default();
        match extension {
            Some("list") => lines.push_str(&lines_of_suite(&text(), suite)),
            Some("sources") => paragraphs.push_str(&paragraphs_of_suite(&text(), suite)),
            _ => {}
        }
    }
    let first = first_mirror(&lines, &paragraphs, suite);
    let mut files = Vec::new();
    for (name, text) in [("machine.list", &lines), ("machine.sources", &paragraphs)] {
        if !text.is_empty() {
            let path = scratch.join(name);
            fs::write(&path, text)?;
            files.push(path);
        }
    }
    Ok(match files.is_empty() {
        true => PackageSources::Mirror(DEFAULT_MIRROR.to_string()),
        false => PackageSources::Files(files, first),
    })
}

fn pip_hook(options: &BuildOptions) -> String {
    // In quotes, so that the shell takes none of it for its own.
    let quote = |requirement: &PipRequirement| format!("'{}'", requirement.as_str().replace('\'', r"'\''"));
    let requirements: Vec<String> = options.pip.iter().map(quote).collect();
    PIP_HOOK.replace("REQUIREMENTS", &requirements.join(" "))
}

fn packages_to_install(options: &BuildOptions) -> Vec<String> {
    let mut packages: Vec<String> = options.packages.iter().map(ToString::to_string).collect();
    if !options.pip.is_empty() {
        packages.extend(PIP_PACKAGES.map(String::from));
    }
    packages.sort();
    packages.dedup();
    packages
}

fn describe(tool: DebianTool, suite: &str, options: &BuildOptions) -> String {
    let list = |items: Vec<&str>| items.join(", ");
    let mut text = format!("{}, {suite}", tool.program());
    if !options.packages.is_empty() {
        let packages = options.packages.iter().map(|package| package.as_str());
        text.push_str(&format!(": {}", list(packages.collect())));
    }
    if !options.pip.is_empty() {
        let packages = options.pip.iter().map(|package| package.as_str());
        text.push_str(&format!("; pip: {}", list(packages.collect())));
    }
    text
}

/// What apt says about its configuration; empty on a machine without apt.
fn apt_configuration() -> String {
    let output = Command::new("apt-config")
        .arg("dump")
        .stdin(Stdio::null())
        .output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// The release of Debian that this machine runs.
fn suite_of_this_machine() -> Option<String> {
    debian_suite(&fs::read_to_string("/etc/os-release").unwrap_or_default())
}

fn debian_suite(os_release: &str) -> Option<String> {
    let value = |key: &str| {
        let line = os_release
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"'))
    };
    let is_debian = value("ID") == Some("debian");
    value("VERSION_CODENAME")
        .filter(|_| is_debian)
        .map(str::to_string)
}

pub(super) fn find_program(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = search_path();
    std::env::split_paths(&path)
        .map(|folder| folder.join(&name))
        .find(|path| {
            fs::metadata(path)
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        })
}

/// The PATH of this process, and the folders of programs for administrators, which an ordinary user's PATH does not have.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    path.push(":/usr/sbin:/sbin");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_that_of_a_debian() {
        let debian = "NAME=\"Debian\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(debian_suite(debian).as_deref(), Some("bookworm"));
        assert_eq!(debian_suite("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(debian_suite("ID=debian\n"), None);
    }

    #[test]
    fn python_packages_bring_pip() {
        let options = BuildOptions {
            name: model::RootName::new("x").unwrap(),
            packages: vec!["g++".parse().unwrap(), "python3".parse().unwrap()],
            pip: vec!["numpy==1.26.4".parse().unwrap()],
            suite: None,
            mirror: None,
            limits: crate::UnpackLimits::default(),
            interrupt: crate::InterruptFlag::default(),
        };
        assert_eq!(
            packages_to_install(&options),
            ["ca-certificates", "g++", "libstdc++6", "python3", "python3-pip"]
        );
        assert!(pip_hook(&options).contains("printf '%s\\n' 'numpy==1.26.4' > "));
        assert_eq!(
            describe(DebianTool::Mmdebstrap, "bookworm", &options),
            "mmdebstrap, bookworm: g++, python3; pip: numpy==1.26.4"
        );
    }
}
