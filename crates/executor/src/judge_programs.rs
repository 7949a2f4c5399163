//! The programs that judge, compiled once for all tasks of this executor that use them.
//!
//! A program is found by the hash of all that goes into it and by the generation of its root. The first task that needs it
//! compiles it, and others wait. What a program needs to run is kept as a snapshot of its workspace, with a bound on their
//! number and size. A program that does not compile is tried again after a while: its root may have been completed.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::now;
use crate::workspace::Snapshot;

const COMPILES_METRIC: &str = "conclave_checker_compiles_total";
const HITS_METRIC: &str = "conclave_checker_cache_hits_total";

/// How many programs are kept, and how many bytes of memory and disk they may take together.
const MAX_PROGRAMS: usize = 64;
const MAX_BYTES: u64 = 512 << 20;
/// How long tasks are told that a program does not compile, without another try.
const FAILURE_LASTS: Duration = Duration::from_secs(30);
/// How often a slot that waits for the compilation of another slot reports progress.
const WAIT_INTERVAL: Duration = Duration::from_millis(200);

/// The compiled programs that judge tasks of an executor.
#[derive(Default)]
pub(crate) struct JudgeProgramCache {
    table: Mutex<JudgeProgramTable>,
    /// Signalled when a compilation has ended.
    ended: Condvar,
}

/// What identifies a compiled program that judges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JudgeProgramKey {
    /// That of `model::JudgeProgram::digest`.
    pub(crate) digest: [u8; 32],
    /// The folder of the root's generation in which it was compiled; `None` is the default root.
    pub(crate) root: Option<PathBuf>,
}

/// A program that judges as its compile step left it, or why it does not compile.
pub(crate) type CompiledProgram = Result<Arc<Snapshot>, String>;

/// The locked part of a [`JudgeProgramCache`].
#[derive(Default)]
struct JudgeProgramTable {
    programs: HashMap<JudgeProgramKey, CachedProgram>,
    /// Grows with each use, so that the program that was not used for the longest time is known.
    uses: u64,
}

/// One program in a [`JudgeProgramCache`].
enum CachedProgram {
    /// A slot compiles it.
    Compiling,
    Compiled {
        snapshot: Arc<Snapshot>,
        last_use: u64,
    },
    /// It did not compile.
    Failed {
        why: String,
        until: Instant,
    },
}

/// The right of one slot to compile a program. Dropping it lets another slot try.
struct CompilePermit<'a> {
    cache: &'a JudgeProgramCache,
    key: &'a JudgeProgramKey,
}

