//! Runs `ip` of iproute2, which needs root.

use std::process::Command;

/// Runs `ip`, and panics with its error message if it fails.
pub(crate) fn ip(args: &str) {
    if let Err(why) = try_ip(args) {
        panic!("ip {args} failed (it needs root): {why}");
    }
}

pub(crate) fn try_ip(args: &str) -> Result<(), String> {
    let output = Command::new("ip").args(args.split(' ')).output();
    let output = output.expect("`ip` of iproute2");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
