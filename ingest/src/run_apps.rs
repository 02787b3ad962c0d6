//! The app of events that name none: a mark (`saved`, `unsaved`, `feedback`) and a closing event belong to the run with
//! their id, in whichever app of the project that is (decision 0026).
//!
//! Ingest remembers the apps of the runs that it received lately. Others are looked up in the tables, within bounds that
//! keep reports fast: only for projects with other apps than the default one, a few look-ups at a time, and each for a
//! short time. An event whose run is not found belongs to the default app.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use moka::sync::Cache;
use schemas::ids::{AppId, ProjectId};
use schemas::timestamp::UnixMs;
use tokio::sync::Semaphore;

/// Runs that are remembered, 32 bytes each; a newer run replaces the one in its slot.
const SHARDS: usize = 64;
const SLOTS_PER_SHARD: usize = 2048;
/// Look-ups that run at the same time: they must not take the tables from readers.
const LOOKUPS_AT_ONCE: usize = 2;
/// How long a report waits for a look-up.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Run ids that are looked up for one report; the events of further ones belong to the default app.
const IDS_PER_REPORT: usize = 1000;
/// How long a project counts as one without other apps than its default one after the tables said so. A run of another
/// app may arrive by another process meanwhile.
const SINGLE_APP_FOR: Duration = Duration::from_secs(5);
/// How long no look-up follows one that failed.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Projects remembered as such; others are asked about again.
const PROJECTS_MAX: u64 = 10_000;

/// A stored run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunApp {
    pub run_id: String,
    pub app: AppId,
    pub started_at_ms: UnixMs,
}

/// Looks up stored runs.
#[async_trait]
pub trait RunLookup: Send + Sync + 'static {
    /// Whether the project has runs in other apps than this one. `None` if that cannot be read now.
    async fn has_other_apps(&self, project: &ProjectId, app: &AppId) -> Option<bool>;

    /// The runs with these ids, in all apps of the project. `None` if they cannot be read now.
    async fn runs(&self, project: &ProjectId, run_ids: &[&str]) -> Option<Vec<RunApp>>;
}

/// No stored runs.
#[async_trait]
impl RunLookup for () {
    async fn has_other_apps(&self, _: &ProjectId, _: &AppId) -> Option<bool> {
        Some(false)
    }

    async fn runs(&self, _: &ProjectId, _: &[&str]) -> Option<Vec<RunApp>> {
        Some(Vec::new())
    }
}

/// The apps of runs, shared by all requests.
pub(crate) struct RunApps {
    lookup: Arc<dyn RunLookup>,
    lookups: Semaphore,
    recent: RecentRuns,
    /// Projects with runs in other apps than the default one, and without.
    several: Cache<ProjectId, ()>,
    single: Cache<ProjectId, ()>,
    /// Present for a while after a look-up that failed: reports do not wait for tables that are away.
    failed: Cache<(), ()>,
}

impl RunApps {
    pub(crate) fn new(lookup: Arc<dyn RunLookup>) -> Self {
        Self {
            lookup,
            lookups: Semaphore::new(LOOKUPS_AT_ONCE),
            recent: RecentRuns::default(),
            several: Cache::new(PROJECTS_MAX),
            single: Cache::builder()
                .max_capacity(PROJECTS_MAX)
                .time_to_live(SINGLE_APP_FOR)
                .build(),
            failed: Cache::builder()
                .max_capacity(1)
                .time_to_live(RETRY_AFTER)
                .build(),
        }
    }

    /// `None` if that is not worth it, or not possible now.
    async fn look_up(
        &self,
        project: &ProjectId,
        default_app: &AppId,
        run_ids: &[String],
    ) -> Option<Found> {
        let is_single = self.single.contains_key(project) && !self.several.contains_key(project);
        if is_single || self.failed.contains_key(&()) {
            return None;
        }
        // A report does not wait for the look-ups of others.
        let _permit = self.lookups.try_acquire().ok()?;
        let read = async {
            match self.has_other_apps(project, default_app).await? {
                true => self.runs(project, run_ids).await.map(Some),
                false => Some(None),
            }
        };
        let read = tokio::time::timeout(LOOKUP_TIMEOUT, read).await;
        let found = read.ok().flatten();
        if found.is_none() {
            self.failed.insert((), ());
        }
        found.flatten()
    }

