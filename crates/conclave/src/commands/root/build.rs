//! `conclave root build`: makes a root of Debian packages.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use model::{LanguageName, RootName};
use roots::{BuildOptions, MirrorUrl, PackageName, PipRequirement, SuiteName, UnpackLimits};

use super::{RootFlags, parse_root_name, parse_size, print_new_root, run_until_signal};

/// The arguments of `conclave root build`.
#[derive(clap::Args, Debug)]
pub(super) struct BuildRootArgs {
    /// Name of the root; a root of this name is replaced
    #[arg(value_parser = parse_root_name)]
    name: RootName,
    /// Debian packages to install, besides a minimal system: g++,python3,...
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    packages: Vec<PackageName>,
    /// Languages of the built-in table whose Debian packages to install, or `all`: cpp,java,...
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    languages: Vec<String>,
    /// Python packages to install with pip, with or without versions: numpy==1.26.4,pandas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pip: Vec<PipRequirement>,
    /// Release of Debian [default: that of this machine, or bookworm]
    #[arg(long, value_name = "NAME")]
    suite: Option<SuiteName>,
    /// Mirror of Debian [default: the apt sources of this machine if it runs the same release, or deb.debian.org]
    #[arg(long, value_name = "URL")]
    mirror: Option<MirrorUrl>,
    /// Largest size of all files of the root together [default: 16GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    #[command(flatten)]
    flags: RootFlags,
}

pub(super) fn run(args: BuildRootArgs) -> Result<ExitCode> {
    let store = args.flags.store()?;
    let mut packages = args.packages;
    packages.extend(packages_of(&args.languages)?);
    let new = run_until_signal(|interrupt| {
        let limits = UnpackLimits::default();
        let options = BuildOptions {
            name: args.name,
            packages,
            pip: args.pip,
            suite: args.suite,
            mirror: args.mirror,
            limits: UnpackLimits {
                max_size: args.max_size.unwrap_or(limits.max_size),
                ..limits
            },
            interrupt: interrupt.clone(),
        };
        Ok(roots::build(&store, &options)?)
    })?;
    print_new_root(&new, &store, args.flags.output_format())?;
    Ok(ExitCode::SUCCESS)
}

/// The packages that provide these languages.
fn packages_of(names: &[String]) -> Result<Vec<PackageName>> {
    let mut packages = Vec::new();
    for name in names {
        let found = match name.as_str() {
            "all" => languages::all_packages(),
            name => {
                let language = LanguageName::new(name).with_context(|| format!("the language '{name}'"))?;
                let found = languages::packages(&language);
                found.with_context(|| format!("there is no language '{name}' in the built-in table"))?
            }
        };
        ensure!(
            !found.is_empty(),
            "Debian has no package of the language '{name}'"
        );
        for package in found {
            packages.push(
                package
                    .parse()
                    .with_context(|| format!("the package '{package}'"))?,
            );
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_stand_for_their_packages() {
        let names = |languages: &[&str]| -> Result<Vec<String>> {
            let languages: Vec<_> = languages.iter().map(ToString::to_string).collect();
            Ok(packages_of(&languages)?.iter().map(ToString::to_string).collect())
        };
        assert_eq!(names(&["c++", "python"]).unwrap(), ["g++", "python3"]);
        assert!(names(&["all"]).unwrap().len() > 40);
        assert!(names(&["klingon"]).unwrap_err().to_string().contains("'klingon'"));
        assert!(names(&["zig"]).unwrap_err().to_string().contains("no package"));
    }
}
