//! Runs that were touched lately, so that their next event costs no look-up.
//!
//! Kept as bytes, the same the table keeps: a fraction of the decoded state's memory. An entry is put in only after
//! the row it stands for is stored, so that what is found here is never ahead of the table.

use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use schemas::control::CacheReport;
use tokio::sync::watch;

use crate::batch::{BuildKeyHasher, Figures, Resolved, RunKey, Snapshot};
use crate::config::ProcessorConfig;
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::totals::OwnCost;

/// How long an order to forget waits for workers in the middle of a step. They forget after it, too: somebody waits for
/// the answer, which nothing depends on.
const FORGOTTEN_WITHIN: Duration = Duration::from_millis(20);
/// Rounds of housekeeping after a clear, thousands of entries each: enough for the largest cache (X1).
const SWEEPS_MAX: usize = 1024;

/// What a run's next event needs of it.
#[derive(Clone, Debug)]
pub struct HotRun {
    /// The fold's state.
    pub snapshot: Snapshot,
    /// Version of the row.
    pub version: u64,
    /// The row's key: when the run starts.
    pub started_at_ms: i64,
    /// Root and what is inherited.
    pub resolved: Resolved,
    /// What it costs itself.
    pub cost: OwnCost,
    /// Its figures, own and with all descendants.
    pub figures: Figures,
    /// Whether any run may name this one as its parent.
    pub may_have_children: bool,
}

/// The hot runs of one worker: its share of the process's memory for them, bounded in bytes and in idle time.
#[derive(Clone, Debug)]
pub struct HotRuns {
    cache: Cache<RunKey, HotRun, BuildKeyHasher>,
    /// Counts how often they were forgotten.
    clears: Arc<watch::Sender<u64>>,
}

impl HotRuns {
    /// An empty cache with the bounds of the settings.
    pub fn new(config: &ProcessorConfig) -> Self {
        let bytes = config.hot_bytes / config.workers.max(1) as u64;
        let cache = Cache::builder()
            .max_capacity(bytes)
            // A run takes about a kilobyte; growing the table step by step cost more than everything else here.
            .initial_capacity(usize::try_from(bytes >> 10).unwrap_or(0))
            .weigher(|_: &RunKey, run: &HotRun| {
                // Beside the bytes: the entry, its key, and moka's own nodes.
                u32::try_from(run.snapshot.bytes() + run.resolved.bytes() + 480).unwrap_or(u32::MAX)
            })
            // The newest runs are the ones that go on; how often a run was touched before says nothing.
            .eviction_policy(EvictionPolicy::lru())
            .time_to_idle(config.hot_idle)
            .build_with_hasher(BuildKeyHasher::default());
        Self {
            cache,
            clears: Arc::default(),
        }
    }

    /// The run, if it is hot.
    pub fn get(&self, key: RunKey) -> Option<HotRun> {
        self.cache.get(&key)
    }

    /// Whether the run is hot; asking does not keep it so.
    pub fn contains(&self, key: RunKey) -> bool {
        self.cache.contains_key(&key)
    }

    /// The run's row is stored with this.
    pub fn put(&self, key: RunKey, run: HotRun) {
        self.cache.insert(key, run);
    }

    /// Forgets everything: another process may have written these runs since. Only between two steps.
    pub fn clear(&self) {
        self.cache.invalidate_all();
        self.clears.send_modify(|clears| *clears += 1);
    }

    /// Runs that are hot.
    pub fn len(&self) -> u64 {
        // What was forgotten goes bit by bit.
        let mut before = u64::MAX;
        for _ in 0..SWEEPS_MAX {
            self.cache.run_pending_tasks();
            let entries = self.cache.entry_count();
            // While a worker puts in what it has just stored, they get more.
            if entries == 0 || entries >= before {
                break;
            }
            before = entries;
        }
        self.cache.entry_count()
    }

    /// Whether no run is hot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in use, nearly.
    pub fn bytes(&self) -> u64 {
        self.cache.weighted_size()
    }
}

/// The hot runs of all workers of a processor, as those see them who do not work with them.
#[derive(Clone)]
pub struct HotView {
    workers: Vec<HotRuns>,
    max_bytes: u64,
    gate: Gate,
    metrics: Metrics,
}

impl HotView {
    pub(crate) fn new(
        workers: Vec<HotRuns>,
        max_bytes: u64,
        (gate, metrics): (Gate, Metrics),
    ) -> Self {
        Self {
            workers,
            max_bytes,
            gate,
            metrics,
        }
    }

    /// How they are doing. A look-up that found nothing is one of a run that had to be read from the table; a run that
    /// is known to be new costs no look-up.
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

    /// Has every worker forget its runs. When this returns, no step begins any more that knows one of them; a worker in
    /// the middle of a long step may still hold them until its end.
    pub async fn clear(&self) {
        let clears = self.workers.iter().map(|hot| hot.clears.subscribe());
        let clears: Vec<_> = clears.collect();
        self.gate.forget();
        let forgotten = async {
            for mut clears in clears {
                // The senders live in the caches, so waiting cannot fail.
                let _ = clears.changed().await;
            }
        };
        let _ = tokio::time::timeout(FORGOTTEN_WITHIN, forgotten).await;
    }
}
