//! Real control groups of this machine. Each test makes a place of its own beneath the group that the tests run in.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::poll::{PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use sandbox::cgroup::{Group, GroupError, GroupLimits, Place, PlaceError, Usage};

use crate::stage::{folder, is_alive, pid_in, wait_until};

const MIB: u64 = 1 << 20;

/// Removed with all that is in it, however the test ends.
struct Stage(Option<Place>);

impl Stage {
    fn new(name: &str) -> Self {
        let name = format!("conclave-test-{}-{name}", std::process::id());
        Self(Some(Place::prepare(&name, None).unwrap()))
    }

    fn place(&self) -> &Place {
        self.0.as_ref().unwrap()
    }

    fn group(&self, name: &str) -> Group {
        Group::make(self.place(), name).unwrap()
    }

    /// The directories of a group.
    fn directories(&self, group: &str) -> Vec<PathBuf> {
        self.place().directories().map(|base| base.join(group)).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let removed = self.0.take().map(Place::remove);
        if !std::thread::panicking() {
            removed.into_iter().for_each(Result::unwrap);
        }
    }
}

fn start(group: &Group, argv: &[&str]) -> Pid {
    let argv: Vec<CString> = argv.iter().map(|word| CString::new(*word).unwrap()).collect();
    let mut pointers: Vec<_> = argv.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the child only makes system calls on what was prepared before.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let enter = |entrance| nix::unistd::write(entrance, b"0").is_ok();
            if group.entrances().all(enter) {
                // SAFETY: a list of strings that all live, with a null at its end.
                unsafe { libc::execv(pointers[0], pointers.as_ptr()) };
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(99) }
        }
    }
}

