//! A micro-batch: from decoded events to the runs that have to be written.
//!
//! [`MicroBatch::fold`] is pure. [`Working`] brings in what is already known of the runs, and of the runs they are
//! related to, and settles their lineage.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use eventlog::StoredRecord;
use schemas::event::Custom;
use schemas::fold::{self, RunState};
use schemas::ids::{AppId, ProjectId};
use schemas::reprice::{Reprice, Slice};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::decode::{
    self, Code, DecodedEvent, EventLine, FeedbackLine, MessageLine, Poison, StartLine,
};

mod node;
mod working;

pub use node::{Figures, Node, Resolved, Snapshot};
pub use working::{Sources, Working};

/// Makes the keys of runs unpredictable: XXH3 can be inverted, so with a seed that anyone can compute, a tenant could
/// pick a run id whose key is that of somebody else's run, and so read and change it (T1). New with every process;
/// keys are never stored.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A run inside of a deployment: a 128-bit hash of project, app and run id, so that maps and caches need no text.
/// Only meaningful inside of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey(u128);

impl Hash for RunKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Half of a hash is a hash.
        state.write_u64(self.0 as u64);
    }
}

/// Takes a [`RunKey`] as the hash it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Builds [`KeyHasher`]s.
pub type BuildKeyHasher = BuildHasherDefault<KeyHasher>;
/// A map by run.
pub type KeyMap<T> = HashMap<RunKey, T, BuildKeyHasher>;
/// A set of runs.
pub type KeySet = HashSet<RunKey, BuildKeyHasher>;

/// One project and app of a micro-batch.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The project.
    pub project: ProjectId,
    /// The app.
    pub app: AppId,
    /// The offset after the last record of this scope in the micro-batch: the version of what it changes (P3).
    pub next_offset: u64,
    seed: u64,
}

impl Scope {
    /// A scope whose records end before `next_offset`.
    pub fn new(project: ProjectId, app: AppId, next_offset: u64) -> Self {
        let seed = SECRET.hash_one((project.as_str(), app.as_str()));
        Self {
            project,
            app,
            next_offset,
            seed,
        }
    }

    /// The key of one of its runs.
    pub fn key(&self, run_id: &str) -> RunKey {
        RunKey(xxh3_128_with_seed(run_id.as_bytes(), self.seed))
    }
}

/// The runs of a working set.
#[derive(Debug, Default)]
pub struct Nodes {
    nodes: KeyMap<Node>,
    scopes: Vec<Scope>,
}

impl Nodes {
    /// The run.
    pub fn get(&self, key: RunKey) -> Option<&Node> {
        self.nodes.get(&key)
    }

    /// The run, to change it.
    pub fn get_mut(&mut self, key: RunKey) -> Option<&mut Node> {
        self.nodes.get_mut(&key)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (RunKey, &Node)> {
        self.nodes.iter().map(|(key, node)| (*key, node))
    }

    /// The key of another run of the same app.
    pub fn sibling_of(&self, node: &Node, run_id: &str) -> RunKey {
        self.scopes[node.scope].key(run_id)
    }

    /// The parent a run names, whether it is known or not; `None` when it names none.
    pub fn parent_of(&self, node: &Node) -> Option<RunKey> {
        Some(node.state.parent_run_id())
            .filter(|parent| !parent.is_empty())
            .map(|parent| self.sibling_of(node, parent))
    }
}

/// The fold of one run's events in a micro-batch.
#[derive(Debug)]
pub struct Delta {
    scope: usize,
    run_id: Arc<str>,
    state: Box<RunState>,
}

/// A run to price again.
#[derive(Clone, Debug)]
pub struct Repriced {
    scope: usize,
    run_id: Arc<str>,
    /// The start of its stored row, when it was asked for.
    started_at_ms: i64,
    /// Whether its price is asked for, or only what it has of others.
    is_priced: bool,
}

/// A change in a large tree that goes on from these runs.
#[derive(Clone, Debug)]
pub struct Resumed {
    scope: usize,
    runs: Vec<Arc<str>>,
    slice: Slice,
}

/// The events of some records, folded run by run.
#[derive(Debug, Default)]
pub struct MicroBatch<'a> {
    /// The projects and apps in it.
    pub scopes: Vec<Scope>,
    places: HashMap<(ProjectId, AppId), usize>,
    /// Every good event.
    pub lines: Vec<EventLine<'a>>,
    /// What its events say about each run.
    pub deltas: KeyMap<Delta>,
    /// Runs to price again.
    pub repriced: Vec<Repriced>,
    /// Changes in large trees to go on with.
    pub resumed: Vec<Resumed>,
    /// The chat events among the lines.
    pub messages: Vec<MessageLine<'a>>,
    /// The feedback events among the lines.
    pub feedback: Vec<FeedbackLine<'a>>,
    /// The starts of processes that its events report.
    pub starts: Vec<StartLine<'a>>,
    /// What could not be read.
    pub poison: Vec<Poison>,
    /// Records of which something could be read.
    pub good_records: u64,
    /// Good events by scope, without those that were processed before.
    pub accepted: Vec<u64>,
}

