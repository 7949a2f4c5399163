//! What a command sees in a cell, and what it can do there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use sandbox::{CellSetupStep, CommandEndReason, CommandLimits, CommandSpec, PlatformError, WardenError};

use super::cell_harness::CellHarness;
use super::harness::{command, limited, python, sh, stdout, try_run, wait_until};

#[test]
fn a_command_has_its_own_user_and_no_privileges() {
    let mut harness = CellHarness::new();
    let outcome = harness.run(&sh("id -u; id -g; id -G; whoami; hostname; pwd; echo $$"));
    assert_eq!(outcome.reason, CommandEndReason::Exited, "{outcome:?}");
    assert_eq!(
        stdout(&outcome),
        "1900000000\n1900000000\n1900000000\ntask\ncell\n/box\n2\n",
        "{outcome:?}"
    );
    let outcome = harness.run(&sh("grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status"));
    assert_eq!(
        stdout(&outcome).split_whitespace().collect::<Vec<_>>().join(" "),
        "CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000 \
         CapBnd: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1 Seccomp: 2"
    );
}

#[test]
fn a_command_sees_only_its_cell() {
    let mut harness = CellHarness::new();
    let outcome = harness.run(&sh(
        "ls /; ls /proc | grep -c '^[0-9]'; cut -d' ' -f2 /proc/mounts | sort | tr '\\n' ' '",
    ));
    let seen = stdout(&outcome);
    assert!(!seen.contains("root"), "{seen}");
    // `ls` is the only process that it sees.
    let outcome = harness.run(&command(&["/bin/ls", "-1", "/proc"]));
    let processes: Vec<_> = stdout(&outcome)
        .lines()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect();
    assert_eq!(processes, ["2"], "only itself");
    let outcome = harness.run(&sh(
        "ls -l /proc/self/fd | wc -l; cat /proc/net/dev | grep -c :; cat /proc/self/cgroup",
    ));
    let seen = stdout(&outcome);
    assert!(
        seen.lines()
            .filter(|line| line.contains(':'))
            .all(|line| line.ends_with(":/") || !line.contains("conclave")),
        "{seen}"
    );
    for path in ["/etc/shadow", "/root", "/home", "/sys", "/var", "/run"] {
        let outcome = harness.run(&command(&["/bin/ls", path]));
        assert_ne!(outcome.exit_code, Some(0), "{path}");
    }
    for script in [
        "echo x > /x",
        "echo x > /usr/x",
        "echo x > /etc/passwd",
        "echo 1 > /proc/sys/kernel/core_pattern",
    ] {
        let outcome = harness.run(&sh(script));
        assert_ne!(outcome.exit_code, Some(0), "{script}");
    }
}

#[test]
fn files_last_until_the_task_ends() {
    let mut harness = CellHarness::new();
    let folder = harness.task_folder();
    fs::write(folder.join("box/in"), "from outside").unwrap();
    fs::write(folder.join("input"), "not to be seen").unwrap();
    let outcome = harness.run(&sh(
        "cat in; ls -A /box; echo more > out; echo t > /tmp/t; echo s > /dev/shm/s",
    ));
    assert_eq!(stdout(&outcome), "from outsidein\n", "{outcome:?}");
    assert_eq!(fs::read_to_string(folder.join("box/out")).unwrap(), "more\n");
    // The next command of the same task finds the files of the first one.
    let outcome = harness.run(&sh("cat out /tmp/t /dev/shm/s"));
    assert_eq!(stdout(&outcome), "more\nt\ns\n");
    harness.warden().reset_for_next_task().unwrap();
    harness.warden().wait_until_ready().unwrap();
    let outcome = harness.run(&sh("ls -A /box /tmp /dev/shm"));
    assert_eq!(stdout(&outcome), "/box:\n\n/dev/shm:\n\n/tmp:\n");
}

