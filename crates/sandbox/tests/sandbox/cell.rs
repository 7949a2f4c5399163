//! What a command finds in a cell, and what it can do there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sandbox::cgroup::Place;
use sandbox::{
    CellSettings, Fault, FileSize, Isolation, Launcher, Limits, Outcome, Part, Reason, Spec, Step, Usual,
    WORKSPACE, Warden, WardenError,
};

use super::stage::{command, launcher, limited, python, run_in, sh, stdout, try_run, wait_until};

/// A warden whose cells have limits of their own place, which goes when it is dropped.
struct Stage {
    warden: Option<Warden>,
    place: Option<Place>,
}

impl Stage {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("conclave-test-{}-{number}", std::process::id());
        let place = Place::prepare(&name, None).unwrap();
        let settings = CellSettings {
            root: Part::of_host().unwrap(),
            user: 1_900_000_000,
            subordinates: None,
            most_open_files: None,
            group: Some((place.clone(), "slot".into())),
            usual: Usual::default(),
            space: 64 << 20,
            files: 10_000,
            networks: Vec::new(),
        };
        let launcher = Launcher {
            isolation: Isolation::Cell(Box::new(settings)),
            ..launcher()
        };
        Self {
            warden: Some(launcher.start().unwrap()),
            place: Some(place),
        }
    }

    fn warden(&mut self) -> &mut Warden {
        self.warden.as_mut().unwrap()
    }

    fn run(&mut self, spec: &Spec) -> Outcome {
        let spec = Spec {
            directory: WORKSPACE.into(),
            ..spec.clone()
        };
        run_in(self.warden(), &spec)
    }

    /// The task's folder.
    fn folder(&mut self) -> PathBuf {
        self.warden().folder().unwrap()
    }

    /// Lays out a file of the task, empty but allocated.
    fn bring_file(&mut self, bytes: u64) {
        let path = PathBuf::from("box/brought");
        fs::write(self.folder().join(&path), "").unwrap();
        self.warden().give_space(bytes + (1 << 20)).unwrap();
        self.warden().charge(vec![FileSize { path, bytes }]).unwrap();
    }

    /// The group above those of all cells stands for the machine: beyond this its memory runs out.
    fn limit_machine(&self, bytes: u64) {
        let files = ["memory.limit_in_bytes", "memory.max"];
        let directories = self.place.as_ref().unwrap().directories();
        let mut limits = directories.flat_map(|directory| files.map(|file| directory.join(file)));
        let limit = limits.find(|path| path.exists()).expect("a limit of memory");
        fs::write(limit, bytes.to_string()).unwrap();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.warden.take());
        if let Some(place) = self.place.take() {
            place.remove().unwrap();
        }
    }
}

#[test]
fn a_command_is_nobody() {
    let mut stage = Stage::new();
    let outcome = stage.run(&sh("id -u; id -g; id -G; whoami; hostname; pwd; echo $$"));
    assert_eq!(outcome.reason, Reason::Exited, "{outcome:?}");
    assert_eq!(
        stdout(&outcome),
        "1900000000\n1900000000\n1900000000\ntask\ncell\n/box\n2\n",
        "{outcome:?}"
    );
    let outcome = stage.run(&sh("grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status"));
    assert_eq!(
        stdout(&outcome).split_whitespace().collect::<Vec<_>>().join(" "),
        "CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000 \
         CapBnd: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1 Seccomp: 2"
    );
}

