//! The step that a worker carries out: its records, what became of them, and the offsets to commit after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use eventlog::StoredRecord;
use schemas::ids::ProjectId;
use store::StoreError;

use super::ToStore;
use super::committing::Commits;
use crate::dead_letter::Poison;
use crate::step::{Stored, decode};
use crate::worker::bisection::Bisection;
use crate::worker::step_plan::StepPlan;

/// Result of a range of records whose continuations are being stored.
#[derive(Debug)]
struct RangeStored {
    to_store: ToStore,
    stored: Stored,
}

#[derive(Debug)]
pub(super) struct StepInHand {
    pub(super) records: Arc<Vec<StoredRecord>>,
    assume_partial_writes: bool,
    pub(super) commits: Commits,
    /// Whether the commits are above all of its records.
    pub(super) is_covered: bool,
    pub(super) began: Instant,
    bisection: Option<Bisection>,
    range_stored: Option<RangeStored>,
    /// Result of all records where no bisection was needed.
    all_stored: Stored,
    pub(super) poison: VecDeque<Poison>,
    pub(super) accepted: Vec<(ProjectId, u64)>,
    pub(super) events: u64,
    /// Whether there is no step in hand.
    pub(super) is_over: bool,
}

impl StepInHand {
    pub(super) fn none(now: Instant) -> Self {
        Self {
            is_over: true,
            ..Self::new(StepPlan::default(), now)
        }
    }

    pub(super) fn new(plan: StepPlan, now: Instant) -> Self {
        let is_partial = |record| match decode::is_slice(record) {
            true => decode::is_deep(record) || decode::is_moved(record),
            false => decode::is_recompute(record) || decode::is_moved(record),
        };
        Self {
            assume_partial_writes: plan.assume_partial_writes
                || plan.records.iter().any(is_partial),
            records: Arc::new(plan.records),
            commits: Commits::new(plan.commit),
            is_covered: plan.is_covered,
            began: now,
            bisection: None,
            range_stored: None,
            all_stored: Stored::default(),
            poison: VecDeque::new(),
            accepted: Vec::new(),
            events: 0,
            is_over: false,
        }
    }

    /// A step of one slice. Its offset is committed once all slices in hand are done.
    pub(super) fn of_slice(record: StoredRecord, now: Instant) -> Self {
        let plan = StepPlan {
            records: vec![record],
            ..StepPlan::default()
        };
        Self::new(plan, now)
    }

    pub(super) fn all_records(&self) -> ToStore {
        ToStore {
            records: self.records.clone(),
            range: 0..self.records.len(),
            assume_partial_writes: self.assume_partial_writes,
        }
    }

    /// Whether the store rejected rows of this step before.
    pub(super) fn is_bisected(&self) -> bool {
        self.bisection.is_some()
    }

    /// A range is stored; returns the continuations that have to be stored with it.
    pub(super) fn range_stored(
        &mut self,
        to_store: ToStore,
        stored: Stored,
        continuations: Vec<StoredRecord>,
    ) -> Option<ToStore> {
        let range_stored = self
            .range_stored
            .take()
            .unwrap_or(RangeStored { to_store, stored });
        let RangeStored { to_store, stored } = range_stored;
        if !continuations.is_empty() {
            let next = ToStore {
                assume_partial_writes: to_store.assume_partial_writes
                    || continuations.iter().any(decode::is_deep),
                range: 0..continuations.len(),
                records: Arc::new(continuations),
            };
            self.range_stored = Some(RangeStored { to_store, stored });
            return Some(next);
        }
        match &mut self.bisection {
            Some(bisection) => bisection.stored(&to_store.range, stored),
            None => self.all_stored = stored,
        }
        None
    }

    /// The store rejected rows of a range, or of its continuations.
    pub(super) fn range_rejected(&mut self, to_store: ToStore, error: StoreError) {
        let range_stored = self.range_stored.take();
        let range = range_stored.map_or(to_store.range, |stored| stored.to_store.range);
        match &mut self.bisection {
            Some(bisection) => bisection.rejected(range, error),
            None => self.bisection = Some(Bisection::new(self.records.len(), error)),
        }
    }

    /// The records to store next after a rejection.
    pub(super) fn next_range(&mut self) -> Option<ToStore> {
        let range = self.bisection.as_mut()?.next()?;
        Some(ToStore {
            records: self.records.clone(),
            range,
            assume_partial_writes: true,
        })
    }

    /// The result of all records; the last error if the store rejects every one of them.
    pub(super) fn take_stored(&mut self) -> Result<Stored, StoreError> {
        match self.bisection.take() {
            Some(bisection) => bisection.finish(&self.records),
            None => Ok(std::mem::take(&mut self.all_stored)),
        }
    }

    /// Nothing is known to be stored, and some rows may be.
    pub(super) fn start_over(&mut self) {
        self.bisection = None;
        self.range_stored = None;
        self.assume_partial_writes = true;
    }

    pub(super) fn stored(&mut self, stored: Stored) {
        self.events = stored.events;
        self.accepted = stored.accepted;
        self.poison = stored.poison.into();
    }

    /// Drops the records: the step is committed.
    pub(super) fn end(&mut self) {
        self.records = Arc::default();
        self.is_over = true;
    }
}
