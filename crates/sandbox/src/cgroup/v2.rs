//! A place in version 2: one directory, in a group whose controllers are turned on for those beneath it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

use super::Controller;
use super::clear::{members, write};
use super::find::Found;
use super::place::{Base, PlaceError, make};

/// CPU time is measured without a controller.
const CONTROLLERS: [(Controller, &str); 3] = [
    (Controller::Processes, "pids"),
    (Controller::Memory, "memory"),
    (Controller::Share, "cpu"),
];

/// Of all commands together: half of what any other group has, that of the executor among them.
const WEIGHT: &str = "50";

/// Where the processes go that were in a group which is to be divided.
const LEAF: &str = "conclave-main";

/// The group that a place is made in, by what may be done to it.
#[derive(Debug, PartialEq, Eq)]
enum Home {
    /// It and its processes are ours.
    Delegated(PathBuf),
    /// The operator named it for us; what runs in it is not ours.
    Named(PathBuf),
    /// It is everybody's.
    Top(PathBuf),
}

pub(super) fn prepare(found: &Found, name: &str, parent: Option<&Path>) -> Result<Base, PlaceError> {
    let home = match parent {
        Some(group) => Home::Named(
            found
                .directory(group)
                .filter(|home| home.is_dir())
                .ok_or_else(|| PlaceError::NoSuchParent(group.to_owned()))?,
        ),
        None => choose(found).ok_or_else(|| PlaceError::NotDelegated(found.own.clone()))?,
    };
    let path = match home {
        Home::Delegated(home) => {
            if is_busy(&enable(&home)) {
                vacate(&home)?;
            }
            enable_or_fail(&home)?;
            home.join(name)
        }
        Home::Named(home) => {
            enable_or_fail(&home)?;
            home.join(name)
        }
        Home::Top(top) => top.join(name),
    };
    make(&path)?;
    enable_or_fail(&path)?;
    let enabled = words_of(&path.join("cgroup.subtree_control")).map_err(|source| PlaceError::List {
        path: path.clone(),
        source,
    })?;
    let kept = CONTROLLERS
        .into_iter()
        .filter(|(_, known_as)| enabled.iter().any(|word| word == known_as));
    let keeps: Vec<_> = kept
        .map(|(controller, _)| controller)
        .chain([Controller::Cpu])
        .collect();
    if keeps.contains(&Controller::Share) {
        write(&path.join("cpu.weight"), WEIGHT).map_err(|source| PlaceError::Weigh {
            path: path.clone(),
            source,
        })?;
    }
    Ok(Base { path, keeps })
}

fn choose(found: &Found) -> Option<Home> {
    let (own, top) = (found.own.as_path(), found.mount.as_path());
    let is_root = geteuid().is_root();
    // An earlier life, or the service manager, has put us into a group beneath the one that is ours.
    if let Some(parent) = own.parent().filter(|_| own != top)
        && (own.ends_with(LEAF) || is_marked(parent))
        && is_writable(parent)
    {
        return Some(Home::Delegated(parent.to_owned()));
    }
    // The top of what we see is ours in a container, and where no service manager divides the machine. A group
    // that this user may divide, in one that they may not, was handed over to them.
    let is_handed_over = !is_root && !own.parent().is_some_and(is_writable);
    let is_ours = own == top || is_marked(own) || is_handed_over;
    if is_ours && is_writable(own) {
        return Some(Home::Delegated(own.to_owned()));
    }
    (is_root && is_writable(top)).then(|| Home::Top(top.to_owned()))
}

/// What systemd writes on a group that it has delegated.
fn is_marked(group: &Path) -> bool {
    [c"user.delegate", c"trusted.delegate"]
        .into_iter()
        .any(|mark| attribute(group, mark).is_some_and(|value| value == b"1"))
}

fn attribute(path: &Path, name: &CStr) -> Option<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut value = vec![0; 16];
    // SAFETY: both names end with a zero byte, and the kernel writes at most the length of the buffer.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    value.truncate(usize::try_from(length).ok()?);
    Some(value)
}

fn is_writable(group: &Path) -> bool {
    [".", "cgroup.procs", "cgroup.subtree_control"]
        .into_iter()
        .all(|file| access(&group.join(file), AccessFlags::W_OK).is_ok())
}

