//! The log in memory, for tests, with faults on demand.
//!
//! It keeps the whole contract except durability: [`MemoryLog::restart`] stands for a restart of the process, and what
//! was appended and committed is there after it. Tests can order every fault that a real log can have.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::groups::Groups;
use crate::member::{GroupMember, Source};
use crate::scan::Scan;
use crate::{
    Bounds, GroupState, Inventory, Lag, Lease, Log, LogError, Member, Position, Reader, Record,
    StoredRecord, partition_of,
};

/// A fault to order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// [`LogError::Unavailable`], and the log is unchanged.
    Unavailable,
    /// [`LogError::Unavailable`], but the operation was done, as when the response gets lost.
    UnavailableYetDone,
    /// [`LogError::Full`], and the log is unchanged.
    Full,
    /// [`LogError::Damaged`], and the log is unchanged.
    Damaged,
}

impl Fault {
    fn error(self) -> LogError {
        match self {
            Fault::Full => LogError::Full("ordered by a test".to_owned()),
            Fault::Damaged => LogError::Damaged("ordered by a test".to_owned()),
            Fault::Unavailable | Fault::UnavailableYetDone => {
                LogError::Unavailable("ordered by a test".to_owned())
            }
        }
    }
}

/// A log in memory. Clones are the same log.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

struct Shared {
    partitions: AtomicU32,
    max_record_bytes: usize,
    groups: Groups,
    changed: watch::Sender<u64>,
    held: watch::Sender<bool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: Vec<Vec<StoredRecord>>,
    bytes: usize,
    max_bytes: usize,
    committed: BTreeMap<String, Vec<u64>>,
    append_faults: VecDeque<Fault>,
    commit_faults: VecDeque<Fault>,
    read_faults: VecDeque<Fault>,
    rewinds: u64,
    lease: Option<Duration>,
    closed: bool,
}

impl MemoryLog {
    /// An empty log, only bounded by 16 MiB for a record.
    pub fn new(partitions: u32) -> Self {
        let partitions = partitions.max(1);
        let changed = watch::Sender::new(0);
        MemoryLog {
            shared: Arc::new(Shared {
                partitions: AtomicU32::new(partitions),
                max_record_bytes: 16 << 20,
                groups: Groups::new(partitions, changed.clone()),
                changed,
                held: watch::Sender::new(false),
                state: Mutex::new(State {
                    records: vec![Vec::new(); partitions as usize],
                    max_bytes: usize::MAX,
                    ..State::default()
                }),
            }),
        }
    }

    /// An append that would bring the payloads over this many bytes fails with [`LogError::Full`]. What all groups have
    /// committed does not count.
    pub fn set_max_bytes(&self, max_bytes: usize) {
        self.shared.lock().max_bytes = max_bytes;
    }

    /// The next append has this fault. Faults queue up: each append takes one.
    pub fn fail_next_append(&self, fault: Fault) {
        self.shared.lock().append_faults.push_back(fault);
    }

    /// The next commit has this fault. Faults queue up.
    pub fn fail_next_commit(&self, fault: Fault) {
        self.shared.lock().commit_faults.push_back(fault);
    }

    /// The next read by a member has this fault. Faults queue up.
    pub fn fail_next_read(&self, fault: Fault) {
        self.shared.lock().read_faults.push_back(fault);
    }

    /// Appends wait, before anything is kept, until [`MemoryLog::release_appends`].
    pub fn hold_appends(&self) {
        self.shared.held.send_replace(true);
    }

    /// Resumes held appends.
    pub fn release_appends(&self) {
        self.shared.held.send_replace(false);
    }

    /// Takes all partitions from the members of the group without notice: each receives `Lost`, then `Assigned` again.
    pub fn lose_partitions(&self, group: &str) {
        self.shared.groups.lose(group);
    }

    /// Adds partitions up to this number, for all groups.
    pub fn grow(&self, partitions: u32) {
        let partitions = partitions.max(self.shared.partitions());
        let mut state = self.shared.lock();
        state.records.resize(partitions as usize, Vec::new());
        for committed in state.committed.values_mut() {
            committed.resize(partitions as usize, 0);
        }
        self.shared.partitions.store(partitions, Ordering::Release);
        drop(state);
        self.shared.groups.grow(partitions);
    }

