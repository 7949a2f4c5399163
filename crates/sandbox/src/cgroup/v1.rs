//! A place in version 1: one directory in the hierarchy of each controller.

use std::path::Path;

use super::Controller;
use super::clear::write;
use super::find::{Found, Hierarchy};
use super::place::{Base, PlaceError, make};

/// In this order they are cleared: where no process can be started any more, the last one is soon found.
const CONTROLLERS: [(Controller, &str); 4] = [
    (Controller::Processes, "pids"),
    (Controller::Memory, "memory"),
    (Controller::Cpu, "cpuacct"),
    (Controller::Share, "cpu"),
];

/// Of all commands together, for each core. Half of what an ordinary process has, and so half of an executor's thread.
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
        let home = match parent {
            None => found.own,
            Some(group) => found
                .directory(group)
                .filter(|home| home.is_dir())
                .ok_or_else(|| PlaceError::NoSuchParent(group.to_owned()))?,
        };
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
    // Then version 2 has those that matter.
    if bases.iter().all(|base| base.keeps == [Controller::Share]) {
        return Ok(Vec::new());
    }
    // Not before all were found, so that a wrong name leaves nothing behind.
    bases.iter().try_for_each(|base| make(&base.path))?;
    let shares = cores() * SHARES;
    for base in bases
        .iter()
        .filter(|base| base.keeps.contains(&Controller::Share))
    {
        write(&base.path.join("cpu.shares"), &shares.to_string()).map_err(|source| PlaceError::Weigh {
            path: base.path.clone(),
            source,
        })?;
    }
    Ok(bases)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
