//! Those who add at the same time share a transaction: while one is on its way, the next ones gather.

use std::sync::Arc;

use model::Added;
use supervise::{Component, Failures, Supervisor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Draft, add};
use crate::StoreError;
use crate::mongo::attempts::{Patience, TOTAL};
use crate::mongo::base::Base;
use crate::mongo::failure::{Failure, repeat};

const STEP: &str = "add tasks";

/// A group ends at either bound, so that nobody waits long for a commit he is part of.
const GROUP_JOBS: usize = 512;
const GROUP_TASKS: usize = 2000;
const GROUP_BYTES: usize = 8 << 20;
/// How much may wait in memory, in KiB; further callers wait until there is room.
const WAITING_KIB: usize = 64 << 10;
const WAITING_JOBS: usize = 4096;

pub(in crate::mongo) struct Adder {
    jobs: mpsc::Sender<Job>,
    room: Arc<Semaphore>,
    failures: Failures,
}

struct Job {
    since: Instant,
    drafts: Vec<Draft>,
    weight: usize,
    reply: oneshot::Sender<Result<Vec<Added>, StoreError>>,
    room: OwnedSemaphorePermit,
}

impl Adder {
    /// The loop ends when the adder is dropped and all that it took on is done.
    pub(in crate::mongo) fn start(
        base: Arc<Base>,
        supervisor: &Supervisor,
        stop: &CancellationToken,
    ) -> Adder {
        let (jobs, waiting) = mpsc::channel(WAITING_JOBS);
        supervisor.spawn(Component::StoreAdder, stop, run(base, waiting));
        Adder {
            jobs,
            room: Arc::new(Semaphore::new(WAITING_KIB)),
            failures: supervisor.failures(),
        }
    }

    /// Durable when it returns.
    pub(in crate::mongo) async fn add(&self, drafts: Vec<Draft>) -> Result<Vec<Added>, StoreError> {
        let weight = drafts.iter().map(Draft::weight).sum::<usize>();
        let share = (weight >> 10).clamp(1, WAITING_KIB) as u32;
        let room = self.room.clone().acquire_many_owned(share).await;
        let (reply, answer) = oneshot::channel();
        let job = Job {
            since: Instant::now(),
            drafts,
            weight,
            reply,
            room: room.map_err(|_| StoreError::Closed)?,
        };
        if self.jobs.send(job).await.is_err() {
            return Err(StoreError::of_lost(self.failures.clone()).await);
        }
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::of_lost(self.failures.clone()).await),
        }
    }
}

async fn run(base: Arc<Base>, mut waiting: mpsc::Receiver<Job>) {
    while let Some(first) = waiting.recv().await {
        let (mut weight, mut tasks) = (0, 0);
        let mut group = vec![];
        let mut next = Some(first);
        while let Some(job) = next.take() {
            if job.weight >= GROUP_BYTES {
                // A large one takes its time, and nobody waits for it.
                let base = base.clone();
                tokio::spawn(async move { handle(&base, vec![job]).await });
            } else if let Some(job) = job.unless_late() {
                weight += job.weight;
                tasks += job.drafts.len();
                group.push(job);
            }
            if group.len() < GROUP_JOBS && tasks < GROUP_TASKS && weight < GROUP_BYTES {
                next = waiting.try_recv().ok();
            }
        }
        handle(&base, group).await;
    }
}

impl Job {
    /// Nothing of it was tried yet: whoever gave up needs no answer, and whoever waited long enough gets one.
    fn unless_late(self) -> Option<Job> {
        if self.reply.is_closed() {
            return None;
        }
        if self.since.elapsed() >= TOTAL {
            let _ = self.reply.send(Err(StoreError::Silent { step: STEP }));
            return None;
        }
        Some(self)
    }
}

async fn handle(base: &Arc<Base>, group: Vec<Job>) {
    if group.is_empty() {
        return;
    }
    let weight = group.iter().map(|job| job.weight).sum();
    let (batches, replies): (Vec<_>, Vec<_>) = group
        .into_iter()
        .map(|job| (job.drafts, (job.reply, job.room)))
        .unzip();
    let batches = Arc::new(batches);
    let answers = Patience::with(STEP)
        .for_bytes(weight)
        .persist(|_| {
            let added = add(base.clone(), batches.clone());
            async move {
                added.await.map_err(|failure| match failure {
                    Failure::TooLarge => Failure::Refused(StoreError::TooMuch),
                    other => other,
                })
            }
        })
        .await;
    // A caller may have stopped waiting; what was done stays done.
    match answers {
        Ok(answers) => {
            for ((reply, _), answer) in replies.into_iter().zip(answers) {
                let _ = reply.send(answer);
            }
        }
        Err(error) => {
            for (reply, _) in replies {
                let _ = reply.send(Err(repeat(&error)));
            }
        }
    }
}
