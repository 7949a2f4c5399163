//! Those that want to talk to somebody.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cluster_tests::{Network, System};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

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

fn caller(zoo: &Zoo) -> String {
    // The node's own ports, and those that etcd and mongod have.
    let (http, rpc) = (port(zoo.system.http()), port(zoo.system.rpc()));
    CALLER.replace("PORTS", &format!("[{http}, {rpc}, 2379, 2380, 27017]"))
}

fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}

#[tokio::test]
async fn nobody_can_be_reached() {
    let zoo = Zoo::open().await;
    let name = SocketAddr::from_abstract_name("conclave-zoo").unwrap();
    let _host = UnixListener::bind_addr(&name).unwrap();
    let program: &'static str = Box::leak(caller(&zoo).into_boxed_str());
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
    let zoo = Zoo::open().await;
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

#[tokio::test]
async fn who_may_talk_to_itself_reaches_nobody_else() {
    let zoo = Zoo::open().await;
    let name = SocketAddr::from_abstract_name("conclave-zoo-loopback").unwrap();
    let _host = UnixListener::bind_addr(&name).unwrap();
    let program = caller(&zoo).replace("conclave-zoo", "conclave-zoo-loopback");
    let done = zoo
        .task(&json!({
            "source": {"main.py": program},
            "execute": {"command": "python3 -S main.py", "network": "loopback"},
        }))
        .await;
    let said = done["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    assert!(
        !said.contains("CONNECTED") && !said.contains("RESOLVED"),
        "{done:#}"
    );
    // The way there is open, and leads to nobody: the ports are its own.
    let refused = said.lines().filter(|line| *line == "local ECONNREFUSED").count();
    assert_eq!(refused, 5, "{said}");
    for expected in ["tcp ENETUNREACH", "metadata ENETUNREACH", "abstract ECONNREFUSED"] {
        assert!(said.lines().any(|line| line == expected), "{expected} in {said}");
    }
}

const VISITOR: &str = r#"
import errno, socket, sys
try:
    print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 20).recv(5).decode())
except OSError as e:
    print(errno.errorcode.get(e.errno, e))
"#;

/// Says hello to everybody, and counts.
async fn greet(listener: TcpListener, greeted: Arc<AtomicU32>) {
    while let Ok((mut visitor, _)) = listener.accept().await {
        greeted.fetch_add(1, Ordering::SeqCst);
        let _ = visitor.write_all(b"hello").await;
    }
}

#[tokio::test]
async fn a_network_of_the_operator_is_for_those_who_ask_for_it() {
    let network = Network::make();
    let settings = [format!("sandbox.networks=lab={}", network.namespace().display())];
    let zoo = Zoo::open_with(System::new().expect("a folder"), &settings).await;
    let listener = TcpListener::bind((network.outside().as_str(), 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let greeted = Arc::new(AtomicU32::new(0));
    tokio::spawn(greet(listener, greeted.clone()));

    let visit = |address: &str, network: Option<&str>| {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let command = json!(["python3", "-S", "main.py", host, port(address)]);
        json!({"command": command, "network": network, "limits": {"wall": "30s"}})
    };
    let task = |execute: Value| json!({"source": {"main.py": VISITOR}, "execute": execute});
    let unreachable = "ENETUNREACH\n";

    let done = zoo.task(&task(visit(&address, Some("lab")))).await;
    assert_eq!(done["result"]["execute"]["stdout"], "hello\n", "{done:#}");
    for network in [None, Some("loopback")] {
        let done = zoo.task(&task(visit(&address, network))).await;
        assert_eq!(done["result"]["execute"]["stdout"], unreachable, "{done:#}");
    }
    assert_eq!(greeted.load(Ordering::SeqCst), 1);

    // It is the step's, not the task's nor the warden's.
    let mut both = task(visit(&address, None));
    both["compile"] = visit(&address, Some("lab"));
    let done = zoo.task(&both).await;
    assert_eq!(done["result"]["compile"]["stdout"], "hello\n", "{done:#}");
    assert_eq!(done["result"]["execute"]["stdout"], unreachable, "{done:#}");
    assert_eq!(greeted.load(Ordering::SeqCst), 2);

    // The node that listens on this machine is not on that network.
    let done = zoo.task(&task(visit(zoo.system.http(), Some("lab")))).await;
    assert_eq!(done["result"]["execute"]["stdout"], unreachable, "{done:#}");
}

#[tokio::test]
async fn a_network_that_is_not_there_is_the_tasks_own_failure() {
    let zoo = Zoo::open().await;
    let (with, without) = (
        json!({"command": "echo ran", "network": "nowhere"}),
        json!({"command": "echo ran"}),
    );
    for (task, step, status) in [
        (json!({"execute": with}), "execute", "run_failed"),
        (
            json!({"compile": without, "execute": with}),
            "execute",
            "run_failed",
        ),
        (
            json!({"compile": with, "execute": without}),
            "compile",
            "compile_failed",
        ),
    ] {
        let done = zoo.task(&task).await;
        let outcome = &done["result"][step];
        assert_eq!(done["status"], status, "{done:#}");
        assert_eq!(done["attempt"], 1, "{done:#}");
        assert_eq!(outcome["reason"], "exited", "{done:#}");
        assert_eq!(outcome["exit_code"], 126, "{done:#}");
        assert_eq!(outcome["stdout"], "", "{done:#}");
        assert_eq!(
            outcome["stderr"],
            "conclave: there is no network \"nowhere\" here: ask for another, or have the operator name it in \
             sandbox.networks\n",
            "{done:#}"
        );
    }
}
