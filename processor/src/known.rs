//! Which runs have a row, and which unknown parents are waited for: sets that may say "maybe", never a wrong "no".
//!
//! Nearly every event belongs to a run that was never seen or is hot. Asking the table about each new run would cost
//! more than everything else, so Bloom filters over all stored runs answer first: a "no" is certain, a "maybe" costs
//! one id in a batched look-up. About 1.8 bytes a run: 10 million runs are 18 MB.
//!
//! Other processes write runs too. Before a process works on partitions that it may have from another one, it learns
//! what was written since it last did ([`Known::catch_up`]), which is little, because it does so every minute.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{PoisonError, RwLock};

use chrono::Utc;
use fastbloom::BloomFilter;
use store::StoreError;

use crate::batch::BuildKeyHasher;
use crate::tables::Tables;

/// Wrong "maybe"s, as a share: at 60,000 new runs a second these are 60 needless ids in look-ups.
const FALSE_POSITIVES: f64 = 0.001;
/// Size of the first filter of a set; each further one doubles.
const FIRST_CAPACITY: usize = 1 << 19;

/// How far back behind its last learning a process asks: rows say when they were made, by the clock of the process that
/// made them, and may be stored [`crate::fence::ROWS_AGE_MAX`] later. The rest is for clocks that are not set right.
const OVERLAP_MS: i64 = 15 * 60 * 1000;

/// A set of hashes that grows by adding filters, each twice the size of the one before.
#[derive(Debug)]
struct GrowingSet {
    filters: Vec<BloomFilter<BuildKeyHasher>>,
    /// What may still go into the last filter.
    room: usize,
    capacity: usize,
}

impl GrowingSet {
    fn new() -> Self {
        Self {
            filters: Vec::new(),
            room: 0,
            capacity: FIRST_CAPACITY / 2,
        }
    }

    fn insert(&mut self, hash: u64) {
        if self.room == 0 {
            self.capacity *= 2;
            self.room = self.capacity;
            let filter = BloomFilter::with_false_pos(FALSE_POSITIVES)
                .hasher(BuildKeyHasher::default())
                .expected_items(self.capacity);
            self.filters.push(filter);
        }
        if let Some(last) = self.filters.last_mut()
            && !last.insert(&hash)
        {
            self.room -= 1;
        }
    }

    fn contains(&self, hash: u64) -> bool {
        self.filters
            .iter()
            .rev()
            .any(|filter| filter.contains(&hash))
    }
}

/// The two sets, shared by all workers of a process.
#[derive(Debug)]
pub struct Known {
    runs: RwLock<GrowingSet>,
    waiting: RwLock<GrowingSet>,
    /// All that was written before this time is in the sets, Unix milliseconds.
    learned_ms: AtomicI64,
}

impl Known {
    /// Reads both sets from the table. Until that is done nothing can be folded, because a "no" would be a guess.
    pub async fn load(tables: &dyn Tables) -> Result<Self, StoreError> {
        let known = Self {
            runs: RwLock::new(GrowingSet::new()),
            waiting: RwLock::new(GrowingSet::new()),
            learned_ms: AtomicI64::new(0),
        };
        known.learn(tables).await?;
        Ok(known)
    }

    /// Adds what the table says now: rows were put there that nobody told of.
    pub async fn learn(&self, tables: &dyn Tables) -> Result<(), StoreError> {
        self.add_since(tables, None).await
    }

    /// Adds what other processes wrote since this was last done.
    pub async fn catch_up(&self, tables: &dyn Tables) -> Result<(), StoreError> {
        let since_ms = self.learned_ms.load(Ordering::Acquire) - OVERLAP_MS;
        self.add_since(tables, Some(since_ms.max(1))).await
    }

    async fn add_since(
        &self,
        tables: &dyn Tables,
        since_ms: Option<i64>,
    ) -> Result<(), StoreError> {
        let now_ms = Utc::now().timestamp_millis();
        let add = |set: &RwLock<GrowingSet>, hash| {
            set.write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(hash);
        };
        let mut runs = |hash| add(&self.runs, hash);
        tables.known_runs(since_ms, &mut runs).await?;
        let mut waiting = |hash| add(&self.waiting, hash);
        tables.waiting_parents(since_ms, &mut waiting).await?;
        self.learned_ms.fetch_max(now_ms, Ordering::AcqRel);
        Ok(())
    }

    /// Whether the run may have a row.
    pub fn may_be_stored(&self, hash: u64) -> bool {
        self.runs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(hash)
    }

    /// Whether there may be runs that named this one as parent before it was known.
    pub fn may_be_waited_for(&self, hash: u64) -> bool {
        self.waiting
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(hash)
    }

    /// These runs are about to have rows.
    pub fn add_runs(&self, hashes: impl Iterator<Item = u64>) {
        let mut runs = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        hashes.for_each(|hash| runs.insert(hash));
    }

    /// These parents are named by runs and not known.
    pub fn add_waiting(&self, hashes: impl Iterator<Item = u64>) {
        let mut waiting = self.waiting.write().unwrap_or_else(PoisonError::into_inner);
        hashes.for_each(|hash| waiting.insert(hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_is_certain_and_a_maybe_is_rarely_wrong() {
        let mut set = GrowingSet::new();
        let hash = |at: u64| xxhash_rust::xxh3::xxh3_64(&at.to_le_bytes());
        let members = FIRST_CAPACITY as u64 * 2;
        (0..members).for_each(|at| set.insert(hash(at)));
        assert!(set.filters.len() > 1, "grew");
        assert!((0..members).all(|at| set.contains(hash(at))));
        let wrong = (members..members + 100_000)
            .filter(|at| set.contains(hash(*at)))
            .count();
        assert!(wrong < 600, "{wrong} of 100,000");
    }
}
