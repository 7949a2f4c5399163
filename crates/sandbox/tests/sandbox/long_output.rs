//! Output that is longer than what a warden keeps in memory, in cells and without.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::statvfs::statvfs;
use sandbox::{
    CommandEndReason, CommandLimits, CommandSpec, RunHandle, STREAM_HEAD, WORKSPACE, Warden, WardenControl,
    WardenLaunchError, WardenLauncher,
};

use crate::cell_harness::CellHarness;
use crate::harness::{
    bytes, command, folder, is_alive, launcher, limited, pid_in, python, run_in, sh, stdout, wait_until,
};

const MIB: usize = 1 << 20;

/// Runs a test twice: with a warden without cells, and with one that has them.
fn in_cells_and_without(overflow_folder: &Path, test: impl Fn(&mut Warden)) {
    let launcher = WardenLauncher {
        overflow_folder: overflow_folder.into(),
        ..launcher()
    };
    test(&mut launcher.start().unwrap());
    test(CellHarness::with_launcher(launcher).warden());
}

/// Bytes in which a gap or a repetition shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

/// Writes the pattern to both streams, alternating, as many bytes as the arguments say.
fn print_pattern(on_stdout: usize, on_stderr: usize, max_captured: usize) -> CommandSpec {
    let script = "
import os, sys
left = {fd: memoryview((bytes(range(251)) * (int(n) // 251 + 1))[:int(n)]) for fd, n in zip((1, 2), sys.argv[1:])}
while any(left.values()):
    for fd in left: left[fd] = left[fd][os.write(fd, left[fd][:10007]):]
";
    let mut spec = python(script);
    spec.argv
        .extend([on_stdout, on_stderr].map(|count| count.to_string().into()));
    spec.max_captured_bytes = max_captured as u64;
    spec
}

#[test]
fn streams_of_any_length_are_captured_up_to_the_maximum() {
    let (_keep, folder) = folder();
    in_cells_and_without(&folder, |warden| {
        let mut check = |written: [usize; 2], max: usize| {
            let outcome = run_in(warden, &print_pattern(written[0], written[1], max));
            assert_eq!(outcome.exit_code, Some(0), "{written:?}: {outcome:?}");
            for (captured, written) in [outcome.stdout, outcome.stderr].iter().zip(written) {
                let kept = written.min(max);
                assert_eq!(
                    (captured.size, captured.truncated),
                    (kept as u64, written > max),
                    "{written} of {max}"
                );
                assert!(bytes(captured) == pattern(kept), "{written} of {max}");
            }
        };
        check([5, 0], 3 * MIB);
        check([STREAM_HEAD, STREAM_HEAD - 1], 3 * MIB);
        check([STREAM_HEAD + 1, STREAM_HEAD], STREAM_HEAD);
        check([STREAM_HEAD, STREAM_HEAD + 1], 3 * MIB);
        check([STREAM_HEAD + 2, 3], STREAM_HEAD + 1);
        check([5 * MIB, 0], 3 * MIB);
        check([MIB, 5 * MIB], 3 * MIB);
        check([0, 100], 10);
    });
}

/// The owner counts the bytes of long streams, also those that it reads after the command has ended.
#[test]
fn long_output_beyond_its_limit_ends_the_command() {
    const LIMIT: usize = 3 * STREAM_HEAD;
    let (_keep, folder) = folder();
    in_cells_and_without(&folder, |warden| {
        let mut check = |script: &str, reason: CommandEndReason| {
            let limits = CommandLimits {
                output: Some(LIMIT as u64),
                ..CommandLimits::default()
            };
            let outcome = run_in(warden, &limited(sh(script), limits));
            assert_eq!(outcome.reason, reason, "{script}: {outcome:?}");
            assert_eq!(bytes(&outcome.stderr).len(), LIMIT, "{script}");
            assert_eq!(
                outcome.stderr.truncated,
                reason == CommandEndReason::OutputLimit,
                "{script}"
            );
        };
        check("yes >&2", CommandEndReason::OutputLimit);
        check(
            &format!("head -c {} /dev/zero >&2", LIMIT + 1),
            CommandEndReason::OutputLimit,
        );
        check(
            &format!("head -c {LIMIT} /dev/zero >&2"),
            CommandEndReason::Exited,
        );
    });
}

#[test]
fn each_run_with_long_output_has_its_own_file() {
    let (_keep, folder) = folder();
    in_cells_and_without(&folder, |warden| {
        let run = |warden: &mut Warden, script: &str| run_in(warden, &sh(script)).stdout;
        let first = run(warden, "yes first | head -c 300000");
        let second = run(warden, "yes 2nd | head -c 200000");
        let small = run(warden, "echo small");
        let third = run(warden, "yes third | head -c 100000");
        assert_eq!((bytes(&small).as_slice(), small.size), (&b"small\n"[..], 6));
        let mut inodes = Vec::new();
        for (captured, word, size) in [
            (first, "first\n", 300_000),
            (second, "2nd\n", 200_000),
            (third, "third\n", 100_000),
        ] {
            let expected: Vec<u8> = word.bytes().cycle().take(size).collect();
            assert!(bytes(&captured) == expected, "{word}");
            let metadata = captured.file.unwrap().metadata().unwrap();
            assert_eq!((metadata.nlink(), metadata.mode() & 0o777), (0, 0o600), "{word}");
            inodes.push(metadata.ino());
        }
        inodes.sort_unstable();
        inodes.dedup();
        assert_eq!(inodes.len(), 3);
    });
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "no file has a name");
}

/// A small file system, which is unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        mount(
            Some("tmpfs"),
            folder.path(),
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options.as_str()),
        )
        .unwrap();
        Self(folder)
    }

    fn used_blocks(&self) -> u64 {
        let usage = statvfs(self.0.path()).unwrap();
        usage.blocks() - usage.blocks_free()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        umount2(self.0.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

/// A file system on which writes hang in the kernel while it is frozen. It is thawed and unmounted on drop.
struct FreezableDisk(tempfile::TempDir);

impl FreezableDisk {
    fn mount() -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        let image = disk.0.path().join("image");
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        fs::create_dir(disk.folder()).unwrap();
        shell(&format!("mkfs.ext4 -q {}", image.display()));
        shell(&format!(
            "mount -o loop {} {}",
            image.display(),
            disk.folder().display()
        ));
        disk
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("disk")
    }

    fn freeze(&self) {
        shell(&format!("fsfreeze --freeze {}", self.folder().display()));
    }

    fn thaw(&self) {
        shell(&format!("fsfreeze --unfreeze {}", self.folder().display()));
    }
}

impl Drop for FreezableDisk {
    fn drop(&mut self) {
        let folder = self.folder().display().to_string();
        // The first command fails if the file system is not frozen.
        shell(&format!(
            "fsfreeze --unfreeze {folder} 2> /dev/null; umount --lazy {folder}"
        ));
    }
}

fn shell(script: &str) {
    let status = std::process::Command::new("sh").args(["-c", script]).status();
    assert!(status.unwrap().success(), "{script}");
}

/// As long as the disk hangs, there is no outcome, but the command is ended.
#[test]
fn a_hanging_disk_does_not_delay_the_end_of_a_command_with_long_output() {
    type End = fn(&WardenControl, &RunHandle);
    let disk = FreezableDisk::mount();
    let check = |wall: Option<Duration>, end: End, reason: CommandEndReason| {
        let (_keep, folder) = folder();
        let mut warden = WardenLauncher {
            overflow_folder: disk.folder(),
            ..launcher()
        }
        .start()
        .unwrap();
        let (control, run_handle) = (warden.control(), warden.new_run());
        let flood = "echo $$ > command; while [ ! -e go ]; do sleep 0.01; done; exec yes";
        let limits = CommandLimits {
            wall,
            ..CommandLimits::default()
        };
        let spec = CommandSpec {
            directory: folder.clone(),
            ..limited(sh(flood), limits)
        };
        let (is_gone, outcome) = std::thread::scope(|scope| {
            let runner = scope.spawn(|| warden.run(&run_handle, &spec));
            let pid = pid_in(&folder.join("command"));
            disk.freeze();
            fs::write(folder.join("go"), "").unwrap();
            wait_until("the head and the pipe are full", || {
                bytes_written(pid) >= 2 * STREAM_HEAD as u64
            });
            end(&control, &run_handle);
            let deadline = Instant::now() + Duration::from_secs(10);
            while is_alive(pid) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            let is_gone = !is_alive(pid);
            // Before any assertion: whoever waits for the disk cannot be killed.
            disk.thaw();
            (is_gone, runner.join().unwrap().unwrap())
        });
        assert!(is_gone, "{reason:?}: the command runs while the disk hangs");
        assert_eq!(outcome.reason, reason, "{outcome:?}");
        assert!(outcome.stdout.size >= STREAM_HEAD as u64, "{outcome:?}");
    };
    let cancel: End = |_, run_handle| run_handle.kill().unwrap();
    let abandon: End = |control, _| control.keep_alive_for(Duration::from_millis(100)).unwrap();
    check(
        Some(Duration::from_secs(3)),
        |_, _| (),
        CommandEndReason::WallLimit,
    );
    check(None, cancel, CommandEndReason::Cancelled);
    check(None, abandon, CommandEndReason::Abandoned);
}

/// What a process has written so far, to any file.
fn bytes_written(pid: i32) -> u64 {
    let counters = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let written = counters.lines().find_map(|line| line.strip_prefix("wchar: "));
    written.map_or(0, |written| written.parse().unwrap())
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_command() {
    let disk = SmallDisk::mount(MIB);
    in_cells_and_without(disk.0.path(), |warden| {
        // Twice, because the space of the first run's file is free when its outcome is dropped.
        for _ in 0..2 {
            let outcome = run_in(warden, &print_pattern(5 * MIB, 10, 4 * MIB));
            assert_eq!(
                (outcome.reason, outcome.exit_code),
                (CommandEndReason::Exited, Some(0))
            );
            assert!(
                outcome.stdout.truncated && outcome.stdout.size == MIB as u64,
                "{outcome:?}"
            );
            assert!(bytes(&outcome.stdout) == pattern(MIB));
            assert!(!outcome.stderr.truncated && bytes(&outcome.stderr) == pattern(10));
            assert_ne!(disk.used_blocks(), 0);
            warden.reset_for_next_task().unwrap();
            warden.wait_until_ready().unwrap();
            drop(outcome);
            assert_eq!(
                disk.used_blocks(),
                0,
                "neither the warden nor the next cell holds the file"
            );
        }
    });
}

/// What comes after a gap must not be appended.
#[test]
fn a_capture_that_a_full_disk_ended_does_not_go_on() {
    const FREE: usize = 512 << 10;
    let disk = SmallDisk::mount(MIB);
    let filler = disk.0.path().join("filler");
    in_cells_and_without(disk.0.path(), |warden| {
        fs::write(&filler, pattern(MIB - FREE)).unwrap();
        let (_keep, mut folder) = folder();
        let mut spec = python(&format!(
            "
import os, time
def write(left):
    while left: left = left[os.write(1, left):]
data = memoryview((bytes(range(251)) * 10000)[:{MIB} * 2])
write(data[:{MIB}])
open('written', 'w')
while not os.path.exists('go'): time.sleep(0.002)
write(data[{MIB}:])
"
        ));
        spec.directory.clone_from(&folder);
        if let Some(task_folder) = warden.task_folder() {
            folder = task_folder.join("box");
            spec.directory = WORKSPACE.into();
        }
        spec.max_captured_bytes = u64::MAX;
        let outcome = std::thread::scope(|scope| {
            let runner = scope.spawn(|| run_in(warden, &spec));
            // Then all but what fits into the pipe has been read.
            wait_until("the first half is written", || folder.join("written").exists());
            fs::remove_file(&filler).unwrap();
            fs::write(folder.join("go"), "").unwrap();
            runner.join().unwrap()
        });
        assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
        assert!(
            outcome.stdout.truncated && bytes(&outcome.stdout) == pattern(FREE),
            "{outcome:?}"
        );
    });
}

#[test]
fn a_disk_without_room_for_the_head_leaves_the_head() {
    let disk = SmallDisk::mount(STREAM_HEAD / 2);
    in_cells_and_without(disk.0.path(), |warden| {
        for _ in 0..2 {
            let outcome = run_in(warden, &print_pattern(MIB, STREAM_HEAD, MIB));
            assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
            assert!(outcome.stdout.truncated && bytes(&outcome.stdout) == pattern(STREAM_HEAD));
            assert!(!outcome.stderr.truncated && bytes(&outcome.stderr) == pattern(STREAM_HEAD));
        }
    });
}

/// The kernel would end this process by a signal if it wrote beyond the limit.
#[test]
fn a_limit_of_file_sizes_ends_the_capture_and_not_the_owner() {
    let (_keep, folder) = folder();
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, MIB as u64, hard).unwrap();
    in_cells_and_without(&folder, |warden| {
        for _ in 0..2 {
            let outcome = run_in(warden, &print_pattern(3 * MIB, 0, 3 * MIB));
            assert_eq!(
                (outcome.exit_code, outcome.stdout.size),
                (Some(0), MIB as u64),
                "{outcome:?}"
            );
            assert!(outcome.stdout.truncated);
        }
    });
}

#[test]
fn long_output_is_memory_of_neither_the_command_nor_the_warden() {
    const OUTPUT: usize = 48 * MIB;
    let (_keep, folder) = folder();
    let peak_of = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    };
    in_cells_and_without(&folder, |warden| {
        let before = peak_of(warden.pid());
        let limits = CommandLimits {
            memory: Some(16 << 20),
            ..CommandLimits::default()
        };
        let spec = CommandSpec {
            max_captured_bytes: u64::MAX,
            ..limited(
                sh(&format!(
                    "head -c {OUTPUT} /dev/zero; head -c {OUTPUT} /dev/zero >&2"
                )),
                limits,
            )
        };
        let outcome = run_in(warden, &spec);
        assert_eq!(
            (outcome.reason, outcome.exit_code),
            (CommandEndReason::Exited, Some(0))
        );
        assert_eq!([outcome.stdout.size, outcome.stderr.size], [OUTPUT as u64; 2]);
        assert!(outcome.memory < 16 << 20, "{outcome:?}");
        let growth = peak_of(warden.pid()).saturating_sub(before);
        assert!(growth < MIB, "{growth} bytes");
    });
}

