//! Roots of Debian packages that tests run tasks in. Building one takes a minute, so the cache folder keeps them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::BlobHasher;
use serde_json::Value;

use crate::{CommandOutput, ConclaveCli, wait_until};

/// A root that `conclave root build` has made, in this run of the tests or in an earlier one.
pub struct BuiltRoot {
    /// The folder with its files.
    pub folder: PathBuf,
    /// As `conclave root list --json` shows it.
    pub json: Value,
}

/// How long another run of the tests may take to build the same root.
const OTHER_BUILD: Duration = Duration::from_secs(280);

impl BuiltRoot {
    /// The root that `conclave root build NAME` makes with these arguments. An earlier one is used only if the code that builds
    /// roots has not changed.
    pub async fn of(name: &str, args: &[&str]) -> BuiltRoot {
        let cache = cache_folder();
        std::fs::create_dir_all(&cache).expect("a cache folder");
        let lock = File::create(cache.join(format!(".lock-{name}"))).expect("a lock file");
        wait_until("another run that builds the root", OTHER_BUILD, async || {
            lock.try_lock().ok()
        })
        .await;
        let name = format!("{name}-{}", fingerprint(args));
        if let Some(root) = find(&cache, &name).await {
            return root;
        }
        remove_old(&cache, name.rsplit_once('-').map_or("", |(stem, _)| stem)).await;
        let built = run(&cache, &[&["root", "build", &name], args].concat()).await;
        assert_eq!(built.code, 0, "{built:?}");
        find(&cache, &name).await.expect("the root that was just built")
    }
}

fn cache_folder() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("a home folder")).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    cache.join("conclave/test-roots")
}

/// Of the arguments, the language table and the code that builds roots.
fn fingerprint(args: &[&str]) -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources = crates.join("roots/src");
    let mut files = vec![sources.join("build.rs")];
    if args.contains(&"--languages") {
        files.push(crates.join("languages/src/builtin.toml"));
    }
    let folder = std::fs::read_dir(sources.join("build")).expect("the sources");
    files.extend(folder.map(|entry| entry.expect("an entry").path()));
    files.sort();
    let mut hasher = BlobHasher::default();
    hasher.update(args.join(" "));
    for file in files {
        hasher.update(std::fs::read(file).expect("a source file"));
    }
    hasher.finish().to_string()[..12].to_string()
}

async fn run(cache: &Path, args: &[&str]) -> CommandOutput {
    let data = tempfile::tempdir().expect("a folder");
    let mut command = ConclaveCli::new("").command(args);
    command
        .arg("--data")
        .arg(data.path())
        .env("CONCLAVE_SANDBOX_ROOTS", cache);
    CommandOutput::of(command.spawn().expect("conclave starts")).await
}

async fn find(cache: &Path, name: &str) -> Option<BuiltRoot> {
    let list = run(cache, &["root", "list", "--json"]).await.json_lines();
    let json = list.into_iter().find(|root| root["name"] == name)?;
    let folder = json["folder"].as_str().expect("a path").into();
    Some(BuiltRoot { folder, json })
}

/// Removes roots that code of another version has built, unless a run of that version may still use them.
async fn remove_old(cache: &Path, stem: &str) {
    for root in run(cache, &["root", "list", "--json"]).await.json_lines() {
        let text = |key: &str| root[key].as_str().expect("text").to_string();
        let age = std::fs::metadata(text("folder")).and_then(|folder| folder.modified());
        let age = age.ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
        let name = text("name");
        if name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('-'))
            && age > Duration::from_secs(3600)
        {
            run(cache, &["root", "remove", &name, "--yes"]).await;
        }
    }
}
