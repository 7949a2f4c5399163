//! Starts a supervisor for each service, and stops them in reverse order.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::hold::{self, HoldWatch};
use crate::lock::BootLock;
use crate::log_printer::LogPrinter;
use crate::run_folder::{self, RunFolder};
use crate::service_log::{self, ServiceLog};
use crate::service_supervisor::{ServiceSupervisor, SupervisorChannels, SupervisorCommand};
use crate::shared_status::SharedNodeStatus;
use crate::signals::{BootSignal, BootSignals};
use crate::{BootError, BootPlan};

/// How boot has shut down: gracefully, or by killing its services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownKind {
    /// After one signal: every service had its grace period.
    Graceful,
    /// After a second signal, with this number: every service was killed.
    Forced(i32),
}

/// Supervises the services of the plan until SIGINT or SIGTERM. The first signal stops them in reverse order, a second one
/// kills them. On SIGHUP it calls `on_hangup` and forwards the signal to all services. Must run on the main thread, in a
/// current-thread runtime.
pub async fn run(plan: BootPlan, mut on_hangup: impl FnMut()) -> Result<ShutdownKind, BootError> {
    plan.check()?;
    let folder = RunFolder::new(&plan.run);
    run_folder::create_folder(folder.path()).map_err(BootError::at("create", folder.path()))?;
    run_folder::create_folder(&plan.log).map_err(BootError::at("create", &plan.log))?;
    let mut signals = BootSignals::listen().map_err(BootError::Signals)?;
    let _lock = BootLock::acquire(&folder).await?;
    let status = SharedNodeStatus::new(&plan);
    status
        .write(&folder)
        .map_err(BootError::at("write", &folder.status_file()))?;

    let logs = logs(&plan);
    let printer = printer(&plan, &logs)?;
    let ServiceSupervisors {
        mut tasks,
        commands,
        hangups,
        hold_watches,
    } = ServiceSupervisors::start(&plan, &status, &logs);

    // The other long-lived tasks. None of them ends by itself; dropping the set aborts them.
    let mut background = JoinSet::new();
    background.spawn(status.clone().write_on_change(folder.clone()));
    background.spawn(hold::watch_holds(folder.clone(), hold_watches));
    background.spawn(service_log::rotate_large_logs(logs));

    let failed_task = loop {
        tokio::select! {
            signal = signals.next() => match signal {
                BootSignal::Shutdown(signal) => {
                    tracing::info!(signal, "stopping all services; a second signal kills them");
                    break None;
                }
                BootSignal::HangUp => {
                    tracing::info!("received SIGHUP; forwarding it to all services");
                    on_hangup();
                    hangups.send_modify(|count| *count += 1);
                }
            },
            // No task should end before a command, so this is a bug. Its service is no longer supervised, and the node stops
            // so that the operator notices.
            ended = tasks.join_next() => break ended.and_then(Result::err),
            Some(ended) = background.join_next() => break ended.err(),
        }
    };
    let shutdown = tokio::select! {
        () = stop_in_order(&commands) => ShutdownKind::Graceful,
        signal = signals.next_shutdown() => {
            tracing::warn!(signal, "received a second signal; killing all services");
            for command in &commands {
                command.send_replace(SupervisorCommand::Kill);
            }
            for command in &commands {
                command.closed().await;
            }
            ShutdownKind::Forced(signal)
        }
    };
    background.shutdown().await;
    if let Err(error) = status.write(&folder) {
        tracing::warn!(path = %folder.status_file().display(), %error, "could not write the status file");
    }
    if let Some(printer) = printer {
        printer.finish();
    }
    match failed_task {
        Some(error) => Err(BootError::SupervisorTask(error)),
        None => Ok(shutdown),
    }
}

/// Stops the services in reverse start order, so that no service loses the one that it needs.
async fn stop_in_order(commands: &[watch::Sender<SupervisorCommand>]) {
    for command in commands.iter().rev() {
        command.send_replace(SupervisorCommand::Stop);
        // The channel closes when the supervisor has ended.
        command.closed().await;
    }
}

/// The running supervisor tasks of boot, one for each service, and the channels to them.
struct ServiceSupervisors {
    tasks: JoinSet<()>,
    /// In start order.
    commands: Vec<watch::Sender<SupervisorCommand>>,
    /// The number of SIGHUPs so far.
    hangups: watch::Sender<u64>,
    hold_watches: Vec<HoldWatch>,
}

impl ServiceSupervisors {
    fn start(plan: &BootPlan, status: &SharedNodeStatus, logs: &[Arc<ServiceLog>]) -> ServiceSupervisors {
        let mut supervisors = ServiceSupervisors {
            tasks: JoinSet::new(),
            commands: Vec::new(),
            hangups: watch::Sender::new(0),
            hold_watches: Vec::new(),
        };
        let mut ready_channels: Vec<(&str, watch::Receiver<bool>)> = Vec::new();
        for (index, (service, log)) in plan.services.iter().zip(logs).enumerate() {
            let needed = service.needs.as_deref().and_then(|needs| {
                let found = ready_channels.iter().find(|(name, _)| *name == needs);
                found.map(|(_, ready)| ready.clone())
            });
            let (ready, is_ready) = watch::channel(false);
            ready_channels.push((&service.name, is_ready));
            let (command, commands) = watch::channel(SupervisorCommand::KeepRunning);
            supervisors.commands.push(command);
            let (held, is_held) = watch::channel(false);
            supervisors.hold_watches.push(HoldWatch {
                service: service.name.clone(),
                held,
                status: status.updater(index),
            });
            let supervisor = ServiceSupervisor {
                service: service.clone(),
                settings: plan.settings,
                folder: RunFolder::new(&plan.run),
                log: Arc::clone(log),
                status: status.updater(index),
                channels: SupervisorChannels {
                    command: commands,
                    hangups: supervisors.hangups.subscribe(),
                    held: is_held,
                    needed,
                    ready,
                },
            };
            supervisors.tasks.spawn(supervisor.run());
        }
        supervisors
    }
}

fn logs(plan: &BootPlan) -> Vec<Arc<ServiceLog>> {
    let settings = &plan.settings;
    plan.services
        .iter()
        .map(|service| {
            let path = plan.log.join(format!("{}.log", service.name));
            Arc::new(ServiceLog::new(
                path,
                settings.max_log_size,
                settings.rotated_logs_kept,
            ))
        })
        .collect()
}

fn printer(plan: &BootPlan, logs: &[Arc<ServiceLog>]) -> Result<Option<LogPrinter>, BootError> {
    let followers: Vec<_> = plan
        .services
        .iter()
        .zip(logs)
        .filter(|(service, _)| plan.prints(&service.name))
        .map(|(service, log)| (service.name.clone(), log.follow()))
        .collect();
    match followers.is_empty() {
        true => Ok(None),
        false => LogPrinter::start(followers)
            .map(Some)
            .map_err(BootError::LogPrinter),
    }
}
