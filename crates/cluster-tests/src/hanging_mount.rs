//! A FUSE file system whose one file never answers a read: the reader hangs in the kernel (state D) and SIGKILL does not
//! end it.
//!
//! The server answers every request but READ. A reader can be killed only until the server has taken its request.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// A mounted FUSE file system for tests, whose one file never answers a read, so that the reader hangs. Dropping it
/// unmounts it, which ends every hanging read. Needs root and `/dev/fuse`.
pub struct HangingMount {
    folder: PathBuf,
    server: Option<JoinHandle<()>>,
}

impl HangingMount {
    /// Creates the folder and mounts the file system there.
    pub fn mount(folder: &Path) -> HangingMount {
        fs::create_dir_all(folder).expect("a folder to mount at");
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let device = device.expect("/dev/fuse: the kernel has to have FUSE");
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
            device.as_raw_fd()
        );
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(
            Some("hanging"),
            folder,
            Some("fuse"),
            flags,
            Some(options.as_str()),
        )
        .expect("mount: it needs root");
        HangingMount {
            folder: folder.to_path_buf(),
            server: Some(std::thread::spawn(|| serve(device))),
        }
    }

    /// The file whose reads hang.
    pub fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}

impl Drop for HangingMount {
    fn drop(&mut self) {
        // MNT_FORCE aborts all pending requests. If this process is killed, the kernel does the same.
        let flags = MntFlags::MNT_FORCE | MntFlags::MNT_DETACH;
        umount2(&self.folder, flags).expect("umount");
        let ended = self.server.take().map(JoinHandle::join);
        assert!(
            ended.is_none_or(|ended| ended.is_ok()),
            "the FUSE server panicked"
        );
    }
}

const FILE: &str = "file";
const ROOT_NODE: u64 = 1;
const FILE_NODE: u64 = 2;

/// Serves requests until the file system is unmounted. `linux/fuse.h` defines the messages.
fn serve(mut device: File) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = match device.read(&mut buffer) {
            Ok(length) => length,
            // The request was aborted before it was read.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => continue,
            Err(_) => return,
        };
        let request = &buffer[..length];
        let answer = match number(request, 4, 4) {
            // FORGET, INTERRUPT and BATCH_FORGET have no answer; READ gets none.
            2 | 15 | 36 | 42 => continue,
            26 => Ok(init()),
            1 if request[40..].starts_with(FILE.as_bytes()) => Ok(entry(FILE_NODE)),
            1 => Err(libc::ENOENT),
            3 => Ok([&[0; 16], &attributes(number(request, 16, 8))[..]].concat()),
            14 | 27 => Ok(opened()),
            17 => Ok(vec![0; 80]),
            // FLUSH, RELEASE, RELEASEDIR
            18 | 25 | 29 => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(errno) => (-errno, Vec::new()),
        };
        let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(error.to_ne_bytes());
        message.extend(&request[8..16]);
        message.extend(body);
        // Fails if the request was aborted.
        let _ = device.write(&message);
    }
}

fn number(request: &[u8], at: usize, bytes: usize) -> u64 {
    let mut number = [0; 8];
    number[..bytes].copy_from_slice(&request[at..at + bytes]);
    u64::from_le_bytes(number)
}

/// Protocol version 7.31, no optional features, writes of 4 KiB.
fn init() -> Vec<u8> {
    let words: [u32; 16] = [7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn entry(node: u64) -> Vec<u8> {
    [&node.to_ne_bytes(), &[0; 32][..], &attributes(node)].concat()
}

fn attributes(node: u64) -> Vec<u8> {
    let (mode, size) = match node {
        ROOT_NODE => (libc::S_IFDIR | 0o755, 0),
        _ => (libc::S_IFREG | 0o644, 4096),
    };
    let long: [u64; 6] = [node, size, 0, 0, 0, 0];
    // Nanoseconds of three times, then mode, links, user, group, device, block size, flags.
    let short: [u32; 10] = [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0];
    let long = long.iter().flat_map(|number| number.to_ne_bytes());
    long.chain(short.iter().flat_map(|number| number.to_ne_bytes()))
        .collect()
}

/// Direct I/O, because a reader that waits for the page cache can be killed.
fn opened() -> Vec<u8> {
    const DIRECT: u32 = 1;
    [&[0; 8], &DIRECT.to_ne_bytes()[..], &[0; 4]].concat()
}
