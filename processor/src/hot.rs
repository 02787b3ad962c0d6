//! Cache of recently touched runs, whose next event then costs no look-up.
//!
//! Entries are the bytes that the table keeps: a fraction of the memory of the decoded state. An entry is put only
//! after its row is stored, so the cache is never ahead of the table.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use schemas::control::CacheReport;
use tokio::sync::watch;

use crate::config::ProcessorConfig;
use crate::metrics::Metrics;
use crate::run::{BuildKeyHasher, HotRun, RunKey};
use control::Barrier;

/// How long an order to clear the cache waits for workers in the middle of a step. They clear it after the step too; a
/// client waits for the response, and nothing depends on it.
const FORGOTTEN_WITHIN: Duration = Duration::from_millis(20);
/// Bytes of an entry besides its texts: the entry, its key, its place in the order, and what an allocator adds.
const ENTRY_BYTES: usize = 480;

/// The hot runs of one worker: its share of the process's memory for them, bounded in bytes and in idle time. The
/// newest runs are the ones that continue, so the one that was touched longest ago is evicted first.
///
/// Only its worker uses it but for reports, so one lock costs less than a concurrent cache, whose bookkeeping was a
/// tenth of the CPU time of an event.
#[derive(Clone, Debug)]
pub struct HotRuns {
    entries: Arc<Mutex<Entries>>,
    /// Number of clears.
    clears: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct Entries {
    runs: LruCache<RunKey, Entry, BuildKeyHasher>,
    bytes: usize,
    max_bytes: usize,
    max_idle: Duration,
}

#[derive(Debug)]
struct Entry {
    run: HotRun,
    bytes: usize,
    touched: Instant,
}

impl HotRuns {
    pub fn new(config: &ProcessorConfig) -> Self {
        let max_bytes = config.hot_bytes / config.workers.max(1) as u64;
        let entries = Entries {
            runs: LruCache::unbounded_with_hasher(BuildKeyHasher::default()),
            bytes: 0,
            max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
            max_idle: config.hot_idle,
        };
        Self {
            entries: Arc::new(Mutex::new(entries)),
            clears: Arc::default(),
        }
    }

    pub fn get(&self, key: RunKey) -> Option<HotRun> {
        let now = Instant::now();
        let mut entries = self.entries();
        let max_idle = entries.max_idle;
        let entry = entries.runs.get_mut(&key)?;
        if now.duration_since(entry.touched) > max_idle {
            entries.remove(key);
            return None;
        }
        entry.touched = now;
        Some(entry.run.clone())
    }

    /// Does not count as a use of the entry.
    pub fn contains(&self, key: RunKey) -> bool {
        self.entries().runs.contains(&key)
    }

    /// Call after the run's row is stored.
    pub fn put(&self, key: RunKey, run: HotRun) {
        self.entries().put(key, run, Instant::now());
    }

    /// [`HotRuns::put`] of many runs.
    pub fn put_all(&self, runs: impl Iterator<Item = (RunKey, HotRun)>) {
        let now = Instant::now();
        let mut entries = self.entries();
        for (key, run) in runs {
            entries.put(key, run, now);
        }
    }

    /// Clears the cache: another process may have written these runs since. Only between two steps.
    pub fn clear(&self) {
        let mut entries = self.entries();
        entries.runs.clear();
        entries.bytes = 0;
        drop(entries);
        self.clears.send_modify(|clears| *clears += 1);
    }