/// Returns when it sleeps.
fn start_sleep(group: &Group) -> Pid {
    let pid = start(group, &["/bin/sleep", "60"]);
    wait_until("it sleeps", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    pid
}

fn start_python(group: &Group, script: &str) -> Pid {
    start(group, &["/usr/bin/python3", "-S", "-c", script])
}

fn run_python(group: &Group, script: &str) -> WaitStatus {
    waitpid(start_python(group, script), None).unwrap()
}

#[track_caller]
fn assert_success(status: WaitStatus) {
    assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
}

fn within(memory: Option<u64>, processes: Option<u32>) -> GroupLimits {
    GroupLimits { memory, processes }
}

/// How many of the group's notices are ready.
fn ready(group: &Group) -> usize {
    let mut polled: Vec<_> = group.notices().collect();
    poll(&mut polled, PollTimeout::ZERO).unwrap();
    let is_ready = |flags: PollFlags| flags.intersects(PollFlags::POLLIN | PollFlags::POLLPRI);
    polled
        .iter()
        .filter(|fd| fd.revents().is_some_and(is_ready))
        .count()
}

#[test]
fn a_place_keeps_everything_and_goes_away() {
    let stage = Stage::new("place");
    let keeps = stage.place().keeps();
    assert!(keeps.memory && keeps.processes && keeps.cpu, "{keeps:?}");
    let directories: Vec<PathBuf> = stage.place().directories().map(Path::to_owned).collect();
    assert!(!directories.is_empty() && directories.iter().all(|path| path.is_dir()));
    let name = directories[0].file_name().unwrap().to_str().unwrap();
    assert_eq!(
        &Place::prepare(name, None).unwrap(),
        stage.place(),
        "an old place is found again"
    );
    drop(stage);
    assert!(!directories.iter().any(|path| path.exists()), "{directories:?}");
}

#[test]
fn a_place_is_not_made_elsewhere() {
    for name in ["", "..", "/a", "a/b"] {
        let error = Place::prepare(name, None).unwrap_err();
        assert!(matches!(error, PlaceError::Name(_)), "{error:?}");
    }
    let error = Place::prepare("conclave-test", Some(Path::new("/no-such-group"))).unwrap_err();
    assert!(matches!(error, PlaceError::NoSuchParent(_)), "{error:?}");
}

#[test]
fn a_place_can_be_in_a_group_that_is_named() {
    let name = format!("conclave-test-{}-top", std::process::id());
    let stage = Stage(Some(Place::prepare(&name, Some(Path::new("/"))).unwrap()));
    for directory in stage.place().directories() {
        let beneath_top = directory.parent().unwrap();
        // The topmost group has no such file.
        assert!(beneath_top.join("cgroup.procs").exists() && !beneath_top.join("pids.max").exists());
        assert!(!beneath_top.join("cgroup.type").exists(), "{directory:?}");
    }
    let mut group = stage.group("slot");
    group.begin(within(Some(32 * MIB), None)).unwrap();
    run_python(&group, "x = b'x' * (100 << 20)");
    assert!(group.usage().unwrap().oom_kills > 0);
}

#[test]
fn memory_is_limited_and_the_kill_is_told() {
    let stage = Stage::new("memory");
    let mut group = stage.group("slot");
    group.begin(within(Some(32 * MIB), None)).unwrap();
    assert_eq!(ready(&group), 0);
    let status = run_python(&group, "x = b'x' * (100 << 20)");
    assert!(
        matches!(status, WaitStatus::Signaled(_, Signal::SIGKILL, _)),
        "{status:?}"
    );
    assert_eq!(ready(&group), 1);
    let usage = group.usage().unwrap();
    assert!(usage.oom_kills > 0 && usage.refused_forks == 0, "{usage:?}");
    assert!(
        usage
            .memory
            .is_some_and(|peak| peak > 31 * MIB && peak <= 32 * MIB),
        "{usage:?}"
    );
    wait_until("what was seen is no longer told", || {
        group.usage().unwrap();
        ready(&group) == 0
    });
}

#[test]
fn memory_of_several_processes_is_one_sum() {
    let stage = Stage::new("sum");
    let mut group = stage.group("slot");
    group.begin(within(Some(64 * MIB), None)).unwrap();
    let script = "import os\nx = b'x' * (40 << 20)\nif os.fork(): os.wait()\nelse: y = b'y' * (40 << 20)";
    run_python(&group, script);
    let usage = group.usage().unwrap();
    assert!(usage.oom_kills > 0, "{usage:?}");
}

#[test]
fn memory_below_a_limit_is_measured() {
    let stage = Stage::new("peak");
    let mut group = stage.group("slot");
    for limit in [Some(128 * MIB), None] {
        group.begin(within(limit, None)).unwrap();
        assert_success(run_python(&group, "x = b'x' * (50 << 20); del x"));
        let usage = group.usage().unwrap();
        assert!(
            usage
                .memory
                .is_some_and(|peak| peak > 50 * MIB && peak < 70 * MIB),
            "{usage:?}"
        );
        assert_eq!(usage.oom_kills, 0);
        group.settle().unwrap();
    }
}

#[test]
fn limits_can_be_raised_and_lowered() {
    let stage = Stage::new("limits");
    let mut group = stage.group("slot");
    let holds = |group: &mut Group, limit: Option<u64>| {
        group.begin(within(limit, None)).unwrap();
        matches!(
            run_python(group, "x = b'x' * (60 << 20)"),
            WaitStatus::Exited(_, 0)
        )
    };
    assert!(!holds(&mut group, Some(40 * MIB)));
    assert!(holds(&mut group, Some(100 * MIB)));
    assert!(!holds(&mut group, Some(50 * MIB)));
    assert!(holds(&mut group, None));
    assert!(!holds(&mut group, Some(40 * MIB)));
}

#[test]
fn a_limit_below_what_waits_in_the_group_is_no_error() {
    let stage = Stage::new("tiny");
    let mut group = stage.group("slot");
    for _ in 0..2 {
        let waiting = start_sleep(&group);
        group.begin(within(Some(1), Some(0))).unwrap();
        assert!(is_alive(waiting.as_raw()));
        kill(waiting, Signal::SIGKILL).unwrap();
        waitpid(waiting, None).unwrap();
        assert_eq!(group.usage().unwrap().oom_kills, 0);
        // The next one must be able to wait, whatever the limits were.
        group.settle().unwrap();
    }
}

#[test]
fn processes_are_limited_and_refusals_counted() {
    let stage = Stage::new("processes");
    let mut group = stage.group("slot");
    group.begin(within(None, Some(4))).unwrap();
    let script = "\
import os, sys, time
refused = 0
for i in range(6):
    try:
        if os.fork() == 0:
            time.sleep(60)
    except BlockingIOError:
        refused += 1
os.kill(0, 9) if refused == 3 else sys.exit(1)";
    let script = format!("import os; os.setsid()\n{script}");
    let status = run_python(&group, &script);
    assert!(
        matches!(status, WaitStatus::Signaled(_, Signal::SIGKILL, _)),
        "{status:?}"
    );
    let usage = group.usage().unwrap();
    assert_eq!((usage.oom_kills, usage.refused_forks), (0, 3));
}

#[test]
fn cpu_time_is_that_of_all_processes() {
    let stage = Stage::new("cpu");
    let mut group = stage.group("slot");
    let (_keep, folder) = folder();
    let file = folder.join("cpu");
    let script = format!(
        "\
import os, resource, time
def burn(seconds):
    while time.process_time() < seconds: pass
if os.fork() == 0:
    burn(0.2); os._exit(0)
burn(0.3); os.wait()
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
with open({file:?}, 'w') as file: file.write(str(sum(u.ru_utime + u.ru_stime for u in used)))
os._exit(0)"
    );
    group.begin(GroupLimits::default()).unwrap();
    assert_success(run_python(&group, &script));
    let measured = group.cpu().unwrap().unwrap();
    let own: f64 = std::fs::read_to_string(file).unwrap().parse().unwrap();
    let difference = measured.abs_diff(Duration::from_secs_f64(own));
    assert!(
        difference < Duration::from_secs_f64(own * 0.02).max(Duration::from_millis(5)),
        "measured {measured:?}, the processes themselves {own} s"
    );
    assert_eq!(group.usage().unwrap().cpu, Some(measured));
}

#[test]
fn each_run_begins_at_zero() {
    let stage = Stage::new("zero");
    let mut group = stage.group("slot");
    group.begin(within(Some(32 * MIB), Some(1))).unwrap();
    let script = "import os\ntry: os.fork()\nexcept BlockingIOError: pass\nx = b'x' * (20 << 20)\nx = b'x' * (100 << 20)";
    run_python(&group, script);
    let usage = group.usage().unwrap();
    assert!(usage.oom_kills > 0 && usage.refused_forks == 1, "{usage:?}");
    group.settle().unwrap();
    group.begin(GroupLimits::default()).unwrap();
    let usage = group.usage().unwrap();
    assert!(usage.memory.is_some_and(|peak| peak <= MIB), "{usage:?}");
    assert_eq!(
        usage,
        Usage {
            cpu: Some(Duration::ZERO),
            memory: usage.memory,
            ..Usage::default()
        }
    );
    assert_eq!(ready(&group), 0);
}

#[test]
fn page_cache_of_a_run_does_not_count_in_the_next() {
    let stage = Stage::new("cache");
    let mut group = stage.group("slot");
    let (_keep, folder) = folder();
    let file = folder.join("cached");
    group.begin(GroupLimits::default()).unwrap();
    assert_success(run_python(
        &group,
        &format!("open({file:?}, 'wb').write(b'x' * (20 << 20))"),
    ));
    let held = group.held().unwrap().unwrap();
    assert!(held >= 20 * MIB, "the file is charged to the group: {held}");
    group.settle().unwrap();
    assert!(group.held().unwrap().unwrap() < MIB);
    assert!(file.metadata().unwrap().size() == 20 * MIB);
    group.begin(within(Some(64 * MIB), None)).unwrap();
    assert_success(run_python(&group, "x = b'x' * (30 << 20)"));
    let usage = group.usage().unwrap();
    assert!(
        usage
            .memory
            .is_some_and(|peak| peak > 30 * MIB && peak < 45 * MIB),
        "{usage:?}"
    );
}

#[test]
fn a_group_needs_no_path_once_it_is_made() {
    let stage = Stage::new("paths");
    let mut group = stage.group("slot");
    let directories = stage.directories("slot");
    let (_keep, folder) = folder();
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            leave_mounts();
            assert!(!directories.iter().any(|path| path.exists()), "{directories:?}");
            group.begin(within(Some(64 * MIB), Some(8))).unwrap();
            // More than is worth keeping, so that the group has to be made again.
            let script = format!("open({:?}, 'wb').write(b'x' * (20 << 20))", folder.join("cached"));
            assert_success(run_python(&group, &script));
            assert!(group.usage().unwrap().memory.is_some_and(|peak| peak > 20 * MIB));
            group.settle().unwrap();
            group.begin(within(Some(32 * MIB), Some(8))).unwrap();
            run_python(&group, "x = b'x' * (100 << 20)");
            assert!(group.usage().unwrap().oom_kills > 0);
            group.remove().unwrap();
        });
        work.join().unwrap();
    });
    assert!(!stage.directories("slot").iter().any(|path| path.exists()));
}

