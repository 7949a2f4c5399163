//! Programs that take the kernel's memory instead of their own. The tests look at the host's figures as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster_tests::System;
use serde_json::json;

use crate::stage::{Animal, Program, Zoo};

/// Each of these took more than twice as much where it was not refused.
const MOST: u64 = 256 << 20;

/// How much more a figure of /proc/meminfo was at its highest than at first, in bytes.
struct Rise {
    stop: Arc<AtomicBool>,
    looking: std::thread::JoinHandle<u64>,
}

impl Rise {
    fn of(figure: &'static str) -> Rise {
        let stop = Arc::new(AtomicBool::new(false));
        let looking = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let (first, mut most) = (bytes(figure), 0);
                while !stop.load(Ordering::Relaxed) {
                    most = bytes(figure).max(most);
                    std::thread::sleep(Duration::from_millis(5));
                }
                most.saturating_sub(first)
            }
        });
        Rise { stop, looking }
    }

    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.join().expect("figures")
    }
}

fn bytes(figure: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("/proc");
    let line = text.lines().find_map(|line| line.strip_prefix(figure));
    let kib = line.and_then(|rest| {
        rest.trim_matches([':', ' '])
            .split(' ')
            .next()?
            .parse::<u64>()
            .ok()
    });
    kib.expect("a figure") << 10
}

/// As many as there may be, of each kind; says how many there were and what stopped it.
const HOARDER: &str = r#"
    #define _GNU_SOURCE
    #include <errno.h>
    #include <fcntl.h>
    #include <netinet/in.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/socket.h>
    #include <sys/syscall.h>
    #include <sys/xattr.h>
    #include <unistd.h>
    #define MANY 8000
    static void say(const char *what, int count) { printf("%s %d %s\n", what, count, strerrorname_np(errno)); fflush(stdout); }
    static void lists(void) {
        enum { ENTRIES = 8000 };
        static struct { uint32_t version; struct { uint16_t tag, rights; uint32_t id; } entry[ENTRIES]; } list = { 2 };
        for (int i = 0; i < ENTRIES; i++) { list.entry[i].tag = 2; list.entry[i].rights = 4; list.entry[i].id = i; }
        list.entry[0].tag = 1;
        list.entry[ENTRIES - 3].tag = 4; list.entry[ENTRIES - 2].tag = 16; list.entry[ENTRIES - 1].tag = 32;
        int count = 0;
        for (char name[20]; count < MANY; count++) {
            sprintf(name, "f%d", count);
            int file = open(name, O_CREAT | O_WRONLY, 0600);
            int failed = fsetxattr(file, "system.posix_acl_access", &list, sizeof list, 0);
            close(file);
            if (failed) break;
        }
        say("access control lists", count);
    }
    static void options(int option) {
        static char options[1 << 15];
        int count = 0;
        for (; count < MANY; count++) {
            int s = socket(AF_INET6, SOCK_DGRAM, 0);
            if (s < 0 || setsockopt(s, IPPROTO_IPV6, option, options, 0)) break;
        }
        say("sticky options", count);
    }
    static void ranges(void) {
        unsigned long node = 1;
        int count = 0, file = memfd_create("sparse", 0);
        ftruncate(file, 1L << 40);
        char *memory = mmap(0, 1L << 40, PROT_READ, MAP_SHARED, file, 0);
        for (; count < 1000000; count++)
            if (syscall(SYS_mbind, memory + 8192L * count, 4096, 2, &node, 8, 0)) break;
        say("memory policies", count);
    }
    int main(void) { lists(); options(6); options(54); ranges(); }
"#;

#[tokio::test]
async fn what_is_not_charged_is_refused() {
    let system = System::new().expect("a folder");
    let zoo = Zoo::open_with(system, &["limits.max.open_files=9000".to_string()]).await;
    let slab = Rise::of("Slab");
    let hoarder = Animal::new("hoarder", Program::C(HOARDER)).with("open_files", json!(9000));
    let said = zoo.says(hoarder).await;
    assert_eq!(
        said,
        "access control lists 0 EOPNOTSUPP\nsticky options 0 ENOPROTOOPT\nsticky options 0 ENOPROTOOPT\n\
         memory policies 0 ENOSYS\n"
    );
    let taken = slab.end();
    assert!(taken < MOST, "{taken} bytes of the kernel's memory");
}

/// Says how many bytes wait in all sockets together when no more can be sent.
const QUEUES: &str = r#"
import socket
receivers = []
try:
    while True:
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(('127.0.0.1', 0))
        receiver.setblocking(False)
        receivers.append(receiver)
except OSError: pass
sender = receivers.pop()
for receiver in receivers:
    for _ in range(64):
        try: sender.sendto(bytes(16384), receiver.getsockname())
        except OSError: break
waiting = 0
for receiver in receivers:
    try:
        while True: waiting += len(receiver.recv(65536))
    except OSError: pass
print(len(receivers), waiting)
"#;

#[tokio::test]
async fn what_waits_in_sockets_is_bounded() {
    let zoo = Zoo::open().await;
    let queues = json!({
        "user": "zoo", "source": {"main.py": QUEUES},
        "execute": {
            "command": "python3 -S main.py", "network": "loopback",
            "limits": {"wall": "20s", "memory": "64MiB", "open_files": 500},
        },
    });
    let done = zoo.task(&queues).await;
    let said = done["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    let figures: Vec<u64> = said
        .split_whitespace()
        .filter_map(|figure| figure.parse().ok())
        .collect();
    let [sockets, waiting] = figures[..] else {
        panic!("{done:#}");
    };
    // Without a bound each socket holds about 100 KiB.
    assert!(sockets > 400 && waiting > 0 && waiting <= 16 << 20, "{said}");
}
