//! One member of a consumer group.
//!
//! Everything happens in `next`, in this order: what was told as revoked is given back; what the library asks for is
//! told; records are delivered. Nothing is done behind the owner's back, so what it was told is what holds.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};
use tokio::time::Instant;

use super::commits::{self, Target};
use super::leaving::Instance;
use super::offsets::list;
use super::reader::{Batch, batch};
use super::rebalance::{self, Change, Rebalances};
use super::{Inner, errors, settings, wire};
use crate::{Delivery, Fetch, Lease, LogError, Member, Position, StoredRecord};

/// A member.
pub(super) struct TopicMember {
    log: Arc<Inner>,
    group: String,
    instance: Option<Instance>,
    consumer: Arc<StreamConsumer<Rebalances>>,
    commits: commits::Shared,
    /// Next offset to deliver, of each partition that is this member's.
    own: BTreeMap<u32, u64>,
    /// What the library wants back, told as `Revoked`: given back with the next call.
    revoked: Vec<u32>,
    /// Taken from the library to keep the member alive while its owner was busy.
    stash: VecDeque<StoredRecord>,
    /// Whether the library was told to fetch nothing while the owner is busy.
    paused: bool,
    /// When the library last wanted nothing that was not done.
    served: std::time::Instant,
    /// Another process has this member's name: nothing more can be done with this client.
    fenced: bool,
}

impl TopicMember {
    pub(super) fn join(log: Arc<Inner>, group: &str) -> Result<Self, LogError> {
        let instance = log.leaving.instance(&log.config, group);
        let consumer = subscribe(&log, group, instance.as_ref())?;
        Ok(Self {
            log,
            group: group.to_owned(),
            instance,
            consumer,
            commits: commits::Shared::default(),
            own: BTreeMap::new(),
            revoked: Vec::new(),
            stash: VecDeque::new(),
            paused: false,
            served: std::time::Instant::now(),
            fenced: false,
        })
    }

    fn patience(&self) -> Duration {
        self.log.config.append_timeout
    }

    fn target(&self) -> Target {
        Target {
            consumer: Arc::clone(&self.consumer),
            topic: self.log.config.topic.clone(),
            patience: self.patience(),
        }
    }

    fn list(&self, partitions: &[u32]) -> Result<TopicPartitionList, LogError> {
        let invalid = partitions.iter().map(|p| (*p, Offset::Invalid));
        list(&self.log.config.topic, invalid)
    }

    fn forget(&mut self, partitions: &[u32]) -> Vec<u32> {
        self.stash
            .retain(|stored| !partitions.contains(&stored.position.partition));
        let mut gone = Vec::new();
        for partition in partitions {
            if self.own.remove(partition).is_some() {
                gone.push(*partition);
            }
        }
        self.log.metrics.assigned_partitions.sub(gone.len() as i64);
        gone
    }

    fn count(&self, kind: &str) {
        self.log.metrics.rebalances.with_label_values(&[kind]).inc();
    }

    /// The owner has come back: what it was told as revoked goes.
    async fn give_back(&mut self) -> Result<Option<Delivery>, LogError> {
        if self.revoked.is_empty() {
            return Ok(None);
        }
        if let Some(delivery) = self.verify().await? {
            return Ok(Some(delivery));
        }
        let mut commits = commits::lock(&self.commits, self.patience()).await?;
        let partitions = self.revoked.clone();
        let given = rebalance::give(&*self.consumer, &self.list(&partitions)?);
        // No await from here on: a dropped call has either given nothing or all.
        for partition in &partitions {
            commits.gone(*partition);
        }
        drop(commits);
        self.revoked.clear();
        self.forget(&partitions);
        match given {
            Ok(()) => Ok(None),
            Err(error) => self.join_anew(&error),
        }
    }