    /// Expels all members of the group. They receive `Lost` when they call `next`; the first to do so own the
    /// partitions by then.
    pub fn expel_members(&self, group: &str) {
        self.shared.groups.expel(group);
    }

    /// Members have a lease of this length from each time they ask, like members of a remote log, instead of one until
    /// they receive a change.
    pub fn set_lease(&self, lease: Duration) {
        self.shared.lock().lease = Some(lease);
    }

    /// Every member starts again at its group's committed offset: duplicates without a rebalance.
    pub fn redeliver(&self) {
        self.shared.lock().rewinds += 1;
        self.shared.wake();
    }

    /// The same log in a new process: same records, same commits, open again. Members of the old one must be gone.
    pub fn restart(&self) -> MemoryLog {
        let new = MemoryLog::new(self.shared.partitions());
        {
            let old = self.shared.lock();
            let mut state = new.shared.lock();
            state.records.clone_from(&old.records);
            state.committed.clone_from(&old.committed);
            state.bytes = old.bytes;
            state.max_bytes = old.max_bytes;
        }
        new
    }

    /// All appended records, partition by partition.
    pub fn contents(&self) -> Vec<StoredRecord> {
        self.shared
            .lock()
            .records
            .iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// The group's committed offsets by partition; empty when it never joined.
    pub fn committed(&self, group: &str) -> Vec<u64> {
        let state = self.shared.lock();
        state.committed.get(group).cloned().unwrap_or_default()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn partitions(&self) -> u32 {
        self.partitions.load(Ordering::Acquire)
    }

    fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }
}

impl State {
    /// Payload bytes not yet committed by every group; all bytes while there is no group.
    fn held_bytes(&self) -> usize {
        if self.committed.is_empty() {
            return self.bytes;
        }
        let floor = |partition: usize| {
            let of_group = |offsets: &Vec<u64>| offsets.get(partition).copied().unwrap_or(0);
            self.committed.values().map(of_group).min().unwrap_or(0)
        };
        let records = self.records.iter().enumerate();
        records
            .flat_map(|(partition, records)| {
                let from = usize::try_from(floor(partition)).unwrap_or(usize::MAX);
                records.iter().skip(from)
            })
            .map(|stored| stored.record.payload.len())
            .sum()
    }

    fn keep(&mut self, partition: u32, record: Record) -> Position {
        self.bytes = self.bytes.saturating_add(record.payload.len());
        let Some(records) = self.records.get_mut(partition as usize) else {
            // The partition is a remainder of the number of partitions.
            unreachable!("a partition beyond the last");
        };
        let position = Position {
            partition,
            offset: records.len() as u64,
        };
        records.push(StoredRecord { position, record });
        position
    }
}

#[async_trait]
impl Log for MemoryLog {
    async fn append(&self, record: Record) -> Result<Position, LogError> {
        let partition = partition_of(&record.key, self.shared.partitions());
        self.append_to(partition, record).await
    }

    async fn append_to(&self, partition: u32, record: Record) -> Result<Position, LogError> {
        if partition >= self.shared.partitions() {
            return Err(LogError::Settings(format!("no partition {partition}")));
        }
        let limit = self.shared.max_record_bytes;
        if record.payload.len() > limit {
            return Err(LogError::TooLarge {
                bytes: record.payload.len(),
                limit,
            });
        }
        let mut held = self.shared.held.subscribe();
        // The sender is in `self`, so it outlives this.
        let _ = held.wait_for(|held| !held).await;

        let mut state = self.shared.lock();
        if state.closed {
            return Err(LogError::Closed);
        }
        let fault = state.append_faults.pop_front();
        match fault {
            None | Some(Fault::UnavailableYetDone) => {}
            Some(fault) => return Err(fault.error()),
        }
        let bounded = state.max_bytes < usize::MAX;
        if bounded && state.held_bytes() + record.payload.len() > state.max_bytes {
            return Err(LogError::Full(format!(
                "over {} bytes in memory",
                state.max_bytes
            )));
        }
        let position = state.keep(partition, record);
        drop(state);
        self.shared.wake();
        fault.map_or(Ok(position), |fault| Err(fault.error()))
    }

