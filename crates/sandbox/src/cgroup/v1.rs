//! A place in version 1: one directory in the hierarchy of each controller.

use std::path::{Path, PathBuf};

use super::Controller;
use super::clear::{self, write};
use super::find::{Found, Hierarchy};
use super::place::{Base, PlaceError, make};

/// In this order they are cleared: where no process can be started any more, the last one is soon found.
const CONTROLLERS: [(Controller, &str); 3] = [
    (Controller::Processes, "pids"),
    (Controller::Memory, "memory"),
    (Controller::Cpu, "cpuacct"),
];

/// Of all commands together, for each core that they are at work on: half of what a thread of the executor has.
const SHARES: usize = 512;

/// Empty where none of the controllers is in version 1.
pub(super) fn prepare(
    find: &dyn Fn(Hierarchy) -> Option<Found>,
    name: &str,
    parent: Option<&Path>,
) -> Result<Vec<Base>, PlaceError> {
    let mut bases: Vec<Base> = Vec::new();
    for (controller, known_as) in CONTROLLERS {
        let Some(found) = find(Hierarchy::With(known_as)) else {
            continue;
        };
        let home = home(found, parent)?;
        let path = home.join(name);
        // Several controllers may share a hierarchy.
        match bases.iter_mut().find(|base| base.path == path) {
            Some(base) => base.keeps.push(controller),
            None => bases.push(Base {
                path,
                keeps: vec![controller],
            }),
        }
    }
    // Not before all were found, so that a wrong name leaves nothing behind.
    bases.iter().try_for_each(|base| make(&base.path))?;
    if let Some(found) = find(Hierarchy::With("cpu")).filter(|_| !bases.is_empty())
        && let Ok(home) = home(found, parent)
    {
        share(&mut bases, &home.join(name));
    }
    Ok(bases)
}

fn home(found: Found, parent: Option<&Path>) -> Result<PathBuf, PlaceError> {
    match parent {
        None => Ok(found.own),
        Some(group) => found
            .directory(group)
            .filter(|home| home.is_dir())
            .ok_or_else(|| PlaceError::NoSuchParent(group.to_owned())),
    }
}

/// A place does without where it may not: then commands are as heavy as their processes are many.
fn share(bases: &mut Vec<Base>, path: &Path) {
    let known = bases.iter_mut().find(|base| base.path == path);
    if known.is_none() && make(path).is_err() {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let weighed = write(&path.join("cpu.shares"), &(cores * SHARES).to_string());
    match (weighed, known) {
        (Ok(()), Some(base)) => base.keeps.push(Controller::Share),
        (Ok(()), None) => bases.push(Base {
            path: path.to_owned(),
            keeps: vec![Controller::Share],
        }),
        (Err(_), Some(_)) => {}
        (Err(_), None) => drop(clear::remove(path)),
    }
}