#[test]
fn limits_apply_to_all_processes_together() {
    let mut harness = CellHarness::new();
    let none = CommandLimits::default();
    let mut check = |script: &str, limits: CommandLimits, expected: CommandEndReason| {
        let outcome = harness.run(&limited(sh(script), limits));
        assert_eq!(outcome.reason, expected, "{script}: {outcome:?}");
        outcome
    };
    let memory = CommandLimits {
        memory: Some(64 << 20),
        ..none
    };
    check(
        "head -c 200m /dev/zero | tail -c 200m > /dev/null",
        memory,
        CommandEndReason::MemoryLimit,
    );
    let processes = CommandLimits {
        processes: Some(20),
        ..none
    };
    check(
        "bomb() { bomb | bomb & }; bomb; sleep 5",
        processes,
        CommandEndReason::ProcessLimit,
    );
    let cpu = CommandLimits {
        cpu: Some(Duration::from_millis(500)),
        ..none
    };
    let outcome = check(
        "while :; do :; done & while :; do :; done",
        cpu,
        CommandEndReason::TimeLimit,
    );
    // The kernel's per-process limit alone would let each of them use as much.
    assert!(outcome.cpu < Duration::from_secs(2), "{outcome:?}");
    check("sleep 1000 & exit 3", none, CommandEndReason::Exited);
}

/// For the kernel a limit of 1 means no core dump, even if the host has a core dump helper.
#[test]
fn the_limit_of_core_files_cannot_be_changed() {
    let mut harness = CellHarness::new();
    let script = r#"
import resource
for limits in ((0, 0), (0, 1), (1, 1)):
    resource.setrlimit(resource.RLIMIT_CORE, limits)
    print(*resource.getrlimit(resource.RLIMIT_CORE))
"#;
    let outcome = harness.run(&command(&["/usr/bin/python3", "-c", script]));
    assert_eq!(stdout(&outcome), "1 1\n".repeat(3), "{outcome:?}");
}

#[test]
fn a_command_has_a_higher_oom_score_than_its_warden() {
    const SCORE: &str = "oom_score_adj";
    let mut harness = CellHarness::new();
    let own = fs::read_to_string(format!("/proc/self/{SCORE}")).unwrap();
    let (folder, warden) = (harness.task_folder(), harness.warden().pid());
    let score_of_warden = move || fs::read_to_string(format!("/proc/{warden}/{SCORE}")).unwrap();
    let watcher = std::thread::spawn(move || {
        while !folder.join("box/runs").exists() {
            std::thread::yield_now();
        }
        while score_of_warden() != own {
            std::thread::yield_now();
        }
        fs::write(folder.join("box/seen"), "").unwrap();
    });
    let script = "cat /proc/self/oom_score_adj; touch runs; until [ -e seen ]; do sleep 0.01; done";
    let limits = CommandLimits {
        wall: Some(Duration::from_secs(20)),
        ..CommandLimits::default()
    };
    let outcome = harness.run(&limited(sh(script), limits));
    assert_eq!(
        (stdout(&outcome), outcome.reason),
        ("1000\n".into(), CommandEndReason::Exited)
    );
    watcher.join().unwrap();
    // The score is also restored after a command that could not be executed.
    let outcome = harness.run(&command(&["/no/such/program"]));
    assert_eq!(outcome.exit_code, Some(127), "{outcome:?}");
    let score_of = |pid| fs::read_to_string(format!("/proc/{pid}/{SCORE}")).unwrap();
    assert_eq!(score_of(warden), score_of(std::process::id()));
}

/// The stub uses the task's paths only after it has closed the warden's descriptors.
#[test]
fn no_path_leads_to_the_wardens_descriptors() {
    let mut harness = CellHarness::new();
    for descriptor in 3..64 {
        let spec = CommandSpec {
            directory: format!("/proc/self/fd/{descriptor}").into(),
            ..sh("pwd")
        };
        // The descriptor is closed, or it is the message pipe or the socket, which are not folders.
        let WardenError::Run(PlatformError::Cell(failed)) = try_run(harness.warden(), &spec).unwrap_err()
        else {
            panic!("descriptor {descriptor} leads somewhere");
        };
        assert_eq!(
            failed.step,
            CellSetupStep::ChangeDirectory,
            "{descriptor}: {failed:?}"
        );
        assert!(
            [libc::ENOENT, libc::ENOTDIR].contains(&failed.errno.0),
            "{descriptor}: {failed:?}"
        );
    }
}

