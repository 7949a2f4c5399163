//! The data folder of an executor: its identity, its sessions, and the files of its tasks.
//!
//! ```text
//! lock       flock held by this process and its wardens; a process that gets it knows that all of them have exited
//! id         a random id that makes the default name unique
//! sessions   the sessions whose end no judicator has confirmed, the newest last
//! spool      results that no judicator has acknowledged
//! outgoing/  output and kept files that wait for their upload
//! work/      a workspace for each warden
//! cache/     blobs
//! ```

use std::ffi::OsString;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{AttemptId, ExecutorName, SessionId, TaskForm};
use sandbox::{KillOrphansError, ProcessSelector, kill_orphans};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{ExecutorError, ExecutorOptions, workspace};

/// How long to wait for the lock: the wardens of an earlier process need some time to clean up and exit.
const LOCK_TIMEOUT: Duration = Duration::from_secs(15);
/// A flock has no timeout, so it is tried at this interval.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The executor's data folder, locked by this process, and the sessions and last attempts of earlier processes in it.
pub(crate) struct ExecutorDataFolder {
    pub(crate) name: ExecutorName,
    pub(crate) host: String,
    pub(crate) root: PathBuf,
    pub(crate) lock: Arc<OwnedFd>,
    /// An environment variable that every process of every task has, by which orphans are found.
    pub(crate) process_marker: (OsString, OsString),
    pub(crate) previous_sessions: Vec<SessionId>,
    /// The last attempt of each warden of the earlier process, with the form of its task. If it had ended, its result is in
    /// the spool or acknowledged.
    pub(crate) last_attempts: Vec<(AttemptId, TaskForm)>,
}

impl ExecutorDataFolder {
    /// Locks the folder and kills the task processes that an earlier executor process left behind.
    pub(crate) async fn take_over(options: &ExecutorOptions) -> Result<ExecutorDataFolder, ExecutorError> {
        let root = options.data.clone();
        fs::create_dir_all(&root).map_err(folder_error("create the data folder", &root))?;
        let root = root
            .canonicalize()
            .map_err(folder_error("find the data folder", &root))?;
        let lock = take_lock(&root).await?;
        let id = read_or_create_id(&root)?;
        let process_marker = ("CONCLAVE_EXECUTOR".into(), id.as_str().into());
        let work = root.join("work");
        fs::create_dir_all(&work).map_err(folder_error("create", &work))?;
        // The wardens of the earlier process have exited, because they held the lock. A warden that was killed may have left
        // processes behind.
        let selector = ProcessSelector {
            environment_variable: Some(process_marker.clone()),
            working_directory: Some(work.clone()),
        };
        match kill_orphans(&selector) {
            Ok(0) => {}
            Ok(killed) => tracing::warn!(killed, "killed processes that an earlier executor left behind"),
            // They never execute code of the task again, so the next attempts may start.
            Err(KillOrphansError::Unkillable { pids }) => tracing::error!(
                ?pids,
                "processes that an earlier executor left behind do not exit after SIGKILL; they hang in the kernel"
            ),
            Err(error) => return Err(ExecutorError::OrphanedProcesses(error)),
        }
        let last_attempts = workspace::last_attempts(&work).map_err(folder_error("read", &work))?;
        let host = host_name();
        let name = options.name.clone().unwrap_or_else(|| default_name(&host, &id));
        let previous_sessions = read_sessions(&root)?;
        Ok(ExecutorDataFolder {
            name,
            host,
            root,
            lock,
            process_marker,
            previous_sessions,
            last_attempts,
        })
    }

    /// The name of this executor's control groups; the id makes it unique on the machine.
    pub(crate) fn cgroup_name(&self) -> String {
        format!("conclave-{}", self.process_marker.1.to_string_lossy())
    }

    pub(crate) fn outgoing(&self) -> PathBuf {
        self.root.join("outgoing")
    }

    pub(crate) fn workspaces(&self) -> PathBuf {
        self.root.join("work")
    }
}

/// The file `sessions` in the executor's data folder: the sessions that the next executor process may have to succeed.
#[derive(Clone)]
pub(crate) struct SessionFile {
    root: PathBuf,
    pending: Arc<Mutex<Option<Vec<SessionId>>>>,
    /// Whether a thread is writing the file.
    is_writing: watch::Sender<bool>,
}