#[test]
fn a_command_cannot_open_what_its_output_is_captured_in() {
    let (_keep, folder) = folder();
    // The cell shows no process but the command's own. Without a cell, those of the same user are visible.
    let script = "
import os, glob
me = os.getpid()
seen = [os.readlink(path) for path in glob.glob(f'/proc/{me}/fd/*') if os.path.lexists(path)]
maps = open(f'/proc/{me}/maps').read()
print(sorted(name.split(':')[0] for name in seen), 'output' in maps, len(glob.glob('/proc/[0-9]*')))
";
    in_cells_and_without(&folder, |warden| {
        let is_cell = warden.task_folder().is_some();
        for _ in 0..2 {
            let seen = stdout(&run_in(warden, &python(script)));
            assert!(seen.starts_with("['/dev/null', 'pipe', 'pipe'] False"), "{seen}");
            assert!(!is_cell || seen.ends_with(" 1\n"), "{seen}");
            assert!(
                run_in(warden, &command(&["head", "-c", "100000", "/dev/zero"]))
                    .stdout
                    .file
                    .is_some()
            );
        }
    });
}

#[test]
fn an_overflow_folder_that_does_not_exist_is_refused() {
    let (_keep, folder) = folder();
    let started = WardenLauncher {
        overflow_folder: folder.join("missing"),
        ..launcher()
    }
    .start();
    assert!(
        matches!(started, Err(WardenLaunchError::OverflowFolder { .. })),
        "{started:?}"
    );
}
