//! Programs that try to use networks.

use std::fs;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cluster_tests::{TestSystem, VethNetwork, wait_until};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::harness::{HostileProgram, HostileTestNode, ProgramSource, executed};
use crate::node_inventory::cell_processes;

const SOON: Duration = Duration::from_secs(30);

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
attempt('resolver', lambda: udp('RESOLVER', 53))
attempt('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
attempt('netlink', lambda: socket.socket(16, socket.SOCK_RAW))
attempt('packet', lambda: socket.socket(17, socket.SOCK_RAW))
attempt('alg', lambda: socket.socket(38, socket.SOCK_SEQPACKET))
attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
# Of a type that there is not: the kernel refuses that (EINVAL) before it looks for the family, or at who asks.
for family in (socket.AF_UNIX, 40, 16, 17, 38, socket.AF_INET): attempt('nonsense', lambda: socket.socket(family, 15))
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\0SOCKET'))
for name in ('localhost', 'example.com'):
    try:
        socket.getaddrinfo(name, 80); print(name, 'RESOLVED')
    except socket.gaierror as e:
        print(name, 'is no name' if e.errno == socket.EAI_NONAME else e)
print('interfaces', [line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:]])
"#;

/// An abstract socket outside of all cells, with a name that is unique for this test process.
fn host() -> (String, UnixListener) {
    let name = format!("conclave-zoo-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("a name that is free");
    (name, listener)
}

fn caller(node: &HostileTestNode, socket: &str) -> String {
    // The node's own ports, and those of etcd and mongod.
    let (http, rpc) = (port(node.system.http()), port(node.system.rpc()));
    CALLER
        .replace("PORTS", &format!("[{http}, {rpc}, 2379, 2380, 27017]"))
        .replace("RESOLVER", &resolver().to_string())
        .replace("SOCKET", socket)
}

/// The DNS server of this machine, unless it is a loopback address, which a cell has, too.
fn resolver() -> Ipv4Addr {
    let settings = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = settings
        .lines()
        .filter_map(|line| line.strip_prefix("nameserver "));
    let mut servers = servers.filter_map(|server| server.trim().parse::<Ipv4Addr>().ok());
    let server = servers.find(|server| !server.is_loopback());
    server.unwrap_or(Ipv4Addr::new(192, 0, 2, 53))
}

fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}

/// The expected answers to a caller. With a loopback interface two of them differ.
fn answers(local: &str, tcp6: &str) -> String {
    format!(
        "local {local}\nlocal {local}\nlocal {local}\nlocal {local}\nlocal {local}\n\
         tcp ENETUNREACH\ntcp6 {tcp6}\nudp ENETUNREACH\nmetadata ENETUNREACH\nresolver ENETUNREACH\n\
         vsock EAFNOSUPPORT\nnetlink EAFNOSUPPORT\npacket EAFNOSUPPORT\nalg EAFNOSUPPORT\nraw EPERM\n\
         nonsense EINVAL\nnonsense EAFNOSUPPORT\nnonsense EAFNOSUPPORT\nnonsense EAFNOSUPPORT\n\
         nonsense EAFNOSUPPORT\nnonsense EPERM\n\
         abstract ECONNREFUSED\nlocalhost RESOLVED\nexample.com is no name\ninterfaces ['lo']\n"
    )
}

#[tokio::test]
async fn no_network_can_be_reached() {
    let node = HostileTestNode::start().await;
    let (socket, _host) = host();
    let program: &'static str = Box::leak(caller(&node, &socket).into_boxed_str());
    let said = node
        .output_of(HostileProgram::new("caller", ProgramSource::Python(program)))
        .await;
    assert_eq!(said, answers("ENETUNREACH", "EADDRNOTAVAIL"));
}

const SELF_CALLER: &str = r#"
import socket, threading
s = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen()
threading.Thread(target=lambda: s.accept()[0].sendall(b'hello'), daemon=True).start()
c = socket.create_connection(('127.0.0.1', 8000), 5)
print(c.recv(5).decode())
"#;

#[tokio::test]
async fn a_task_with_loopback_can_connect_to_itself() {
    let node = HostileTestNode::start().await;
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
    // Twice: a port of one task is free for the next.
    for _ in 0..2 {
        let done = node.task(&task(Some("loopback"))).await;
        assert_eq!(done["result"]["execute"]["stdout"], "hello\n", "{done:#}");
    }
    let done = node.task(&task(None)).await;
    assert_eq!(done["status"], "run_failed", "{done:#}");
}

#[tokio::test]
async fn a_task_with_loopback_reaches_nothing_else() {
    let node = HostileTestNode::start().await;
    let (socket, _host) = host();
    let done = node
        .task(&json!({
            "source": {"main.py": caller(&node, &socket)},
            "execute": {"command": "python3 -S main.py", "network": "loopback"},
        }))
        .await;
    let said = done["result"]["execute"]["stdout"].as_str().unwrap_or_default();
    // Connections are refused, because the cell's loopback has no listeners.
    assert_eq!(said, answers("ECONNREFUSED", "ENETUNREACH"), "{done:#}");
}

const VISITOR: &str = r#"
import errno, socket, sys
try:
    print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 20).recv(5).decode())
except OSError as e:
    print(errno.errorcode.get(e.errno, e))
"#;

