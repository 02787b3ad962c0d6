//! Members that leave, and the names of static ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::Offset;
use rdkafka::consumer::StreamConsumer;
use tokio::sync::watch;

use super::config::KafkaConfig;
use super::offsets::list;
use super::rebalance::{self, Change, Rebalances};

/// How often it is looked whether the last commit of a leaving member is through.
const LOOK_EVERY: Duration = Duration::from_millis(2);

type Taken = Arc<Mutex<BTreeMap<String, BTreeSet<u32>>>>;

/// Ends clients of members on threads of their own, since it waits for the broker.
#[derive(Default)]
pub(super) struct Leaving {
    /// How many are on their way out.
    count: watch::Sender<usize>,
    taken: Taken,
}

/// The name under which a static member joins; free again when it is dropped.
pub(super) struct Instance {
    id: String,
    group: String,
    ordinal: u32,
    taken: Taken,
}

impl Instance {
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.id, self.ordinal)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ordinals) = taken.get_mut(&self.group) {
            ordinals.remove(&self.ordinal);
        }
    }
}

impl Leaving {
    /// The lowest free name of this process in the group.
    pub(super) fn instance(&self, config: &KafkaConfig, group: &str) -> Option<Instance> {
        let id = config.instance_id.clone()?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let ordinals = taken.entry(group.to_owned()).or_default();
        let ordinal = (0..).find(|ordinal| !ordinals.contains(ordinal))?;
        ordinals.insert(ordinal);
        Some(Instance {
            id,
            group: group.to_owned(),
            ordinal,
            taken: Arc::clone(&self.taken),
        })
    }

    /// Leaves the group: what the library waits for is done, and the client ended.
    pub(super) fn leave(&self, consumer: Arc<StreamConsumer<Rebalances>>, topic: &str) {
        let count = self.count.clone();
        count.send_modify(|count| *count += 1);
        let topic = topic.to_owned();
        let thread = std::thread::Builder::new().name("kafka-leave".to_owned());
        let spawned = thread.spawn(move || {
            end(consumer, &topic);
            count.send_modify(|count| *count -= 1);
        });
        if let Err(error) = spawned {
            self.count.send_modify(|count| *count -= 1);
            tracing::warn!("no thread to leave a group on: {error}");
        }
    }

    /// Waits until all are gone, or for this long.
    pub(super) async fn gone(&self, patience: Duration) {
        let mut count = self.count.subscribe();
        let none = count.wait_for(|count| *count == 0);
        // Whoever is not gone by then is missed by the broker after the session time-out.
        let _ = tokio::time::timeout(patience, none).await;
    }
}

fn end(mut consumer: Arc<StreamConsumer<Rebalances>>, topic: &str) {
    use rdkafka::consumer::Consumer;
    for change in consumer.context().leave() {
        let (partitions, assign) = match change {
            Change::Assign(partitions) => (partitions, true),
            Change::Revoke(partitions) | Change::Lose(partitions) => (partitions, false),
        };
        let partitions = partitions.into_iter().map(|p| (p, Offset::Invalid));
        let Ok(partitions) = list(topic, partitions) else {
            continue;
        };
        let done = if assign {
            rebalance::take(&*consumer, &partitions)
        } else {
            rebalance::give(&*consumer, &partitions)
        };
        if let Err(error) = done {
            tracing::debug!("while leaving a group: {error}");
        }
    }
    // A commit may be on its way yet.
    loop {
        match Arc::try_unwrap(consumer) {
            Ok(last) => return drop(last),
            Err(shared) => consumer = shared,
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
