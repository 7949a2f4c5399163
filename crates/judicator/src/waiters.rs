//! Who waits for which task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::TaskId;
use rpc::Event;
use tokio::sync::mpsc;

#[derive(Default)]
pub(crate) struct Waiters {
    tasks: Mutex<HashMap<TaskId, Vec<mpsc::UnboundedSender<News>>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum News {
    Moved(Event),
    /// Something was missed: look at the task itself.
    Look,
}

pub(crate) struct Waiter {
    pub(crate) news: mpsc::UnboundedReceiver<News>,
    id: TaskId,
    waiters: Arc<Waiters>,
}

impl Waiters {
    /// Wait first, then look: what happens in between is not missed.
    pub(crate) fn wait_for(self: &Arc<Self>, id: TaskId) -> Waiter {
        // A task has a handful of changes in its life, so nothing piles up.
        let (sender, news) = mpsc::unbounded_channel();
        self.lock().entry(id).or_default().push(sender);
        Waiter {
            news,
            id,
            waiters: self.clone(),
        }
    }

    pub(crate) fn on_moved(&self, event: &Event) {
        if let Some(senders) = self.lock().get(&event.id) {
            for sender in senders {
                // One that is just going away need not hear it.
                let _ = sender.send(News::Moved(event.clone()));
            }
        }
    }

    pub(crate) fn on_lost_history(&self) {
        for sender in self.lock().values().flatten() {
            let _ = sender.send(News::Look);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Vec<mpsc::UnboundedSender<News>>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.news.close();
        let mut tasks = self.waiters.lock();
        if let Some(senders) = tasks.get_mut(&self.id) {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                tasks.remove(&self.id);
            }
        }
    }
}
