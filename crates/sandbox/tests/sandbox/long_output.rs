//! Output that is longer than what a warden keeps in memory, in cells and without.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::statvfs;
use sandbox::{
    CommandEndReason, CommandLimits, CommandSpec, STREAM_HEAD, WORKSPACE, Warden, WardenLaunchError,
    WardenLauncher,
};

use crate::cell_harness::CellHarness;
use crate::harness::{bytes, command, folder, launcher, limited, python, run_in, sh, stdout, wait_until};

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

#[test]
fn a_file_size_limit_of_the_warden_ends_the_capture_and_not_the_warden() {
    let (_keep, folder) = folder();
    in_cells_and_without(&folder, |warden| {
        let pid = warden.pid().to_string();
        let limit = format!("--fsize={MIB}:{MIB}");
        let status = std::process::Command::new("prlimit")
            .args(["--pid", &pid, &limit])
            .status();
        assert!(status.unwrap().success());
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
