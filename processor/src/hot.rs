//! Runs that were touched lately, so that their next event costs no look-up.
//!
//! Kept as bytes, the same the table keeps: a fraction of the decoded state's memory. An entry is put in only after
//! the row it stands for is stored, so that what is found here is never ahead of the table.

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::batch::{BuildKeyHasher, Figures, Resolved, RunKey, Snapshot};
use crate::config::ProcessorConfig;
use crate::totals::OwnCost;

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
        Self { cache }
    }

    /// The run, if it is hot.
    pub fn get(&self, key: RunKey) -> Option<HotRun> {
        self.cache.get(&key)
    }

    /// The run's row is stored with this.
    pub fn put(&self, key: RunKey, run: HotRun) {
        self.cache.insert(key, run);
    }

    /// Forgets everything: another process may have written these runs since.
    pub fn clear(&self) {
        self.cache.invalidate_all();
    }

    /// Bytes in use, nearly.
    pub fn bytes(&self) -> u64 {
        self.cache.weighted_size()
    }
}
