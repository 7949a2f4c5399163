//! Real control groups of this machine. Each test creates a cgroup root beneath the group that the tests run in.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::poll::{PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use sandbox::cgroup::{Cgroup, CgroupError, CgroupLimits, CgroupRoot, CgroupRootError, CgroupUsage};

use crate::harness::{folder, is_alive, pid_in, wait_until};

const MIB: u64 = 1 << 20;

/// The fixture of the cgroup tests: a cgroup root that is removed with everything in it, however the test ends.
struct CgroupHarness(Option<CgroupRoot>);

impl CgroupHarness {
    fn new(name: &str) -> Self {
        let name = format!("conclave-test-{}-{name}", std::process::id());
        Self(Some(CgroupRoot::prepare(&name, None).unwrap()))
    }

    fn cgroup_root(&self) -> &CgroupRoot {
        self.0.as_ref().unwrap()
    }

    fn group(&self, name: &str) -> Cgroup {
        Cgroup::create(self.cgroup_root(), name).unwrap()
    }

    /// The directories of a group, one for each hierarchy.
    fn directories(&self, group: &str) -> Vec<PathBuf> {
        self.cgroup_root().paths().map(|base| base.join(group)).collect()
    }
}

impl Drop for CgroupHarness {
    fn drop(&mut self) {
        let removed = self.0.take().map(CgroupRoot::remove);
        if !std::thread::panicking() {
            removed.into_iter().for_each(Result::unwrap);
        }
    }
}

fn start(group: &Cgroup, argv: &[&str]) -> Pid {
    let argv: Vec<CString> = argv.iter().map(|word| CString::new(*word).unwrap()).collect();
    let mut pointers: Vec<_> = argv.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the child only makes system calls on memory that was prepared before.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let enter = |entrance| nix::unistd::write(entrance, b"0").is_ok();
            if group.procs_files().all(enter) {
                // SAFETY: all strings of the list are alive, and it ends with a null pointer.
                unsafe { libc::execv(pointers[0], pointers.as_ptr()) };
            }
            // SAFETY: the call only ends the process.
            unsafe { libc::_exit(99) }
        }
    }
}

/// Returns once the process sleeps.
fn start_sleep(group: &Cgroup) -> Pid {
    let pid = start(group, &["/bin/sleep", "60"]);
    wait_until("the process sleeps", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    });
    pid
}

fn start_python(group: &Cgroup, script: &str) -> Pid {
    start(group, &["/usr/bin/python3", "-S", "-c", script])
}

fn run_python(group: &Cgroup, script: &str) -> WaitStatus {
    waitpid(start_python(group, script), None).unwrap()
}

#[track_caller]
fn assert_success(status: WaitStatus) {
    assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
}

fn within(memory: Option<u64>, processes: Option<u32>) -> CgroupLimits {
    CgroupLimits { memory, processes }
}

/// How many of the group's event descriptors are ready.
fn ready(group: &Cgroup) -> usize {
    let mut polled: Vec<_> = group.event_descriptors().collect();
    poll(&mut polled, PollTimeout::ZERO).unwrap();
    let is_ready = |flags: PollFlags| flags.intersects(PollFlags::POLLIN | PollFlags::POLLPRI);
    polled
        .iter()
        .filter(|fd| fd.revents().is_some_and(is_ready))
        .count()
}

#[test]
fn a_cgroup_root_has_all_controllers_and_can_be_removed() {
    let harness = CgroupHarness::new("root");
    let keeps = harness.cgroup_root().features();
    assert!(keeps.memory && keeps.processes && keeps.cpu, "{keeps:?}");
    let directories: Vec<PathBuf> = harness.cgroup_root().paths().map(Path::to_owned).collect();
    assert!(!directories.is_empty() && directories.iter().all(|path| path.is_dir()));
    let name = directories[0].file_name().unwrap().to_str().unwrap();
    assert_eq!(
        &CgroupRoot::prepare(name, None).unwrap(),
        harness.cgroup_root(),
        "an existing cgroup root is found again"
    );
    drop(harness);
    assert!(!directories.iter().any(|path| path.exists()), "{directories:?}");
}

#[test]
fn an_invalid_name_or_parent_is_refused() {
    for name in ["", "..", "/a", "a/b"] {
        let error = CgroupRoot::prepare(name, None).unwrap_err();
        assert!(matches!(error, CgroupRootError::InvalidName(_)), "{error:?}");
    }
    let error = CgroupRoot::prepare("conclave-test", Some(Path::new("/no-such-group"))).unwrap_err();
    assert!(matches!(error, CgroupRootError::NoSuchParent(_)), "{error:?}");
}

#[test]
fn a_cgroup_root_can_be_created_in_a_named_parent() {
    let name = format!("conclave-test-{}-top", std::process::id());
    let harness = CgroupHarness(Some(CgroupRoot::prepare(&name, Some(Path::new("/"))).unwrap()));
    for directory in harness.cgroup_root().paths() {
        let beneath_top = directory.parent().unwrap();
        // Only the top group lacks this file.
        assert!(beneath_top.join("cgroup.procs").exists() && !beneath_top.join("pids.max").exists());
        assert!(!beneath_top.join("cgroup.type").exists(), "{directory:?}");
    }
    let mut group = harness.group("slot");
    group.begin_run(within(Some(32 * MIB), None)).unwrap();
    run_python(&group, "x = b'x' * (100 << 20)");
    assert!(group.usage().unwrap().oom_kills > 0);
}

