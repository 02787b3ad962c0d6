//! The state shared by the threads and the members of one embedded log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::watch;

use super::config::EmbeddedConfig;
use super::cursors::Committed;
use super::gaps::Loss;
use super::opening::Opened;
use super::segment::Segment;
use super::store::Surroundings;
use super::tail::Tail;
use crate::{LogError, Position, StoredRecord};

/// Locks are held for moments, never over a call of the store.
pub(crate) struct Ledger {
    pub(crate) config: EmbeddedConfig,
    pub(crate) around: Surroundings,
    pub(crate) changed: watch::Sender<u64>,
    pub(crate) closed: AtomicBool,
    state: Mutex<State>,
    /// Oldest first; the last one is written to.
    segments: RwLock<Vec<Arc<Segment>>>,
    /// Losses found when the log was opened.
    pub(crate) losses: Vec<Loss>,
    /// Held during a trim: one at a time.
    trimming: Mutex<()>,
    pub(crate) disk_bytes: AtomicU64,
    in_flight_bytes: AtomicUsize,
    in_flight_disk_bytes: AtomicU64,
}

struct State {
    /// By partition, the offset after the last durable record.
    ends: Vec<u64>,
    groups: BTreeMap<String, GroupState>,
    tail: Tail,
}

struct GroupState {
    committed: Vec<u64>,
    /// What was delivered to members, from where they began.
    delivered: Vec<u64>,
    members: usize,
}

/// Room in the bounds; released when dropped.
pub(crate) struct Permit {
    ledger: Arc<Ledger>,
    bytes: usize,
    disk_bytes: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let ledger = &self.ledger;
        let left = ledger
            .in_flight_bytes
            .fetch_sub(self.bytes, Ordering::AcqRel)
            - self.bytes;
        ledger.around.metrics.in_flight_bytes.set(left as i64);
        ledger
            .in_flight_disk_bytes
            .fetch_sub(self.disk_bytes, Ordering::AcqRel);
    }
}

impl Ledger {
    pub(crate) fn new(
        config: EmbeddedConfig,
        around: Surroundings,
        opened: Opened,
        committed: Committed,
        changed: watch::Sender<u64>,
    ) -> Self {
        let Opened { segments, losses } = opened;
        let ends = segments.last().map(|s| s.ends()).unwrap_or_default();
        let groups = committed.into_iter().map(|(name, committed)| {
            let group = GroupState {
                delivered: committed.clone(),
                committed,
                members: 0,
            };
            (name, group)
        });
        let ledger = Ledger {
            changed,
            closed: AtomicBool::new(false),
            state: Mutex::new(State {
                tail: Tail::new(&ends, config.max_tail_bytes),
                ends,
                groups: groups.collect(),
            }),
            segments: RwLock::new(segments),
            trimming: Mutex::default(),
            losses,
            disk_bytes: AtomicU64::new(0),
            in_flight_bytes: AtomicUsize::new(0),
            in_flight_disk_bytes: AtomicU64::new(0),
            config,
            around,
        };
        ledger.measure();
        ledger
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    pub(crate) fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Number of the segment that is written to.
    pub(crate) fn newest_segment(&self) -> Option<u64> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments.last().map(|segment| segment.id)
    }

    pub(crate) fn add_segment(&self, segment: Arc<Segment>) {
        self.segments
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(segment);
        self.measure();
    }

