//! Tests of the harness itself: leftovers of a task change the node's inventory.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::harness::{HostileTestNode, first_user};
use crate::node_inventory::{groups, wardens};

#[tokio::test]
async fn leftovers_change_the_inventory() {
    let node = HostileTestNode::start().await;
    assert!(node.is_idle());
    for group in groups(&node.system) {
        let left = group.join("left");
        fs::create_dir(&left).unwrap();
        assert!(!node.is_idle(), "{}", left.display());
        fs::remove_dir(&left).unwrap();
        assert!(node.is_idle());
    }
    for warden in wardens(node.pid()) {
        for file in ["box/left", "box/box/left", "box/tmp/left", "box/shm/left"] {
            let left = warden.path(file);
            fs::write(&left, "x").unwrap();
            assert!(!node.is_idle(), "{}", left.display());
            fs::remove_file(&left).unwrap();
            assert!(node.is_idle());
        }
        for (command, is_idle) in [("mount -t tmpfs left /tmp", false), ("umount /tmp", true)] {
            let mut nsenter = Command::new("nsenter");
            nsenter.arg(format!("--mount=/proc/{}/ns/mnt", warden.pid));
            let status = nsenter.args(command.split(' ')).status().unwrap();
            assert!(status.success(), "{command}");
            assert_eq!(node.is_idle(), is_idle, "{command}");
        }
    }
    // A process that has left the node's process tree is found by its user id.
    let mut left = Command::new("sleep")
        .arg("600")
        .uid(first_user())
        .spawn()
        .unwrap();
    assert!(!node.is_idle());
    left.kill().unwrap();
    left.wait().unwrap();
    assert!(node.is_idle());
}