    async fn join(&self, group: &str) -> Result<Box<dyn Member>, LogError> {
        {
            let mut state = self.shared.lock();
            let partitions = self.shared.partitions() as usize;
            let committed = state.committed.entry(group.to_owned()).or_default();
            committed.resize(partitions, 0);
        }
        Ok(Box::new(GroupMember::new(Arc::clone(&self.shared), group)))
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        let state = self.shared.lock();
        let committed = state.committed.get(group);
        let lag = (0..self.shared.partitions())
            .zip(&state.records)
            .map(|(partition, records)| Lag {
                partition,
                committed: committed
                    .and_then(|offsets| offsets.get(partition as usize).copied())
                    .unwrap_or(0),
                end: records.len() as u64,
            });
        Ok(lag.collect())
    }

    async fn group_state(&self, group: &str) -> Result<GroupState, LogError> {
        Ok(self.shared.groups.state(group))
    }

    async fn reader(&self, from: Vec<Position>) -> Result<Box<dyn Reader>, LogError> {
        Ok(Box::new(Scan::new(Arc::clone(&self.shared), from)))
    }

    async fn bounds(&self) -> Result<Vec<Bounds>, LogError> {
        let state = self.shared.lock();
        let bounds = (0..)
            .zip(&state.records)
            .map(|(partition, records)| Bounds {
                partition,
                begin: 0,
                end: records.len() as u64,
            });
        Ok(bounds.collect())
    }

    async fn inventory(&self) -> Result<Inventory, LogError> {
        let state = self.shared.lock();
        let bounded = state.max_bytes < usize::MAX;
        Ok(Inventory {
            brokers: 1,
            topics: 1,
            bytes: bounded.then(|| (state.held_bytes() as u64, state.max_bytes as u64)),
        })
    }

    fn partitions(&self) -> u32 {
        self.shared.partitions()
    }

    fn topic(&self) -> &str {
        "memory"
    }

    fn max_record_bytes(&self) -> usize {
        self.shared.max_record_bytes
    }

    async fn close(&self) {
        self.shared.lock().closed = true;
    }
}

#[async_trait]
impl Source for Shared {
    fn groups(&self) -> &Groups {
        &self.groups
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn committed(&self, group: &str, partition: u32) -> u64 {
        let state = self.lock();
        let offsets = state.committed.get(group);
        offsets
            .and_then(|offsets| offsets.get(partition as usize).copied())
            .unwrap_or(0)
    }

    async fn read(
        &self,
        _group: &str,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<StoredRecord>, LogError> {
        let mut state = self.lock();
        let start = usize::try_from(from.offset).unwrap_or(usize::MAX);
        if state.records[from.partition as usize].len() <= start {
            return Ok(Vec::new());
        }
        if let Some(fault) = state.read_faults.pop_front() {
            return Err(fault.error());
        }
        let mut bytes = 0;
        let mut some = Vec::new();
        for stored in state.records[from.partition as usize].iter().skip(start) {
            bytes += stored.record.payload.len();
            if bytes > max_bytes && !some.is_empty() {
                break;
            }
            some.push(stored.clone());
        }
        Ok(some)
    }

    fn delivered(&self, _group: &str, _next: Position) {}

    async fn commit(&self, group: &str, next: Position) -> Result<(), LogError> {
        let mut state = self.lock();
        let fault = state.commit_faults.pop_front();
        match fault {
            None | Some(Fault::UnavailableYetDone) => {}
            Some(fault) => return Err(fault.error()),
        }
        let end = state.records[next.partition as usize].len() as u64;
        if let Some(offsets) = state.committed.get_mut(group) {
            let offset = &mut offsets[next.partition as usize];
            *offset = (*offset).max(next.offset.min(end));
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn rewinds(&self) -> u64 {
        self.lock().rewinds
    }

    fn lease(&self) -> Lease {
        let lease = self.lock().lease;
        lease.map_or(Lease::Held, |lease| Lease::Until(Instant::now() + lease))
    }

    fn left(&self, _group: &str) {}
}
