//! Bloom filters of stored runs, of unknown parents that runs name, and of links between model calls: a "no" is certain, a "yes" may be wrong.
//!
//! Nearly every event belongs to a run that is new or hot. Looking up each new run in the table would cost more than
//! everything else, so Bloom filters over all stored runs answer first: a "no" is certain, a "maybe" costs one id in a
//! batched look-up. About 1.8 bytes a run: 10 million runs are 18 MB.
//!
//! Other processes write runs too. Before a process works on partitions that it may have taken over, it learns what was
//! written since it last did ([`KnownRuns::catch_up`]). That is little, because it does so every minute.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{PoisonError, RwLock};

use chrono::Utc;
use fastbloom::BloomFilter;
use store::StoreError;

use crate::run::BuildKeyHasher;
use crate::tables::Tables;

/// Rate of false positives: at 60,000 new runs a second these are 60 needless ids in look-ups.
const FALSE_POSITIVES: f64 = 0.001;
/// Size of the first filter of a set; each further one doubles.
const FIRST_CAPACITY: usize = 1 << 19;

/// How far back a process asks behind the last time it learned: rows carry the clock of the process that made them, and
/// may be stored [`crate::step::lease::ROWS_AGE_MAX`] later. The rest is for clocks that are off.
const OVERLAP_MS: i64 = 15 * 60 * 1000;

/// A set of hashes that grows by adding filters, each twice the size of the one before.
#[derive(Debug)]
struct GrowingSet {
    filters: Vec<BloomFilter<BuildKeyHasher>>,
    /// Room left in the last filter.
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

/// Shared by all workers of a process.
#[derive(Debug)]
pub struct KnownRuns {
    runs: RwLock<GrowingSet>,
    waiting: RwLock<GrowingSet>,
    links: RwLock<GrowingSet>,
    /// Everything written before this time is in the sets, Unix milliseconds.
    learned_ms: AtomicI64,
}

impl KnownRuns {
    /// Reads the sets from the table. Nothing can be folded before, because a "no" would be a guess.
    pub async fn load(tables: &dyn Tables) -> Result<Self, StoreError> {
        let known = Self {
            runs: RwLock::new(GrowingSet::new()),
            waiting: RwLock::new(GrowingSet::new()),
            links: RwLock::new(GrowingSet::new()),
            learned_ms: AtomicI64::new(0),
        };
        known.learn(tables).await?;
        Ok(known)
    }

    /// Adds all stored runs, after rows appeared without notice.
    pub async fn learn(&self, tables: &dyn Tables) -> Result<(), StoreError> {
        self.add_since(tables, None).await
    }

    /// Adds what other processes wrote since the last call.
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
        let mut links = |hash| add(&self.links, hash);
        tables.call_links(since_ms, &mut links).await?;
        self.learned_ms.fetch_max(now_ms, Ordering::AcqRel);
        Ok(())
    }

    pub fn may_be_stored(&self, hash: u64) -> bool {
        self.runs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(hash)
    }

    /// Whether runs may name this one as parent that were stored before it.
    pub fn may_be_waited_for(&self, hash: u64) -> bool {
        self.waiting
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(hash)
    }

    /// Whether stored runs may have this link.
    pub fn may_be_linked(&self, link: u64) -> bool {
        self.links
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(link)
    }

    /// Call before runs with these links are stored.
    pub fn add_links(&self, links: impl Iterator<Item = u64>) {
        let mut known = self.links.write().unwrap_or_else(PoisonError::into_inner);
        links.for_each(|link| known.insert(link));
    }

    /// Call before these runs are stored.
    pub fn add_runs(&self, hashes: impl Iterator<Item = u64>) {
        let mut runs = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        hashes.for_each(|hash| runs.insert(hash));
    }

    /// Adds unknown parents that runs name.
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
