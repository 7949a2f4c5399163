//! A judicator's process is stopped for a while, and does not know it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::etcd::Access;
use tokio::sync::mpsc;

use super::servers::Cluster;
use super::stage::{DEADLINE, Judicator, SHORT, STEADY, becomes};

/// Where the other process finds etcd. Set only for that process.
const ENDPOINT: &str = "REGISTRY_TEST_ENDPOINT";

struct Process {
    child: Child,
    /// What it says about its lead.
    said: mpsc::UnboundedReceiver<String>,
}

impl Process {
    /// This very program, made to run only [`the_process_that_is_stopped`].
    fn start(access: &Access) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "pausing::the_process_that_is_stopped", "--nocapture"])
            .env(ENDPOINT, &access.endpoints[0])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (say, said) = mpsc::unbounded_channel();
        // Not on the runtime: whoever waits here must go on keeping leases alive.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, leads)) = line.split_once("leads: ") {
                    let _ = say.send(leads.to_owned());
                }
            }
        });
        Process { child, said }
    }

    /// What it next says about its lead.
    async fn leads(&mut self) -> String {
        tokio::time::timeout(DEADLINE, self.said.recv())
            .await
            .expect("it says nothing")
            .expect("it has ended")
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn it_leads_no_longer_when_it_wakes_up() {
    let cluster = Cluster::start(1).await;
    let access = cluster.access();
    let mut process = Process::start(&access);
    assert_eq!(process.leads().await, "false");
    assert_eq!(process.leads().await, "true");
    process.signal(Signal::SIGSTOP);
    let other = Judicator::start(&access, "other@2.2.2.2:2", STEADY);
    other.leads().await;
    becomes(&access, &["other@2.2.2.2:2 1*"]).await;
    process.signal(Signal::SIGCONT);
    assert_eq!(process.leads().await, "false");
    becomes(&access, &["other@2.2.2.2:2 1*", "stopped@1.1.1.1:1 1"]).await;
    other.stop().await;
    assert_eq!(process.leads().await, "true");
}

/// Says whether it leads, whenever that changes, until it is killed. Does nothing unless it was started for that.
#[tokio::test]
async fn the_process_that_is_stopped() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else {
        return;
    };
    let access = Access {
        endpoints: vec![endpoint],
        login: None,
        tls: None,
        cluster: None,
    };
    let mut judicator = Judicator::start(&access, "stopped@1.1.1.1:1", SHORT);
    loop {
        println!("leads: {}", *judicator.registry.leading.borrow_and_update());
        judicator.registry.leading.changed().await.unwrap();
    }
}
