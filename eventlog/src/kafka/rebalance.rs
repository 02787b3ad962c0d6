//! The library's rebalance callbacks as messages.
//!
//! The library asks the application to take or give back partitions, and waits for the call that does it, at any time.
//! So the callback only records the request; the member makes the call when its owner has received the change and has
//! returned.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, TopicPartitionList};

use super::context::Lines;
use super::wire;

/// What the library waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// These are to be taken.
    Assign(Vec<u32>),
    /// These are to be given back; commits are still accepted.
    Revoke(Vec<u32>),
    /// Other members own these already.
    Lose(Vec<u32>),
}

/// Requests to one member's client that are not done yet.
pub(super) struct Rebalances {
    lines: Lines,
    changes: Mutex<VecDeque<Change>>,
    leaving: AtomicBool,
}

impl Rebalances {
    pub(super) fn new() -> Self {
        Self {
            lines: Lines::new("member"),
            changes: Mutex::default(),
            leaving: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The oldest change; it stays until [`Rebalances::done`].
    pub(super) fn first(&self) -> Option<Change> {
        self.lock().front().cloned()
    }

    pub(super) fn done(&self) {
        self.lock().pop_front();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// A lost partition that was not delivered yet.
    pub(super) fn lost(&self) -> Option<u32> {
        let changes = self.lock();
        changes.iter().find_map(|change| match change {
            Change::Lose(partitions) => partitions.first().copied(),
            _ => None,
        })
    }

    /// The member leaves: from now on the library's requests are granted at once.
    pub(super) fn leave(&self) -> Vec<Change> {
        self.leaving.store(true, Ordering::Release);
        self.lock().drain(..).collect()
    }
}

impl ClientContext for Rebalances {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.lines.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.lines.error(error, reason);
    }

    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl ConsumerContext for Rebalances {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        error: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        let assign = error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.leaving.load(Ordering::Acquire) {
            let done = if assign {
                take(consumer, partitions)
            } else {
                give(consumer, partitions)
            };
            if let Err(error) = done {
                tracing::debug!("while leaving a group: {error}");
            }
            return;
        }
        let elements = partitions.elements();
        let numbers = elements
            .iter()
            .map(|element| wire::partition(element.partition()))
            .collect();
        self.lock().push_back(if assign {
            Change::Assign(numbers)
        } else if consumer.assignment_lost() {
            Change::Lose(numbers)
        } else {
            Change::Revoke(numbers)
        });
    }
}

/// Takes partitions, at the offsets in the list.
pub(super) fn take<K: Consumer<Rebalances>>(
    consumer: &K,
    partitions: &TopicPartitionList,
) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Eager => consumer.assign(partitions),
        _ => consumer.incremental_assign(partitions),
    }
}

pub(super) fn give<K: Consumer<Rebalances>>(
    consumer: &K,
    partitions: &TopicPartitionList,
) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Eager => consumer.unassign(),
        _ => consumer.incremental_unassign(partitions),
    }
}
