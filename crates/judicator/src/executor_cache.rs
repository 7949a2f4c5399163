//! A cache of what the executors have: what they can give to a task, and their languages and roots.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{
    Capacity, ExecutorName, ExecutorState, ExecutorTools, Health, InvalidField, SessionId, TaskForm,
    ToolRequirement,
};
use tokio::time::{Instant, sleep_until};

use crate::Judicator;

/// Adding a task must not read all executors each time. What they have changes only when an executor joins or leaves, or
/// when its operator installs something.
const VALID_FOR: Duration = Duration::from_secs(1);
/// A requirement that is not in the cache is looked for at once, but not more often than this. Its executor may just have
/// reported.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(100);
/// How long a task is accepted after the last executor that had its language and root has gone.
const OFFERED_FOR: Duration = Duration::from_secs(3600);

/// Why a task with cases is refused.
const NO_EXECUTOR_JUDGES: &str = "no executor runs tasks with cases: they are of an older version, or run tasks without cells \
    (--isolation none), so that a program could read the answers; start an executor with cells, or one with \
    --judge-without-cells if you trust the programs, or set wait_for_executor to true to wait for one";

/// How long after the start of a judicator a task may wait for the first executor, before it is refused.
const FIRST_EXECUTOR_TIMEOUT: Duration = Duration::from_secs(5);

/// A judicator's cache of the executors on the store's list, read at most once a second while everything is found in it.
pub(crate) struct ExecutorCache {
    created_at: Instant,
    executors: Mutex<CachedExecutors>,
    /// Held by the caller that reads the list because a requirement was not found. Others wait for its result.
    reading: tokio::sync::Mutex<()>,
}

/// The executors as a judicator last read them, and what they have had before.
#[derive(Default)]
struct CachedExecutors {
    /// When a caller last began to read them.
    read_begun: Option<Instant>,
    /// When the read began whose result is `listed`.
    listed_at: Option<Instant>,
    /// When the last read began that failed.
    failed_at: Option<Instant>,
    listed: Vec<ListedExecutor>,
    /// When a live executor was last found that runs tasks with cases.
    judging_seen: Option<Instant>,
    /// When an executor that was alive was last seen with the tools for each requirement.
    last_seen: HashMap<ToolRequirement, Instant>,
    /// The sessions on the list that are gone and were counted once. Nobody knows when they ended since the previous read,
    /// so their tools count as seen when this judicator first reads that they are gone.
    counted_gone: HashSet<(ExecutorName, SessionId)>,
}

/// How a judicator's read of the executors on the store's list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExecutorsRead {
    Recorded,
    /// The cache stays as it is.
    Failed,
}

/// What an executor on the list has, for a judicator that adds tasks.
struct ListedExecutor {
    capacity: Option<Capacity>,
    tools: Arc<ExecutorTools>,
}

impl Default for ExecutorCache {
    fn default() -> ExecutorCache {
        ExecutorCache {
            created_at: Instant::now(),
            executors: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }
}

impl Judicator {
    /// The combined capacity of all executors on the list that satisfy the requirement, or else of all on the list. It
    /// includes executors that are not connected now, because a task may wait for one that comes back.
    pub(crate) async fn capacity_for(&self, requires: &ToolRequirement) -> Capacity {
        self.read_executors_if_due().await;
        self.executor_cache
            .lock()
            .capacity_for(requires, self.options.capacity)
    }

    /// Refuses a requirement that no executor has satisfied within the last hour. The list was read after the request came,
    /// at `asked`, or the requirement was found before. So a request with many requirements waits for one read.
    pub(crate) async fn executors_offer(
        &self,
        requires: &ToolRequirement,
        asked: Instant,
    ) -> Result<(), InvalidField> {
        self.read_executors_if_due().await;
        if self.executor_cache.lock().offered(requires, Instant::now()) {
            return Ok(());
        }
        let _reading = self.executor_cache.reading.lock().await;
        let (read, read_begun) = {
            let cached = self.executor_cache.lock();
            (cached.read_since(asked), cached.read_begun)
        };
        let mut read = match (read, read_begun) {
            (Some(read), _) => read,
            (None, read_begun) => {
                if let Some(read_begun) = read_begun {
                    sleep_until(read_begun + MIN_READ_INTERVAL).await;
                }
                self.read_executors().await
            }
        };
        // The first executor of a new system may be just about to report what it has.
        while read == ExecutorsRead::Recorded && self.executor_cache.awaits_first_executor(Instant::now()) {
            tokio::time::sleep(MIN_READ_INTERVAL).await;
            read = self.read_executors().await;
        }
        if read == ExecutorsRead::Failed {
            // Nobody can tell. The store refuses the task by itself if it is not available.
            return Ok(());
        }
        let (cached, now) = (self.executor_cache.lock(), Instant::now());
        match cached.offered(requires, now) {
            true => Ok(()),
            false => Err(requires.refusal(&cached.offers(now))),
        }
    }

