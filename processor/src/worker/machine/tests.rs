//! Random histories of a worker against a world of its own: a log that reassigns partitions, a store that fails half
//! way, expired leases, and crashes between any two actions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eventlog::{Delivery, Fetch, Lag, LogError, Position, Record, StoredRecord, partition_of};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use schemas::ids::{AppId, ProjectId};
use schemas::record::OLD_DAYS_HEADER;
use schemas::reprice::{Slice, Way};
use store::StoreError;

use super::*;
use crate::dead_letter::{Code, Poison};
use crate::step::{Stored, decode, slices};
use crate::worker::placing::Misplaced;

const PARTITIONS: u32 = 3;
const BATCH_BYTES: usize = 400;
/// Largest payload in these tests.
const PAYLOAD_MAX: usize = 150;

/// What happened to one record of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fate {
    /// All its rows are stored, or it is dead-lettered, or durable elsewhere.
    is_done: bool,
    /// An attempt may have stored some of its rows, and none has completed since.
    is_partial: bool,
}

/// Everything outside of the machine, and the reference that its actions are checked against.
struct World {
    random: StdRng,
    now: Instant,
    log: Vec<Vec<StoredRecord>>,
    fates: BTreeMap<Position, Fate>,
    committed: Vec<u64>,
    /// The member's own view: the next offset to deliver of each assigned partition.
    assigned: BTreeMap<u32, u64>,
    /// Partitions that the log took away without telling the member yet.
    lost_silently: BTreeSet<u32>,
    /// Partitions whose loss the member was told.
    lost: BTreeSet<u32>,
    unassigned: BTreeSet<u32>,
    revoked: Vec<u32>,
    /// Keys by partition count, where several processes place records.
    placed_by: Option<u32>,
    /// Continuations that must be stored before the records they follow from are committed.
    owed: usize,
    /// Positions of the step whose continuations are owed.
    owed_by: Vec<Position>,
    has_faults: bool,
}

/// Applications whose slices lie in one partition each.
fn slice_record(position: Position) -> StoredRecord {
    let Position { partition, offset } = position;
    let slice = Slice {
        way: Way::Down,
        after: String::new(),
        deep: partition == 1,
        levels: 1,
    };
    let (project, app) = (ProjectId::new("p"), AppId::new(format!("a{partition}")));
    let runs = [(format!("run{offset}"), 0)];
    let mut records: Vec<_> = slices::records(&project, &app, &runs, &slice, 0).collect();
    let record = records.remove(0);
    StoredRecord { position, record }
}

/// The first byte says what is wrong with a record: `b`ad rows, an unreadable `e`vent, or nothing.
fn event_record(random: &mut StdRng, position: Position) -> StoredRecord {
    let Position { partition, offset } = position;
    let mut headers = Vec::new();
    if random.random_ratio(1, 6) {
        headers.push((OLD_DAYS_HEADER.to_owned(), Bytes::from("7,8")));
    }
    let kind = match random.random_range(0..12) {
        0 => 'b',
        1 => 'e',
        _ => 'x',
    };
    let length = random.random_range(8..=PAYLOAD_MAX);
    let payload = format!("{kind}{partition}/{offset}:{:>length$}", "");
    // Mostly in the partition of its key.
    let in_place = random.random_ratio(4, 5);
    let mut keys = (0..).map(|salt| format!("key{salt}"));
    let key = keys.find(|key| !in_place || partition_of(key.as_bytes(), PARTITIONS) == partition);
    StoredRecord {
        position,
        record: Record {
            key: key.unwrap_or_default().into(),
            headers,
            payload: payload[..length].to_owned().into(),
        },
    }
}

