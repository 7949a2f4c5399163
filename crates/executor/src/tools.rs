//! Finds out which languages the executor has, and keeps that up to date: operators install compilers and replace roots while
//! it runs.
//!
//! A warden of its own runs one shell line in a root's cell to find the programs of all languages, and then the version
//! command of each language that is there. The first result, still without versions, is there before the first report.

mod probe;
mod reported;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{ExecutorTools, Language, LanguageName, OfferedLanguage, RootName};
use roots::InstalledRoot;
use rpc::Calls;
use supervise::{Component, Supervisor};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use self::probe::LanguageProbe;
use self::probe::{ProbeError, ProbeStop};
pub(crate) use self::reported::ReportedTools;
use crate::cell_roots::{CellRoots, offered_root};
use crate::now;
use crate::slot_pool::SlotPool;

/// How often the executor looks for new and replaced roots, which takes a few system calls.
const ROOTS_INTERVAL: Duration = Duration::from_secs(2);
/// How often it looks for languages, besides when a root has changed.
const SEARCH_INTERVAL: Duration = Duration::from_secs(60);
/// The same after a search that failed in one of the roots.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// A pause between searches, however often slots cannot use a root.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// After this time the versions are looked up again, although the languages have not changed.
const VERSIONS_VALID_FOR: Duration = Duration::from_secs(3600);
/// How long the first report waits for the languages. On a very slow machine it goes without them.
const FIRST_RESULT_TIMEOUT: Duration = Duration::from_secs(2);
/// A probe that is stopped kills its warden, so it ends at once unless the kernel hangs.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The background task of an executor that finds its languages.
pub(crate) struct ToolFinder {
    task: JoinHandle<()>,
    stop: CancellationToken,
    found: watch::Receiver<Option<Arc<ExecutorTools>>>,
}

/// The state of a [`ToolFinder`]'s task between two searches.
struct ToolSearch {
    calls: Arc<dyn Calls>,
    slot_pool: Arc<SlotPool>,
    found: watch::Sender<Option<Arc<ExecutorTools>>>,
    /// Notified when the tools have changed, so that the executor reports them.
    changed: Arc<Notify>,
    table: Vec<Language>,
    roots: Vec<InstalledRoot>,
    /// By root; `None` is the default root. A root in which no warden can start is missing, and not offered to tasks.
    languages: BTreeMap<Option<RootName>, RootLanguages>,
}

/// Whether a [`ToolSearch`] could look for languages in every root.
enum SearchEnd {
    Complete,
    Failed,
}

/// The languages that a [`ToolSearch`] has found in one root.
struct RootLanguages {
    /// That of the generation; `None` if the operator changes the files in place.
    generation: Option<PathBuf>,
    /// Whether they have to be looked for again although the generation is the same.
    is_outdated: bool,
    installed: Vec<LanguageName>,
    versions: HashMap<LanguageName, Option<String>>,
    versions_found_at: Instant,
}

impl ToolFinder {
    pub(crate) fn start(calls: Arc<dyn Calls>, slot_pool: Arc<SlotPool>, changed: Arc<Notify>) -> ToolFinder {
        let stop = CancellationToken::new();
        let (sender, found) = watch::channel(None);
        let stopped = stop.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "supervised by itself: restarted inside, and awaited by `stop`"
        )]
        let task = tokio::spawn(async move {
            let search = || {
                let search = ToolSearch {
                    calls: calls.clone(),
                    slot_pool: slot_pool.clone(),
                    found: sender.clone(),
                    changed: changed.clone(),
                    table: Vec::new(),
                    roots: Vec::new(),
                    languages: BTreeMap::new(),
                };
                search.run(stopped.clone())
            };
            Supervisor::run_restarting(Component::ToolFinder, &stopped, search).await;
        });
        ToolFinder { task, stop, found }
    }

    pub(crate) fn found(&self) -> watch::Receiver<Option<Arc<ExecutorTools>>> {
        self.found.clone()
    }

    /// Returns when the languages are known for the first time, or after a moment.
    pub(crate) async fn wait_for_first_result(&self) {
        let mut found = self.found.clone();
        let known = found.wait_for(Option::is_some);
        let _ = tokio::time::timeout(FIRST_RESULT_TIMEOUT, known).await;
    }

    /// Ends the task and its warden.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if tokio::time::timeout(STOP_TIMEOUT, self.task).await.is_err() {
            tracing::warn!("the search for languages and roots does not end; a process or disk hangs");
        }
    }
}