impl<'a> MicroBatch<'a> {
    /// Decodes and folds records. Pure: the same records give the same batch.
    pub fn fold(records: &'a [StoredRecord]) -> Self {
        let mut batch = Self::default();
        for (at, record) in records.iter().enumerate() {
            let (lines, bad) = (batch.lines.len(), batch.poison.len());
            let added = batch.add(at, record);
            let is_good = batch.lines.len() > lines || batch.poison.len() == bad;
            batch.good_records += u64::from(added.is_ok() && is_good);
            if let Err(reason) = added {
                let header = decode::header(record);
                let events = header.map_or(1, |header| u64::from(header.events));
                batch.poison.push(Poison {
                    record: at,
                    reason,
                    part: None,
                    events,
                    code: Code::Record,
                });
            }
        }
        batch
    }

    fn add(&mut self, at: usize, record: &'a StoredRecord) -> Result<(), String> {
        let header = decode::header(record)?;
        let start = decode::start(record)?;
        let scope = self.scope(&header.project, &header.app, record.position.offset + 1);
        let before = self.lines.len();
        if decode::is_reprice(record) {
            return self.add_reprice(scope, record);
        }
        let Self {
            scopes,
            lines,
            deltas,
            messages,
            feedback,
            poison,
            ..
        } = self;
        let mut input = None;
        let each = |decoded: DecodedEvent<'a>| {
            let DecodedEvent { event, id, raw } = decoded;
            input = event.input;
            if event.custom.is_none_or(fold::is_mark) {
                let delta = deltas
                    .entry(scopes[scope].key(&event.run_id))
                    .or_insert_with(|| Delta {
                        scope,
                        run_id: event.run_id.as_ref().into(),
                        state: Box::default(),
                    });
                delta.state.apply(&event, id);
            }
            match event.custom {
                Some(Custom::Chat) => {
                    messages.extend(MessageLine::of(scope, &event, id));
                    // One of the old clients sends what was thought of a message along with it.
                    feedback.extend(FeedbackLine::of(scope, &event, id));
                }
                Some(Custom::Feedback) => feedback.extend(FeedbackLine::of(scope, &event, id)),
                _ => {}
            }
            lines.push(EventLine {
                scope,
                timestamp_ms: event.timestamp_ms,
                run_id: event.run_id,
                id,
                name: event.name,
                raw,
                received_at_ms: header.received_at_ms,
            });
        };
        let bad = |reason, raw: &str| {
            poison.push(Poison {
                record: at,
                reason,
                part: Some(raw.to_owned()),
                events: 1,
                code: Code::Event,
            });
        };
        let outcome = decode::events(record, &header, each, bad);
        // The event of a start has a record of its own.
        if let Some(start) = start
            && outcome.is_ok()
        {
            let input = input.map_or("null", RawValue::get);
            self.starts.push(StartLine {
                scope,
                start,
                input,
            });
        }
        if !decode::is_again(record) {
            self.accepted[scope] += (self.lines.len() - before) as u64;
        }
        outcome
    }

    fn add_reprice(&mut self, scope: usize, record: &StoredRecord) -> Result<(), String> {
        let reprice = Reprice::decode(&record.record.payload).map_err(|error| error.to_string())?;
        if let Some(slice) = reprice.slice {
            let runs = reprice.runs.into_iter();
            self.resumed.push(Resumed {
                scope,
                runs: runs.map(|(run_id, _)| run_id.into()).collect(),
                slice,
            });
            return Ok(());
        }
        let is_priced = !decode::is_settle(record);
        let runs = reprice.runs.into_iter();
        self.repriced
            .extend(runs.map(|(run_id, started_at_ms)| Repriced {
                scope,
                run_id: run_id.into(),
                started_at_ms,
                is_priced,
            }));
        Ok(())
    }

    fn scope(&mut self, project: &ProjectId, app: &AppId, next_offset: u64) -> usize {
        let place = (project.clone(), app.clone());
        let at = *self.places.entry(place).or_insert_with(|| {
            self.scopes
                .push(Scope::new(project.clone(), app.clone(), next_offset));
            self.accepted.push(0);
            self.scopes.len() - 1
        });
        let scope = &mut self.scopes[at];
        scope.next_offset = scope.next_offset.max(next_offset);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_runs_cannot_be_computed_from_outside_t1() {
        let scope = Scope::new(ProjectId::new("p"), AppId::new("a"), 0);
        let computable = [xxh3_64(b"p/a"), xxh3_64(b"pa"), 0];
        assert!(
            computable
                .iter()
                .all(|seed| scope.key("run").0 != xxh3_128_with_seed(b"run", *seed))
        );
        let again = Scope::new(ProjectId::new("p"), AppId::new("a"), 9);
        assert_eq!(
            scope.key("run"),
            again.key("run"),
            "the same all through a process"
        );
        let other = Scope::new(ProjectId::new("q"), AppId::new("a"), 0);
        assert_ne!(scope.key("run"), other.key("run"));
    }
}
