//! The names of members (`group.instance.id`).
//!
//! The broker knows a member by its name again. So a member whose session ended while the brokers were away returns to
//! its partitions at once; without a name, the group would wait for the session of its former self.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::config::KafkaConfig;

type Taken = Arc<Mutex<BTreeMap<String, BTreeSet<u32>>>>;

/// The names of the members of one process.
pub(super) struct Instances {
    /// Unique among all processes.
    process: String,
    joined: AtomicU64,
    taken: Taken,
}

/// The name of one member.
pub(super) struct Instance {
    name: String,
    kept: Option<Kept>,
}

/// A configured name; free again when dropped.
struct Kept {
    group: String,
    ordinal: u32,
    taken: Taken,
}

impl Instance {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the name is configured, and its place in the group outlives the member. Other names are used once.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ordinals) = taken.get_mut(&self.group) {
            ordinals.remove(&self.ordinal);
        }
    }
}

impl Default for Instances {
    fn default() -> Self {
        Self {
            process: format!("member-{:032x}", rand::random::<u128>()),
            joined: AtomicU64::new(0),
            taken: Taken::default(),
        }
    }
}

impl Instances {
    /// The lowest free configured name of this process in the group, or a new name.
    pub(super) fn next(&self, config: &KafkaConfig, group: &str) -> Instance {
        let Some(id) = &config.instance_id else {
            let number = self.joined.fetch_add(1, Ordering::Relaxed);
            return Instance {
                name: format!("{}-{number}", self.process),
                kept: None,
            };
        };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinals = taken.entry(group.to_owned()).or_default();
        let mut ordinal = 0;
        while ordinals.contains(&ordinal) {
            ordinal += 1;
        }
        ordinals.insert(ordinal);
        Instance {
            name: format!("{id}-{ordinal}"),
            kept: Some(Kept {
                group: group.to_owned(),
                ordinal,
                taken: Arc::clone(&self.taken),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_names_are_reused_and_others_are_not() {
        let mut config = KafkaConfig::new("127.0.0.1:1", "spindle.events");
        let (instances, other) = (Instances::default(), Instances::default());
        let first = instances.next(&config, "g");
        assert!(!first.is_kept());
        let names = [
            first.name().to_owned(),
            instances.next(&config, "g").name().to_owned(),
            other.next(&config, "g").name().to_owned(),
        ];
        assert_eq!(BTreeSet::from(names).len(), 3);
        config.instance_id = Some("pod-0".to_owned());
        let (one, two) = (instances.next(&config, "g"), instances.next(&config, "g"));
        assert_eq!((one.name(), two.name()), ("pod-0-0", "pod-0-1"));
        assert_eq!(instances.next(&config, "h").name(), "pod-0-0");
        drop(one);
        assert_eq!(instances.next(&config, "g").name(), "pod-0-0");
        assert!(two.is_kept());
    }
}
