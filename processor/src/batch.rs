//! A micro-batch: from decoded events to the runs that have to be written.
//!
//! [`MicroBatch::fold`] is pure. [`Working`] brings in what is already known of the runs, and of the runs they are
//! related to, and settles their lineage.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use eventlog::StoredRecord;
use schemas::fold::{Previews, RunState, StateFault};
use schemas::ids::{AppId, ProjectId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::decode::{self, DecodedEvent, EventLine, Poison};

mod working;

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

/// What a run has from its ancestors, or else of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The topmost known ancestor; the run itself when it has none.
    pub root: Arc<str>,
    /// The run's agent, else the nearest ancestor's, else empty.
    pub agent: Arc<str>,
    /// The run's user, else the nearest ancestor's, else empty.
    pub user_email: Arc<str>,
}

impl Resolved {
    /// Bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.root.len() + self.agent.len() + self.user_email.len()
    }
}

/// A run's state as the table keeps it: equal states are equal snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The fold's state without its previews.
    pub state: Arc<[u8]>,
    /// Beginning of the input.
    pub input_preview: Arc<str>,
    /// Beginning of the output.
    pub output_preview: Arc<str>,
}

impl Snapshot {
    /// Encodes a state.
    pub fn of(state: &RunState) -> Result<Self, StateFault> {
        let previews = state.previews();
        Ok(Self {
            state: state.encode()?.into(),
            input_preview: previews.input.into(),
            output_preview: previews.output.into(),
        })
    }

    /// Decodes it.
    pub fn decode(&self) -> Result<RunState, StateFault> {
        let previews = Previews {
            input: &self.input_preview,
            output: &self.output_preview,
        };
        RunState::decode(&self.state, previews)
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.state.len() + self.input_preview.len() + self.output_preview.len()
    }
}

/// What is stored of a run.
#[derive(Clone, Debug)]
struct Base {
    version: u64,
    snapshot: Snapshot,
    resolved: Resolved,
    /// Where it has rows that are not tombstones: one, unless something was interrupted.
    keys: Vec<i64>,
}

/// A run in the working set.
#[derive(Clone, Debug)]
pub struct Node {
    /// Which of the scopes it belongs to.
    pub scope: usize,
    /// Its id.
    pub run_id: Arc<str>,
    /// The fold of all that is known. Boxed like everywhere here: maps move their values when they grow.
    pub state: Box<RunState>,
    /// The same, as it is stored.
    pub snapshot: Snapshot,
    /// Root and what is inherited, as far as it is settled.
    pub resolved: Resolved,
    /// Whether any run may name this one as its parent.
    pub may_have_children: bool,
    base: Option<Base>,
}

impl Node {
    /// Whether what is stored is not this.
    pub fn is_changed(&self) -> bool {
        self.base.as_ref().is_none_or(|base| {
            base.snapshot != self.snapshot
                || base.resolved != self.resolved
                || base.keys != [self.state.started_at_ms()]
        })
    }

    /// The keys at which it has rows that are not tombstones.
    pub fn keys(&self) -> impl Iterator<Item = i64> {
        self.base.iter().flat_map(|base| base.keys.iter().copied())
    }

    /// The version of what is to be written: the log's position, and above whatever is stored (P3).
    pub fn version(&self, scope: &Scope) -> u64 {
        let above_stored = self
            .base
            .as_ref()
            .map_or(0, |base| base.version.saturating_add(1));
        scope.next_offset.max(above_stored)
    }

    fn is_new(&self) -> bool {
        self.base.is_none()
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
    /// What could not be read.
    pub poison: Vec<Poison>,
}

impl<'a> MicroBatch<'a> {
    /// Decodes and folds records. Pure: the same records give the same batch.
    pub fn fold(records: &'a [StoredRecord]) -> Self {
        let mut batch = Self::default();
        for (at, record) in records.iter().enumerate() {
            if let Err(reason) = batch.add(at, record) {
                let header = decode::header(record);
                let events = header.map_or(1, |header| u64::from(header.events));
                batch.poison.push(Poison {
                    record: at,
                    reason,
                    part: None,
                    events,
                });
            }
        }
        batch
    }

    fn add(&mut self, at: usize, record: &'a StoredRecord) -> Result<(), String> {
        let header = decode::header(record)?;
        let scope = self.scope(&header.project, &header.app, record.position.offset + 1);
        let Self {
            scopes,
            lines,
            deltas,
            poison,
            ..
        } = self;
        let each = |decoded: DecodedEvent<'a>| {
            let DecodedEvent { event, id, raw } = decoded;
            if event.custom.is_none() {
                let delta = deltas
                    .entry(scopes[scope].key(&event.run_id))
                    .or_insert_with(|| Delta {
                        scope,
                        run_id: event.run_id.as_ref().into(),
                        state: Box::default(),
                    });
                delta.state.apply(&event, id);
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
            });
        };
        decode::events(record, &header, each, bad)
    }

    fn scope(&mut self, project: &ProjectId, app: &AppId, next_offset: u64) -> usize {
        let place = (project.clone(), app.clone());
        let at = *self.places.entry(place).or_insert_with(|| {
            self.scopes
                .push(Scope::new(project.clone(), app.clone(), next_offset));
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
