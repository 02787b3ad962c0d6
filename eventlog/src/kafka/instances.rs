//! The names of members (`group.instance.id`).
//!
//! The broker knows a member by its name again. So a member whose session ended while the brokers were away returns to
//! its partitions at once; under a new name, the group would wait for the session of its former self.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::config::KafkaConfig;

/// The numbers that are in use, of each group.
type Taken = Arc<Mutex<BTreeMap<String, BTreeSet<u32>>>>;

/// The names of the members of one process.
pub(super) struct Instances {
    /// Unique among all processes.
    process: String,
    taken: Taken,
}

/// The name of one member. Free for another member when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Instance {
    number: Arc<Number>,
    name: String,
    is_configured: bool,
}

struct Number {
    group: String,
    number: u32,
    taken: Taken,
}

impl Instance {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a later process has the name again: the place in the group outlives the member.
    pub(super) fn is_configured(&self) -> bool {
        self.is_configured
    }

    /// The group in which the member has the name.
    pub(super) fn group(&self) -> &str {
        &self.number.group
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = taken.get_mut(&self.group) {
            numbers.remove(&self.number);
        }
    }
}

impl Default for Instances {
    fn default() -> Self {
        Self {
            process: format!("member-{:032x}", rand::random::<u128>()),
            taken: Taken::default(),
        }
    }
}

impl Instances {
    /// The first free name of this process in the group.
    pub(super) fn next(&self, config: &KafkaConfig, group: &str) -> Instance {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = taken.entry(group.to_owned()).or_default();
        let mut number = 0;
        while !numbers.insert(number) {
            number += 1;
        }
        let process = config.instance_id.as_ref().unwrap_or(&self.process);
        Instance {
            number: Arc::new(Number {
                group: group.to_owned(),
                number,
                taken: Arc::clone(&self.taken),
            }),
            name: format!("{process}-{number}"),
            is_configured: config.instance_id.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_when_no_member_has_it_any_more() {
        let mut config = KafkaConfig::new("127.0.0.1:1", "spindle.events");
        let (instances, other) = (Instances::default(), Instances::default());
        let (one, two) = (instances.next(&config, "g"), instances.next(&config, "g"));
        assert!(!one.is_configured());
        assert_ne!(one.name(), two.name());
        assert_ne!(one.name(), other.next(&config, "g").name());
        let name = one.name().to_owned();
        let clone = one.clone();
        drop(one);
        assert_ne!(instances.next(&config, "g").name(), name);
        drop(clone);
        assert_eq!(instances.next(&config, "g").name(), name);
        config.instance_id = Some("pod-0".to_owned());
        let three = instances.next(&config, "g");
        assert!(three.is_configured());
        assert_eq!(three.name(), "pod-0-0");
        let in_other_group = instances.next(&config, "h");
        assert_eq!(
            (in_other_group.name(), in_other_group.group()),
            ("pod-0-0", "h")
        );
    }
}
