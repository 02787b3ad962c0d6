//! Members that leave.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use futures::Stream;
use rdkafka::Offset;
use rdkafka::consumer::{Consumer, StreamConsumer};
use tokio::sync::watch;

use super::config::KafkaConfig;
use super::instances::Instance;
use super::offsets::list;
use super::rebalance::{self, Change, Rebalances};

/// Polling interval for the last commit of a leaving member.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Pause between two questions whether the broker still lists a member.
const GONE_EVERY: Duration = Duration::from_millis(20);
/// Time to leave where no broker lists members: it is away, or does not answer such questions.
const UNKNOWN_FOR: Duration = Duration::from_millis(500);
/// Records that a client which ends takes from the library before it looks at anything else.
const POLLED_AT_ONCE: usize = 1000;

/// Ends clients of members on separate threads, because it waits for the broker.
#[derive(Default)]
pub(super) struct Leaving {
    /// Number of leaving members.
    count: watch::Sender<usize>,
}

/// What becomes of the place of a client in the group.
pub(super) enum Place {
    /// A client of the same name takes it over, or the broker ends it with the session.
    Kept,
    /// Other members get its partitions. The name is free once the broker has forgotten it.
    GivenUp(Instance),
}

impl Leaving {
    /// Completes what the library waits for, the return of the `revoked` partitions among it; leaves the group unless
    /// the place is kept; and ends the client.
    pub(super) fn leave(
        &self,
        consumer: Arc<StreamConsumer<Rebalances>>,
        config: &Arc<KafkaConfig>,
        place: Place,
        revoked: Vec<u32>,
    ) {
        let count = self.count.clone();
        count.send_modify(|count| *count += 1);
        let config = Arc::clone(config);
        let thread = std::thread::Builder::new().name("kafka-leave".to_owned());
        let spawned = thread.spawn(move || {
            let topic = &config.topic;
            match place {
                // The successor takes over even from a client that does not end. Nothing is granted before the end: the
                // client would join again, under the name of its successor.
                Place::Kept => {
                    let last = alone(consumer, Duration::ZERO);
                    grant(&last, topic, revoked);
                }
                Place::GivenUp(instance) => {
                    grant(&consumer, topic, revoked);
                    // Before the wait for a commit in flight: nothing else keeps the partitions from other members.
                    give_up(&consumer, &config, &instance);
                    drop(instance);
                    drop(alone(consumer, config.session_timeout));
                }
            }
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
        // The broker expels a remaining member after the session time-out.
        let _ = tokio::time::timeout(patience, none).await;
    }
}

/// Grants what the library has asked for, after the return of the `revoked` partitions, and from now on whatever it asks
/// for.
fn grant(consumer: &StreamConsumer<Rebalances>, topic: &str, revoked: Vec<u32>) {
    let mut changes = consumer.context().leave();
    if !revoked.is_empty() {
        changes.insert(0, Change::Revoke(revoked));
    }
    for change in changes {
        let (partitions, assign) = match change {
            Change::Assign(partitions) => (partitions, true),
            Change::Revoke(partitions) | Change::Lose(partitions) => (partitions, false),
        };
        let partitions = partitions.into_iter().map(|p| (p, Offset::Invalid));
        let Ok(partitions) = list(topic, partitions) else {
            continue;
        };
        let done = if assign {
            rebalance::take(consumer, &partitions)
        } else {
            rebalance::give(consumer, &partitions)
        };
        if let Err(error) = done {
            tracing::debug!("while leaving a group: {error}");
        }
    }
}

/// Leaves the group, and waits until the broker does not list the member any more: a client with a name that ends before
/// that keeps its place.
fn give_up(consumer: &StreamConsumer<Rebalances>, config: &KafkaConfig, instance: &Instance) {
    consumer.unsubscribe();
    let mut until = Instant::now() + config.append_timeout;
    let group = config.group_id(instance.group());
    // The broker's id of a member begins with its name.
    let prefix = format!("{}-", instance.name());
    loop {
        poll(consumer);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match consumer.fetch_group_list(Some(&group), left) {
            Ok(groups) => {
                let mut members = groups.groups().iter().flat_map(|group| group.members());
                if !members.any(|member| member.id().starts_with(&prefix)) {
                    return;
                }
            }
            Err(_) => until = until.min(Instant::now() + UNKNOWN_FOR),
        }
        std::thread::sleep(GONE_EVERY);
    }
}

/// Takes what the library has for the client, and drops it; requests are granted meanwhile.
fn poll(consumer: &StreamConsumer<Rebalances>) {
    let mut stream = consumer.stream();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..POLLED_AT_ONCE {
        if Pin::new(&mut stream).poll_next(&mut context).is_pending() {
            return;
        }
    }
}

/// The client once no commit is in flight. It is polled meanwhile, for this long: the library then takes a client whose
/// commit never ends for stuck, and leaves the group.
fn alone(
    mut consumer: Arc<StreamConsumer<Rebalances>>,
    polled_for: Duration,
) -> StreamConsumer<Rebalances> {
    let until = Instant::now() + polled_for;
    loop {
        match Arc::try_unwrap(consumer) {
            Ok(last) => return last,
            Err(shared) => consumer = shared,
        }
        if Instant::now() < until {
            poll(&consumer);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
