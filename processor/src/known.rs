//! Which runs have a row, and which unknown parents are waited for: sets that may say "maybe", never a wrong "no".
//!
//! Nearly every event belongs to a run that was never seen or is hot. Asking the table about each new run would cost
//! more than everything else, so Bloom filters over all stored runs answer first: a "no" is certain, a "maybe" costs
//! one id in a batched look-up. About 1.8 bytes a run: 10 million runs are 18 MB.

use std::sync::{PoisonError, RwLock};

use fastbloom::BloomFilter;
use store::StoreError;

use crate::batch::BuildKeyHasher;
use crate::tables::Tables;

/// Wrong "maybe"s, as a share: at 60,000 new runs a second these are 60 needless ids in look-ups.
const FALSE_POSITIVES: f64 = 0.001;
/// Size of the first filter of a set; each further one doubles.
const FIRST_CAPACITY: usize = 1 << 19;

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
}

impl Known {
    /// Reads both sets from the table. Until that is done nothing can be folded, because a "no" would be a guess.
    pub async fn load(tables: &dyn Tables) -> Result<Self, StoreError> {
        let (mut runs, mut waiting) = (GrowingSet::new(), GrowingSet::new());
        tables.known_runs(&mut |hash| runs.insert(hash)).await?;
        tables
            .waiting_parents(&mut |hash| waiting.insert(hash))
            .await?;
        Ok(Self {
            runs: RwLock::new(runs),
            waiting: RwLock::new(waiting),
        })
    }

    /// Adds what the table says now: rows were put there that nobody told of.
    pub async fn learn(&self, tables: &dyn Tables) -> Result<(), StoreError> {
        let add = |set: &RwLock<GrowingSet>, hash| {
            set.write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(hash);
        };
        tables.known_runs(&mut |hash| add(&self.runs, hash)).await?;
        tables
            .waiting_parents(&mut |hash| add(&self.waiting, hash))
            .await?;
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