    /// Before the library gets what it asks for: it does not notice that the member was thrown out while it waited
    /// for that, and would keep the other partitions. So if the last proof is old, the broker is asked.
    async fn verify(&mut self) -> Result<Option<Delivery>, LogError> {
        let Some(partition) = self.own.keys().next().copied() else {
            return Ok(None);
        };
        let commits = commits::lock(&self.commits, self.patience()).await?;
        let margin = self.log.config.lease_margin();
        let good_for = self.log.config.session_timeout.saturating_sub(margin);
        let fresh = commits
            .proof()
            .is_some_and(|proof| proof.elapsed() < good_for);
        drop(commits);
        if fresh {
            return Ok(None);
        }
        match commits::prove(&self.commits, &self.target(), partition).await {
            Ok(_) => Ok(None),
            Err(LogError::NotAssigned(_)) if self.consumer.assignment_lost() => Ok(None),
            Err(LogError::NotAssigned(_)) => self.join_anew(&"the member was thrown out"),
            Err(error) => Err(error),
        }
    }

    /// Leaves the client behind and begins with a new one.
    fn join_anew(&mut self, why: &dyn std::fmt::Display) -> Result<Option<Delivery>, LogError> {
        tracing::warn!(group = self.group, "the member joins anew: {why}");
        let new = subscribe(&self.log, &self.group, self.instance.as_ref())?;
        let old = std::mem::replace(&mut self.consumer, new);
        self.log.leaving.leave(old, &self.log.config.topic);
        self.commits = commits::Shared::default();
        self.revoked.clear();
        self.paused = false;
        self.lose_all()
    }

    fn lose_all(&mut self) -> Result<Option<Delivery>, LogError> {
        let all: Vec<u32> = self.own.keys().copied().collect();
        let lost = self.forget(&all);
        self.count("lost");
        Ok((!lost.is_empty()).then_some(Delivery::Lost(lost)))
    }

    /// What the library asks for, told to the owner. A change stays until it is done, so a dropped call loses none.
    async fn change(&mut self) -> Result<Option<Delivery>, LogError> {
        while let Some(change) = self.consumer.context().first() {
            let delivery = match change {
                Change::Assign(partitions) => self.assign(partitions).await?,
                Change::Revoke(partitions) => {
                    self.consumer.context().done();
                    self.revoke(partitions)?
                }
                Change::Lose(partitions) => {
                    self.consumer.context().done();
                    self.count("lost");
                    let lost = self.forget(&partitions);
                    let given = rebalance::give(&*self.consumer, &self.list(&partitions)?);
                    if let Err(error) = given {
                        self.join_anew(&error)?;
                    }
                    (!lost.is_empty()).then_some(Delivery::Lost(lost))
                }
            };
            if delivery.is_some() {
                return Ok(delivery);
            }
        }
        Ok(None)
    }

    async fn assign(&mut self, partitions: Vec<u32>) -> Result<Option<Delivery>, LogError> {
        if let Some(delivery) = self.verify().await? {
            return Ok(Some(delivery));
        }
        let log = Arc::clone(&self.log);
        let starts = log.offsets.starts(&self.group, partitions).await?;
        let mut commits = commits::lock(&self.commits, self.patience()).await?;
        let offsets = starts.iter().map(|(partition, offset)| {
            let raw = Offset::Offset(wire::raw_offset(*offset));
            (*partition, raw)
        });
        let offsets = list(&self.log.config.topic, offsets)?;
        // No await from here on: a dropped call has either taken nothing or all.
        self.consumer.context().done();
        if let Err(error) = rebalance::take(&*self.consumer, &offsets) {
            drop(commits);
            return self.join_anew(&error);
        }
        // A partition that was paused when it went comes back paused. An error leaves it to the next wait.
        if let Err(error) = self.consumer.resume(&offsets) {
            tracing::debug!(error.message = %error, "partitions were not resumed");
            self.paused = true;
        }
        for (partition, offset) in &starts {
            commits.assigned(*partition, *offset);
            self.own.insert(*partition, *offset);
        }
        drop(commits);
        if starts.is_empty() {
            return Ok(None);
        }
        self.count("assigned");
        let taken = starts.len() as i64;
        self.log.metrics.assigned_partitions.add(taken);
        let positions = starts.into_iter();
        let positions = positions.map(|(partition, offset)| Position { partition, offset });
        Ok(Some(Delivery::Assigned(positions.collect())))
    }