/// Turns on what there is of our controllers and is not on.
fn enable(group: &Path) -> io::Result<()> {
    let available = words_of(&group.join("cgroup.controllers"))?;
    let control = group.join("cgroup.subtree_control");
    let [limits, share] = missing(&available, &words_of(&control)?);
    // At once: a group with processes in which only the number of processes is limited can have no other controller.
    if !limits.is_empty() {
        write(&control, &limits)?;
    }
    if share.is_empty() {
        return Ok(());
    }
    match write(&control, &share) {
        // Some kernels do not divide processors where there are real-time processes. A place does without.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        written => written,
    }
}

/// What to ask for: that which limits, and that which shares.
fn missing(available: &[String], enabled: &[String]) -> [String; 2] {
    let has = |list: &[String], name: &str| list.iter().any(|word| word == name);
    let mut missing = CONTROLLERS.to_vec();
    missing.retain(|(_, name)| has(available, name) && !has(enabled, name));
    let (shares, limits): (Vec<_>, Vec<_>) = missing
        .into_iter()
        .partition(|(controller, _)| *controller == Controller::Share);
    [limits, shares].map(|controllers| {
        let requests = controllers.iter().map(|(_, name)| format!("+{name}"));
        requests.collect::<Vec<_>>().join(" ")
    })
}

fn enable_or_fail(group: &Path) -> Result<(), PlaceError> {
    enable(group).map_err(|source| PlaceError::Enable {
        path: group.to_owned(),
        source,
    })
}

/// There are processes in the group, and only those without may have controllers for others.
fn is_busy(result: &io::Result<()>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
}

fn vacate(group: &Path) -> Result<(), PlaceError> {
    // Some may start others while they are moved, but not for ever.
    const ROUNDS: usize = 100;
    let failed = |source| PlaceError::Vacate {
        path: group.to_owned(),
        source,
    };
    let leaf = group.join(LEAF);
    make(&leaf)?;
    for _ in 0..ROUNDS {
        let pids = members(group).map_err(failed)?;
        if pids.is_empty() {
            return Ok(());
        }
        for pid in pids {
            match write(&leaf.join("cgroup.procs"), &pid.to_string()) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(failed(error)),
                _ => {}
            }
        }
    }
    Err(failed(io::Error::from_raw_os_error(libc::EBUSY)))
}

fn words_of(file: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(file)?;
    Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::cgroup::find::{Hierarchy, find};
    use crate::cgroup::{Group, GroupError, GroupLimits, Place, Version};

    #[test]
    fn only_what_is_missing_is_turned_on() {
        fn check(available: &str, enabled: &str, expected: &str) {
            let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let missing = missing(&words(available), &words(enabled));
            assert_eq!(missing.join("; "), expected, "{available}; {enabled}");
        }
        check("cpuset cpu io memory pids", "", "+pids +memory; +cpu");
        check("cpuset cpu io memory pids", "memory pids cpu", "; ");
        check("cpuset cpu io memory pids", "memory pids", "; +cpu");
        check("cpu memory pids", "memory", "+pids; +cpu");
        check("io pids", "", "+pids; ");
        check("io", "", "; ");
        check("", "", "; ");
    }

    /// Without controllers where version 1 has them: then it is about the group itself.
    #[test]
    fn the_machines_own_hierarchy_can_be_used() {
        let read = |path| fs::read(path).unwrap();
        let (mountinfo, memberships) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let found = find(&mountinfo, &memberships, Hierarchy::Unified).unwrap();
        let name = format!("conclave-test-{}", std::process::id());
        let place = Place {
            version: Version::V2,
            bases: vec![prepare(&found, &name, None).unwrap()],
        };
        assert!(place.keeps().cpu);
        let mut group = Group::make(&place, "slot").unwrap();
        assert!(group.directory().is_some());
        group.begin(GroupLimits::default()).unwrap();
        let directory = place.directories().next().unwrap().join("slot");
        let mut child = Command::new("sh");
        let child = child.args(["-c", "read line; while :; do :; done"]);
        let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
        write(&directory.join("cgroup.procs"), &child.id().to_string()).unwrap();
        assert_eq!(members(&directory).unwrap(), [child.id() as i32]);
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let deadline = Instant::now() + Duration::from_secs(15);
        while group.cpu().unwrap().unwrap() < Duration::from_millis(100) {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(matches!(
            Group::make(&place, "slot"),
            Err(GroupError::Taken { .. })
        ));
        assert_eq!(place.clear().unwrap(), 1);
        child.wait().unwrap();
        assert!(!directory.exists());
        place.remove().unwrap();
    }
}