/// For the calling thread only: no control groups are mounted any more.
fn leave_mounts() {
    let none = std::ptr::null();
    // SAFETY: strings that end with zero bytes, or none where none is needed.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        assert_eq!(libc::mount(none, c"/".as_ptr(), none, flags, std::ptr::null()), 0);
        assert_eq!(libc::umount2(c"/sys/fs/cgroup".as_ptr(), libc::MNT_DETACH), 0);
    }
}

#[test]
fn a_group_with_a_process_in_it_is_taken() {
    let stage = Stage::new("taken");
    let group = stage.group("slot");
    let running = start_sleep(&group);
    let error = Group::make(stage.place(), "slot").unwrap_err();
    assert!(matches!(error, GroupError::Taken { .. }), "{error:?}");
    assert!(is_alive(running.as_raw()));
    assert_eq!(stage.place().clear().unwrap(), 1);
    waitpid(running, None).unwrap();
    stage.group("slot").remove().unwrap();
}

#[test]
fn an_old_group_leaves_no_limits_to_a_new_one() {
    let stage = Stage::new("old");
    let mut old = stage.group("slot");
    old.begin(within(Some(32 * MIB), Some(1))).unwrap();
    run_python(&old, "x = b'x' * (100 << 20)");
    let mut new = stage.group("slot");
    new.begin(GroupLimits::default()).unwrap();
    let script = "import os\nif os.fork(): os.wait()\nx = b'x' * (60 << 20)";
    assert_success(run_python(&new, script));
    let usage = new.usage().unwrap();
    assert_eq!((usage.oom_kills, usage.refused_forks), (0, 0));
}