    /// Takes room for a record; fails if there is none.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize, disk: u64) -> Result<Permit, LogError> {
        let in_flight = self.in_flight_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let coming = self.in_flight_disk_bytes.fetch_add(disk, Ordering::AcqRel) + disk;
        // From here on the permit releases what was added.
        let permit = Permit {
            ledger: Arc::clone(self),
            bytes,
            disk_bytes: disk,
        };
        self.around.metrics.in_flight_bytes.set(in_flight as i64);
        if in_flight > self.config.max_in_flight_bytes {
            return Err(LogError::Full(format!(
                "{} bytes wait to be written",
                in_flight - bytes
            )));
        }
        let kept = self.disk_bytes.load(Ordering::Acquire);
        if kept + coming > self.config.max_bytes {
            return Err(LogError::Full(format!(
                "{kept} of {} bytes on disk are waiting to be processed",
                self.config.max_bytes
            )));
        }
        Ok(permit)
    }

    /// Makes durable records visible. Records come in the order of their offsets.
    pub(crate) fn publish(&self, ends: &[u64], records: impl Iterator<Item = StoredRecord>) {
        let mut state = self.state();
        state.ends.clone_from_slice(ends);
        if state.groups.values().any(|group| group.members > 0) {
            for stored in records {
                state.tail.push(stored);
            }
        } else {
            drop(records);
            for (partition, end) in (0u32..).zip(ends) {
                state.tail.skip(partition, *end);
            }
        }
        let tail = state.tail.bytes();
        drop(state);
        self.around.metrics.tail_bytes.set(tail as i64);
        self.measure();
        self.wake();
    }

    /// Records of the tail from this position on; `None` if they have to come from a file.
    pub(crate) fn read_tail(&self, from: Position, max_bytes: usize) -> Option<Vec<StoredRecord>> {
        let state = self.state();
        let end = state.ends.get(from.partition as usize).copied();
        if end.is_none_or(|end| from.offset >= end) {
            return Some(Vec::new());
        }
        state.tail.read(from.partition, from.offset, max_bytes)
    }

    /// Blocks.
    pub(crate) fn read_files(
        &self,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<StoredRecord>, LogError> {
        let segments = self.segments();
        let mut result = Ok(Vec::new());
        for segment in segments {
            if segment.end(from.partition) <= from.offset {
                continue;
            }
            result = segment.read(from, max_bytes);
            match &result {
                Ok(records) if records.is_empty() => {}
                _ => break,
            }
        }
        if let Ok(records) = &result {
            let bytes = records.iter().map(|r| r.record.payload.len() as u64);
            self.around.metrics.cold_read_bytes.inc_by(bytes.sum());
        }
        result
    }

    pub(crate) fn committed(&self, group: &str, partition: u32) -> u64 {
        let oldest = self.oldest(partition);
        let state = self.state();
        let group = state.groups.get(group);
        let committed = group.and_then(|g| g.committed.get(partition as usize).copied());
        self.past_losses(partition, committed.unwrap_or(0).max(oldest))
    }

    /// Where a reader at this offset continues: after any loss there.
    fn past_losses(&self, partition: u32, offset: u64) -> u64 {
        let lost = self.losses.iter().flat_map(|loss| &loss.offsets);
        let lost = lost.filter(|(of, _)| *of == partition);
        // Losses are in the order of their offsets.
        lost.fold(offset, |offset, (_, lost)| match lost.contains(&offset) {
            true => lost.end,
            false => offset,
        })
    }

    /// The first offset that is kept.
    pub(crate) fn oldest(&self, partition: u32) -> u64 {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        segments
            .first()
            .and_then(|s| s.base.get(partition as usize).copied())
            .unwrap_or(0)
    }

    /// By partition, the offset after the last durable record.
    pub(crate) fn ends(&self) -> Vec<u64> {
        self.state().ends.clone()
    }

    pub(crate) fn end(&self, partition: u32) -> u64 {
        let state = self.state();
        state.ends.get(partition as usize).copied().unwrap_or(0)
    }

    pub(crate) fn knows(&self, group: &str) -> bool {
        self.state().groups.contains_key(group)
    }

    pub(crate) fn group_names(&self) -> Vec<String> {
        self.state().groups.keys().cloned().collect()
    }

    pub(crate) fn set_members(&self, group: &str, members: usize) {
        let mut state = self.state();
        if let Some(group) = state.groups.get_mut(group) {
            group.members = members;
        }
        self.release_tail(state);
    }

    pub(crate) fn delivered(&self, group: &str, next: Position) {
        let mut state = self.state();
        let Some(group) = state.groups.get_mut(group) else {
            return;
        };
        let delivered = &mut group.delivered[next.partition as usize];
        if *delivered != next.offset {
            *delivered = next.offset;
            self.release_tail(state);
        }
    }

    fn release_tail(&self, mut state: MutexGuard<'_, State>) {
        for partition in 0..self.config.partitions {
            let index = partition as usize;
            let live = state.groups.values().filter(|group| group.members > 0);
            let floor = live.map(|group| group.delivered[index]).min();
            let below = floor.unwrap_or(u64::MAX);
            state.tail.release(partition, below);
        }
        let bytes = state.tail.bytes();
        drop(state);
        self.around.metrics.tail_bytes.set(bytes as i64);
    }

    /// Applies a durable registration.
    pub(crate) fn set_group(&self, name: &str, committed: Vec<u64>) {
        let mut state = self.state();
        state
            .groups
            .entry(name.to_owned())
            .or_insert_with(|| GroupState {
                delivered: committed.clone(),
                committed,
                members: 0,
            });
    }

    pub(crate) fn forget_group(&self, name: &str) {
        self.state().groups.remove(name);
    }

    /// Applies a durable commit.
    pub(crate) fn set_committed(&self, group: &str, next: Position) {
        let mut state = self.state();
        if let Some(group) = state.groups.get_mut(group) {
            let committed = &mut group.committed[next.partition as usize];
            *committed = (*committed).max(next.offset);
        }
    }

    /// Removes the oldest segments that every known group has committed past. Without any group everything is kept: a
    /// group that joins later begins at the oldest record.
    pub(crate) fn trim(&self) {
        let _one = self.trimming.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(floor) = self.floor() else { return };
        let mut removed = false;
        loop {
            let oldest = {
                let mut segments = self
                    .segments
                    .write()
                    .unwrap_or_else(PoisonError::into_inner);
                if segments.len() < 2 || !segments[0].is_below(&floor) {
                    break;
                }
                segments.remove(0)
            };
            if let Err(error) = oldest.remove() {
                // The next start finds it again, and trims it again.
                tracing::warn!(log.segment = oldest.id, %error, "cannot remove a segment file");
            }
            removed = true;
        }
        if removed && let Err(error) = self.around.disk.sync() {
            tracing::warn!(%error, "cannot sync the folder after removing segments");
        }
        self.measure();
    }

    /// By partition, the lowest commit of all groups.
    fn floor(&self) -> Option<Vec<u64>> {
        let state = self.state();
        let mut groups = state.groups.values();
        let mut floor = groups.next()?.committed.clone();
        for group in groups {
            for (low, committed) in floor.iter_mut().zip(&group.committed) {
                *low = (*low).min(*committed);
            }
        }
        Some(floor)
    }

    /// Whether the current segment could be removed if another were begun, and is large enough for it.
    pub(crate) fn wants_roll(&self) -> bool {
        let Some(floor) = self.floor() else {
            return false;
        };
        let kept = self.disk_bytes.load(Ordering::Acquire);
        let segments = self.segments();
        let Some(active) = segments.last() else {
            return false;
        };
        let large = active.bytes() > 0 && kept > self.config.max_bytes / 2;
        large && active.is_below(&floor)
    }

    /// Closes files that are neither written nor read, and repairs those with a failed sync.
    pub(crate) fn close_idle(&self) {
        let segments = self.segments();
        for segment in segments.iter().rev().skip(1) {
            segment.heal();
            segment.close_if_idle();
        }
    }

    fn measure(&self) {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let bytes = segments.iter().map(|segment| segment.bytes()).sum();
        self.disk_bytes.store(bytes, Ordering::Release);
        self.around.metrics.disk_bytes.set(bytes as i64);
        self.around.metrics.segments.set(segments.len() as i64);
    }
}
