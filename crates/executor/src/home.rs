//! The executor's data folder: who it is, which sessions it had, and nothing left of the tasks of an old life.
//!
//! ```text
//! lock       flock held by this process and its wardens: whoever gets it knows that all of them are gone
//! id         a number that makes the default name unique
//! sessions   the sessions whose end no judicator has confirmed, the last one last
//! spool      results that no judicator has answered for yet
//! work/      a folder for each task that is here
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

use model::{ExecutorName, Handout, SessionId};
use sandbox::{Marker, StraysError, kill_strays};
use tokio::sync::watch;
use uuid::Uuid;

use crate::{ExecutorError, Options, workspace};

/// How long the wardens of an old life may take to clear up after it.
const TAKEOVER: Duration = Duration::from_secs(15);
/// A flock cannot be awaited with a deadline, so it is tried at this interval.
const RETRY: Duration = Duration::from_millis(20);

pub(crate) struct Home {
    pub(crate) name: ExecutorName,
    pub(crate) host: String,
    pub(crate) root: PathBuf,
    pub(crate) lock: Arc<OwnedFd>,
    /// Every process of every task carries this in its environment.
    pub(crate) mark: (OsString, OsString),
    pub(crate) former_sessions: Vec<SessionId>,
    /// What began last in each slot of the earlier life. What of it had ended is answered for already, or spooled.
    pub(crate) interrupted: Vec<Handout>,
}

impl Home {
    /// Takes the folder over, and leaves no process of the tasks of an earlier life that can compute.
    pub(crate) async fn enter(options: &Options) -> Result<Home, ExecutorError> {
        let root = options.data.clone();
        fs::create_dir_all(&root).map_err(failed("make the data folder", &root))?;
        let root = root
            .canonicalize()
            .map_err(failed("find the data folder", &root))?;
        let lock = take_lock(&root).await?;
        let id = identity(&root)?;
        let mark = ("CONCLAVE_EXECUTOR".into(), id.as_str().into());
        let work = root.join("work");
        fs::create_dir_all(&work).map_err(failed("make", &work))?;
        // The wardens of the old life are gone, or we would not have the lock; one that was killed itself may
        // have left strays.
        let marker = Marker {
            variable: Some(mark.clone()),
            directory: Some(work.clone()),
        };
        match kill_strays(&marker) {
            Ok(0) => {}
            Ok(strays) => tracing::warn!(strays, "ended processes that an earlier executor left behind"),
            // None of them returns to its program: the next attempts of their tasks may begin.
            Err(StraysError::Hang { pids }) => tracing::error!(
                ?pids,
                "processes that an earlier executor left behind were sent SIGKILL and hang in the kernel"
            ),
            Err(error) => return Err(ExecutorError::Strays(error)),
        }
        let interrupted = workspace::last_attempts(&work).map_err(failed("look into", &work))?;
        let host = host_name();
        let name = options.name.clone().unwrap_or_else(|| default_name(&host, &id));
        let former_sessions = read_sessions(&root)?;
        Ok(Home {
            name,
            host,
            root,
            lock,
            mark,
            former_sessions,
            interrupted,
        })
    }

    /// Nobody else's: the name is made of the number that this folder keeps.
    pub(crate) fn group_name(&self) -> String {
        format!("conclave-{}", self.mark.1.to_string_lossy())
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }
}

/// The list of sessions that the next life may have to succeed.
#[derive(Clone)]
pub(crate) struct SessionFile {
    root: PathBuf,
    wanted: Arc<Mutex<Option<Vec<SessionId>>>>,
    /// Whether a thread is writing.
    busy: watch::Sender<bool>,
}

impl SessionFile {
    pub(crate) fn new(root: &Path) -> SessionFile {
        SessionFile {
            root: root.to_path_buf(),
            wanted: Arc::default(),
            busy: watch::Sender::new(false),
        }
    }

    pub(crate) fn write(&self, sessions: &[SessionId]) -> io::Result<()> {
        let path = self.root.join("sessions");
        let text: String = sessions.iter().map(|session| format!("{session}\n")).collect();
        let new = self.root.join("sessions.new");
        fs::write(&new, text)?;
        fs::rename(&new, &path)
    }

    /// The same without waiting for the disk. The last list that was asked for is the one that stays. There is one
    /// thread at a time, however often this is called while the disk hangs.
    pub(crate) fn write_soon(&self, sessions: Vec<SessionId>) {
        let mut wanted = self.wanted();
        *wanted = Some(sessions);
        if self.busy.send_replace(true) {
            return;
        }
        let file = self.clone();
        let thread = std::thread::Builder::new().name("sessions".into());
        if let Err(error) = thread.spawn(move || file.write_wanted()) {
            tracing::warn!(%error, "could not start a thread to write the session");
            self.busy.send_replace(false);
        }
    }

    fn write_wanted(&self) {
        loop {
            let sessions = {
                let mut wanted = self.wanted();
                let Some(sessions) = wanted.take() else {
                    self.busy.send_replace(false);
                    return;
                };
                sessions
            };
            if let Err(error) = self.write(&sessions) {
                tracing::warn!(%error, "could not write the session");
            }
        }
    }

    /// Returns when nothing is left to write.
    pub(crate) async fn written(&self) {
        // It fails only if the sender is gone, which is our own.
        let _ = self.busy.subscribe().wait_for(|busy| !busy).await;
    }

    fn wanted(&self) -> MutexGuard<'_, Option<Vec<SessionId>>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ExecutorError {
    let path = path.to_path_buf();
    move |source| ExecutorError::Home { step, path, source }
}

async fn take_lock(root: &Path) -> Result<Arc<OwnedFd>, ExecutorError> {
    let path = root.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        // For this user alone: whoever may open a file may lock it, and keep the executor from starting.
        .mode(0o600)
        .open(&path)
        .map_err(failed("open", &path))?;
    // An earlier version let everybody read it.
    file.set_permissions(Permissions::from_mode(0o600))
        .map_err(failed("set the mode of", &path))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Arc::new(file.into())),
            Err(TryLockError::WouldBlock) if begun.elapsed() < TAKEOVER => tokio::time::sleep(RETRY).await,
            Err(TryLockError::WouldBlock) => {
                return Err(ExecutorError::InUse {
                    path: root.to_path_buf(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
        }
    }
}

fn identity(root: &Path) -> Result<String, ExecutorError> {
    let path = root.join("id");
    match fs::read_to_string(&path) {
        Ok(id) if !id.trim().is_empty() => return Ok(id.trim().to_string()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed("read", &path)(error)),
    }
    // The random half of a v7 id; its time half would be alike for folders made together.
    let id = Uuid::now_v7().simple().to_string().split_off(20);
    fs::write(&path, &id).map_err(failed("write", &path))?;
    Ok(id)
}

fn read_sessions(root: &Path) -> Result<Vec<SessionId>, ExecutorError> {
    let path = root.join("sessions");
    match fs::read_to_string(&path) {
        // A line that is no session was cut off by a crash, and its session never reported.
        Ok(text) => Ok(text
            .lines()
            .filter_map(|line| Uuid::try_parse(line).ok())
            .map(SessionId)
            .collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("read", &path)(error)),
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
    let short = &id[..id.len().min(6)];
    ExecutorName::new(format!("{host}-{short}"))
        .or_else(|_| ExecutorName::new("executor"))
        .unwrap_or_else(|_| unreachable!("a fixed name is a name"))
}