#[test]
fn clearing_ends_what_was_left_and_nothing_else() {
    let (ours, other) = (Stage::new("ours"), Stage::new("other"));
    let (_keep, folder) = folder();
    // Four processes; the first one is gone when the place is cleared, as after a crash.
    let script = |file: &str| {
        format!(
            "\
import os, time
for i in range(3):
    if os.fork() == 0:
        open({:?} % i, 'w').write(str(os.getpid()) + '\\n')
        time.sleep(60)
",
            folder.join(format!("{file}%d"))
        )
    };
    let mut left = Vec::new();
    for (stage, slot, file) in [(&ours, "a", "a"), (&ours, "b", "b"), (&other, "a", "c")] {
        let mut group = stage.group(slot);
        group.begin(within(Some(100 * MIB), Some(8))).unwrap();
        assert_success(run_python(&group, &script(file)));
        left.push([0, 1, 2].map(|i| pid_in(&folder.join(format!("{file}{i}")))));
    }
    assert!(left.iter().flatten().all(|pid| is_alive(*pid)), "{left:?}");
    assert_eq!(ours.place().clear().unwrap(), 6);
    let [a, b, c] = left.try_into().unwrap();
    assert!(a.iter().chain(&b).all(|pid| !is_alive(*pid)));
    assert!(
        c.iter().all(|pid| is_alive(*pid)),
        "those of another place live on"
    );
    let exist = |paths: Vec<PathBuf>| paths.iter().any(|path| path.exists());
    assert!(!exist(ours.directories("a")) && !exist(ours.directories("b")));
    assert!(other.directories("a").iter().all(|path| path.exists()));
    assert_eq!(ours.place().clear().unwrap(), 0);
    assert_eq!(other.place().clear().unwrap(), 3);
}

#[test]
fn clearing_outruns_a_fork_bomb() {
    let stage = Stage::new("bomb");
    let mut group = stage.group("slot");
    group.begin(within(None, Some(60))).unwrap();
    let bomb = start(
        &group,
        &[
            "/bin/bash",
            "-c",
            "b() { b 2>/dev/null | b 2>/dev/null & }; b; exec sleep 60",
        ],
    );
    wait_until("it has burst", || group.usage().unwrap().refused_forks > 0);
    assert!(stage.place().clear().unwrap() > 0);
    waitpid(bomb, None).unwrap();
    assert!(!stage.directories("slot").iter().any(|path| path.exists()));
}