    pub fn len(&self) -> u64 {
        let mut entries = self.entries();
        entries.evict(Instant::now());
        entries.runs.len() as u64
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate.
    pub fn bytes(&self) -> u64 {
        let mut entries = self.entries();
        entries.evict(Instant::now());
        entries.bytes as u64
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn put(&mut self, key: RunKey, run: HotRun, now: Instant) {
        let bytes = run.snapshot.bytes()
            + run.resolved.bytes()
            + size_of_val(&*run.counting.links)
            + ENTRY_BYTES;
        let entry = Entry {
            run,
            bytes,
            touched: now,
        };
        let before = self.runs.put(key, entry).map_or(0, |entry| entry.bytes);
        self.bytes = self.bytes + bytes - before;
        self.evict(now);
    }

    fn remove(&mut self, key: RunKey) {
        if let Some(entry) = self.runs.pop(&key) {
            self.bytes -= entry.bytes;
        }
    }

    /// Evicts what is too much or too old, the run that was touched longest ago first.
    fn evict(&mut self, now: Instant) {
        while let Some((_, oldest)) = self.runs.peek_lru()
            && (self.bytes > self.max_bytes || now.duration_since(oldest.touched) > self.max_idle)
        {
            self.bytes -= oldest.bytes;
            self.runs.pop_lru();
        }
    }
}

/// The hot runs of all workers of a processor, for other parts of the process.
#[derive(Clone)]
pub struct HotView {
    workers: Vec<HotRuns>,
    max_bytes: u64,
    barrier: Barrier,
    metrics: Metrics,
}

impl HotView {
    pub(crate) fn new(
        workers: Vec<HotRuns>,
        max_bytes: u64,
        barrier: Barrier,
        metrics: Metrics,
    ) -> Self {
        Self {
            workers,
            max_bytes,
            barrier,
            metrics,
        }
    }

    /// A miss is a run that had to be read from the table; a run that is known to be new costs no look-up.
    pub fn report(&self) -> CacheReport {
        let found = |source| self.metrics.runs_touched.with_label_values(&[source]).get();
        CacheReport {
            name: "hot_runs".to_owned(),
            entries: self.workers.iter().map(HotRuns::len).sum(),
            used_bytes: self.workers.iter().map(HotRuns::bytes).sum(),
            max_bytes: self.max_bytes,
            hits: found("hot"),
            misses: found("cold"),
        }
    }

    /// Has every worker clear its cache. When this returns, no further step begins with an old entry; a worker in the
    /// middle of a long step may hold them until its end.
    pub async fn clear(&self) {
        let clears = self.workers.iter().map(|hot| hot.clears.subscribe());
        let clears: Vec<_> = clears.collect();
        self.barrier.forget();
        let forgotten = async {
            for mut clears in clears {
                // The senders live in the caches, so waiting cannot fail.
                let _ = clears.changed().await;
            }
        };
        let _ = tokio::time::timeout(FORGOTTEN_WITHIN, forgotten).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Counting, OwnCost, Resolved, RunTotals, Scope, Snapshot, Turn, nothing};
    use schemas::ids::{AppId, ProjectId};

    fn run(state_bytes: usize) -> HotRun {
        HotRun {
            snapshot: Snapshot {
                state: vec![7; state_bytes].into(),
                input_preview: nothing(),
                output_preview: nothing(),
            },
            version: 1,
            started_at_ms: 0,
            resolved: Resolved {
                root: nothing(),
                agent: nothing(),
                user_email: nothing(),
                thread: nothing(),
                turn: Turn::No,
                enclosing_call: nothing(),
                is_call: false,
            },
            cost: OwnCost::default(),
            counting: Counting::alone(),
            run_totals: RunTotals::default(),
            may_have_children: false,
        }
    }

    fn keys() -> [RunKey; 3] {
        let scope = Scope::new(ProjectId::new("p"), AppId::new("a"), 0);
        ["one", "two", "three"].map(|run_id| scope.key(run_id))
    }

    fn hot_runs(hot_bytes: usize, hot_idle: Duration) -> HotRuns {
        HotRuns::new(&ProcessorConfig {
            workers: 1,
            hot_bytes: hot_bytes as u64,
            hot_idle,
            ..ProcessorConfig::default()
        })
    }

    #[test]
    fn the_run_touched_longest_ago_is_evicted_first_x1() {
        let bytes = 1000 + ENTRY_BYTES;
        let hot = hot_runs(2 * bytes, Duration::from_secs(60));
        let [one, two, three] = keys();
        hot.put(one, run(1000));
        hot.put(two, run(1000));
        assert!(hot.get(one).is_some());
        hot.put(three, run(1000));
        assert!(hot.contains(one) && !hot.contains(two) && hot.contains(three));
        assert_eq!((hot.len(), hot.bytes()), (2, 2 * bytes as u64));
        hot.put(one, run(0));
        assert_eq!(hot.bytes(), (bytes + ENTRY_BYTES) as u64);
        hot.put(two, run(10 * bytes));
        assert!(hot.is_empty(), "a run larger than the cache is not kept");
        assert_eq!(hot.bytes(), 0);
    }

    #[test]
    fn idle_runs_are_evicted_and_clears_are_counted() {
        let hot = hot_runs(1 << 20, Duration::ZERO);
        let [one, ..] = keys();
        hot.put(one, run(10));
        let put = Instant::now();
        while put == Instant::now() {}
        assert!(hot.get(one).is_none());
        assert!(hot.is_empty());
        let hot = hot_runs(1 << 20, Duration::from_secs(60));
        let clears = hot.clears.subscribe();
        hot.put(one, run(10));
        hot.clear();
        assert!(hot.is_empty() && hot.bytes() == 0);
        assert!(clears.has_changed().unwrap());
    }
}
