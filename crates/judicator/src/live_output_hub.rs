//! Live output: passes what running tasks write from the executors that are connected here to the calls that follow it.
//!
//! Output is read from an executor only while somebody follows it. All followers of a stream share one reader and a ring of
//! its newest bytes; a follower that is slower than the ring reads for itself. All rings together have a bound on their
//! memory, beyond which they keep nothing. So neither slow nor many followers hold up the executor, the task or each other. What is lost here is in the result of the task.

mod followed_stream;
mod output_connection;
mod ring_budget;
mod stream_ring;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{ExecutorName, SessionId};
use rpc::{OutputAnswerStream, OutputRequestStream};
use tokio::sync::watch;

pub(crate) use followed_stream::{StreamFollower, StreamPiece};
pub(crate) use output_connection::OutputConnection;
use ring_budget::RingBudget;

/// The executors' sessions that serve the output of their tasks at this judicator, and the calls that wait for one of them.
pub(crate) struct LiveOutputHub {
    sessions: Mutex<HashMap<SessionId, ConnectionSender>>,
    ring_budget: Arc<RingBudget>,
}

/// The memory of all rings.
const RING_BYTES: usize = 64 << 20;

impl Default for LiveOutputHub {
    fn default() -> LiveOutputHub {
        LiveOutputHub {
            sessions: Mutex::default(),
            ring_budget: RingBudget::new(RING_BYTES),
        }
    }
}

/// Publishes the current connection of an executor's session that serves output, or that it has none.
type ConnectionSender = watch::Sender<Option<Arc<OutputConnection>>>;

/// Follows the connection of one executor's session for a call that follows output. Dropping it ends that.
pub(crate) struct ConnectionWatcher {
    connection: Option<watch::Receiver<Option<Arc<OutputConnection>>>>,
    session: SessionId,
    hub: Arc<LiveOutputHub>,
}

impl LiveOutputHub {
    /// Connects an executor's session. It replaces an earlier connection of the session.
    pub(crate) fn connect(
        self: &Arc<Self>,
        executor: ExecutorName,
        session: SessionId,
        answers: OutputAnswerStream,
    ) -> OutputRequestStream {
        let (connection, requests) = OutputConnection::open(answers, self.ring_budget.clone());
        let earlier = self
            .lock()
            .entry(session)
            .or_default()
            .send_replace(Some(connection.clone()));
        if let Some(earlier) = earlier {
            earlier.close();
        }
        tracing::debug!(%executor, %session, "executor serves output");
        let registration = SessionRegistration {
            hub: self.clone(),
            session,
            connection,
        };
        output_connection::with_guard(requests, registration)
    }

    /// Follows the connection of a session, which need not be connected yet.
    pub(crate) fn watch(self: &Arc<Self>, session: SessionId) -> ConnectionWatcher {
        let connection = self.lock().entry(session).or_default().subscribe();
        ConnectionWatcher {
            connection: Some(connection),
            session,
            hub: self.clone(),
        }
    }

    fn remove_if_unused(sessions: &mut HashMap<SessionId, ConnectionSender>, session: SessionId) {
        let is_unused = |sender: &ConnectionSender| sender.receiver_count() == 0 && sender.borrow().is_none();
        if sessions.get(&session).is_some_and(is_unused) {
            sessions.remove(&session);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, ConnectionSender>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionWatcher {
    /// The session's connection now. Later changes make `changed` return.
    pub(crate) fn current(&mut self) -> Option<Arc<OutputConnection>> {
        self.connection.as_mut()?.borrow_and_update().clone()
    }

    pub(crate) async fn changed(&mut self) {
        let changed = match &mut self.connection {
            Some(connection) => connection.changed().await.is_ok(),
            None => false,
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for ConnectionWatcher {
    fn drop(&mut self) {
        let mut sessions = self.hub.lock();
        self.connection = None;
        LiveOutputHub::remove_if_unused(&mut sessions, self.session);
    }
}

/// A guard in the stream of requests to an executor. When the stream ends, it removes the executor's connection.
struct SessionRegistration {
    hub: Arc<LiveOutputHub>,
    session: SessionId,
    connection: Arc<OutputConnection>,
}

impl Drop for SessionRegistration {
    fn drop(&mut self) {
        self.connection.close();
        let mut sessions = self.hub.lock();
        if let Some(sender) = sessions.get(&self.session) {
            // A newer connection stays.
            sender.send_if_modified(|current| {
                let is_this = current
                    .as_ref()
                    .is_some_and(|one| Arc::ptr_eq(one, &self.connection));
                if is_this {
                    *current = None;
                }
                is_this
            });
        }
        LiveOutputHub::remove_if_unused(&mut sessions, self.session);
    }
}