/// Greets every client, and counts them.
async fn greet(listener: TcpListener, greeted: Arc<AtomicU32>) {
    while let Ok((mut visitor, _)) = listener.accept().await {
        greeted.fetch_add(1, Ordering::SeqCst);
        let _ = visitor.write_all(b"hello").await;
    }
}

#[tokio::test]
async fn a_named_network_is_available_only_to_steps_that_ask_for_it() {
    let network = VethNetwork::create();
    let settings = [format!("sandbox.networks=lab={}", network.namespace().display())];
    let node = HostileTestNode::start_with(TestSystem::new().expect("a folder"), &settings).await;
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

    let done = node.task(&task(visit(&address, Some("lab")))).await;
    assert_eq!(done["result"]["execute"]["stdout"], "hello\n", "{done:#}");
    for network in [None, Some("loopback")] {
        let done = node.task(&task(visit(&address, network))).await;
        assert_eq!(done["result"]["execute"]["stdout"], unreachable, "{done:#}");
    }
    assert_eq!(greeted.load(Ordering::SeqCst), 1);

    // The network belongs to the step, not to the task or the warden.
    let mut both = task(visit(&address, None));
    both["compile"] = visit(&address, Some("lab"));
    let done = node.task(&both).await;
    assert_eq!(done["result"]["compile"]["stdout"], "hello\n", "{done:#}");
    assert_eq!(done["result"]["execute"]["stdout"], unreachable, "{done:#}");
    assert_eq!(greeted.load(Ordering::SeqCst), 2);

    // The node that listens on this machine is not reachable from that network.
    let done = node.task(&task(visit(node.system.http(), Some("lab")))).await;
    assert_eq!(done["result"]["execute"]["stdout"], unreachable, "{done:#}");
}

/// Listens on sockets that every task on its network could reach.
const HOST: &str = r#"
import signal, socket
tcp = socket.socket(); tcp.bind(('127.0.0.1', 8000)); tcp.listen()
local = socket.socket(socket.AF_UNIX); local.bind('\0zoo-host'); local.listen()
open('/tmp/open-house', 'w').close()
signal.pause()
"#;

const GUEST: &str = r#"
import errno, socket
def attempt(name, family, address):
    try:
        socket.socket(family).connect(address); print(name, 'CONNECTED')
    except OSError as e:
        print(name, errno.errorcode[e.errno])
own = socket.socket(socket.AF_UNIX); own.bind('\0zoo-own'); own.listen()
print('seen', '@zoo-host' in open('/proc/net/unix').read())
attempt('tcp', socket.AF_INET, ('127.0.0.1', 8000))
attempt('own', socket.AF_UNIX, '\0zoo-own')
attempt('nobody', socket.AF_UNIX, '\0zoo-nobody')
attempt('host', socket.AF_UNIX, '\0zoo-host')
"#;

/// On a network that two tasks share, only Landlock separates them.
#[tokio::test]
async fn landlock_keeps_local_sockets_of_tasks_apart() {
    let network = VethNetwork::create();
    network.raise_loopback();
    let settings = [format!("sandbox.networks=lab={}", network.namespace().display())];
    let node = HostileTestNode::start_with(TestSystem::new().expect("a folder"), &settings).await;
    let task = |text: &str| {
        json!({
            "source": {"main.py": text},
            "execute": {"command": ["python3", "-S", "main.py"], "network": "lab", "limits": {"wall": "120s"}},
        })
    };
    let host = node.system.add(task(HOST)).await;
    wait_until("an open house", SOON, async || {
        let cell_processes = cell_processes();
        let mut houses = cell_processes.iter().map(|inmate| inmate.path("tmp/open-house"));
        houses.any(|house| house.exists()).then_some(())
    })
    .await;
    let guest = node.system.run(task(GUEST)).await;
    let outcome = executed(guest);
    // Older kernels have no Landlock, or one for files only; then the sockets are reachable.
    let answer = match landlock(&node) >= 6 {
        true => "EPERM",
        false => "CONNECTED",
    };
    assert_eq!(
        outcome.stdout,
        format!("seen True\ntcp CONNECTED\nown CONNECTED\nnobody ECONNREFUSED\nhost {answer}\n"),
        "{outcome:?}"
    );
    let now = node.system.client.get(host.id, None).await.unwrap();
    assert!(!now.done, "the two did not run at the same time: {now:?}");
    node.system.client.cancel(host.id).await.unwrap();
    node.assert_clean().await;
}

/// The Landlock version that the executor reports; 0 for none.
fn landlock(node: &HostileTestNode) -> u32 {
    let log = node.log();
    let version = log
        .split("Landlock (version ")
        .nth(1)
        .and_then(|rest| rest.split(')').next());
    version.map_or(0, |version| version.parse().expect("a number"))
}

#[tokio::test]
async fn an_unknown_network_fails_the_task() {
    let node = HostileTestNode::start().await;
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
        let done = node.task(&task).await;
        let outcome = &done["result"][step];
        assert_eq!(done["status"], status, "{done:#}");
        assert_eq!(done["attempt"], 1, "{done:#}");
        assert_eq!(outcome["reason"], "exited", "{done:#}");
        assert_eq!(outcome["exit_code"], 126, "{done:#}");
        assert_eq!(outcome["stdout"], "", "{done:#}");
        assert_eq!(
            outcome["stderr"],
            "conclave: there is no network \"nowhere\" on this executor: use another network, or ask the operator to add it \
             to sandbox.networks\n",
            "{done:#}"
        );
    }
}
