//! Prepares the files that pages load: the style sheet, and with the feature `scripts` the bundles of the scripts in `web/`.
//!
//! Third-party packages come from the npm registry, in the versions of `web/package-lock.json`, and esbuild bundles them. All of
//! that happens in `OUT_DIR`; nothing is written into the source tree. The result is `assets.rs`, a list of the files with the
//! hash of each in its name.
#![expect(
    clippy::disallowed_types,
    reason = "npm and esbuild are programs; nothing of this is in the binary"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

type Result<T> = std::result::Result<T, String>;

fn main() {
    if let Err(problem) = build() {
        for line in problem.lines() {
            println!("cargo::error={line}");
        }
    }
}

fn build() -> Result<()> {
    let web = folder_variable("CARGO_MANIFEST_DIR")?.join("../../web");
    let out = folder_variable("OUT_DIR")?;
    println!("cargo::rerun-if-changed={}", web.display());
    // By the name that pages use, the name with the hash and the content.
    let mut assets = BTreeMap::new();
    let style = read_style(&web.join("style"), "site.css")?;
    assets.insert("site.css".to_string(), hashed("site.css", style.into_bytes()));
    if env::var_os("CARGO_FEATURE_SCRIPTS").is_some() {
        assets.extend(bundle_scripts(&web, &out)?);
    }
    write_assets(&out, &assets)
}

/// An asset: the name under which it is served, and its bytes.
type Asset = (String, Vec<u8>);

fn folder_variable(name: &str) -> Result<PathBuf> {
    let value = env::var_os(name).ok_or(format!("cargo has not set {name}"))?;
    Ok(PathBuf::from(value))
}

/// Puts the beginning of the content's hash into the name, so that browsers can keep the file for ever.
fn hashed(name: &str, content: Vec<u8>) -> Asset {
    let hash = Sha256::digest(&content);
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "txt"));
    let short = hash[..6]
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    (format!("{stem}-{short}.{extension}"), content)
}

/// The style sheet with its `@import "NAME";` lines replaced by the files.
fn read_style(folder: &Path, name: &str) -> Result<String> {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut whole = String::new();
    for line in text.lines() {
        match line
            .strip_prefix("@import \"")
            .and_then(|rest| rest.strip_suffix("\";"))
        {
            Some(imported) => whole += &read_style(folder, imported)?,
            None => {
                whole += line;
                whole.push('\n');
            }
        }
    }
    Ok(whole)
}

fn bundle_scripts(web: &Path, out: &Path) -> Result<BTreeMap<String, Asset>> {
    let node = Node::find()?;
    let copy = out.join("web");
    copy_sources(web, &copy)?;
    install_packages(&node, &copy)?;
    let bundles = out.join("bundles");
    fs::remove_dir_all(&bundles).ok();
    node.run(
        &copy,
        "node",
        &[
            "node_modules/esbuild/bin/esbuild",
            "site.js",
            "editor.js",
            "charts.js",
            "try.js",
            "--bundle",
            "--minify",
            "--splitting",
            "--format=esm",
            "--target=es2022",
            "--legal-comments=none",
            "--log-level=warning",
            "--entry-names=[name]-[hash]",
            "--chunk-names=chunk-[hash]",
            &format!("--outdir={}", bundles.display()),
        ],
    )?;
    let mut assets = BTreeMap::new();
    for entry in fs::read_dir(&bundles).map_err(|error| format!("{}: {error}", bundles.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let content = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // esbuild has put the hash between the name and the extension. Chunks are loaded by their whole names.
        let asked = match (name.rsplit_once('-'), name.rsplit_once('.')) {
            (Some((stem, _)), Some((_, extension))) if stem != "chunk" => format!("{stem}.{extension}"),
            _ => name.clone(),
        };
        assets.insert(asked, (name, content));
    }
    let licences = read_licences(&copy.join("node_modules"))?;
    assets.insert(
        "licences.txt".to_string(),
        hashed("licences.txt", licences.into_bytes()),
    );
    Ok(assets)
}

/// A folder with `node` and `npm`, or the ones on the PATH.
struct Node {
    path: OsString,
}

impl Node {
    fn find() -> Result<Node> {
        println!("cargo::rerun-if-env-changed=CONCLAVE_NODE");
        let path = env::var_os("PATH").unwrap_or_default();
        let cache = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        let folders = env::var_os("CONCLAVE_NODE")
            .map(PathBuf::from)
            .into_iter()
            .chain(env::split_paths(&path))
            .chain(cache.map(|cache| cache.join("conclave/node/bin")));
        for folder in folders {
            if folder.join("npm").exists() && folder.join("node").exists() {
                let all = std::iter::once(folder).chain(env::split_paths(&path));
                let path = env::join_paths(all).map_err(|error| format!("PATH: {error}"))?;
                return Ok(Node { path });
            }
        }
        Err("npm was not found. Run scripts/setup, which installs it, or name a folder with node and npm in CONCLAVE_NODE.\n\
             Without npm, build with --no-default-features: the pages then have no scripts."
            .to_string())
    }

    fn run(&self, folder: &Path, program: &str, arguments: &[&str]) -> Result<()> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env("PATH", &self.path)
            .output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "`{program} {}` failed ({}):\n{words}",
            arguments.join(" "),
            output.status
        ))
    }
}