    fn revoke(&mut self, partitions: Vec<u32>) -> Result<Option<Delivery>, LogError> {
        let own = |partition: &u32| self.own.contains_key(partition);
        let told: Vec<u32> = partitions.iter().copied().filter(own).collect();
        if told.is_empty() {
            let given = rebalance::give(&*self.consumer, &self.list(&partitions)?);
            return match given {
                Ok(()) => Ok(None),
                Err(error) => self.join_anew(&error),
            };
        }
        self.count("revoked");
        self.stash
            .retain(|stored| !partitions.contains(&stored.position.partition));
        self.revoked = partitions;
        Ok(Some(Delivery::Revoked(told)))
    }

    /// Records at hand, or the first that come. Empty when the library asks for something, or at the end of the wait.
    async fn records(
        &mut self,
        fetch: Fetch,
        until: Instant,
    ) -> Result<Vec<StoredRecord>, LogError> {
        if self.paused {
            let own: Vec<u32> = self.own.keys().copied().collect();
            let resumed = self.consumer.resume(&self.list(&own)?);
            resumed.map_err(|error| errors::away("resume", &error))?;
            self.paused = false;
        }
        if !self.stash.is_empty() {
            return Ok(self.stash.drain(..).collect());
        }
        let consumer = Arc::clone(&self.consumer);
        let (own, revoked) = (&mut self.own, &self.revoked);
        let keep = |message: &BorrowedMessage<'_>| keep(own, revoked, message);
        let changed = || !consumer.context().is_empty();
        let batch = batch(&consumer, fetch.max_bytes, keep, changed);
        let Ok(Batch { records, error }) = tokio::time::timeout_at(until, batch).await else {
            return Ok(Vec::new());
        };
        match error {
            Some(error) => self.fault(&error, records),
            None => Ok(records),
        }
    }

    fn fault(
        &mut self,
        error: &KafkaError,
        records: Vec<StoredRecord>,
    ) -> Result<Vec<StoredRecord>, LogError> {
        if errors::is_fatal(error) {
            self.fenced = true;
        } else if errors::is_worth_telling(error) && records.is_empty() {
            return Err(errors::away("read", error));
        }
        Ok(records)
    }

    /// Lets the library know that the member lives though its owner is busy, and learns what it asks for. Nothing
    /// more is fetched until the owner comes back, so this takes no memory however often it is done.
    fn serve(&mut self) -> Result<(), LogError> {
        let consumer = Arc::clone(&self.consumer);
        if !self.paused && !self.own.is_empty() {
            let own: Vec<u32> = self.own.keys().copied().collect();
            let paused = consumer.pause(&self.list(&own)?);
            paused.map_err(|error| errors::away("pause", &error))?;
            self.paused = true;
        }
        let mut stream = consumer.stream();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut stream).poll_next(&mut context) {
                Poll::Ready(Some(Ok(message))) => {
                    let stored = keep(&mut self.own, &self.revoked, &message);
                    self.stash.extend(stored);
                }
                Poll::Ready(Some(Err(error))) => {
                    self.fenced |= errors::is_fatal(&error);
                }
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        self.mark_served();
        Ok(())
    }

    fn mark_served(&mut self) {
        if self.revoked.is_empty() && self.consumer.context().is_empty() {
            self.served = std::time::Instant::now();
        }
    }

    /// The end of a lease: of the session that was proved, and of the time the group waits in a rebalance.
    fn lease_end(&self, proof: std::time::Instant) -> std::time::Instant {
        let config = &self.log.config;
        let session = proof + config.session_timeout;
        let waited_for = self.served + config.max_poll_interval();
        let margin = config.lease_margin();
        let end = session.min(waited_for);
        end.checked_sub(margin).unwrap_or(proof)
    }
}

