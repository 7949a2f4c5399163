//! Those that want to talk to somebody.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use serde_json::json;

use crate::stage::{Animal, Program, Zoo};

const CALLER: &str = r#"
import errno, socket, sys
def attempt(name, make):
    try:
        make(); print(name, 'CONNECTED')
    except OSError as e:
        print(name, errno.errorcode.get(e.errno, e.errno))
def tcp(host, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM); s.settimeout(2); s.connect((host, port))
def udp(host, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', (host, port))
for port in PORTS: attempt('local', lambda: tcp('127.0.0.1', port))
attempt('tcp', lambda: tcp('192.0.2.1', 80))
attempt('tcp6', lambda: socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80)))
attempt('udp', lambda: udp('192.0.2.1', 53))
attempt('metadata', lambda: tcp('169.254.169.254', 80))
attempt('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
attempt('netlink', lambda: socket.socket(16, socket.SOCK_RAW))
attempt('packet', lambda: socket.socket(17, socket.SOCK_RAW))
attempt('alg', lambda: socket.socket(38, socket.SOCK_SEQPACKET))
attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\0conclave-zoo'))
try:
    socket.getaddrinfo('example.com', 80); print('RESOLVED')
except socket.gaierror:
    print('no name')
"#;

#[tokio::test]
async fn nobody_can_be_reached() {
    let zoo = Zoo::open();
    let name = SocketAddr::from_abstract_name("conclave-zoo").unwrap();
    let _host = UnixListener::bind_addr(&name).unwrap();
    let port = |address: &str| address.rsplit(':').next().unwrap().to_string();
    // The node's own ports, and those that etcd and mongod have.
    let ports = format!(
        "[{}, {}, 2379, 2380, 27017]",
        port(zoo.system.http()),
        port(zoo.system.rpc())
    );
    let program: &'static str = Box::leak(CALLER.replace("PORTS", &ports).into_boxed_str());
    let said = zoo.says(Animal::new("caller", Program::Python(program))).await;
    assert!(
        !said.contains("CONNECTED") && !said.contains("RESOLVED"),
        "{said}"
    );
    let expected = "local ENETUNREACH\nlocal ENETUNREACH\nlocal ENETUNREACH\nlocal ENETUNREACH\nlocal ENETUNREACH\n\
                    tcp ENETUNREACH\ntcp6 EADDRNOTAVAIL\nudp ENETUNREACH\nmetadata ENETUNREACH\n\
                    vsock EAFNOSUPPORT\nnetlink EAFNOSUPPORT\npacket EAFNOSUPPORT\nalg EAFNOSUPPORT\n\
                    raw EPERM\nabstract ECONNREFUSED\nno name\n";
    assert_eq!(said, expected);
}

const SELF_CALLER: &str = r#"
import socket, threading
s = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen()
threading.Thread(target=lambda: s.accept()[0].sendall(b'hello'), daemon=True).start()
c = socket.create_connection(('127.0.0.1', 8000), 5)
print(c.recv(5).decode())
"#;

#[tokio::test]
async fn a_task_may_talk_to_itself_where_it_asks_to() {
    let zoo = Zoo::open();
    let task = |network: Option<&str>| {
        let mut task = json!({
            "source": {"main.py": SELF_CALLER},
            "execute": {"command": "python3 -S main.py", "limits": {"wall": "20s"}},
        });
        if let Some(network) = network {
            task["execute"]["network"] = json!(network);
        }
        task
    };
    // Twice: a port that was closed is not taken for the next task.
    for _ in 0..2 {
        let done = zoo.task(&task(Some("loopback"))).await;
        assert_eq!(done["result"]["execute"]["stdout"], "hello\n", "{done:#}");
    }
    let done = zoo.task(&task(None)).await;
    assert_eq!(done["status"], "run_failed", "{done:#}");
}