    /// Refuses a task with cases if all live executors are without cells or of an older version. The error does not name a
    /// field.
    pub(crate) async fn executors_judge(&self) -> Result<(), InvalidField> {
        if self.executor_cache.lock().judges(Instant::now()) {
            return Ok(());
        }
        loop {
            let newest = match self.store.newest_executor_form().await {
                Ok(newest) => newest,
                Err(error) => {
                    tracing::debug!(%error, "could not read which tasks the executors run");
                    // The store refuses the task by itself if it is not available.
                    return Ok(());
                }
            };
            match newest {
                Some(form) if form >= TaskForm::WITH_CASES => {
                    self.executor_cache.lock().judging_seen = Some(Instant::now());
                    return Ok(());
                }
                // The executors of a system that has just started may be just about to report, and a form can be that of their
                // last session.
                _ if Instant::now() < self.executor_cache.created_at + FIRST_EXECUTOR_TIMEOUT => {
                    tokio::time::sleep(MIN_READ_INTERVAL).await;
                }
                Some(_) => return Err(InvalidField::new("", NO_EXECUTOR_JUDGES)),
                // The task waits for an executor, like any other.
                None => return Ok(()),
            }
        }
    }

    async fn read_executors_if_due(&self) {
        if self.executor_cache.lock().begin_reading(Instant::now()) {
            self.read_executors().await;
        }
    }

    async fn read_executors(&self) -> ExecutorsRead {
        let begun = Instant::now();
        self.executor_cache.lock().read_begun = Some(begun);
        match self.store.executors().await {
            Ok(executors) => {
                self.hints.on_executors_listed(&executors);
                let mut cached = self.executor_cache.lock();
                cached.record_read(begun, executors, Instant::now());
                ExecutorsRead::Recorded
            }
            Err(error) => {
                tracing::debug!(%error, "could not read what the executors have");
                self.executor_cache.lock().failed_at = Some(begun);
                ExecutorsRead::Failed
            }
        }
    }
}

impl ExecutorCache {
    /// Whether no executor has reported its tools yet, and this judicator has just started.
    fn awaits_first_executor(&self, now: Instant) -> bool {
        let has_tools = |executor: &ListedExecutor| *executor.tools != ExecutorTools::default();
        now < self.created_at + FIRST_EXECUTOR_TIMEOUT && !self.lock().listed.iter().any(has_tools)
    }