    async fn has_other_apps(&self, project: &ProjectId, default_app: &AppId) -> Option<bool> {
        if self.several.contains_key(project) {
            return Some(true);
        }
        let has_others = self.lookup.has_other_apps(project, default_app).await?;
        let known = match has_others {
            true => &self.several,
            false => &self.single,
        };
        known.insert(project.clone(), ());
        Some(has_others)
    }

    async fn runs(&self, project: &ProjectId, run_ids: &[String]) -> Option<Found> {
        let ids: Vec<&str> = run_ids
            .iter()
            .take(IDS_PER_REPORT)
            .map(String::as_str)
            .collect();
        let mut found = Found::new();
        for RunApp {
            run_id,
            app,
            started_at_ms,
        } in self.lookup.runs(project, &ids).await?
        {
            found.entry(run_id).or_default().push((app, started_at_ms));
        }
        Some(found)
    }
}

/// Apps with a run, and its start, by run id.
type Found = HashMap<String, Vec<(AppId, UnixMs)>>;

/// What one report knows of the apps of runs.
#[derive(Clone)]
pub(crate) struct Placing {
    project: ProjectId,
    shared: Arc<RunApps>,
    /// `None` before the tables were read.
    found: Option<Arc<Found>>,
    /// Whether runs of the default app are remembered too: without others, all events belong there.
    remembers_all: bool,
}

impl Placing {
    pub(crate) fn new(project: &ProjectId, shared: &Arc<RunApps>) -> Self {
        Self {
            project: project.clone(),
            shared: Arc::clone(shared),
            found: None,
            remembers_all: shared.several.contains_key(project),
        }
    }

    /// With the stored runs of these ids. `None` if that adds nothing.
    pub(crate) async fn looked_up(&self, default_app: &AppId, run_ids: &[String]) -> Option<Self> {
        if run_ids.is_empty() {
            return None;
        }
        let shared = &self.shared;
        let found = shared.look_up(&self.project, default_app, run_ids).await?;
        Some(Self {
            found: Some(Arc::new(found)),
            ..self.clone()
        })
    }

    pub(crate) fn is_looked_up(&self) -> bool {
        self.found.is_some()
    }

    /// Whether a run of this app is worth remembering.
    pub(crate) fn is_remembered(&self, app: &str, default_app: &AppId) -> bool {
        self.remembers_all || app != default_app.as_str()
    }

    /// Identifies a run of the project, whatever its app.
    pub(crate) fn key(&self, run_id: &str) -> u64 {
        let runs = &self.shared.recent;
        runs.hasher.hash_one((self.project.as_str(), run_id))
    }

    /// Remembers that an app has this run.
    pub(crate) fn remember(&self, key: u64, app: &AppId, at_ms: UnixMs) {
        if !self.remembers_all && !self.shared.several.contains_key(&self.project) {
            self.shared.several.insert(self.project.clone(), ());
        }
        self.shared.recent.put(key, app, at_ms);
    }

    /// The apps that are known to have this run, the newest run first.
    pub(crate) fn apps_of(&self, key: u64, run_id: &str) -> Vec<(AppId, UnixMs)> {
        let recent = self.shared.recent.get(key);
        let stored = self.found.iter().filter_map(|found| found.get(run_id));
        let mut apps: Vec<(AppId, UnixMs)> = stored.flatten().cloned().collect();
        if let Some((app, at_ms)) = recent
            && apps.iter().all(|(known, _)| *known != app)
        {
            apps.push((app, at_ms));
        }
        apps.sort_by(|(app, at_ms), (other, other_ms)| {
            other_ms.cmp(at_ms).then_with(|| app.cmp(other))
        });
        apps
    }
}