/// Copies our own files, next to which npm installs the packages.
fn copy_sources(web: &Path, copy: &Path) -> Result<()> {
    fs::create_dir_all(copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    for entry in fs::read_dir(web).map_err(|error| format!("{}: {error}", web.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let Some(name) = path.file_name().filter(|_| path.is_file()) else {
            continue;
        };
        fs::copy(&path, copy.join(name)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Installs the locked packages, unless an earlier build has installed the same ones.
fn install_packages(node: &Node, copy: &Path) -> Result<()> {
    let lock =
        fs::read(copy.join("package-lock.json")).map_err(|error| format!("package-lock.json: {error}"))?;
    let stamp = copy.join("node_modules/.installed-lock");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    node.run(
        copy,
        "npm",
        &[
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--prefer-offline",
        ],
    )?;
    fs::write(&stamp, lock).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// The licences of all packages that the bundles may contain.
fn read_licences(packages: &Path) -> Result<String> {
    let mut folders = vec![];
    for folder in subfolders(packages)? {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match name.strip_prefix('@') {
            Some("esbuild") => {}
            Some(_) => folders.extend(subfolders(&folder)?),
            None if name == "esbuild" || name.starts_with('.') => {}
            None => folders.push(folder),
        }
    }
    folders.sort();
    let mut text = String::new();
    for folder in folders {
        let licence = ["LICENSE", "LICENSE.md", "license", "LICENCE"]
            .iter()
            .find_map(|name| fs::read_to_string(folder.join(name)).ok())
            .unwrap_or_else(|| "See the package's page in the npm registry.\n".to_string());
        let name = folder.strip_prefix(packages).unwrap_or(&folder).display();
        writeln!(text, "# {name}\n\n{}\n", licence.trim()).map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect())
}

fn write_assets(out: &Path, assets: &BTreeMap<String, Asset>) -> Result<()> {
    let folder = out.join("assets");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut list = String::from("&[\n");
    for (asked, (name, content)) in assets {
        let write = |name: &str, content: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))
        };
        write(name, content)?;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).map_err(|error| error.to_string())?;
        write(
            &format!("{name}.gz"),
            &encoder.finish().map_err(|error| error.to_string())?,
        )?;
        writeln!(
            list,
            "    Asset {{ asked: {asked:?}, name: {name:?}, \
             content: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/assets/\", {name:?})), \
             gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/assets/\", {name:?}, \".gz\")) }},"
        )
        .map_err(|error| error.to_string())?;
    }
    list.push_str("]\n");
    let path = out.join("assets.rs");
    fs::write(&path, list).map_err(|error| format!("{}: {error}", path.display()))
}