#[test]
fn a_command_sees_only_its_cell() {
    let mut stage = Stage::new();
    let outcome = stage.run(&sh(
        "ls /; ls /proc | grep -c '^[0-9]'; cut -d' ' -f2 /proc/mounts | sort | tr '\\n' ' '",
    ));
    let seen = stdout(&outcome);
    assert!(!seen.contains("root"), "{seen}");
    // The shell, and the pipe's three.
    let outcome = stage.run(&command(&["/bin/ls", "-1", "/proc"]));
    let processes: Vec<_> = stdout(&outcome)
        .lines()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .map(str::to_owned)
        .collect();
    assert_eq!(processes, ["2"], "only itself");
    let outcome = stage.run(&sh(
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
        let outcome = stage.run(&command(&["/bin/ls", path]));
        assert_ne!(outcome.exit_code, Some(0), "{path}");
    }
    for script in [
        "echo x > /x",
        "echo x > /usr/x",
        "echo x > /etc/passwd",
        "echo 1 > /proc/sys/kernel/core_pattern",
    ] {
        let outcome = stage.run(&sh(script));
        assert_ne!(outcome.exit_code, Some(0), "{script}");
    }
}

#[test]
fn files_go_in_and_stay_within_the_task() {
    let mut stage = Stage::new();
    let folder = stage.folder();
    fs::write(folder.join("box/in"), "from outside").unwrap();
    fs::write(folder.join("input"), "not to be seen").unwrap();
    let outcome = stage.run(&sh(
        "cat in; ls -A /box; echo more > out; echo t > /tmp/t; echo s > /dev/shm/s",
    ));
    assert_eq!(stdout(&outcome), "from outsidein\n", "{outcome:?}");
    assert_eq!(fs::read_to_string(folder.join("box/out")).unwrap(), "more\n");
    // The next command of the same task finds what the first one left.
    let outcome = stage.run(&sh("cat out /tmp/t /dev/shm/s"));
    assert_eq!(stdout(&outcome), "more\nt\ns\n");
    stage.warden().renew().unwrap();
    stage.warden().wait_until_ready().unwrap();
    let outcome = stage.run(&sh("ls -A /box /tmp /dev/shm"));
    assert_eq!(stdout(&outcome), "/box:\n\n/dev/shm:\n\n/tmp:\n");
}

#[test]
fn limits_hold_for_all_processes_together() {
    let mut stage = Stage::new();
    let none = Limits::default();
    let mut check = |script: &str, limits: Limits, expected: Reason| {
        let outcome = stage.run(&limited(sh(script), limits));
        assert_eq!(outcome.reason, expected, "{script}: {outcome:?}");
        outcome
    };
    let memory = Limits {
        memory: Some(64 << 20),
        ..none
    };
    check(
        "head -c 200m /dev/zero | tail -c 200m > /dev/null",
        memory,
        Reason::MemoryLimit,
    );
    let processes = Limits {
        processes: Some(20),
        ..none
    };
    check(
        "bomb() { bomb | bomb & }; bomb; sleep 5",
        processes,
        Reason::ProcessLimit,
    );
    let cpu = Limits {
        cpu: Some(Duration::from_millis(500)),
        ..none
    };
    let outcome = check(
        "while :; do :; done & while :; do :; done",
        cpu,
        Reason::TimeLimit,
    );
    // The kernel by itself would let each of them have as much.
    assert!(outcome.cpu < Duration::from_secs(2), "{outcome:?}");
    check("sleep 1000 & exit 3", none, Reason::Exited);
}

/// The kernel takes 1 for no core dump, even where a helper of the host would get it.
#[test]
fn the_limit_of_core_files_cannot_be_changed() {
    let mut stage = Stage::new();
    let script = r#"
import resource
for limits in ((0, 0), (0, 1), (1, 1)):
    resource.setrlimit(resource.RLIMIT_CORE, limits)
    print(*resource.getrlimit(resource.RLIMIT_CORE))
"#;
    let outcome = stage.run(&command(&["/usr/bin/python3", "-c", script]));
    assert_eq!(stdout(&outcome), "1 1\n".repeat(3), "{outcome:?}");
}

#[test]
fn the_machine_runs_out_of_memory_for_a_command_before_its_warden() {
    const SCORE: &str = "oom_score_adj";
    let mut stage = Stage::new();
    let own = fs::read_to_string(format!("/proc/self/{SCORE}")).unwrap();
    let (folder, warden) = (stage.folder(), stage.warden().pid());
    let score_of_warden = move || fs::read_to_string(format!("/proc/{warden}/{SCORE}")).unwrap();
    let looking = std::thread::spawn(move || {
        while !folder.join("box/runs").exists() {
            std::thread::yield_now();
        }
        while score_of_warden() != own {
            std::thread::yield_now();
        }
        fs::write(folder.join("box/seen"), "").unwrap();
    });
    let script = "cat /proc/self/oom_score_adj; touch runs; until [ -e seen ]; do sleep 0.01; done";
    let limits = Limits {
        wall: Some(Duration::from_secs(20)),
        ..Limits::default()
    };
    let outcome = stage.run(&limited(sh(script), limits));
    assert_eq!(
        (stdout(&outcome), outcome.reason),
        ("1000\n".into(), Reason::Exited)
    );
    looking.join().unwrap();
    // A command that cannot be executed sets nothing, and neither does one that was.
    let outcome = stage.run(&command(&["/no/such/program"]));
    assert_eq!(outcome.exit_code, Some(127), "{outcome:?}");
    let score_of = |pid| fs::read_to_string(format!("/proc/{pid}/{SCORE}")).unwrap();
    assert_eq!(score_of(warden), score_of(std::process::id()));
}

/// The task's own paths are looked at when nothing of the warden's is open any more.
#[test]
fn no_path_leads_to_what_the_warden_has_open() {
    let mut stage = Stage::new();
    for descriptor in 3..64 {
        let spec = Spec {
            directory: format!("/proc/self/fd/{descriptor}").into(),
            ..sh("pwd")
        };
        // Nothing, or one of the two by which the cell and the warden know of each other: no folder.
        let WardenError::Run(Fault::Cell(failed)) = try_run(stage.warden(), &spec).unwrap_err() else {
            panic!("descriptor {descriptor} leads somewhere");
        };
        assert_eq!(failed.step, Step::ChangeDirectory, "{descriptor}: {failed:?}");
        assert!(
            [libc::ENOENT, libc::ENOTDIR].contains(&failed.errno.0),
            "{descriptor}: {failed:?}"
        );
    }
}

#[test]
fn a_full_file_system_is_told() {
    let mut stage = Stage::new();
    let outcome = stage.run(&sh("head -c 200m /dev/zero > /tmp/x"));
    assert_eq!(outcome.reason, Reason::DiskLimit, "{outcome:?}");
    stage.warden().renew().unwrap();
    stage.warden().wait_until_ready().unwrap();
    stage.warden().give_space(1 << 20).unwrap();
    let outcome = stage.run(&sh("head -c 2m /dev/zero > x"));
    assert_eq!(outcome.reason, Reason::DiskLimit, "{outcome:?}");
    // It is full, but nothing has failed.
    let outcome = stage.run(&sh("head -c 2m /dev/zero > y 2>/dev/null; exit 0"));
    assert_eq!(outcome.reason, Reason::Exited, "{outcome:?}");
    stage.warden().renew().unwrap();
    stage.warden().wait_until_ready().unwrap();
    let outcome = stage.run(&sh("head -c 2m /dev/zero > x"));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
}

#[test]
fn what_is_shared_without_files_ends_with_the_command() {
    let mut stage = Stage::new();
    let look = r#"
import ctypes
libc = ctypes.CDLL(None)
print(libc.shmget(1, 0, 0), libc.semget(1, 0, 0), libc.msgget(1, 0), libc.mq_open(b'/left', 2))
"#;
    let nothing = "-1 -1 -1 -1\n";
    let python = |program: &str| command(&["/usr/bin/python3", "-c", program]);
    // Each alone: what one leaves must be noticed without the others.
    for left in [
        "shmget(1, 4096, 0o1600)",
        "semget(1, 3, 0o1600)",
        "msgget(1, 0o1600)",
        "mq_open(b'/left', 0o102, 0o600, None)",
    ] {
        let outcome = stage.run(&python(look));
        assert_eq!(stdout(&outcome), nothing, "before {left}: {outcome:?}");
        let leave = format!("import ctypes; print(ctypes.CDLL(None).{left} >= 0)");
        let outcome = stage.run(&python(&leave));
        assert_eq!(stdout(&outcome), "True\n", "{left}: {outcome:?}");
    }
    let outcome = stage.run(&python(look));
    assert_eq!(stdout(&outcome), nothing, "{outcome:?}");
}

#[test]
fn what_one_command_wrote_is_not_held_against_the_next() {
    let mut stage = Stage::new();
    let limits = Limits {
        memory: Some(60 << 20),
        ..Limits::default()
    };
    let outcome = stage.run(&limited(sh("head -c 40m /dev/zero > big"), limits));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    let limits = Limits {
        memory: Some(16 << 20),
        ..Limits::default()
    };
    let outcome = stage.run(&limited(sh("wc -c < big"), limits));
    assert_eq!(stdout(&outcome), "41943040\n", "{outcome:?}");
    assert!(outcome.memory < 16 << 20, "{outcome:?}");
}

/// The kernel's own lists of the pages of large files are charged too, and are no part of a small limit.
#[test]
fn large_files_of_the_task_leave_a_small_limit_whole() {
    const BYTES: u64 = 1 << 30;
    let mut stage = Stage::new();
    stage.bring_file(BYTES);
    let limits = Limits {
        memory: Some(2 << 20),
        ..Limits::default()
    };
    let outcome = stage.run(&limited(command(&["/bin/true"]), limits));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
}

#[test]
fn memory_is_reported_whole_when_the_task_has_removed_its_files() {
    let mut stage = Stage::new();
    stage.bring_file(40 << 20);
    let outcome = stage.run(&sh("rm brought"));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    let outcome = stage.run(&python("x = b'x' * (20 << 20)"));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    assert!(outcome.memory > 20 << 20, "{outcome:?}");
}

#[test]
fn a_command_that_the_machine_has_no_memory_for_gets_no_verdict() {
    let mut stage = Stage::new();
    stage.limit_machine(64 << 20);
    let hog = python("x = b'x' * (100 << 20)");
    let within = |bytes| Limits {
        memory: Some(bytes),
        ..Limits::default()
    };
    let error = try_run(stage.warden(), &limited(hog.clone(), within(256 << 20))).unwrap_err();
    assert!(
        matches!(error, WardenError::Run(Fault::MachineMemory)),
        "{error:?}"
    );
    // The warden goes on, and what goes beyond its own limit is told so.
    let outcome = stage.run(&limited(hog, within(32 << 20)));
    assert_eq!(outcome.reason, Reason::MemoryLimit, "{outcome:?}");
}

#[test]
fn arguments_beyond_the_memory_are_the_commands_own_fault() {
    let mut stage = Stage::new();
    let long = "x".repeat(100_000);
    let words: Vec<&str> = std::iter::once("/bin/true")
        .chain(std::iter::repeat_n(long.as_str(), 15))
        .collect();
    let limits = Limits {
        memory: Some(2 << 20),
        ..Limits::default()
    };
    let outcome = stage.run(&limited(command(&words), limits));
    assert_eq!(outcome.reason, Reason::MemoryLimit, "{outcome:?}");
    let outcome = stage.run(&command(&words));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
}

#[test]
fn what_cannot_be_executed_is_told_as_a_shell_would() {
    let mut stage = Stage::new();
    let outcome = stage.run(&command(&["nowhere-to-be-found"]));
    assert_eq!(outcome.exit_code, Some(127), "{outcome:?}");
    for path in ["/etc/passwd", "/etc"] {
        let outcome = stage.run(&command(&[path]));
        assert_eq!(outcome.exit_code, Some(126), "{outcome:?}");
    }
    // What is looked for is a file that may be executed.
    let on_path = |path: &str| Spec {
        env: vec![("PATH".into(), path.into())],
        ..command(&["true"])
    };
    let folder = stage.folder();
    fs::create_dir_all(folder.join("box/folder/true")).unwrap();
    fs::create_dir_all(folder.join("box/plain")).unwrap();
    fs::write(folder.join("box/plain/true"), "").unwrap();
    for (path, code) in [
        ("/box/folder", 127),
        ("/box/plain", 126),
        ("/box/folder:plain:/bin", 0),
        ("", 127),
    ] {
        let outcome = stage.run(&on_path(path));
        assert_eq!(outcome.exit_code, Some(code), "{path}: {outcome:?}");
    }
}

/// However many processes a command starts, they have the share of one cell.
#[test]
fn processors_are_shared_by_cells() {
    let mut stage = Stage::new();
    let place = stage.place.clone().unwrap();
    assert!(place.keeps().share);
    let folder = stage.folder();
    let looking = std::thread::spawn(move || {
        let members = |group: &Path| fs::read_to_string(group.join("slot/cgroup.procs")).unwrap_or_default();
        wait_until("the command to run", || folder.join("box/runs").exists());
        let divided = place.directories().filter(|group| {
            ["cpu.shares", "cpu.weight"]
                .iter()
                .any(|file| group.join(file).exists())
        });
        let processes: Vec<_> = divided.map(|group| members(group).lines().count()).collect();
        fs::write(folder.join("box/seen"), "").unwrap();
        processes
    });
    let script = "setsid sleep 20 & setsid sleep 20 & touch runs; until [ -e seen ]; do sleep 0.01; done";
    let outcome = stage.run(&sh(script));
    assert_eq!(outcome.exit_code, Some(0), "{outcome:?}");
    let processes = looking.join().unwrap();
    // The shell, what it has started, and perhaps a sleep of its own.
    assert!(matches!(processes[..], [3..=6]), "{processes:?}");
}

/// Its program cannot be executed at first, so that its process shares the warden's memory, and score, for longer.
#[test]
fn a_command_that_begins_late_has_its_own_score() {
    let mut stage = Stage::new();
    let score_of = |pid| fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    let (own, warden) = (score_of(std::process::id()), stage.warden().pid());
    let program = stage.folder().join("box/program");
    fs::copy("/bin/cat", &program).unwrap();
    let written = fs::File::options().append(true).open(&program).unwrap();
    let looking = std::thread::spawn(move || {
        wait_until("the command's process to have its score", || {
            score_of(warden) == "1000\n"
        });
        drop(written);
    });
    let outcome = stage.run(&command(&["./program", "/proc/self/oom_score_adj"]));
    looking.join().unwrap();
    assert_eq!(stdout(&outcome), "1000\n", "{outcome:?}");
    assert_eq!(score_of(warden), own);
}
