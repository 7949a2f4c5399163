use std::sync::Arc;

use futures::StreamExt;
use model::{Task, TaskId};
use rpc::{CallError, Event, EventStream};
use store::TaskStore;

use crate::Judicator;
use crate::error::refusal;
use crate::waiters::{News, Waiter};

impl Judicator {
    pub(super) async fn on_events(&self, id: TaskId) -> Result<EventStream, CallError> {
        let waiter = self.waiters.wait_for(id);
        let first = event(&self.look(id).await?);
        let follow = Follow {
            store: self.store.clone(),
            waiter,
            last: first.clone(),
            id,
        };
        let rest = futures::stream::unfold(Some(follow), |follow| async move {
            let mut follow = follow?;
            let next = follow.next().await?;
            // After an error or the end there is nothing more to follow.
            let goes_on = next.as_ref().is_ok_and(|event| !event.status.done());
            Some((next, goes_on.then_some(follow)))
        });
        Ok(futures::stream::iter([Ok(first)]).chain(rest).boxed())
    }
}

struct Follow {
    store: Arc<dyn TaskStore>,
    waiter: Waiter,
    last: Event,
    id: TaskId,
}

impl Follow {
    /// The next change of status; `None` when there can be none.
    async fn next(&mut self) -> Option<Result<Event, CallError>> {
        if self.last.status.done() {
            return None;
        }
        loop {
            let event = match self.waiter.news.recv().await? {
                News::Moved(event) => event,
                News::Look => match self.store.get(self.id).await {
                    Ok(Some(task)) => event(&task),
                    Ok(None) => return Some(Err(CallError::NoTask(self.id))),
                    Err(error) => return Some(Err(refusal(error))),
                },
            };
            // News from before the first look is old news: the task could not move to there from here.
            if event.status != self.last.status && self.last.status.may_become(event.status) {
                self.last = event.clone();
                return Some(Ok(event));
            }
        }
    }
}

fn event(task: &Task) -> Event {
    let time = task
        .finish_time
        .or(task.report_time)
        .or(task.start_time)
        .unwrap_or(task.add_time);
    Event {
        id: task.id,
        status: task.status,
        executor: task.executor.clone(),
        time,
    }
}
