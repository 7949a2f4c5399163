//! The supervision loop of one service: start, wait for the exit, restart.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::backoff::RestartBackoff;
use crate::hold;
use crate::pidfile::PidFile;
use crate::process::{ProcessHandle, ProcessIdentity};
use crate::repeat_filter::RepeatedMessageFilter;
use crate::run_folder::RunFolder;
use crate::service_log::ServiceLog;
use crate::service_process::{self, ServiceProcess, ServiceProcessEvent};
use crate::shared_status::ServiceStatusUpdater;
use crate::{BootSettings, ServiceMessage, ServiceSpec, ServiceState};

/// What boot tells the supervisor of a service to do with it: keep it running, stop it or kill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupervisorCommand {
    KeepRunning,
    /// SIGTERM, and SIGKILL after the grace period.
    Stop,
    Kill,
}

/// The task of boot that supervises one service: it starts it, waits for its exit and restarts it.
pub(crate) struct ServiceSupervisor {
    pub(crate) service: ServiceSpec,
    pub(crate) settings: BootSettings,
    pub(crate) folder: RunFolder,
    pub(crate) log: Arc<ServiceLog>,
    pub(crate) status: ServiceStatusUpdater,
    pub(crate) channels: SupervisorChannels,
}

/// The channels between a service's supervisor and the rest of boot.
pub(crate) struct SupervisorChannels {
    pub(crate) command: watch::Receiver<SupervisorCommand>,
    /// Changes at every SIGHUP that has to be forwarded.
    pub(crate) hangups: watch::Receiver<u64>,
    pub(crate) held: watch::Receiver<bool>,
    /// Whether the service that this one needs is ready.
    pub(crate) needed: Option<watch::Receiver<bool>>,
    /// Whether this service is ready.
    pub(crate) ready: watch::Sender<bool>,
}

/// What a service's supervisor remembers across restarts: the backoff, and failures that are logged already.
#[derive(Default)]
struct RestartHistory {
    backoff: RestartBackoff,
    not_before: Option<Instant>,
    started_before: bool,
    logged_failures: RepeatedMessageFilter,
    logged_exits: RepeatedMessageFilter,
}

/// What the current process of a service has told its supervisor in boot so far.
#[derive(Default)]
struct ReceivedMessages {
    /// A service installs its signal handlers before its first message. Before that, SIGHUP would kill it.
    handles_signals: bool,
    server: Option<ProcessIdentity>,
    failure: Option<String>,
}

impl ServiceSupervisor {
    /// Supervises the service until it is commanded to stop and the service has exited.
    pub(crate) async fn run(mut self) {
        let mut history = RestartHistory::default();
        let mut command = self.channels.command.clone();
        loop {
            let started = tokio::select! {
                biased;
                _ = command.wait_for(|command| *command != SupervisorCommand::KeepRunning) => break,
                started = self.start(&history) => started,
            };
            let started_at = Instant::now();
            let exit = match started {
                Ok(process) => {
                    self.on_started(&process, &mut history);
                    self.supervise(process, &mut history).await
                }
                Err(error) => format!("could not be started: {error}"),
            };
            if *command.borrow() != SupervisorCommand::KeepRunning {
                break;
            }
            self.on_exit(&exit, started_at, &mut history);
        }
        self.status.set_state(ServiceState::Stopped, None);
    }

    /// Waits until the service may start, then starts it.
    async fn start(&mut self, history: &RestartHistory) -> io::Result<ServiceProcess> {
        loop {
            if let Some(needed) = &mut self.channels.needed
                && !*needed.borrow()
            {
                let needs = self.service.needs.as_deref().unwrap_or_default();
                self.status
                    .set_state(ServiceState::Waiting, Some(format!("waiting for {needs}")));
                // An error is impossible: the supervisor of that service ends after this one.
                let _ = needed.wait_for(|ready| *ready).await;
            }
            if let Some(not_before) = history.not_before
                && not_before > Instant::now()
            {
                self.status.set_state(ServiceState::BackingOff, None);
                sleep_until(not_before.into()).await;
                // The service that this one needs may have exited in the meantime.
                continue;
            }
            self.status.set_state(ServiceState::Starting, None);
            let Some(mut pid_file) = hold::lock_pid_file_unless_held(&self.folder, &self.service.name)?
            else {
                self.status.set_held(true);
                // Gives the watch for holds time to notice the hold.
                tokio::time::sleep(hold::POLL_INTERVAL).await;
                let _ = self.channels.held.wait_for(|held| !held).await;
                continue;
            };
            // The process of an earlier boot that was killed may still run.
            if let Some(earlier) = pid_file
                .read()?
                .map(|earlier| earlier.open_handle())
                .transpose()?
                .flatten()
            {
                // Unlocks the pid file: this takes a while, and an operator may want to hold the service.
                drop(pid_file);
                self.stop_earlier_process(&earlier).await?;
                continue;
            }
            return self.spawn(&mut pid_file);
        }
    }

    fn spawn(&self, pid_file: &mut PidFile) -> io::Result<ServiceProcess> {
        let process = ServiceProcess::spawn(&self.service, &self.log)?;
        let written = match &process.identity {
            Some(identity) => pid_file.write(identity),
            // The process has already exited.
            None => pid_file.clear(),
        };
        if let Err(error) = written {
            // Not fatal: only a boot that follows a killed one would not find this process.
            let path = self.folder.pid_file(&self.service.name);
            tracing::warn!(path = %path.display(), %error, "could not write the pid file");
        }
        Ok(process)
    }

