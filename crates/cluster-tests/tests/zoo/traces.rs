//! What would be left by a task that got further than it should is seen when the zoo is looked at.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::scene::{groups, wardens};
use crate::stage::{Zoo, first_user};

#[tokio::test]
async fn whatever_is_left_is_seen() {
    let zoo = Zoo::open().await;
    assert!(zoo.is_quiet());
    for group in groups(&zoo.system) {
        let left = group.join("left");
        fs::create_dir(&left).unwrap();
        assert!(!zoo.is_quiet(), "{}", left.display());
        fs::remove_dir(&left).unwrap();
        assert!(zoo.is_quiet());
    }
    for warden in wardens(zoo.pid()) {
        for file in ["box/left", "box/box/left", "box/tmp/left", "box/shm/left"] {
            let left = warden.path(file);
            fs::write(&left, "x").unwrap();
            assert!(!zoo.is_quiet(), "{}", left.display());
            fs::remove_file(&left).unwrap();
            assert!(zoo.is_quiet());
        }
        for (command, is_quiet) in [("mount -t tmpfs left /tmp", false), ("umount /tmp", true)] {
            let mut nsenter = Command::new("nsenter");
            nsenter.arg(format!("--mount=/proc/{}/ns/mnt", warden.pid));
            let status = nsenter.args(command.split(' ')).status().unwrap();
            assert!(status.success(), "{command}");
            assert_eq!(zoo.is_quiet(), is_quiet, "{command}");
        }
    }
    // Who has left the node's tree is known by its user.
    let mut left = Command::new("sleep")
        .arg("600")
        .uid(first_user())
        .spawn()
        .unwrap();
    assert!(!zoo.is_quiet());
    left.kill().unwrap();
    left.wait().unwrap();
    assert!(zoo.is_quiet());
}