impl ToolSearch {
    async fn run(mut self, stop: CancellationToken) {
        let mut next_search = now();
        while !stop.is_cancelled() {
            let roots = self.with_roots(CellRoots::list).await;
            let failed = self.slot_pool.roots.take_failed();
            for root in &failed {
                if let Some(found) = self.languages.get_mut(&Some(root.clone())) {
                    found.is_outdated = true;
                }
            }
            if now() >= next_search || roots != self.roots || !failed.is_empty() {
                if roots != self.roots {
                    self.roots = roots;
                    self.slot_pool.on_roots_changed();
                }
                let pause = match self.calls.languages().await {
                    Ok(table) => match self.search(table, &stop).await {
                        SearchEnd::Complete => SEARCH_INTERVAL,
                        SearchEnd::Failed => RETRY_INTERVAL,
                    },
                    // Judicators of earlier versions have no language table. The executor gets no task with a language
                    // meanwhile.
                    Err(error) => {
                        tracing::debug!(%error, "could not get the language table; retrying");
                        ROOTS_INTERVAL
                    }
                };
                next_search = now() + pause;
            }
            // After the search: removing many files takes time, and the first report waits for the languages.
            let stopped = stop.clone();
            self.with_roots(move |roots| roots.remove_unused(&stopped)).await;
            let pause = async {
                tokio::time::sleep(MIN_PAUSE).await;
                let root_failed = self.slot_pool.roots.wait_for_failure();
                let _ = tokio::time::timeout(ROOTS_INTERVAL - MIN_PAUSE, root_failed).await;
            };
            stop.run_until_cancelled(pause).await;
        }
    }