impl JudgeProgramCache {
    /// The program from the cache, or what `compile` returns. An error of `compile` is not kept. `wait` is called while
    /// another slot compiles the program; its error ends the wait.
    pub(crate) fn get_or_compile<E>(
        &self,
        key: &JudgeProgramKey,
        wait: &dyn Fn() -> Result<(), E>,
        compile: impl FnOnce() -> Result<Result<Snapshot, String>, E>,
    ) -> Result<CompiledProgram, E> {
        let mut table = self.table();
        loop {
            match table.find(key, now()) {
                Some(CachedProgram::Compiled { snapshot, .. }) => {
                    metrics::counter!(HITS_METRIC).increment(1);
                    return Ok(Ok(snapshot.clone()));
                }
                Some(CachedProgram::Failed { why, .. }) => return Ok(Err(why.clone())),
                Some(CachedProgram::Compiling) => {
                    drop(table);
                    wait()?;
                    (table, _) = self
                        .ended
                        .wait_timeout_while(self.table(), WAIT_INTERVAL, |table| table.is_compiling(key))
                        .unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        table.programs.insert(key.clone(), CachedProgram::Compiling);
        drop(table);
        let permit = CompilePermit { cache: self, key };
        metrics::counter!(COMPILES_METRIC).increment(1);
        let compiled = compile()?.map(Arc::new);
        self.table().put(key, &compiled, now());
        drop(permit);
        Ok(compiled)
    }

    fn table(&self) -> MutexGuard<'_, JudgeProgramTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CompilePermit<'_> {
    fn drop(&mut self) {
        let mut table = self.cache.table();
        if table.is_compiling(self.key) {
            table.programs.remove(self.key);
        }
        drop(table);
        self.cache.ended.notify_all();
    }
}

impl JudgeProgramTable {
    /// Finds a program, unless its failure was too long ago, and counts the use.
    fn find(&mut self, key: &JudgeProgramKey, now: Instant) -> Option<&CachedProgram> {
        self.uses += 1;
        let is_outdated = |cached: &CachedProgram| match cached {
            CachedProgram::Failed { until, .. } => *until <= now,
            CachedProgram::Compiling | CachedProgram::Compiled { .. } => false,
        };
        if self.programs.get(key).is_some_and(is_outdated) {
            self.programs.remove(key);
        }
        let found = self.programs.get_mut(key)?;
        if let CachedProgram::Compiled { last_use, .. } = found {
            *last_use = self.uses;
        }
        Some(found)
    }

    fn is_compiling(&self, key: &JudgeProgramKey) -> bool {
        matches!(self.programs.get(key), Some(CachedProgram::Compiling))
    }

    /// Keeps a program, and removes those that were not used for the longest time if there are too many.
    fn put(&mut self, key: &JudgeProgramKey, compiled: &CompiledProgram, now: Instant) {
        let cached = match compiled {
            Ok(snapshot) => CachedProgram::Compiled {
                snapshot: snapshot.clone(),
                last_use: self.uses,
            },
            Err(why) => CachedProgram::Failed {
                why: why.clone(),
                until: now + FAILURE_LASTS,
            },
        };
        self.programs.insert(key.clone(), cached);
        while self.programs.len() > MAX_PROGRAMS || self.bytes() > MAX_BYTES {
            let age = |cached: &CachedProgram| match cached {
                CachedProgram::Compiling => None,
                CachedProgram::Compiled { last_use, .. } => Some(*last_use),
                CachedProgram::Failed { .. } => Some(0),
            };
            let others = self.programs.iter().filter(|(other, _)| *other != key);
            let ages = others.filter_map(|(other, cached)| Some((age(cached)?, other)));
            let Some(oldest) = ages.min_by_key(|(age, _)| *age).map(|(_, other)| other.clone()) else {
                return;
            };
            self.programs.remove(&oldest);
        }
    }

    fn bytes(&self) -> u64 {
        let sizes = self.programs.values().map(|cached| match cached {
            CachedProgram::Compiled { snapshot, .. } => snapshot.bytes(),
            CachedProgram::Compiling | CachedProgram::Failed { .. } => 0,
        });
        sizes.sum()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn key(number: usize) -> JudgeProgramKey {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        JudgeProgramKey { digest, root: None }
    }

    fn no_wait() -> Result<(), ()> {
        Ok(())
    }

    #[test]
    fn a_program_is_compiled_once_for_all_slots_that_need_it() {
        let cache = JudgeProgramCache::default();
        let compiled = AtomicU32::new(0);
        let barrier = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    let found = cache.get_or_compile(&key(1), &no_wait, || {
                        compiled.fetch_add(1, Ordering::SeqCst);
                        Ok(Ok(Snapshot::default()))
                    });
                    assert!(found.unwrap().is_ok());
                });
            }
        });
        assert_eq!(compiled.into_inner(), 1);
    }

    #[test]
    fn the_next_slot_compiles_what_an_earlier_one_could_not() {
        let cache = JudgeProgramCache::default();
        let lost = cache.get_or_compile(&key(1), &no_wait, || Err(()));
        assert!(lost.is_err());
        let panicking = std::panic::AssertUnwindSafe(|| {
            let _ = cache.get_or_compile::<()>(&key(1), &no_wait, || panic!("a test"));
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        let found = cache.get_or_compile::<()>(&key(1), &no_wait, || Ok(Err("syntax".into())));
        assert_eq!(found.unwrap().err().as_deref(), Some("syntax"));
    }

    #[test]
    fn a_wait_for_another_slot_ends_with_its_attempt() {
        let cache = JudgeProgramCache::default();
        cache.table().programs.insert(key(1), CachedProgram::Compiling);
        let calls = Cell::new(0);
        let wait = || {
            calls.set(calls.get() + 1);
            if calls.get() == 2 { Err("revoked") } else { Ok(()) }
        };
        let ended = cache.get_or_compile(&key(1), &wait, || Ok(Ok(Snapshot::default())));
        assert_eq!(ended.err(), Some("revoked"));
    }

    #[test]
    fn failures_and_programs_are_not_kept_for_ever() {
        let mut table = JudgeProgramTable::default();
        let start = Instant::now();
        table.put(&key(0), &Err("syntax".into()), start);
        assert!(table.find(&key(0), start + FAILURE_LASTS / 2).is_some());
        assert!(table.find(&key(0), start + FAILURE_LASTS).is_none());
        for number in 0..MAX_PROGRAMS {
            table.put(&key(number), &Ok(Arc::default()), start);
            // The first one is in use.
            assert!(table.find(&key(0), start).is_some());
        }
        table.put(&key(MAX_PROGRAMS), &Ok(Arc::default()), start);
        assert_eq!(table.programs.len(), MAX_PROGRAMS);
        let mut has = |number| table.find(&key(number), start).is_some();
        assert_eq!(
            [has(0), has(1), has(2), has(MAX_PROGRAMS)],
            [true, false, true, true]
        );
    }
}