#[test]
fn memory_is_limited_and_oom_kills_are_reported() {
    let harness = CgroupHarness::new("memory");
    let mut group = harness.group("slot");
    group.begin_run(within(Some(32 * MIB), None)).unwrap();
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
    wait_until("events that were read are cleared", || {
        group.usage().unwrap();
        ready(&group) == 0
    });
}

#[test]
fn memory_of_several_processes_is_added_up() {
    let harness = CgroupHarness::new("sum");
    let mut group = harness.group("slot");
    group.begin_run(within(Some(64 * MIB), None)).unwrap();
    let script = "import os\nx = b'x' * (40 << 20)\nif os.fork(): os.wait()\nelse: y = b'y' * (40 << 20)";
    run_python(&group, script);
    let usage = group.usage().unwrap();
    assert!(usage.oom_kills > 0, "{usage:?}");
}

#[test]
fn memory_below_a_limit_is_measured() {
    let harness = CgroupHarness::new("peak");
    let mut group = harness.group("slot");
    for limit in [Some(128 * MIB), None] {
        group.begin_run(within(limit, None)).unwrap();
        assert_success(run_python(&group, "x = b'x' * (50 << 20); del x"));
        let usage = group.usage().unwrap();
        assert!(
            usage
                .memory
                .is_some_and(|peak| peak > 50 * MIB && peak < 70 * MIB),
            "{usage:?}"
        );
        assert_eq!(usage.oom_kills, 0);
        group.reset().unwrap();
    }
}

#[test]
fn limits_can_be_raised_and_lowered() {
    let harness = CgroupHarness::new("limits");
    let mut group = harness.group("slot");
    let holds = |group: &mut Cgroup, limit: Option<u64>| {
        group.begin_run(within(limit, None)).unwrap();
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
fn a_limit_below_the_memory_of_the_waiting_process_is_not_an_error() {
    let harness = CgroupHarness::new("tiny");
    let mut group = harness.group("slot");
    for _ in 0..2 {
        let waiting = start_sleep(&group);
        group.begin_run(within(Some(1), Some(0))).unwrap();
        assert!(is_alive(waiting.as_raw()));
        kill(waiting, Signal::SIGKILL).unwrap();
        waitpid(waiting, None).unwrap();
        assert_eq!(group.usage().unwrap().oom_kills, 0);
        // The next process must be able to wait in the group, whatever the limits were.
        group.reset().unwrap();
    }
}

#[test]
fn processes_are_limited_and_refused_forks_are_counted() {
    let harness = CgroupHarness::new("processes");
    let mut group = harness.group("slot");
    group.begin_run(within(None, Some(4))).unwrap();
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
fn cpu_time_includes_all_processes() {
    let harness = CgroupHarness::new("cpu");
    let mut group = harness.group("slot");
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
    group.begin_run(CgroupLimits::default()).unwrap();
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
fn measurements_of_each_run_start_at_zero() {
    let harness = CgroupHarness::new("zero");
    let mut group = harness.group("slot");
    group.begin_run(within(Some(32 * MIB), Some(1))).unwrap();
    let script = "import os\ntry: os.fork()\nexcept BlockingIOError: pass\nx = b'x' * (20 << 20)\nx = b'x' * (100 << 20)";
    run_python(&group, script);
    let usage = group.usage().unwrap();
    assert!(usage.oom_kills > 0 && usage.refused_forks == 1, "{usage:?}");
    group.reset().unwrap();
    group.begin_run(CgroupLimits::default()).unwrap();
    let usage = group.usage().unwrap();
    assert!(usage.memory.is_some_and(|peak| peak <= MIB), "{usage:?}");
    assert_eq!(
        usage,
        CgroupUsage {
            cpu: Some(Duration::ZERO),
            memory: usage.memory,
            ..CgroupUsage::default()
        }
    );
    assert_eq!(ready(&group), 0);
}

#[test]
fn page_cache_of_a_run_does_not_count_in_the_next() {
    let harness = CgroupHarness::new("cache");
    let mut group = harness.group("slot");
    let (_keep, folder) = folder();
    let file = folder.join("cached");
    group.begin_run(CgroupLimits::default()).unwrap();
    assert_success(run_python(
        &group,
        &format!("open({file:?}, 'wb').write(b'x' * (20 << 20))"),
    ));
    let held = group.current_memory().unwrap().unwrap();
    assert!(held >= 20 * MIB, "the file is charged to the group: {held}");
    group.reset().unwrap();
    assert!(group.current_memory().unwrap().unwrap() < MIB);
    assert!(file.metadata().unwrap().size() == 20 * MIB);
    group.begin_run(within(Some(64 * MIB), None)).unwrap();
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
fn a_group_needs_no_path_after_it_was_created() {
    let harness = CgroupHarness::new("paths");
    let mut group = harness.group("slot");
    let directories = harness.directories("slot");
    let (_keep, folder) = folder();
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            leave_mounts();
            assert!(!directories.iter().any(|path| path.exists()), "{directories:?}");
            group.begin_run(within(Some(64 * MIB), Some(8))).unwrap();
            // More memory than may stay charged, so the group has to be replaced.
            let script = format!("open({:?}, 'wb').write(b'x' * (20 << 20))", folder.join("cached"));
            assert_success(run_python(&group, &script));
            assert!(group.usage().unwrap().memory.is_some_and(|peak| peak > 20 * MIB));
            group.reset().unwrap();
            group.begin_run(within(Some(32 * MIB), Some(8))).unwrap();
            run_python(&group, "x = b'x' * (100 << 20)");
            assert!(group.usage().unwrap().oom_kills > 0);
            group.remove().unwrap();
        });
        work.join().unwrap();
    });
    assert!(!harness.directories("slot").iter().any(|path| path.exists()));
}

/// Unmounts the control groups for the calling thread only.
fn leave_mounts() {
    let none = std::ptr::null();
    // SAFETY: the strings end with zero bytes, and the other pointers may be null.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        assert_eq!(libc::mount(none, c"/".as_ptr(), none, flags, std::ptr::null()), 0);
        assert_eq!(libc::umount2(c"/sys/fs/cgroup".as_ptr(), libc::MNT_DETACH), 0);
    }
}

