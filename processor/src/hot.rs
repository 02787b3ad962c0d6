//! Cache of recently touched runs, whose next event then costs no look-up.
//!
//! Entries are the bytes that the table keeps: a fraction of the memory of the decoded state. An entry is put only
//! after its row is stored, so the cache is never ahead of the table.

use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use schemas::control::CacheReport;
use tokio::sync::watch;

use crate::config::ProcessorConfig;
use crate::metrics::Metrics;
use crate::run::{BuildKeyHasher, HotRun, RunKey};
use control::Barrier;

/// How long an order to clear the cache waits for workers in the middle of a step. They clear it after the step too; a
/// client waits for the response, and nothing depends on it.
const FORGOTTEN_WITHIN: Duration = Duration::from_millis(20);
/// Rounds of housekeeping after a clear, thousands of entries each: enough for the largest cache (X1).
const SWEEPS_MAX: usize = 1024;

/// The hot runs of one worker: its share of the process's memory for them, bounded in bytes and in idle time.
#[derive(Clone, Debug)]
pub struct HotRuns {
    cache: Cache<RunKey, HotRun, BuildKeyHasher>,
    /// Number of clears.
    clears: Arc<watch::Sender<u64>>,
}

impl HotRuns {
    pub fn new(config: &ProcessorConfig) -> Self {
        let bytes = config.hot_bytes / config.workers.max(1) as u64;
        let cache = Cache::builder()
            .max_capacity(bytes)
            // A run takes about a kilobyte; growing the table step by step cost more than everything else here.
            .initial_capacity(usize::try_from(bytes >> 10).unwrap_or(0))
            .weigher(|_: &RunKey, run: &HotRun| {
                // Overhead beside the bytes: the entry, its key, and moka's own nodes.
                u32::try_from(run.snapshot.bytes() + run.resolved.bytes() + 480).unwrap_or(u32::MAX)
            })
            // The newest runs are the ones that continue; how often a run was touched before is no indication.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_idle(config.hot_idle)
            .build_with_hasher(BuildKeyHasher::default());
        Self {
            cache,
            clears: Arc::default(),
        }
    }

    pub fn get(&self, key: RunKey) -> Option<HotRun> {
        self.cache.get(&key)
    }

    /// Does not count as a use of the entry.
    pub fn contains(&self, key: RunKey) -> bool {
        self.cache.contains_key(&key)
    }

    /// Call after the run's row is stored.
    pub fn put(&self, key: RunKey, run: HotRun) {
        self.cache.insert(key, run);
    }

    /// Clears the cache: another process may have written these runs since. Only between two steps.
    pub fn clear(&self) {
        self.cache.invalidate_all();
        self.clears.send_modify(|clears| *clears += 1);
    }

    pub fn len(&self) -> u64 {
        // The cache removes invalidated entries gradually.
        let mut before = u64::MAX;
        for _ in 0..SWEEPS_MAX {
            self.cache.run_pending_tasks();
            let entries = self.cache.entry_count();
            // The number grows while a worker puts the runs that it has just stored.
            if entries == 0 || entries >= before {
                break;
            }
            before = entries;
        }
        self.cache.entry_count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate.
    pub fn bytes(&self) -> u64 {
        self.cache.weighted_size()
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
