//! Keys of runs, and the project and app that they belong to.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use schemas::ids::{AppId, ProjectId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// Makes the keys of runs unpredictable: XXH3 can be inverted, so with a known seed a tenant could choose a run id
/// whose key is that of another tenant's run, and so read and change it (T1). New in every process; keys are never
/// stored.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A 128-bit hash of project, app and run id, so that maps and caches need no text. Only meaningful inside of one
/// process.
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

pub type BuildKeyHasher = BuildHasherDefault<KeyHasher>;
pub type KeyMap<T> = HashMap<RunKey, T, BuildKeyHasher>;
pub type KeySet = HashSet<RunKey, BuildKeyHasher>;

/// One project and app of a micro-batch.
#[derive(Clone, Debug)]
pub struct Scope {
    pub project: ProjectId,
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

    pub fn key(&self, run_id: &str) -> RunKey {
        RunKey(xxh3_128_with_seed(run_id.as_bytes(), self.seed))
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