/// The record, if it is the next of a partition that is this member's.
fn keep(
    own: &mut BTreeMap<u32, u64>,
    revoked: &[u32],
    message: &BorrowedMessage<'_>,
) -> Option<StoredRecord> {
    let partition = wire::partition(message.partition());
    let offset = wire::offset(message.offset());
    let next = own.get_mut(&partition)?;
    if offset < *next || revoked.contains(&partition) {
        return None;
    }
    *next = offset + 1;
    Some(wire::stored(message))
}

fn subscribe(
    log: &Inner,
    group: &str,
    instance: Option<&Instance>,
) -> Result<Arc<StreamConsumer<Rebalances>>, LogError> {
    let name = instance.map(Instance::name);
    let consumer: StreamConsumer<Rebalances> = log
        .config
        .member(group, name.as_deref())
        .create_with_context(Rebalances::new())
        .map_err(|error| LogError::Settings(settings::description(error)))?;
    let subscribed = consumer.subscribe(&[&log.config.topic]);
    subscribed.map_err(|error| errors::away("subscribe", &error))?;
    Ok(Arc::new(consumer))
}

#[async_trait]
impl Member for TopicMember {
    async fn next(&mut self, fetch: Fetch) -> Result<Delivery, LogError> {
        let until = Instant::now() + fetch.max_wait;
        loop {
            if self.fenced {
                if let Some(delivery) = self.lose_all()? {
                    return Ok(delivery);
                }
                return Err(LogError::Settings(format!(
                    "another process joined {} under this one's instance_id",
                    self.group
                )));
            }
            if let Some(delivery) = self.give_back().await? {
                return Ok(delivery);
            }
            if let Some(delivery) = self.change().await? {
                return Ok(delivery);
            }
            let records = self.records(fetch, until).await?;
            self.mark_served();
            if !records.is_empty() {
                return Ok(Delivery::Records(records));
            }
            if Instant::now() >= until && self.consumer.context().is_empty() {
                return Ok(Delivery::Idle);
            }
        }
    }

    async fn commit(&mut self, partition: u32, next_offset: u64) -> Result<(), LogError> {
        if self.fenced || !self.own.contains_key(&partition) {
            return Err(LogError::NotAssigned(partition));
        }
        commits::commit(&self.commits, &self.target(), partition, next_offset).await
    }

    async fn lease(&mut self) -> Result<Lease, LogError> {
        let Some(partition) = self.own.keys().next().copied() else {
            return Err(LogError::NotAssigned(0));
        };
        let config = Arc::clone(&self.log.config);
        let good_for = config.session_timeout.saturating_sub(config.lease_margin());
        let commits = commits::lock(&self.commits, self.patience()).await?;
        let proof = commits.proof();
        drop(commits);
        if let Some(lost) = self.consumer.context().lost() {
            return Err(LogError::NotAssigned(lost));
        }
        if let Some(proof) = proof {
            let end = self.lease_end(proof);
            if end > std::time::Instant::now() + good_for / 2 {
                return Ok(Lease::Until(end));
            }
        }
        self.serve()?;
        let proof = commits::prove(&self.commits, &self.target(), partition).await?;
        let end = self.lease_end(proof);
        let lost = self.consumer.context().lost();
        if lost.is_some() || self.fenced || end <= std::time::Instant::now() {
            return Err(LogError::NotAssigned(lost.unwrap_or(partition)));
        }
        Ok(Lease::Until(end))
    }
}

impl Drop for TopicMember {
    fn drop(&mut self) {
        let all: Vec<u32> = self.own.keys().copied().collect();
        self.forget(&all);
        let consumer = Arc::clone(&self.consumer);
        self.log.leaving.leave(consumer, &self.log.config.topic);
    }
}