    /// Waits for the process of an earlier boot, which exits when it notices that its boot has exited. If it does not, it is
    /// terminated.
    async fn stop_earlier_process(&self, earlier: &ProcessHandle) -> io::Result<()> {
        let (name, pid) = (&self.service.name, earlier.pid());
        tracing::info!(service = %name, pid, "waiting for a process of an earlier boot to exit");
        let doing = format!("waiting for process {pid} of an earlier boot to exit");
        self.status.set_state(ServiceState::Starting, Some(doing));
        let grace = self.settings.stop_grace;
        // A stopped process does not notice anything.
        let has_exited = match earlier.is_stopped() {
            true => false,
            false => tokio::time::timeout(grace / 3, earlier.wait_for_exit())
                .await
                .is_ok(),
        };
        if !has_exited {
            tracing::warn!(service = %name, pid, "terminating a process of an earlier boot");
            earlier.terminate_then_kill(grace).await?;
        }
        Ok(())
    }

    fn on_started(&self, process: &ServiceProcess, history: &mut RestartHistory) {
        let is_restart = std::mem::replace(&mut history.started_before, true);
        let pid = process.identity.as_ref().map(|identity| identity.pid);
        tracing::info!(service = %self.service.name, pid, "service started");
        self.status.update(|shown| {
            shown.restarts += u64::from(is_restart);
            shown.pid = pid;
            shown.pid_start_time = process.identity.as_ref().map(|identity| identity.start_time);
        });
    }

    /// Supervises one process until it has exited. Returns how it exited.
    async fn supervise(&mut self, mut process: ServiceProcess, history: &mut RestartHistory) -> String {
        let mut received = ReceivedMessages::default();
        let mut kill_at = None;
        // A new process reads the current configuration, so earlier SIGHUPs do not apply to it.
        self.channels.hangups.mark_unchanged();
        let status = loop {
            let grace_period = async {
                match kill_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = process.next() => match event {
                    ServiceProcessEvent::Exited(status) => break status,
                    ServiceProcessEvent::Message(message) => self.on_message(message, &mut received, history),
                },
                Ok(()) = self.channels.hangups.changed(), if received.handles_signals => process.hang_up(),
                Ok(()) = self.channels.command.changed() => match *self.channels.command.borrow_and_update() {
                    SupervisorCommand::KeepRunning => {}
                    SupervisorCommand::Stop => {
                        self.status.set_state(ServiceState::Stopping, None);
                        process.terminate();
                        kill_at = Some(tokio::time::Instant::now() + self.settings.stop_grace);
                    }
                    SupervisorCommand::Kill => {
                        self.status.set_state(ServiceState::Stopping, None);
                        process.kill();
                        kill_at = None;
                    }
                },
                () = grace_period => {
                    let grace = self.settings.stop_grace;
                    tracing::warn!(service = %self.service.name, ?grace, "service has not exited within its grace period; killing it");
                    process.kill();
                    kill_at = None;
                }
            }
        };
        // The last messages may have arrived together with the exit.
        while let Some(message) = process.try_next_message() {
            self.on_message(message, &mut received, history);
        }
        self.on_process_exited(received, status).await
    }

    fn on_message(
        &self,
        message: ServiceMessage,
        received: &mut ReceivedMessages,
        history: &mut RestartHistory,
    ) {
        received.handles_signals = true;
        match message {
            ServiceMessage::Ready => {
                self.channels.ready.send_replace(true);
                if *self.channels.command.borrow() == SupervisorCommand::KeepRunning {
                    self.status.set_state(ServiceState::Running, None);
                }
            }
            ServiceMessage::ServerPid(pid) => {
                received.server = ProcessIdentity::of(pid);
                self.status.update(|shown| {
                    shown.server_pid = received.server.as_ref().map(|server| server.pid);
                    shown.server_start_time = received.server.as_ref().map(|server| server.start_time);
                });
            }
            ServiceMessage::Activity(what) => self.status.update(|shown| shown.doing = Some(what)),
            ServiceMessage::Failed(why) => {
                if history.logged_failures.should_log(&why, Instant::now()) {
                    tracing::error!(service = %self.service.name, why, "service failed");
                }
                received.failure = Some(why);
            }
        }
    }

    async fn on_process_exited(&self, received: ReceivedMessages, status: io::Result<ExitStatus>) -> String {
        self.channels.ready.send_replace(false);
        let exit = match status {
            Ok(status) => service_process::describe_exit(status, received.failure.as_deref()),
            Err(error) => format!("could not wait for its exit: {error}"),
        };
        if *self.channels.command.borrow() == SupervisorCommand::KeepRunning {
            self.status.set_state(ServiceState::Starting, None);
        }
        self.status.update(|shown| {
            shown.pid = None;
            shown.pid_start_time = None;
            shown.doing = None;
            shown.last_exit = Some(exit.clone());
        });
        // The pid may be reused, so it must not stay in the file.
        if let Ok(Some(mut pid_file)) = PidFile::try_lock(&self.folder.pid_file(&self.service.name)) {
            let _ = pid_file.clear();
        }
        service_process::wait_for_server_exit(received.server).await;
        self.status.update(|shown| {
            shown.server_pid = None;
            shown.server_start_time = None;
        });
        exit
    }

    fn on_exit(&self, exit: &str, started_at: Instant, history: &mut RestartHistory) {
        let max_delay = self.settings.max_restart_delay;
        history.backoff = history.backoff.after_exit(started_at.elapsed(), max_delay);
        history.not_before = Some(Instant::now() + history.backoff.delay(max_delay));
        self.status
            .update(|shown| shown.last_exit = Some(exit.to_string()));
        if history.logged_exits.should_log(exit, Instant::now()) {
            let service = &self.service.name;
            match *self.channels.held.borrow() {
                true => {
                    tracing::warn!(%service, exit, "service exited; not restarting it because it is held")
                }
                false => tracing::warn!(%service, exit, "service exited; restarting it"),
            }
        }
    }
}
