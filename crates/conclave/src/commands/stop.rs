//! `conclave stop`: stops this machine's node and waits for its end.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use super::leave;
use crate::args::LocalNodeFlags;

/// The arguments of `conclave stop`.
#[derive(clap::Args, Debug)]
pub(crate) struct StopArgs {
    /// Also remove the node from its cluster permanently, as `conclave leave` does
    #[arg(long)]
    leave: bool,
    #[command(flatten)]
    local: LocalNodeFlags,
}

/// More than all services together may take, each with its own grace period.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) async fn run(args: StopArgs) -> Result<ExitCode> {
    let node = args.local.node()?;
    match args.leave {
        true => leave::leave(&node).await?,
        false => boot::stop(&node.run_folder(), STOP_TIMEOUT).await?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn systemd_does_not_restart_a_stopped_node() {
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd");
        let units: Vec<_> = std::fs::read_dir(units).unwrap().flatten().collect();
        assert!(!units.is_empty());
        for unit in units {
            let text = std::fs::read_to_string(unit.path()).unwrap();
            let restart: Vec<_> = text.lines().filter(|line| line.starts_with("Restart=")).collect();
            assert_eq!(restart, ["Restart=on-failure"], "{}", unit.path().display());
        }
    }
}