/// Answers an action, unless the process crashes before or in the middle of it.
enum Answer {
    Input(Input),
    Immediate,
    Ended,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = Self {
            now: Instant::now(),
            log: vec![Vec::new(); PARTITIONS as usize],
            fates: BTreeMap::new(),
            committed: vec![0; PARTITIONS as usize],
            assigned: BTreeMap::new(),
            lost_silently: BTreeSet::new(),
            lost: BTreeSet::new(),
            unassigned: (0..PARTITIONS).collect(),
            revoked: Vec::new(),
            placed_by: random.random_ratio(1, 3).then_some(PARTITIONS),
            owed: 0,
            owed_by: Vec::new(),
            has_faults: true,
            random,
        };
        for _ in 0..world.random.random_range(0..60) {
            let partition = world.random.random_range(0..PARTITIONS);
            world.append(partition);
        }
        world
    }

    fn append(&mut self, partition: u32) {
        let offset = self.log[partition as usize].len() as u64;
        let position = Position { partition, offset };
        // Slices do not say where they lay, so they are never moved here.
        let record = match self.placed_by.is_none() && self.random.random_ratio(1, 8) {
            true => slice_record(position),
            false => event_record(&mut self.random, position),
        };
        self.append_stored(record);
    }

    fn append_stored(&mut self, record: StoredRecord) {
        self.fates.insert(record.position, Fate::default());
        self.log[record.position.partition as usize].push(record);
    }

    fn append_record(&mut self, partition: u32, record: Record) {
        let offset = self.log[partition as usize].len() as u64;
        let position = Position { partition, offset };
        self.append_stored(StoredRecord { position, record });
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.has_faults && self.random.random_ratio(1, one_in)
    }

    /// The process is killed: only what is durable remains.
    fn crash(&mut self) {
        self.unassigned = (0..PARTITIONS).collect();
        self.assigned.clear();
        self.lost.clear();
        self.lost_silently.clear();
        self.revoked.clear();
        self.owed = 0;
        self.owed_by.clear();
    }

    fn fate(&mut self, position: Position) -> &mut Fate {
        self.fates.entry(position).or_default()
    }

    fn lose(&mut self, partition: u32) {
        self.assigned.remove(&partition);
        self.lost_silently.insert(partition);
    }

    fn execute(&mut self, action: Action) -> Answer {
        self.now += Duration::from_millis(self.random.random_range(0..300));
        let input = match action {
            Action::Join => match self.chance(6) {
                true => Input::LogFailed(LogError::Unavailable(String::new())),
                false => {
                    self.crash();
                    Input::Joined
                }
            },
            Action::Fetch(fetch) => self.deliver(fetch),
            Action::ReadEnds => Input::Ends(match self.chance(4) {
                true => Vec::new(),
                false => (0..PARTITIONS)
                    .map(|partition| Lag {
                        partition,
                        committed: self.committed[partition as usize],
                        end: self.log[partition as usize].len() as u64,
                    })
                    .collect(),
            }),
            Action::BeginStep { .. } => Input::StepBegun {
                placed_by: self.placed_by,
            },
            Action::Move(misplaced) => self.moved(misplaced),
            Action::Store(to_store) => self.store(&to_store),
            Action::CheckLease => match self.lost_silently.is_empty() {
                true => Input::LeaseHeld,
                false => Input::PartitionsLost,
            },
            Action::DeadLetter { source, .. } => match self.chance(4) {
                true => Input::LogFailed(LogError::Full(String::new())),
                false => {
                    self.fate(source.position).is_done = true;
                    Input::DeadLettered
                }
            },
            Action::Commit(next) => self.commit(next),
            Action::AppendSlices(mut slices) => {
                let keep = match self.has_faults {
                    true => self.random.random_range(0..=slices.len()),
                    false => 0,
                };
                let not_taken = slices.split_off(slices.len() - keep);
                for slice in slices {
                    let partition = slice.position.partition;
                    self.append_record(partition, slice.record);
                    self.slice_done(slice.position);
                }
                Input::SlicesAppended { not_taken }
            }
            Action::Pause(length) => {
                self.now += length;
                Input::PauseOver
            }
            Action::Leave => {
                self.crash();
                return Answer::Immediate;
            }
            Action::End => return Answer::Ended,
            Action::ClearHotRuns
            | Action::CountStored(_)
            | Action::EndStep
            | Action::Warn { .. }
            | Action::ObserveStep { .. } => return Answer::Immediate,
        };
        Answer::Input(input)
    }

    fn deliver(&mut self, fetch: Fetch) -> Input {
        assert!(fetch.max_bytes <= BATCH_BYTES, "(X1)");
        // This call lets go of what was revoked.
        for partition in std::mem::take(&mut self.revoked) {
            self.assigned.remove(&partition);
            self.unassigned.insert(partition);
        }
        if let Some(partition) = self.lost_silently.pop_first() {
            self.lost.insert(partition);
            self.unassigned.insert(partition);
            return Input::Delivered(Delivery::Lost(vec![partition]));
        }
        if self.chance(10) {
            return Input::LogFailed(LogError::Unavailable(String::new()));
        }
        if let Some(partition) = self.unassigned.first().copied()
            && (!self.has_faults || self.random.random_ratio(2, 3))
        {
            self.unassigned.remove(&partition);
            self.lost.remove(&partition);
            let offset = self.committed[partition as usize];
            self.assigned.insert(partition, offset);
            return Input::Delivered(Delivery::Assigned(vec![Position { partition, offset }]));
        }
        let partitions: Vec<u32> = self.assigned.keys().copied().collect();
        if let Some(partition) = partitions.first().copied()
            && self.chance(12)
        {
            if self.random.random_ratio(1, 2) {
                self.revoked.push(partition);
                return Input::Delivered(Delivery::Revoked(vec![partition]));
            }
            self.lose(partition);
            if self.random.random_ratio(1, 2) {
                return Input::LogFailed(LogError::Unavailable(String::new()));
            }
            return self.deliver(fetch);
        }
        let mut records = Vec::new();
        let mut bytes = 0;
        for partition in partitions {
            let next = self.assigned[&partition];
            for record in &self.log[partition as usize][next as usize..] {
                let size = record.record.payload.len();
                if !records.is_empty() && bytes + size > fetch.max_bytes {
                    break;
                }
                bytes += size;
                records.push(record.clone());
                self.assigned.insert(partition, record.position.offset + 1);
            }
        }
        Input::Delivered(match records.is_empty() {
            true => {
                self.now += fetch.max_wait;
                Delivery::Idle
            }
            false => Delivery::Records(records),
        })
    }

    fn moved(&mut self, misplaced: Vec<Misplaced>) -> Input {
        let mut last: BTreeMap<(Bytes, u32), u64> = BTreeMap::new();
        for Misplaced { partition, record } in misplaced {
            assert_eq!(partition, partition_of(&record.key, PARTITIONS), "(L2)");
            let mut records = self.log.iter().flatten();
            let source = records.find(|stored| {
                stored.record.payload == record.payload && stored.position.partition != partition
            });
            let position = source.expect("a record of the log").position;
            let before = last.insert((record.key.clone(), position.partition), position.offset);
            assert!(
                before.is_none_or(|before| before <= position.offset),
                "moved in order (L2)"
            );
            self.append_record(partition, record);
            self.fate(position).is_done = true;
        }
        Input::Moved
    }

    fn slice_done(&mut self, position: Position) {
        // Slices are merged: one stands for all of the same partition that are delivered and not committed.
        let from = self.committed[position.partition as usize];
        let records = self.log[position.partition as usize].clone();
        for record in &records[from as usize..=position.offset as usize] {
            if decode::is_slice(record) {
                self.fate(record.position).is_done = true;
            }
        }
    }

    fn store(&mut self, to_store: &ToStore) -> Input {
        let records = &to_store.records[to_store.range.clone()];
        assert!(!records.is_empty());
        let bytes: usize = records
            .iter()
            .map(|record| record.record.payload.len())
            .sum();
        assert!(bytes <= BATCH_BYTES + PAYLOAD_MAX, "(X1)");
        for record in records {
            let partition = record.position.partition;
            assert!(
                !self.lost.contains(&partition),
                "stored after the loss was told"
            );
        }
        if self.owed > 0 {
            // These are the continuations.
            if self.chance(5) {
                self.owed = 0;
                self.owed_by.clear();
                return Input::Store(StoreOutcome::LeaseExpired);
            }
            self.owed -= 1;
            if self.owed == 0 {
                for position in std::mem::take(&mut self.owed_by) {
                    self.fate(position).is_done = true;
                }
            }
            return Input::Store(StoreOutcome::Stored {
                stored: Stored::default(),
                continuations: self.continuations(records),
            });
        }
        for record in records {
            let fate = self.fates[&record.position];
            assert!(
                !fate.is_partial || to_store.assume_partial_writes || decode::is_slice(record),
                "{:?} may be stored in part",
                record.position
            );
        }
        if records
            .iter()
            .any(|record| self.lost_silently.contains(&record.position.partition))
        {
            return Input::PartitionsLost;
        }
        if self.chance(8) {
            let partition = records[0].position.partition;
            for record in records {
                self.fate(record.position).is_partial = true;
            }
            self.lose(partition);
            return Input::PartitionsLost;
        }
        if self.chance(8) {
            for record in records {
                self.fate(record.position).is_partial = true;
            }
            return Input::Store(StoreOutcome::LeaseExpired);
        }
        let is_bad = |record: &StoredRecord| record.record.payload.first() == Some(&b'b');
        // Rejecting all records of a step would end the worker, because the tables are at fault then.
        let is_whole = records.len() > 1 && records.len() == to_store.records.len();
        if records.iter().any(is_bad) && !(is_whole && records.iter().all(is_bad)) {
            for record in records {
                self.fate(record.position).is_partial = true;
            }
            return Input::Store(StoreOutcome::Rejected(StoreError::Refused {
                code: 6,
                message: String::new(),
            }));
        }
        let mut stored = Stored::default();
        let mut done = Vec::new();
        for (at, record) in records.iter().enumerate() {
            if record.record.payload.first() == Some(&b'e') {
                stored.poison.push(Poison {
                    record: at,
                    reason: String::new(),
                    part: None,
                    events: 1,
                    code: Code::Event,
                });
                continue;
            }
            stored.good_records += 1;
            stored.events += 1;
            stored.accepted.push((ProjectId::new("p"), 1));
            let fate = self.fate(record.position);
            fate.is_partial = false;
            done.push(record.position);
            if decode::is_slice(record) {
                self.slice_done(record.position);
            }
        }
        let continuations = self.continuations(records);
        match continuations.is_empty() {
            true => {
                for position in done {
                    self.fate(position).is_done = true;
                }
            }
            false => self.owed_by = done,
        }
        Input::Store(StoreOutcome::Stored {
            stored,
            continuations,
        })
    }

    /// What a full log did not take, sometimes.
    fn continuations(&mut self, records: &[StoredRecord]) -> Vec<StoredRecord> {
        if !self.chance(6) || records.is_empty() {
            return Vec::new();
        }
        self.owed = 1;
        vec![StoredRecord {
            position: records[records.len() - 1].position,
            record: Record {
                key: Bytes::new(),
                headers: Vec::new(),
                payload: Bytes::from_static(b"x"),
            },
        }]
    }

    fn commit(&mut self, next: Position) -> Input {
        let Position { partition, offset } = next;
        assert!(
            !self.lost.contains(&partition),
            "committed after the loss was told"
        );
        assert_eq!(
            self.owed, 0,
            "committed before the continuations are stored (P1)"
        );
        for record in &self.log[partition as usize][..offset as usize] {
            assert!(
                self.fates[&record.position].is_done,
                "{next:?} is committed before {:?} is stored or dead-lettered (P1)",
                record.position
            );
        }
        if self.lost_silently.contains(&partition) {
            return Input::LogFailed(LogError::NotAssigned(partition));
        }
        assert!(self.assigned.contains_key(&partition));
        if self.chance(8) {
            return Input::LogFailed(LogError::Unavailable(String::new()));
        }
        if self.chance(12) {
            self.lose(partition);
            return Input::LogFailed(LogError::NotAssigned(partition));
        }
        let committed = &mut self.committed[partition as usize];
        assert!(offset >= *committed, "commits go forward");
        *committed = offset;
        match self.chance(8) {
            true => Input::LogFailed(LogError::Unavailable("yet done".to_owned())),
            false => Input::Committed,
        }
    }

    fn is_drained(&self) -> bool {
        let ends = self.log.iter().map(|records| records.len() as u64);
        ends.eq(self.committed.iter().copied())
    }
}

