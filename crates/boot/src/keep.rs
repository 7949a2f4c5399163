//! The loop that keeps one service alive.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::backoff::EarlyDeaths;
use crate::board::Line;
use crate::child::{self, Child, Event};
use crate::folder::Folder;
use crate::hold;
use crate::log::Log;
use crate::pidfile::PidFile;
use crate::process::{Identity, Process};
use crate::repeats::Repeats;
use crate::{Service, Settings, State, Word};

/// What a keeper is to do with its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Keep,
    /// TERM, grace, KILL.
    Stop,
    Kill,
}

pub(crate) struct Keeper {
    pub(crate) service: Service,
    pub(crate) settings: Settings,
    pub(crate) folder: Folder,
    pub(crate) log: Arc<Log>,
    pub(crate) line: Line,
    pub(crate) signs: Signs,
}

/// What a keeper listens to, and what it tells.
pub(crate) struct Signs {
    pub(crate) order: watch::Receiver<Order>,
    /// Changes at every SIGHUP that is to be passed on.
    pub(crate) hangups: watch::Receiver<u64>,
    pub(crate) held: watch::Receiver<bool>,
    /// Whether the needed service is ready.
    pub(crate) needed: Option<watch::Receiver<bool>>,
    /// Whether this one is.
    pub(crate) ready: watch::Sender<bool>,
}

/// What is remembered from one life to the next.
#[derive(Default)]
struct Memory {
    early: EarlyDeaths,
    not_before: Option<Instant>,
    started_before: bool,
    failures: Repeats,
    ends: Repeats,
}

/// What a service said in one life.
#[derive(Default)]
struct Said {
    /// A service listens for signals before it says anything. Before that, SIGHUP would end it.
    listens: bool,
    server: Option<Identity>,
    failed: Option<String>,
}

impl Keeper {
    /// Until it is ordered to stop; then until the service is gone.
    pub(crate) async fn run(mut self) {
        let mut memory = Memory::default();
        let mut order = self.signs.order.clone();
        loop {
            let started = tokio::select! {
                biased;
                _ = order.wait_for(|order| *order != Order::Keep) => break,
                started = self.start(&memory) => started,
            };
            let begun = Instant::now();
            let end = match started {
                Ok(child) => {
                    self.on_started(&child, &mut memory);
                    self.live(child, &mut memory).await
                }
                Err(error) => format!("could not be started: {error}"),
            };
            if *order.borrow() != Order::Keep {
                break;
            }
            self.on_ended(&end, begun, &mut memory);
        }
        self.line.enter(State::Stopped, None);
    }

    /// Waits until the service may start, and starts it.
    async fn start(&mut self, memory: &Memory) -> io::Result<Child> {
        loop {
            if let Some(needed) = &mut self.signs.needed
                && !*needed.borrow()
            {
                let needs = self.service.needs.as_deref().unwrap_or_default();
                self.line
                    .enter(State::Waiting, Some(format!("waits for {needs}")));
                // Its keeper ends after ours, so it cannot be gone.
                let _ = needed.wait_for(|ready| *ready).await;
            }
            if let Some(not_before) = memory.not_before
                && not_before > Instant::now()
            {
                self.line.enter(State::BackingOff, None);
                sleep_until(not_before.into()).await;
                // The needed one may have died meanwhile.
                continue;
            }
            self.line.enter(State::Starting, None);
            let Some(mut pid_file) = hold::claim(&self.folder, &self.service.name)? else {
                self.line.hold(true);
                // The watcher may not have seen it yet, so give it the time to.
                tokio::time::sleep(hold::TICK).await;
                let _ = self.signs.held.wait_for(|held| !held).await;
                continue;
            };
            // Of an earlier boot that was killed.
            if let Some(earlier) = pid_file
                .read()?
                .map(|earlier| earlier.open())
                .transpose()?
                .flatten()
            {
                // Ending it takes a while, in which an operator may want the service for himself.
                drop(pid_file);
                self.end_earlier(&earlier).await?;
                continue;
            }
            return self.spawn(&mut pid_file);
        }
    }

    fn spawn(&self, pid_file: &mut PidFile) -> io::Result<Child> {
        let child = Child::spawn(&self.service, &self.log)?;
        let written = match &child.identity {
            Some(identity) => pid_file.write(identity),
            // It has ended already.
            None => pid_file.clear(),
        };
        if let Err(error) = written {
            // It runs, and ends with us; only a boot after a killed one would miss it.
            let path = self.folder.pid(&self.service.name);
            tracing::warn!("could not write {}: {error}", path.display());
        }
        Ok(child)
    }

