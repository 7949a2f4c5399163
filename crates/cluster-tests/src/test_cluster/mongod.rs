//! Finds the mongod binary.

use std::path::PathBuf;

/// `CONCLAVE_MONGOD`, or the one that `scripts/setup test` has installed, or the first on the PATH.
pub(super) fn find() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(named) = variable("CONCLAVE_MONGOD") {
        return named;
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let cached = cache.map(|cache| cache.join("conclave/mongodb/bin/mongod"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("mongod"));
    cached
        .into_iter()
        .chain(on_path)
        .find(|file| file.is_file())
        .expect("mongod is missing: `scripts/setup test` installs it, or CONCLAVE_MONGOD names it")
}
