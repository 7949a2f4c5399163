//! Finds the program, before the child exists, which cannot allocate.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use crate::platform_error::Errno;

/// Where a command without a `PATH` variable is searched.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The path to execute, relative to `directory` or absolute. As in a shell, a name with a slash is a path and any
/// other name is searched in `PATH`; the first executable file wins. If only files without execute permission are
/// found, the error is that of the last one.
pub(super) fn resolve(
    program: &OsStr,
    env: &[(OsString, OsString)],
    directory: &Path,
) -> Result<PathBuf, Errno> {
    if is_path(program) {
        return Ok(program.into());
    }
    let mut errno = Errno(libc::ENOENT);
    for candidate in candidates(program, env, directory) {
        if !candidate.is_file() {
            continue;
        }
        match eaccess(&candidate, AccessFlags::X_OK) {
            Ok(()) => return Ok(candidate),
            Err(refused) => errno = refused.into(),
        }
    }
    Err(errno)
}

/// The paths at which the program may be, in search order.
pub(crate) fn candidates(program: &OsStr, env: &[(OsString, OsString)], directory: &Path) -> Vec<PathBuf> {
    if is_path(program) {
        return vec![program.into()];
    }
    let path = env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_os_str());
    let folders = std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)));
    // An empty entry means the working directory, and joining keeps absolute paths unchanged.
    folders
        .map(|folder| directory.join(folder).join(program))
        .collect()
}

fn is_path(program: &OsStr) -> bool {
    program.as_bytes().contains(&b'/')
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_first_executable_file_on_the_path_is_found() {
        let root = tempfile::tempdir().unwrap();
        for (file, mode) in [
            ("a/plain", 0o644),
            ("b/plain", 0o755),
            ("a/only", 0o644),
            ("here", 0o755),
        ] {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir_all(root.path().join("a/folder")).unwrap();
        let check = |program: &str, path: Option<&str>, expected: Result<&str, i32>| {
            let env: Vec<_> = path
                .map(|path| ("PATH".into(), path.into()))
                .into_iter()
                .collect();
            let found = resolve(program.as_ref(), &env, root.path());
            let expected = expected.map(|relative| root.path().join(relative)).map_err(Errno);
            assert_eq!(found, expected, "{program} in {path:?}");
        };
        check("plain", Some("a:b"), Ok("b/plain"));
        check("plain", Some("/nowhere:b:a"), Ok("b/plain"));
        check("here", Some(""), Ok("here"));
        check("here", Some("a::b"), Ok("here"));
        check("here", Some("a:b"), Err(libc::ENOENT));
        check("only", Some("a:b"), Err(libc::EACCES));
        check("folder", Some("a"), Err(libc::ENOENT));
        check("plain", None, Err(libc::ENOENT));
        assert_eq!(resolve("./x".as_ref(), &[], root.path()), Ok("./x".into()));
        assert!(resolve("sh".as_ref(), &[], root.path()).is_ok_and(|found| found.is_absolute()));
    }
}