#[test]
fn a_full_file_system_is_reported_as_disk_limit() {
    let mut harness = CellHarness::new();
    let outcome = harness.run(&sh("head -c 200m /dev/zero > /tmp/x"));
    assert_eq!(outcome.reason, CommandEndReason::DiskLimit, "{outcome:?}");
    harness.warden().reset_for_next_task().unwrap();
    harness.warden().wait_until_ready().unwrap();
    harness.warden().set_task_space(1 << 20).unwrap();
    let outcome = harness.run(&sh("head -c 2m /dev/zero > x"));
    assert_eq!(outcome.reason, CommandEndReason::DiskLimit, "{outcome:?}");
    // The file system is full, but nothing has failed.
    let outcome = harness.run(&sh("head -c 2m /dev/zero > y 2>/dev/null; exit 0"));
    assert_eq!(outcome.reason, CommandEndReason::Exited, "{outcome:?}");
    harness.warden().reset_for_next_task().unwrap();
    harness.warden().wait_until_ready().unwrap();
    let outcome = harness.run(&sh("head -c 2m /dev/zero > x"));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
}

#[test]
fn ipc_objects_do_not_outlive_the_command() {
    let mut harness = CellHarness::new();
    let look = r#"
import ctypes
libc = ctypes.CDLL(None)
print(libc.shmget(1, 0, 0), libc.semget(1, 0, 0), libc.msgget(1, 0), libc.mq_open(b'/left', 2))
"#;
    let nothing = "-1 -1 -1 -1\n";
    let python = |program: &str| command(&["/usr/bin/python3", "-c", program]);
    // One at a time, because each kind of object must be noticed without the others.
    for left in [
        "shmget(1, 4096, 0o1600)",
        "semget(1, 3, 0o1600)",
        "msgget(1, 0o1600)",
        "mq_open(b'/left', 0o102, 0o600, None)",
    ] {
        let outcome = harness.run(&python(look));
        assert_eq!(stdout(&outcome), nothing, "before {left}: {outcome:?}");
        let leave = format!("import ctypes; print(ctypes.CDLL(None).{left} >= 0)");
        let outcome = harness.run(&python(&leave));
        assert_eq!(stdout(&outcome), "True\n", "{left}: {outcome:?}");
    }
    let outcome = harness.run(&python(look));
    assert_eq!(stdout(&outcome), nothing, "{outcome:?}");
}

#[test]
fn files_of_one_command_do_not_count_as_memory_of_the_next() {
    let mut harness = CellHarness::new();
    let limits = CommandLimits {
        memory: Some(60 << 20),
        ..CommandLimits::default()
    };
    let outcome = harness.run(&limited(sh("head -c 40m /dev/zero > big"), limits));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    let limits = CommandLimits {
        memory: Some(16 << 20),
        ..CommandLimits::default()
    };
    let outcome = harness.run(&limited(sh("wc -c < big"), limits));
    assert_eq!(stdout(&outcome), "41943040\n", "{outcome:?}");
    assert!(outcome.memory < 16 << 20, "{outcome:?}");
}

/// The kernel's page lists of large files are charged too, and must not count against a small limit.
#[test]
fn large_files_of_the_task_do_not_count_against_a_small_memory_limit() {
    const BYTES: u64 = 1 << 30;
    let mut harness = CellHarness::new();
    harness.allocate_file(BYTES);
    let limits = CommandLimits {
        memory: Some(2 << 20),
        ..CommandLimits::default()
    };
    let outcome = harness.run(&limited(command(&["/bin/true"]), limits));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
}

#[test]
fn memory_is_reported_correctly_after_the_task_removed_its_files() {
    let mut harness = CellHarness::new();
    harness.allocate_file(40 << 20);
    let outcome = harness.run(&sh("rm brought"));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    let outcome = harness.run(&python("x = b'x' * (20 << 20)"));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    assert!(outcome.memory > 20 << 20, "{outcome:?}");
}

#[test]
fn running_out_of_machine_memory_is_a_platform_error() {
    let mut harness = CellHarness::new();
    harness.limit_machine(64 << 20);
    let hog = python("x = b'x' * (100 << 20)");
    let within = |bytes| CommandLimits {
        memory: Some(bytes),
        ..CommandLimits::default()
    };
    let error = try_run(harness.warden(), &limited(hog.clone(), within(256 << 20))).unwrap_err();
    assert!(
        matches!(error, WardenError::Run(PlatformError::MachineMemory)),
        "{error:?}"
    );
    // The warden can go on, and a command above its own limit gets that outcome.
    let outcome = harness.run(&limited(hog, within(32 << 20)));
    assert_eq!(outcome.reason, CommandEndReason::MemoryLimit, "{outcome:?}");
}