/// The apps of runs that were received lately.
struct RecentRuns {
    /// Random, so that no client can choose a run id with the key of another project's run.
    hasher: RandomState,
    /// Allocated with their first run.
    shards: [Mutex<Vec<Option<RecentRun>>>; SHARDS],
}

#[derive(Clone)]
struct RecentRun {
    key: u64,
    app: AppId,
    at_ms: UnixMs,
}

impl Default for RecentRuns {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl RecentRuns {
    fn put(&self, key: u64, app: &AppId, at_ms: UnixMs) {
        let (shard, slot) = place(key);
        let mut slots = self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if slots.is_empty() {
            slots.resize(SLOTS_PER_SHARD, None);
        }
        match &mut slots[slot] {
            Some(run) if run.key == key && run.app == *app => run.at_ms = run.at_ms.min(at_ms),
            run => {
                *run = Some(RecentRun {
                    key,
                    app: app.clone(),
                    at_ms,
                });
            }
        }
    }

    fn get(&self, key: u64) -> Option<(AppId, UnixMs)> {
        let (shard, slot) = place(key);
        let slots = self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let run = slots.get(slot)?.as_ref().filter(|run| run.key == key)?;
        Some((run.app.clone(), run.at_ms))
    }
}

/// The shard and the slot in it.
fn place(key: u64) -> (usize, usize) {
    let slot = (key >> 8) as usize % SLOTS_PER_SHARD;
    (key as usize % SHARDS, slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placing() -> Placing {
        Placing::new(&ProjectId::new("p"), &Arc::new(RunApps::new(Arc::new(()))))
    }

    #[test]
    fn the_app_of_a_run_that_was_received_lately_is_known_and_memory_is_bounded_x1() {
        let placing = placing();
        assert_eq!(placing.apps_of(placing.key("r"), "r"), []);
        for number in 0..300_000 {
            let run = format!("r{number}");
            placing.remember(placing.key(&run), &AppId::new("x"), number);
        }
        let last = placing.apps_of(placing.key("r299999"), "r299999");
        assert_eq!(last, [(AppId::new("x"), 299_999)]);
        let shards = placing.shared.recent.shards.iter();
        let slots: usize = shards.map(|shard| shard.lock().unwrap().len()).sum();
        assert_eq!(slots, SHARDS * SLOTS_PER_SHARD);
    }

    #[test]
    fn a_project_never_learns_of_the_runs_of_another_t1() {
        let shared = Arc::new(RunApps::new(Arc::new(())));
        let [ours, theirs] =
            ["p", "q"].map(|project| Placing::new(&ProjectId::new(project), &shared));
        ours.remember(ours.key("r"), &AppId::new("secret"), 1);
        assert_eq!(theirs.apps_of(theirs.key("r"), "r"), []);
    }

    #[test]
    fn the_newest_run_comes_first() {
        let mut placing = placing();
        let stored = [("old", 1), ("new", 9)].map(|(app, at)| (AppId::new(app), at));
        placing.found = Some(Arc::new(HashMap::from([("r".to_owned(), stored.to_vec())])));
        let key = placing.key("r");
        placing.remember(key, &AppId::new("middle"), 5);
        let apps = placing.apps_of(key, "r");
        let names: Vec<&str> = apps.iter().map(|(app, _)| app.as_str()).collect();
        assert_eq!(names, ["new", "middle", "old"]);
    }

    #[tokio::test]
    async fn the_runs_of_a_project_without_other_apps_are_not_looked_up() {
        let (placing, app, ids) = (placing(), AppId::new("main"), ["r".to_owned()]);
        assert!(placing.looked_up(&app, &ids).await.is_none());
        assert!(placing.shared.single.contains_key(&ProjectId::new("p")));
        placing.remember(placing.key("s"), &AppId::new("x"), 1);
        let found = placing.looked_up(&app, &ids).await;
        assert!(found.is_some_and(|found| found.is_looked_up()));
    }
}
