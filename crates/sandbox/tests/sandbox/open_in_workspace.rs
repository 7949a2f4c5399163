//! Files of a task that its warden opens for an owner who may not.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::dir::Dir;
use nix::sys::stat::{Mode, SFlag, fstat, makedev, mknod};
use nix::unistd::{Uid, setfsuid};
use sandbox::{CommandEndReason, CommandSpec, OpenPurpose, Warden};

use super::cell_harness::CellHarness;
use super::harness::{is_alive, sh, stdout, wait_until, warden};

/// Some modes that keep others from reading, on files and on the folders around them.
const MAKE_UNREADABLE: &str = "umask 077
    echo own >own; echo none >none
    mkdir private closed closed/inner
    echo p >private/file; echo c >closed/file; echo i >closed/inner/file
    echo odd >closed/\"$(printf 'odd\\377\\n')\"
    deep=d; for i in $(seq 40); do deep=$deep/d; done; mkdir -p $deep; echo deep >$deep/file
    chmod 000 none closed/file closed/inner closed d .";

fn run(harness: &mut CellHarness, spec: &CommandSpec) {
    let outcome = harness.run(spec);
    let ended = (outcome.reason, outcome.exit_code);
    assert_eq!(ended, (CommandEndReason::Exited, Some(0)), "{outcome:?}");
}

fn open(warden: &mut Warden, path: impl AsRef<Path>, purpose: OpenPurpose) -> Result<File, i32> {
    let opened = warden.open_in_workspace(path.as_ref(), purpose).unwrap();
    opened.map_err(|errno| errno.0)
}

fn read(file: Result<File, i32>) -> Result<String, i32> {
    file.map(|mut file| {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    })
}

fn kind(file: Result<File, i32>) -> Result<SFlag, i32> {
    file.map(|file| SFlag::from_bits_truncate(fstat(file).unwrap().st_mode) & SFlag::S_IFMT)
}

#[test]
fn the_warden_opens_what_its_owner_may_not() {
    let mut harness = CellHarness::new();
    run(&mut harness, &sh(MAKE_UNREADABLE));
    let workspace = harness.task_folder().join("box");
    let warden = harness.warden();
    let files = [
        (OsStr::new("own"), "own\n"),
        (OsStr::new("none"), "none\n"),
        (OsStr::new("private/file"), "p\n"),
        (OsStr::new("closed/file"), "c\n"),
        (OsStr::new("closed/inner/file"), "i\n"),
        (OsStr::from_bytes(b"closed/odd\xff"), "odd\n"),
    ];
    let deep = format!("{}/file", ["d"; 41].join("/"));
    let files = files.into_iter().chain([(OsStr::new(&deep), "deep\n")]);
    let check = || {
        // Only this thread is another user than root.
        setfsuid(Uid::from_raw(65534));
        for (path, content) in files {
            let by_owner = File::open(workspace.join(path)).map_err(|error| error.raw_os_error());
            assert_eq!(by_owner.unwrap_err(), Some(libc::EACCES), "{path:?}");
            assert_eq!(
                read(open(warden, path, OpenPurpose::Content)).as_deref(),
                Ok(content),
                "{path:?}"
            );
            let status = open(warden, path, OpenPurpose::Status);
            assert_eq!(fstat(status.unwrap()).unwrap().st_size, content.len() as i64);
            let entries = open(warden, path, OpenPurpose::Entries);
            assert_eq!(entries.unwrap_err(), libc::ENOTDIR, "{path:?}");
        }
        for (path, expected) in [
            (".", "closed d none own private"),
            ("private", "file"),
            ("closed/inner", "file"),
        ] {
            let folder = open(warden, path, OpenPurpose::Entries).unwrap();
            let mut folder = Dir::from_fd(folder.into()).unwrap();
            let names = folder.iter().map(|entry| entry.unwrap());
            let names = names.map(|entry| entry.file_name().to_str().unwrap().to_string());
            let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
            names.sort();
            assert_eq!(names.join(" "), expected, "{path}");
        }
    };
    std::thread::scope(|scope| scope.spawn(check).join().unwrap());
}

#[test]
fn only_the_workspace_of_the_current_task_can_be_reached() {
    let mut harness = CellHarness::new();
    let folder = harness.task_folder();
    fs::write(folder.join("input"), "the task must not see this").unwrap();
    run(
        &mut harness,
        &sh(
            "echo other >/tmp/other; echo text >file; ln -s file inside; ln -s /etc/passwd outside; ln -s / root; \
             ln -s .. up; ln -s /proc/self/root magic; mkfifo pipe; python3 -c 'import socket; \
             socket.socket(socket.AF_UNIX).bind(\"socket\")'",
        ),
    );
    // No command can make one, and the file system has none.
    let device = folder.join("box/device");
    mknod(&device, SFlag::S_IFCHR, Mode::S_IRWXU, makedev(1, 5)).unwrap();
    let warden = harness.warden();
    let purposes = [OpenPurpose::Content, OpenPurpose::Entries, OpenPurpose::Status];
    for path in [
        "..",
        "../input",
        "../tmp/other",
        "../box/file",
        "/etc/passwd",
        "/box/input",
        "/",
        "root/etc/passwd",
        "up/input",
        "magic/etc/passwd",
        "missing",
        "file/x",
        "",
        "a\0b",
        &"x/".repeat(3000),
    ] {
        for purpose in purposes {
            let opened = kind(open(warden, path, purpose));
            assert!(opened.is_err(), "{path:?} {purpose:?} {opened:?}");
        }
    }
    let (link, pipe) = (SFlag::S_IFLNK, SFlag::S_IFIFO);
    for path in ["inside", "outside", "root", "up", "magic"] {
        let opened = purposes.map(|purpose| kind(open(warden, path, purpose)));
        assert_eq!(
            opened.map(Result::ok),
            [None, None, Some(link)],
            "{path} {opened:?}"
        );
    }
    // Nobody writes to the pipe, and nobody listens at the socket.
    assert_eq!(kind(open(warden, "pipe", OpenPurpose::Content)), Ok(pipe));
    assert_eq!(
        kind(open(warden, "socket", OpenPurpose::Content)),
        Err(libc::ENXIO)
    );
    assert_eq!(
        kind(open(warden, "device", OpenPurpose::Content)),
        Err(libc::EACCES)
    );
    assert_eq!(
        read(open(warden, "file", OpenPurpose::Content)).as_deref(),
        Ok("text\n")
    );
    // None of this has disturbed the warden.
    let outcome = harness.run(&sh("cat file"));
    assert_eq!(stdout(&outcome), "text\n", "{outcome:?}");
    harness.warden().reset_for_next_task().unwrap();
    assert_eq!(
        kind(open(harness.warden(), "file", OpenPurpose::Content)),
        Err(libc::ENOENT)
    );
}

#[test]
fn a_task_without_a_cell_has_no_files_that_only_the_warden_can_open() {
    let mut warden = warden();
    let opened = open(&mut warden, ".", OpenPurpose::Status);
    assert_eq!(kind(opened), Err(libc::EACCES));
}

#[test]
fn a_warden_that_dies_before_it_has_opened_a_file_is_lost() {
    let mut harness = CellHarness::new();
    run(&mut harness, &sh("echo text >file"));
    let control = harness.warden().control();
    control.kill_warden().unwrap();
    let pid = harness.warden().pid();
    wait_until("the warden has ended", || !is_alive(pid.try_into().unwrap()));
    let opened = harness
        .warden()
        .open_in_workspace("file".as_ref(), OpenPurpose::Content);
    let error = opened.unwrap_err();
    assert!(error.is_warden_lost(), "{error}");
}