    fn lock(&self) -> MutexGuard<'_, CachedExecutors> {
        self.executors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedExecutors {
    /// Whether the caller must read the executors now. Only one caller does, so that a slow store gets few reads.
    fn begin_reading(&mut self, now: Instant) -> bool {
        let is_due = self.read_begun.is_none_or(|begun| now >= begun + VALID_FOR);
        if is_due {
            self.read_begun = Some(now);
        }
        is_due
    }

    /// How a read ended that began at this time or later. One that is under way, or whose caller went away, does not count.
    fn read_since(&self, asked: Instant) -> Option<ExecutorsRead> {
        let is_later = |begun: Option<Instant>| begun.is_some_and(|begun| begun >= asked);
        match (is_later(self.listed_at), is_later(self.failed_at)) {
            (true, _) => Some(ExecutorsRead::Recorded),
            (false, true) => Some(ExecutorsRead::Failed),
            (false, false) => None,
        }
    }

    /// Two reads may overlap: what the later one found stays.
    fn record_read(&mut self, begun: Instant, executors: Vec<ExecutorState>, now: Instant) {
        if self.listed_at.is_none_or(|listed_at| listed_at <= begun) {
            self.listed_at = Some(begun);
            self.record(executors, now);
        }
    }

    fn record(&mut self, executors: Vec<ExecutorState>, now: Instant) {
        let mut gone = HashSet::new();
        // Executors that are set up in the same way share their tools.
        let mut recorded = HashSet::new();
        for executor in &executors {
            let tools = &executor.tools;
            match executor.health {
                Health::Alive => {
                    if recorded.insert(Arc::as_ptr(tools)) {
                        self.last_seen.extend(tools.satisfied().map(|offer| (offer, now)));
                    }
                }
                Health::Gone => {
                    let session = (executor.name.clone(), executor.session);
                    if !self.counted_gone.contains(&session) {
                        self.last_seen.extend(tools.satisfied().map(|offer| (offer, now)));
                    }
                    gone.insert(session);
                }
            }
        }
        self.counted_gone = gone;
        self.last_seen.retain(|_, seen| now < *seen + OFFERED_FOR);
        let listed = executors.into_iter().map(|executor| ListedExecutor {
            capacity: executor.capacity,
            tools: executor.tools,
        });
        self.listed = listed.collect();
    }

    /// Whether an executor that runs tasks with cases was live a moment ago.
    fn judges(&self, now: Instant) -> bool {
        self.judging_seen.is_some_and(|seen| now < seen + VALID_FOR)
    }

    /// Whether an executor has satisfied the requirement within the last hour.
    fn offered(&self, requires: &ToolRequirement, now: Instant) -> bool {
        let is_recent = |seen: &Instant| now < *seen + OFFERED_FOR;
        let is_offered =
            |part: ToolRequirement| part.is_none() || self.last_seen.get(&part).is_some_and(is_recent);
        // Only what one executor has is remembered by itself. A pair counts as long as its executor is on the list.
        is_offered(requires.of_steps())
            && is_offered(requires.of_judge())
            && (requires.judge.is_none() || self.listed.iter().any(|listed| listed.tools.satisfy(requires)))
    }

    /// The requirements that executors have satisfied within the last hour, sorted.
    fn offers(&self, now: Instant) -> Vec<ToolRequirement> {
        let recent = self.last_seen.iter();
        let recent = recent.filter(|(_, seen)| now < **seen + OFFERED_FOR);
        let mut offers: Vec<_> = recent.map(|(offer, _)| offer.clone()).collect();
        offers.sort_unstable();
        offers
    }

    /// A task that waits for an executor which nobody knows yet is bounded by the others, because a limit that no machine
    /// can give would be no limit. The executor in this process counts before its first report.
    fn capacity_for(&self, requires: &ToolRequirement, own_executor: Option<Capacity>) -> Capacity {
        let able = self
            .listed
            .iter()
            .filter(|executor| executor.tools.satisfy(requires));
        let all = self.listed.iter().map(|executor| executor.capacity);
        Capacity::combined(able.map(|executor| executor.capacity))
            .or_else(|| Capacity::combined(all))
            .or(own_executor)
            .unwrap_or(Capacity::UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use model::{OfferedRoot, RootName, UnixTime};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn root(name: &str) -> ToolRequirement {
        format!("{name}/").parse().unwrap()
    }

    fn executor(name: &str, health: Health, gibibytes: u64, roots: &[&str]) -> ExecutorState {
        let offered = |name: &&str| OfferedRoot {
            name: RootName::new(*name).unwrap(),
            sha256: None,
        };
        ExecutorState {
            name: ExecutorName::new(name).unwrap(),
            session: SessionId(uuid::Uuid::from_u128(1)),
            health,
            slots: 1,
            tasks: 0,
            host: String::new(),
            version: String::new(),
            capacity: Some(capacity(gibibytes)),
            tools: Arc::new(ExecutorTools::new(vec![], roots.iter().map(offered).collect())),
            drain: None,
            load: None,
            since: UnixTime(0),
            report_time: UnixTime(0),
        }
    }

    fn capacity(gibibytes: u64) -> Capacity {
        Capacity {
            memory: gibibytes << 30,
            processes: 512,
            open_files: 1024,
        }
    }

    #[test]
    fn a_task_is_bounded_by_the_executors_that_satisfy_it() {
        let mut cached = CachedExecutors::default();
        let any = ToolRequirement::default();
        assert_eq!(cached.capacity_for(&any, None), Capacity::UNKNOWN);
        assert_eq!(
            cached.capacity_for(&root("lab"), Some(capacity(1))),
            capacity(1),
            "before its first report"
        );
        let executors = vec![
            executor("large", Health::Alive, 8, &[]),
            executor("lab-1", Health::Alive, 1, &["lab"]),
            executor("lab-2", Health::Gone, 2, &["lab", "web"]),
        ];
        cached.record(executors, Instant::now());
        let own = Some(capacity(99));
        assert_eq!(cached.capacity_for(&any, own), capacity(8));
        assert_eq!(cached.capacity_for(&root("lab"), own), capacity(2));
        assert_eq!(
            cached.capacity_for(&root("other"), own),
            capacity(8),
            "it waits for an executor that nobody knows yet"
        );
    }

    #[test]
    fn one_caller_at_a_time_reads_the_executors() {
        let mut cached = CachedExecutors::default();
        let now = Instant::now();
        assert!(cached.begin_reading(now));
        assert!(!cached.begin_reading(now));
        assert!(!cached.begin_reading(now + VALID_FOR / 2));
        assert!(cached.begin_reading(now + VALID_FOR));
    }

    #[test]
    fn only_a_read_that_has_ended_counts() {
        let mut cached = CachedExecutors::default();
        let begin = Instant::now();
        let after = |minutes: u32| begin + MINUTE * minutes;
        assert!(cached.begin_reading(begin));
        assert_eq!(cached.read_since(begin), None, "it is under way");
        cached.failed_at = Some(begin);
        assert_eq!(cached.read_since(begin), Some(ExecutorsRead::Failed));
        assert_eq!(cached.read_since(after(1)), None);
        let executors = || vec![executor("e", Health::Alive, 1, &["lab"])];
        cached.record_read(after(2), executors(), after(4));
        assert_eq!(cached.read_since(after(2)), Some(ExecutorsRead::Recorded));
        assert_eq!(cached.read_since(after(3)), None, "it began before");
        cached.record_read(after(1), vec![], after(5));
        assert_eq!(cached.listed.len(), 1, "an earlier read ended later");
    }

    #[test]
    fn a_requirement_is_offered_for_an_hour_after_its_last_executor() {
        let mut cached = CachedExecutors::default();
        let begin = Instant::now();
        let check = |cached: &CachedExecutors, minutes: u32, expected: &[&str]| {
            let now = begin + MINUTE * minutes;
            let expected: Vec<_> = expected.iter().map(|name| root(name)).collect();
            assert_eq!(cached.offers(now), expected, "after {minutes} minutes");
            for name in ["lab", "web", "old", "new"] {
                let required = root(name);
                assert_eq!(cached.offered(&required, now), expected.contains(&required));
            }
            assert!(cached.offered(&ToolRequirement::default(), now));
        };
        let list = |cached: &mut CachedExecutors, minutes: u32, executors: Vec<ExecutorState>| {
            cached.record(executors, begin + MINUTE * minutes);
        };
        check(&cached, 0, &[]);
        let gone = || executor("gone", Health::Gone, 1, &["old", "lab"]);
        list(
            &mut cached,
            0,
            vec![executor("e", Health::Alive, 1, &["lab", "web"]), gone()],
        );
        check(&cached, 0, &["lab", "old", "web"]);
        // Its next session lacks one root.
        list(
            &mut cached,
            30,
            vec![executor("e", Health::Alive, 1, &["lab"]), gone()],
        );
        check(&cached, 59, &["lab", "old", "web"]);
        check(&cached, 60, &["lab"]);
        // Nobody has read the list since, and it was alive until some time before this read. Executors stay on the list for
        // long, but they count once.
        let left = || executor("e", Health::Gone, 1, &["lab"]);
        list(&mut cached, 80, vec![left(), gone()]);
        check(&cached, 139, &["lab"]);
        list(&mut cached, 100, vec![left(), gone()]);
        check(&cached, 139, &["lab"]);
        check(&cached, 140, &[]);
        list(&mut cached, 150, vec![left(), gone()]);
        check(&cached, 150, &[]);
        assert!(cached.last_seen.is_empty(), "it forgets what it no longer needs");
        // A session that began and ended since the last read.
        let mut new = executor("e", Health::Gone, 1, &["new"]);
        new.session = SessionId(uuid::Uuid::from_u128(2));
        list(&mut cached, 160, vec![new, gone()]);
        check(&cached, 160, &["new"]);
    }
}