#[test]
fn a_group_with_a_process_in_it_is_not_replaced() {
    let harness = CgroupHarness::new("taken");
    let group = harness.group("slot");
    let running = start_sleep(&group);
    let error = Cgroup::create(harness.cgroup_root(), "slot").unwrap_err();
    assert!(matches!(error, CgroupError::Occupied { .. }), "{error:?}");
    assert!(is_alive(running.as_raw()));
    assert_eq!(harness.cgroup_root().clear().unwrap(), 1);
    waitpid(running, None).unwrap();
    harness.group("slot").remove().unwrap();
}

#[test]
fn a_new_group_does_not_inherit_limits_of_an_old_one() {
    let harness = CgroupHarness::new("old");
    let mut old = harness.group("slot");
    old.begin_run(within(Some(32 * MIB), Some(1))).unwrap();
    run_python(&old, "x = b'x' * (100 << 20)");
    let mut new = harness.group("slot");
    new.begin_run(CgroupLimits::default()).unwrap();
    let script = "import os\nif os.fork(): os.wait()\nx = b'x' * (60 << 20)";
    assert_success(run_python(&new, script));
    let usage = new.usage().unwrap();
    assert_eq!((usage.oom_kills, usage.refused_forks), (0, 0));
}

#[test]
fn clearing_kills_only_the_processes_of_its_own_root() {
    let (ours, other) = (CgroupHarness::new("ours"), CgroupHarness::new("other"));
    let (_keep, folder) = folder();
    // Four processes, of which the first has ended when the root is cleared, as after a crash.
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
    for (harness, slot, file) in [(&ours, "a", "a"), (&ours, "b", "b"), (&other, "a", "c")] {
        let mut group = harness.group(slot);
        group.begin_run(within(Some(100 * MIB), Some(8))).unwrap();
        assert_success(run_python(&group, &script(file)));
        left.push([0, 1, 2].map(|i| pid_in(&folder.join(format!("{file}{i}")))));
    }
    assert!(left.iter().flatten().all(|pid| is_alive(*pid)), "{left:?}");
    assert_eq!(ours.cgroup_root().clear().unwrap(), 6);
    let [a, b, c] = left.try_into().unwrap();
    assert!(a.iter().chain(&b).all(|pid| !is_alive(*pid)));
    assert!(
        c.iter().all(|pid| is_alive(*pid)),
        "processes of another root stay alive"
    );
    let exist = |paths: Vec<PathBuf>| paths.iter().any(|path| path.exists());
    assert!(!exist(ours.directories("a")) && !exist(ours.directories("b")));
    assert!(other.directories("a").iter().all(|path| path.exists()));
    assert_eq!(ours.cgroup_root().clear().unwrap(), 0);
    assert_eq!(other.cgroup_root().clear().unwrap(), 3);
}

#[test]
fn clearing_stops_a_fork_bomb() {
    let harness = CgroupHarness::new("bomb");
    let mut group = harness.group("slot");
    group.begin_run(within(None, Some(60))).unwrap();
    let bomb = start(
        &group,
        &[
            "/bin/bash",
            "-c",
            "b() { b 2>/dev/null | b 2>/dev/null & }; b; exec sleep 60",
        ],
    );
    wait_until("a fork was refused", || group.usage().unwrap().refused_forks > 0);
    assert!(harness.cgroup_root().clear().unwrap() > 0);
    waitpid(bomb, None).unwrap();
    assert!(!harness.directories("slot").iter().any(|path| path.exists()));
}
