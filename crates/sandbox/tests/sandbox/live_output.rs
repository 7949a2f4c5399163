//! Reading the output of a command while it runs, in cells and without.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sandbox::{
    CommandOutcome, CommandSpec, LiveOutput, RunHandle, STREAM_HEAD, StandardStream, Warden, WardenError,
};

use crate::cell_harness::CellHarness;
use crate::harness::{bytes, command, folder, python, run_in, sh, warden};

const DEADLINE: Duration = Duration::from_secs(15);

/// Runs a test twice: with a warden without cells, and with one that has them. The folder is the command's.
fn in_cells_and_without(test: impl Fn(&mut Warden, &Path)) {
    let (_keep, folder) = folder();
    test(&mut warden(), &folder);
    let mut harness = CellHarness::new();
    let folder = harness.task_folder().join("box");
    test(harness.warden(), &folder);
}

/// A command that writes this many bytes to the streams, one stream after another, and waits for the file `go-N`
/// before each but the first.
fn print_in_stages(warden: &Warden, folder: &Path, stages: &[(StandardStream, usize)]) -> CommandSpec {
    let mut script = "import os, time\n".to_string();
    for (number, (stream, count)) in stages.iter().enumerate() {
        let fd = match stream {
            StandardStream::Stdout => 1,
            StandardStream::Stderr => 2,
        };
        if number > 0 {
            script += &format!("while not os.path.exists('go-{number}'): time.sleep(0.002)\n");
        }
        script += &format!(
            "data = bytes([97 + {number}]) * {count}\nwhile data: data = data[os.write({fd}, data):]\n"
        );
    }
    CommandSpec {
        directory: match warden.task_folder() {
            Some(_) => sandbox::WORKSPACE.into(),
            None => folder.into(),
        },
        ..python(&script)
    }
}

fn go(folder: &Path, number: usize) {
    std::fs::write(folder.join(format!("go-{number}")), "").unwrap();
}

/// Waits for a wakeup until the deadline.
#[track_caller]
fn await_wakeup(live: &LiveOutput) {
    assert!(is_woken(live, DEADLINE), "no wakeup");
}

fn is_woken(live: &LiveOutput, within: Duration) -> bool {
    let mut descriptors = [PollFd::new(live.as_fd(), PollFlags::POLLIN)];
    poll(&mut descriptors, PollTimeout::try_from(within).unwrap()).unwrap() == 1
}

/// Follows a stream from an offset to this size. Returns the bytes, or fails when the run ends before.
#[track_caller]
fn follow_to(live: &LiveOutput, run: u64, stream: StandardStream, from: u64, to: u64) -> Vec<u8> {
    let mut read = Vec::new();
    let mut buffer = vec![0; 10_000];
    let deadline = Instant::now() + DEADLINE;
    loop {
        live.clear_wakeups();
        while from + (read.len() as u64) < to {
            let offset = from + read.len() as u64;
            match live.read_at(run, stream, offset, &mut buffer).unwrap() {
                Some(0) => break,
                Some(count) => read.extend_from_slice(&buffer[..count]),
                None => panic!("the run is over at {offset}"),
            }
        }
        if from + read.len() as u64 >= to {
            return read;
        }
        assert!(Instant::now() < deadline, "{} bytes", read.len());
        await_wakeup(live);
    }
}

/// Runs a command in another thread while this one follows it.
fn while_it_runs(
    warden: &mut Warden,
    spec: &CommandSpec,
    follower: impl FnOnce(&LiveOutput, &RunHandle),
) -> Result<CommandOutcome, WardenError> {
    let live = warden.live_output();
    let run_handle = warden.new_run();
    thread::scope(|scope| {
        let runner = scope.spawn(|| warden.run(&run_handle, spec));
        // If the follower fails, the command must not delay the end of the test.
        let followed =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| follower(&live, &run_handle)));
        if let Err(failure) = followed {
            let _ = run_handle.kill();
            std::panic::resume_unwind(failure);
        }
        runner.join().unwrap()
    })
}

#[test]
fn output_can_be_followed_from_its_first_byte_and_read_by_late_readers() {
    use StandardStream::{Stderr, Stdout};
    const LONG: usize = 3 * STREAM_HEAD;
    in_cells_and_without(|warden, folder| {
        let stages = [
            (Stdout, 10),
            (Stderr, 7),
            (Stdout, STREAM_HEAD),
            (Stderr, LONG),
            (Stdout, 1),
        ];
        let spec = print_in_stages(warden, folder, &stages);
        let outcome = while_it_runs(warden, &spec, |live, run_handle| {
            let run = run_handle.number();
            live.follow(true);
            let head = STREAM_HEAD as u64;
            assert_eq!(follow_to(live, run, Stdout, 0, 10), b"a".repeat(10));
            assert_eq!(live.captured(run, Stdout), Some(10));
            assert_eq!(live.read_at(run, Stdout, 10, &mut [0; 5]).unwrap(), Some(0));
            assert_eq!(live.read_at(run, Stdout, 1 << 40, &mut [0; 5]).unwrap(), Some(0));
            go(folder, 1);
            assert_eq!(follow_to(live, run, Stderr, 0, 7), b"b".repeat(7));
            go(folder, 2);
            assert!(follow_to(live, run, Stdout, 10, head + 10) == b"c".repeat(STREAM_HEAD));
            go(folder, 3);
            assert!(follow_to(live, run, Stderr, 7, 7 + LONG as u64) == b"d".repeat(LONG));
            // Somebody who comes late, in another thread, reads all of it.
            let late = live.clone();
            let reader = thread::spawn(move || {
                let stdout = follow_to(&late, run, Stdout, 0, head + 10);
                (stdout, follow_to(&late, run, Stderr, 0, 7 + LONG as u64))
            });
            let (stdout, stderr) = reader.join().unwrap();
            assert!(stdout == [b"a".repeat(10), b"c".repeat(STREAM_HEAD)].concat());
            assert!(stderr == [b"b".repeat(7), b"d".repeat(LONG)].concat());
            go(folder, 4);
        });
        let outcome = outcome.unwrap();
        assert_eq!(
            (outcome.exit_code, outcome.stdout.size),
            (Some(0), STREAM_HEAD as u64 + 11)
        );
        assert_eq!(bytes(&outcome.stderr).len(), 7 + LONG);
    });
}