impl SessionFile {
    pub(crate) fn new(root: &Path) -> SessionFile {
        SessionFile {
            root: root.to_path_buf(),
            pending: Arc::default(),
            is_writing: watch::Sender::new(false),
        }
    }

    pub(crate) fn write(&self, sessions: &[SessionId]) -> io::Result<()> {
        let path = self.root.join("sessions");
        let text: String = sessions.iter().map(|session| format!("{session}\n")).collect();
        let new = self.root.join("sessions.new");
        fs::write(&new, text)?;
        fs::rename(&new, &path)
    }

    /// Writes the list without waiting for the disk; a later list replaces one that is not written yet. At most one thread
    /// writes, however often this is called while the disk hangs.
    pub(crate) fn write_in_background(&self, sessions: Vec<SessionId>) {
        let mut pending = self.pending();
        *pending = Some(sessions);
        if self.is_writing.send_replace(true) {
            return;
        }
        let file = self.clone();
        let thread = std::thread::Builder::new().name("sessions".into());
        if let Err(error) = thread.spawn(move || file.write_pending()) {
            tracing::warn!(%error, "could not start a thread to write the session file");
            self.is_writing.send_replace(false);
        }
    }

    fn write_pending(&self) {
        loop {
            let sessions = {
                let mut pending = self.pending();
                let Some(sessions) = pending.take() else {
                    self.is_writing.send_replace(false);
                    return;
                };
                sessions
            };
            if let Err(error) = self.write(&sessions) {
                tracing::warn!(%error, "could not write the session file");
            }
        }
    }

    /// Returns when no write is pending.
    pub(crate) async fn wait_until_written(&self) {
        // An error would mean that the sender is dropped, and `self` owns it.
        let _ = self
            .is_writing
            .subscribe()
            .wait_for(|is_writing| !is_writing)
            .await;
    }

    fn pending(&self) -> MutexGuard<'_, Option<Vec<SessionId>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn folder_error(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ExecutorError {
    let path = path.to_path_buf();
    move |source| ExecutorError::DataFolder { step, path, source }
}

async fn take_lock(root: &Path) -> Result<Arc<OwnedFd>, ExecutorError> {
    let path = root.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        // Only for this user: any process that can open the file could lock it and keep the executor from starting.
        .mode(0o600)
        .open(&path)
        .map_err(folder_error("open", &path))?;
    // Earlier versions created the file readable for all users.
    file.set_permissions(Permissions::from_mode(0o600))
        .map_err(folder_error("set the mode of", &path))?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Arc::new(file.into())),
            Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_TIMEOUT => {
                tokio::time::sleep(LOCK_RETRY_INTERVAL).await
            }
            Err(TryLockError::WouldBlock) => {
                return Err(ExecutorError::InUse {
                    path: root.to_path_buf(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(folder_error("lock", &path)(source)),
        }
    }
}

fn read_or_create_id(root: &Path) -> Result<String, ExecutorError> {
    let path = root.join("id");
    match fs::read_to_string(&path) {
        Ok(id) if !id.trim().is_empty() => return Ok(id.trim().to_string()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(folder_error("read", &path)(error)),
    }
    // The random part of a v7 UUID; the timestamp part would be equal in folders that are created together.
    let id = Uuid::now_v7().simple().to_string().split_off(20);
    fs::write(&path, &id).map_err(folder_error("write", &path))?;
    Ok(id)
}

fn read_sessions(root: &Path) -> Result<Vec<SessionId>, ExecutorError> {
    let path = root.join("sessions");
    match fs::read_to_string(&path) {
        // A crash can cut off the last line; its session has never reported.
        Ok(text) => Ok(text
            .lines()
            .filter_map(|line| Uuid::try_parse(line).ok())
            .map(SessionId)
            .collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(folder_error("read", &path)(error)),
    }
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn default_name(host: &str, id: &str) -> ExecutorName {
    let host: String = host
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        .take(64)
        .collect();
    let short_id = &id[..id.len().min(6)];
    ExecutorName::new(format!("{host}-{short_id}"))
        .or_else(|_| ExecutorName::new("executor"))
        .unwrap_or_else(|_| unreachable!("the fixed name is valid"))
}