    /// Calls a function of the roots on a thread for blocking work.
    async fn with_roots<T: Default + Send + 'static>(
        &self,
        call: impl FnOnce(&CellRoots) -> T + Send + 'static,
    ) -> T {
        let slot_pool = self.slot_pool.clone();
        let called = tokio::task::spawn_blocking(move || call(&slot_pool.roots));
        called.await.unwrap_or_default()
    }

    async fn search(&mut self, table: Vec<Language>, stop: &CancellationToken) -> SearchEnd {
        if self.table != table {
            self.table = table;
            for found in self.languages.values_mut() {
                let is_in_table = |name: &LanguageName| self.table.iter().any(|row| row.name == *name);
                found.installed.retain(is_in_table);
                found.versions.clear();
                found.is_outdated = true;
            }
        }
        let is_there = |name: &RootName| self.roots.iter().any(|root| root.name == *name);
        self.languages
            .retain(|name, _| name.as_ref().is_none_or(is_there));
        let generation = |root: &InstalledRoot| root.sha256.map(|_| root.folder.clone());
        let named = self
            .roots
            .iter()
            .map(|root| (Some(root.name.clone()), generation(root)));
        let all: Vec<_> = std::iter::once((None, None)).chain(named).collect();
        let mut end = SearchEnd::Complete;
        for (root, generation) in &all {
            if let Err(error) = self.find_installed(root.as_ref(), generation.clone(), stop).await {
                self.log_failure(root.as_ref(), &error);
                end = SearchEnd::Failed;
            }
        }
        self.publish();
        for (root, _) in &all {
            match self.find_versions(root.as_ref(), stop).await {
                Ok(true) => self.publish(),
                Ok(false) => {}
                Err(error) => {
                    self.log_failure(root.as_ref(), &error);
                    end = SearchEnd::Failed;
                }
            }
        }
        end
    }

    /// Looks for the languages of a root, unless those of its generation are known.
    async fn find_installed(
        &mut self,
        root: Option<&RootName>,
        generation: Option<PathBuf>,
        stop: &CancellationToken,
    ) -> Result<(), ProbeError> {
        let known = self.languages.remove(&root.cloned());
        let is_same = |known: &RootLanguages| known.generation == generation;
        let is_unchanged =
            |known: &RootLanguages| is_same(known) && generation.is_some() && !known.is_outdated;
        let known = match known {
            Some(known) if is_unchanged(&known) => {
                self.languages.insert(root.cloned(), known);
                return Ok(());
            }
            known => known.filter(is_same),
        };
        let installed = match self.table.is_empty() {
            true => Ok(Vec::new()),
            false => {
                self.with_probe(root, stop, self.table.clone(), LanguageProbe::installed)
                    .await
            }
        };
        let installed = match installed {
            Ok(installed) => installed,
            Err(error) => {
                // What was found last may still be there, unless the root itself is the problem.
                let is_usable = root.is_none() || !error.is_about_root();
                let known = known.filter(|_| is_usable);
                self.languages.extend(known.map(|known| (root.cloned(), known)));
                return Err(error);
            }
        };
        let now = now();
        let is_valid = |known: &RootLanguages| now < known.versions_found_at + VERSIONS_VALID_FOR;
        let (versions, versions_found_at) = match known.filter(is_valid) {
            Some(known) => (known.versions, known.versions_found_at),
            None => (HashMap::new(), now),
        };
        let found = RootLanguages {
            generation,
            is_outdated: false,
            installed,
            versions,
            versions_found_at,
        };
        self.languages.insert(root.cloned(), found);
        Ok(())
    }

    /// Looks up the versions of a root's languages that are not known. Returns whether there were any.
    async fn find_versions(
        &mut self,
        root: Option<&RootName>,
        stop: &CancellationToken,
    ) -> Result<bool, ProbeError> {
        let Some(found) = self.languages.get(&root.cloned()) else {
            return Ok(false);
        };
        let is_new = |language: &&Language| {
            found.installed.contains(&language.name) && !found.versions.contains_key(&language.name)
        };
        let new: Vec<Language> = self.table.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return Ok(false);
        }
        let versions = self.with_probe(root, stop, new, LanguageProbe::versions).await?;
        if let Some(found) = self.languages.get_mut(&root.cloned()) {
            found.versions.extend(versions);
        }
        Ok(true)
    }

    /// Runs a function of a probe on a thread for blocking work. A stop kills its warden.
    async fn with_probe<T: Send + 'static>(
        &self,
        root: Option<&RootName>,
        stop: &CancellationToken,
        languages: Vec<Language>,
        run: fn(&LanguageProbe, &[Language], &ProbeStop) -> Result<T, ProbeError>,
    ) -> Result<T, ProbeError> {
        if stop.is_cancelled() {
            return Err(ProbeError::Stopped);
        }
        let (slot_pool, root) = (self.slot_pool.clone(), root.cloned());
        let probe_stop = Arc::new(ProbeStop::default());
        let stopped = probe_stop.clone();
        let mut running = tokio::task::spawn_blocking(move || {
            let held = root.map(|root| slot_pool.roots.hold(&root)).transpose()?;
            run(&slot_pool.language_probe(held), &languages, &stopped)
        });
        tokio::select! {
            ended = &mut running => return ended.unwrap_or(Err(ProbeError::Panicked)),
            () = stop.cancelled() => probe_stop.stop(),
        }
        running.await.unwrap_or(Err(ProbeError::Panicked))
    }

    fn publish(&self) {
        let offered = |(root, found): (&Option<RootName>, &RootLanguages)| {
            let offer = |name: &LanguageName| OfferedLanguage {
                root: root.clone(),
                name: name.clone(),
                version: found.versions.get(name).cloned().flatten(),
            };
            found.installed.iter().map(offer).collect::<Vec<_>>()
        };
        let languages: Vec<_> = self.languages.iter().flat_map(offered).collect();
        let is_usable = |root: &&InstalledRoot| self.languages.contains_key(&Some(root.name.clone()));
        let roots: Vec<_> = self.roots.iter().filter(is_usable).map(offered_root).collect();
        let problem = format!("{} languages and {} roots", languages.len(), roots.len());
        let is_too_much =
            languages.len() > ExecutorTools::MAX_LANGUAGES || roots.len() > ExecutorTools::MAX_ROOTS;
        if is_too_much && self.slot_pool.roots.is_new_problem("all roots", &problem) {
            tracing::warn!(
                found = problem,
                max_languages = ExecutorTools::MAX_LANGUAGES,
                max_roots = ExecutorTools::MAX_ROOTS,
                "this executor has more than it can report; remove some roots, the last ones by name get no tasks"
            );
        }
        let tools = Arc::new(ExecutorTools::new(languages, roots));
        let has_changed = self.found.send_if_modified(|found| {
            let has_changed = found.as_ref() != Some(&tools);
            *found = Some(tools);
            has_changed
        });
        if has_changed {
            self.changed.notify_one();
        }
    }

    fn log_failure(&self, root: Option<&RootName>, error: &ProbeError) {
        let root = root.map_or("the default root", RootName::as_str);
        let why = error_causes::with_causes(error);
        let is_stop = matches!(error, ProbeError::Stopped);
        if !is_stop && self.slot_pool.roots.is_new_problem(root, &why) {
            tracing::warn!(root, why, "could not look for languages; retrying");
        }
    }
}