#[test]
fn a_follower_learns_that_the_run_is_over() {
    in_cells_and_without(|warden, folder| {
        let spec = print_in_stages(
            warden,
            folder,
            &[(StandardStream::Stdout, 5), (StandardStream::Stdout, 100_000)],
        );
        let outcome = while_it_runs(warden, &spec, |live, run_handle| {
            let run = run_handle.number();
            live.follow(true);
            follow_to(live, run, StandardStream::Stdout, 0, 5);
            go(folder, 1);
            let mut buffer = vec![0; 1000];
            let deadline = Instant::now() + DEADLINE;
            let mut offset = 5;
            loop {
                live.clear_wakeups();
                match live
                    .read_at(run, StandardStream::Stdout, offset, &mut buffer)
                    .unwrap()
                {
                    Some(0) => await_wakeup(live),
                    Some(count) => offset += count as u64,
                    None => break,
                }
                assert!(Instant::now() < deadline);
            }
            for stream in StandardStream::BOTH {
                assert_eq!(live.captured(run, stream), None);
                assert_eq!(live.read_at(run, stream, 0, &mut buffer).unwrap(), None);
            }
            assert_eq!(
                live.captured(run + 1, StandardStream::Stdout),
                Some(0),
                "it has not begun"
            );
        });
        assert_eq!(outcome.unwrap().stdout.size, 100_005);
    });
}

#[test]
fn only_a_followed_run_wakes() {
    in_cells_and_without(|warden, _| {
        let live = warden.live_output();
        for followed in [true, false, true] {
            live.follow(followed);
            live.clear_wakeups();
            run_in(warden, &command(&["echo", "hi"]));
            assert_eq!(is_woken(&live, Duration::ZERO), followed);
        }
    });
}

/// Each run writes its own byte. A reader that is as fast as it can be never sees a byte of another run.
#[test]
fn a_reader_never_takes_bytes_of_one_run_for_those_of_another() {
    const RUNS: u64 = 40;
    in_cells_and_without(|warden, _| {
        let live = warden.live_output();
        let (current, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut buffer = vec![0; 2 * STREAM_HEAD];
                let mut seen = 0_u64;
                while !stop.load(Ordering::SeqCst) {
                    let run = current.load(Ordering::SeqCst);
                    for offset in [0, STREAM_HEAD as u64] {
                        let read = live
                            .read_at(run, StandardStream::Stdout, offset, &mut buffer)
                            .unwrap();
                        let bytes = &buffer[..read.unwrap_or(0)];
                        assert!(
                            bytes.iter().all(|byte| *byte == b'a' + (run % 26) as u8),
                            "run {run}"
                        );
                        seen += bytes.len() as u64;
                    }
                }
                seen
            });
            for _ in 0..RUNS {
                let run_handle = warden.new_run();
                let byte = char::from(b'a' + (run_handle.number() % 26) as u8);
                current.store(run_handle.number(), Ordering::SeqCst);
                let spec = sh(&format!("yes {byte} | tr -d '\\n' | head -c 100000"));
                assert_eq!(warden.run(&run_handle, &spec).unwrap().stdout.size, 100_000);
            }
            stop.store(true, Ordering::SeqCst);
            assert_ne!(reader.join().unwrap(), 0, "the reader has read something");
        });
    });
}

#[test]
fn a_run_is_over_when_its_warden_is_killed() {
    in_cells_and_without(|warden, folder| {
        let control = warden.control();
        let spec = print_in_stages(
            warden,
            folder,
            &[(StandardStream::Stdout, 5), (StandardStream::Stdout, 1)],
        );
        let outcome = while_it_runs(warden, &spec, |live, run_handle| {
            let run = run_handle.number();
            live.follow(true);
            follow_to(live, run, StandardStream::Stdout, 0, 5);
            live.clear_wakeups();
            control.kill_warden().unwrap();
            while live.captured(run, StandardStream::Stdout).is_some() {
                await_wakeup(live);
                live.clear_wakeups();
            }
            assert_eq!(live.captured(run + 1, StandardStream::Stdout), None);
        });
        assert!(outcome.unwrap_err().is_warden_lost());
    });
}