fn settings() -> Settings {
    Settings {
        batch_bytes: BATCH_BYTES,
        batch_wait: Duration::from_millis(200),
        retry_pause_max: Duration::from_secs(5),
        poison_stop_records: 1_000_000,
    }
}

/// Runs a worker until it ends, crashes, or the log is drained.
fn run(world: &mut World, mut crash_after: usize, stop_after: usize) {
    let (mut machine, actions) = Machine::start(settings(), world.now);
    let mut actions: VecDeque<Action> = actions.into();
    let mut done = 0;
    let mut is_stop_told = false;
    while let Some(action) = actions.pop_front() {
        if crash_after == 0 {
            return world.crash();
        }
        crash_after -= 1;
        done += 1;
        let waits = matches!(action, Action::Fetch(_) | Action::Pause(_));
        let is_stopping = done > stop_after;
        if waits && is_stopping {
            is_stop_told = true;
            actions = machine.handle(Input::StopRequested, world.now).into();
            continue;
        }
        match world.execute(action) {
            Answer::Immediate => {}
            Answer::Ended => {
                assert!(is_stop_told, "only a stop ends it here");
                return world.crash();
            }
            Answer::Input(input) => {
                assert!(actions.is_empty(), "only the last action is answered");
                if is_stopping && !is_stop_told && !machine.is_waiting() {
                    is_stop_told = true;
                    let none = machine.handle(Input::StopRequested, world.now);
                    assert!(none.is_empty());
                }
                actions = machine.handle(input, world.now).into();
            }
        }
        if !world.has_faults && world.is_drained() {
            return;
        }
    }
    panic!("every list of actions ends with one that is answered");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1500 } else { 20_000 }))]

    #[test]
    fn nothing_is_lost_or_committed_early_whatever_fails_p1_r1(
        seed in any::<u64>(),
        lives in proptest::collection::vec((0usize..120, 0usize..160), 0..6),
    ) {
        let mut world = World::new(seed);
        for (crash_after, stop_after) in lives {
            run(&mut world, crash_after, stop_after);
            for _ in 0..world.random.random_range(0..10) {
                let partition = world.random.random_range(0..PARTITIONS);
                world.append(partition);
            }
        }
        world.has_faults = false;
        run(&mut world, 20_000, usize::MAX);
        prop_assert!(world.is_drained(), "all is committed in the end");
        for (position, fate) in &world.fates {
            prop_assert!(fate.is_done, "{position:?} is neither stored nor dead-lettered");
        }
    }
}