    /// It sees the end of its boot, and ends by itself. One that does not is made to.
    async fn end_earlier(&self, earlier: &Process) -> io::Result<()> {
        let (name, pid) = (&self.service.name, earlier.pid());
        tracing::info!("{name}: waiting for process {pid} of an earlier boot to end");
        let doing = format!("waits for the end of process {pid} of an earlier boot");
        self.line.enter(State::Starting, Some(doing));
        let grace = self.settings.stop_grace;
        // What is stopped sees nothing.
        let by_itself = match earlier.is_stopped() {
            true => false,
            false => tokio::time::timeout(grace / 3, earlier.ended()).await.is_ok(),
        };
        if !by_itself {
            tracing::warn!("{name}: ending process {pid} of an earlier boot");
            earlier.end(grace).await?;
        }
        Ok(())
    }

    fn on_started(&self, child: &Child, memory: &mut Memory) {
        let is_again = std::mem::replace(&mut memory.started_before, true);
        let pid = child.identity.as_ref().map(|identity| identity.pid);
        tracing::info!(pid, "{} started", self.service.name);
        self.line.note(|shown| {
            shown.restarts += u64::from(is_again);
            shown.pid = pid;
            shown.pid_began = child.identity.as_ref().map(|identity| identity.started);
        });
    }

    /// Until it has ended, by itself or by order. Says how.
    async fn live(&mut self, mut child: Child, memory: &mut Memory) -> String {
        let mut said = Said::default();
        let mut kill_at = None;
        // What it reads at its start is as new as what it would read again.
        self.signs.hangups.mark_unchanged();
        let status = loop {
            let patience = async {
                match kill_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = child.next() => match event {
                    Event::Ended(status) => break status,
                    Event::Said(word) => self.on_word(word, &mut said, memory),
                },
                Ok(()) = self.signs.hangups.changed(), if said.listens => child.hang_up(),
                Ok(()) = self.signs.order.changed() => match *self.signs.order.borrow_and_update() {
                    Order::Keep => {}
                    Order::Stop => {
                        self.line.enter(State::Stopping, None);
                        child.terminate();
                        kill_at = Some(tokio::time::Instant::now() + self.settings.stop_grace);
                    }
                    Order::Kill => {
                        self.line.enter(State::Stopping, None);
                        child.kill();
                        kill_at = None;
                    }
                },
                () = patience => {
                    let grace = self.settings.stop_grace;
                    tracing::warn!("{} has not ended within {grace:?}; killing it", self.service.name);
                    child.kill();
                    kill_at = None;
                }
            }
        };
        // The last word may have come with the end.
        while let Some(word) = child.last_word() {
            self.on_word(word, &mut said, memory);
        }
        self.on_gone(said, status).await
    }

    fn on_word(&self, word: Word, said: &mut Said, memory: &mut Memory) {
        said.listens = true;
        match word {
            Word::Ready => {
                self.signs.ready.send_replace(true);
                if *self.signs.order.borrow() == Order::Keep {
                    self.line.enter(State::Running, None);
                }
            }
            Word::Server(pid) => {
                said.server = Identity::of(pid);
                self.line.note(|shown| {
                    shown.server_pid = said.server.as_ref().map(|server| server.pid);
                    shown.server_began = said.server.as_ref().map(|server| server.started);
                });
            }
            Word::Doing(what) => self.line.note(|shown| shown.doing = Some(what)),
            Word::Failed(why) => {
                if memory.failures.is_news(&why, Instant::now()) {
                    tracing::error!("{}: {why}", self.service.name);
                }
                said.failed = Some(why);
            }
        }
    }

    async fn on_gone(&self, said: Said, status: io::Result<ExitStatus>) -> String {
        self.signs.ready.send_replace(false);
        let end = match status {
            Ok(status) => child::describe(status, said.failed.as_deref()),
            Err(error) => format!("could not be waited for: {error}"),
        };
        if *self.signs.order.borrow() == Order::Keep {
            self.line.enter(State::Starting, None);
        }
        self.line.note(|shown| {
            shown.pid = None;
            shown.pid_began = None;
            shown.doing = None;
            shown.last_exit = Some(end.clone());
        });
        // Whoever looks for it by its file should not find a number that means another by now.
        if let Ok(Some(mut pid_file)) = PidFile::try_lock(&self.folder.pid(&self.service.name)) {
            let _ = pid_file.clear();
        }
        child::server_ended(said.server).await;
        self.line.note(|shown| {
            shown.server_pid = None;
            shown.server_began = None;
        });
        end
    }

    fn on_ended(&self, end: &str, begun: Instant, memory: &mut Memory) {
        let most = self.settings.restart_most;
        memory.early = memory.early.after(begun.elapsed(), most);
        let pause = memory.early.pause(most);
        memory.not_before = Some(Instant::now() + pause);
        self.line.note(|shown| shown.last_exit = Some(end.to_string()));
        if memory.ends.is_news(end, Instant::now()) {
            let then = match *self.signs.held.borrow() {
                true => "it is held, so it is left alone",
                false => "starting it again",
            };
            tracing::warn!("{} ended: {end}; {then}", self.service.name);
        }
    }
}