#[test]
fn arguments_larger_than_the_memory_limit_are_a_memory_limit_outcome() {
    let mut harness = CellHarness::new();
    let long = "x".repeat(100_000);
    let words: Vec<&str> = std::iter::once("/bin/true")
        .chain(std::iter::repeat_n(long.as_str(), 15))
        .collect();
    let limits = CommandLimits {
        memory: Some(2 << 20),
        ..CommandLimits::default()
    };
    let outcome = harness.run(&limited(command(&words), limits));
    assert_eq!(outcome.reason, CommandEndReason::MemoryLimit, "{outcome:?}");
    let outcome = harness.run(&command(&words));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
}

#[test]
fn a_program_that_cannot_be_executed_has_the_exit_code_of_a_shell() {
    let mut harness = CellHarness::new();
    let outcome = harness.run(&command(&["nowhere-to-be-found"]));
    assert_eq!(outcome.exit_code, Some(127), "{outcome:?}");
    for path in ["/etc/passwd", "/etc"] {
        let outcome = harness.run(&command(&[path]));
        assert_eq!(outcome.exit_code, Some(126), "{outcome:?}");
    }
    // Only a file with execute permission is found in `PATH`.
    let on_path = |path: &str| CommandSpec {
        env: vec![("PATH".into(), path.into())],
        ..command(&["true"])
    };
    let folder = harness.task_folder();
    fs::create_dir_all(folder.join("box/folder/true")).unwrap();
    fs::create_dir_all(folder.join("box/plain")).unwrap();
    fs::write(folder.join("box/plain/true"), "").unwrap();
    for (path, code) in [
        ("/box/folder", 127),
        ("/box/plain", 126),
        ("/box/folder:plain:/bin", 0),
        ("", 127),
    ] {
        let outcome = harness.run(&on_path(path));
        assert_eq!(outcome.exit_code, Some(code), "{path}: {outcome:?}");
    }
}

/// However many processes a command starts, together they get the share of one cell.
#[test]
fn each_cell_gets_one_share_of_the_processors() {
    let mut harness = CellHarness::new();
    let cgroup_root = harness.cgroup_root.clone().unwrap();
    assert!(cgroup_root.features().cpu_share);
    let folder = harness.task_folder();
    let watcher = std::thread::spawn(move || {
        let members = |group: &Path| fs::read_to_string(group.join("slot/cgroup.procs")).unwrap_or_default();
        wait_until("the command to run", || folder.join("box/runs").exists());
        let divided = cgroup_root.paths().filter(|group| {
            ["cpu.shares", "cpu.weight"]
                .iter()
                .any(|file| group.join(file).exists())
        });
        let processes: Vec<_> = divided.map(|group| members(group).lines().count()).collect();
        fs::write(folder.join("box/seen"), "").unwrap();
        processes
    });
    let script = "setsid sleep 20 & setsid sleep 20 & touch runs; until [ -e seen ]; do sleep 0.01; done";
    let outcome = harness.run(&sh(script));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    let processes = watcher.join().unwrap();
    // The shell, the two processes that it started, and possibly its own sleep.
    assert!(matches!(processes[..], [3..=6]), "{processes:?}");
}

/// The program cannot be executed at first, so the stub shares the warden's memory and score for longer.
#[test]
fn a_command_whose_exec_is_delayed_has_its_own_oom_score() {
    let mut harness = CellHarness::new();
    let score_of = |pid| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    let (own, warden) = (score_of(std::process::id()), harness.warden().pid());
    let program = harness.task_folder().join("box/program");
    fs::copy("/bin/cat", &program).unwrap();
    let written = fs::File::options().append(true).open(&program).unwrap();
    let watcher = std::thread::spawn(move || {
        wait_until("the command's process to have its score", || {
            score_of(warden) == "1000\n"
        });
        drop(written);
    });
    let outcome = harness.run(&command(&["./program", "/proc/self/oom_score_adj"]));
    watcher.join().unwrap();
    assert_eq!(stdout(&outcome), "1000\n", "{outcome:?}");
    assert_eq!(score_of(warden), own);
}
