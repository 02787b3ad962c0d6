//! A run in memory: its key, its stored state, its current state, and its contribution to the runs above it.

mod cost;
mod key;
mod node;
mod row;
mod snapshot;

pub use cost::OwnCost;
pub use key::{BuildKeyHasher, KeyMap, KeySet, RunKey, Scope};
pub use node::{Node, Nodes};
pub use row::{RunToStore, rows};
pub use snapshot::{Counting, HotRun, Resolved, RunTotals, Snapshot, Turn, nothing};
