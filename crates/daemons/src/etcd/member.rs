//! Runs a member: decides how to start etcd, starts it, and manages it until it ends.

mod running;

use std::time::Duration;

use boot::BootConnection;
use tokio_util::sync::CancellationToken;

use super::arguments;
use super::bootstrap::{BootstrapResult, decide_how_to_start};
use super::cluster_view::query_cluster;
use super::decision::BootstrapRefusal;
use super::local_state::EtcdStateDir;
use super::preflight::{find_program, preflight};
use super::{EtcdDaemonError, EtcdMemberOptions};
use crate::server::{ServerProcess, port};
use crate::status_reporter::StatusReporter;
use running::manage_running_member;

/// Shorter than the time that boot gives the daemon itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs until `stop`; then etcd is stopped and the membership kept. The caller cancels `stop` when boot is gone, and
/// reports the error to boot.
pub async fn run_member(
    options: EtcdMemberOptions,
    boot: BootConnection,
    stop: CancellationToken,
) -> Result<(), EtcdDaemonError> {
    preflight(&options)?;
    let program = find_program(&options.program)?;
    let state_dir = EtcdStateDir::at(&options.data);
    let mut status = StatusReporter::new(&boot);
    let BootstrapResult { initial, address } = tokio::select! {
        result = decide_how_to_start(&options, &state_dir, &mut status) => result?,
        () = stop.cancelled() => return Ok(()),
    };
    port::check_free(&address.host, options.client_port, "etcd.client_port")?;
    port::check_free(&address.host, options.peer_port, "etcd.peer_port")?;
    let args = arguments::member(&options, &address, &state_dir.etcd_data(), &initial);
    let mut server = ServerProcess::start("etcd", &program, args, &options.parent_death_wrapper)?;
    status.server_pid(server.pid());
    tokio::select! {
        exit = server.wait() => Err(explain_exit(&options, &state_dir, exit).await),
        error = manage_running_member(&options, &address, &state_dir, &mut status) => {
            server.kill().await;
            Err(error)
        }
        () = stop.cancelled() => {
            server.stop(STOP_TIMEOUT).await;
            Ok(())
        }
    }
}

/// etcd ends with a normal exit code when its member was removed, so the cluster is asked whether it was.
async fn explain_exit(
    options: &EtcdMemberOptions,
    state_dir: &EtcdStateDir,
    exit: String,
) -> EtcdDaemonError {
    let Ok(state) = state_dir.read() else {
        return EtcdDaemonError::Exited { exit };
    };
    if state.left {
        return BootstrapRefusal::Left.into();
    }
    let cluster = state.membership.map(|membership| membership.cluster);
    let others = options.access(state_dir.endpoints()).with_cluster_id(cluster);
    let member = state.membership.and_then(|membership| membership.member);
    match (member, query_cluster(&others).await) {
        (Some(member), Ok(cluster)) if cluster.running.members.iter().all(|other| other.id != member) => {
            EtcdDaemonError::Removed
        }
        _ => EtcdDaemonError::Exited { exit },
    }
}
