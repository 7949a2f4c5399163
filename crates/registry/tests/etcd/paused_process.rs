//! A judicator whose process is stopped (SIGSTOP) and continues later.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::etcd::EtcdAccess;
use tokio::sync::mpsc;

use super::harness::{DEADLINE, JudicatorTask, SHORT_LEASE, STEADY_LEASE, wait_for_registered};
use super::servers::EtcdCluster;

/// The etcd endpoint for the other process. Set only for that process.
const ENDPOINT: &str = "REGISTRY_TEST_ENDPOINT";

/// A registered judicator in a process of its own, which a test can stop (SIGSTOP) and continue.
struct StoppableProcess {
    child: Child,
    /// Each change of its leadership, as it prints them.
    printed: mpsc::UnboundedReceiver<String>,
}

impl StoppableProcess {
    /// Starts this test program again, limited to [`judicator_process`].
    fn start(access: &EtcdAccess) -> StoppableProcess {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "paused_process::judicator_process", "--nocapture"])
            .env(ENDPOINT, &access.endpoints[0])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, printed) = mpsc::unbounded_channel();
        // A thread, because the runtime must not block: it keeps the leases of other judicators alive.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, leads)) = line.split_once("leads: ") {
                    let _ = sender.send(leads.to_owned());
                }
            }
        });
        StoppableProcess { child, printed }
    }

    /// Waits for the next change of its leadership.
    async fn next_leading(&mut self) -> String {
        tokio::time::timeout(DEADLINE, self.printed.recv())
            .await
            .expect("the process prints nothing")
            .expect("the process has ended")
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for StoppableProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_stopped_leader_does_not_lead_when_it_continues() {
    let cluster = EtcdCluster::start(1).await;
    let access = cluster.access();
    let mut process = StoppableProcess::start(&access);
    assert_eq!(process.next_leading().await, "false");
    assert_eq!(process.next_leading().await, "true");
    process.signal(Signal::SIGSTOP);
    let other = JudicatorTask::start(&access, "other@2.2.2.2:2", STEADY_LEASE);
    other.wait_until_leading().await;
    wait_for_registered(&access, &["other@2.2.2.2:2 1*"]).await;
    process.signal(Signal::SIGCONT);
    assert_eq!(process.next_leading().await, "false");
    wait_for_registered(&access, &["other@2.2.2.2:2 1*", "stopped@1.1.1.1:1 1"]).await;
    other.stop().await;
    assert_eq!(process.next_leading().await, "true");
}

/// The body of the other process: prints each change of its leadership until it is killed. As an ordinary test it does
/// nothing.
#[tokio::test]
async fn judicator_process() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else {
        return;
    };
    let access = EtcdAccess {
        endpoints: vec![endpoint],
        login: None,
        tls: None,
        cluster_id: None,
    };
    let mut judicator = JudicatorTask::start(&access, "stopped@1.1.1.1:1", SHORT_LEASE);
    loop {
        println!("leads: {}", *judicator.registry.leading.borrow_and_update());
        judicator.registry.leading.changed().await.unwrap();
    }
}
