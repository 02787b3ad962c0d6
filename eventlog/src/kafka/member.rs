//! One member of a consumer group.
//!
//! Everything happens in `next`, in this order: revoked partitions are given back; the library's requests are
//! delivered; records are delivered. Nothing changes outside of `next`, so the owner's last delivery is always current.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::BorrowedMessage;
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Message, Offset, TopicPartitionList};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::commits::{self, Commits, Target};
use super::instances::Instance;
use super::leaving::Place;
use super::offsets::list;
use super::reader::batch;
use super::rebalance::{self, Change, Rebalances};
use super::topic::blocking;
use super::{Inner, errors, settings, wire};
use crate::{Delivery, Fetch, Lease, LogError, Member, Position, StoredRecord};

/// A member that has not joined for this long asks for the topic again: longer than a rebalance takes.
const JOINED_WITHIN: Duration = Duration::from_secs(30);
/// Least pause between two looks at a topic that has grown: a broker may know of fewer partitions than another one.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often a member renews what its client knows of brokers and leaders. Well below the age at which the library
/// forgets them (`metadata.max.age.ms`, 15 minutes), after which a member that lost its partitions would wait for them.
const RENEWED_EVERY: Duration = Duration::from_secs(60);

pub(super) struct TopicMember {
    log: Arc<Inner>,
    group: String,
    instance: Instance,
    consumer: Arc<StreamConsumer<Rebalances>>,
    commits: commits::Shared,
    /// Since when no commit has had an answer.
    unanswered_since: Option<Instant>,
    /// The next offset to deliver, of each assigned partition.
    own: BTreeMap<u32, u64>,
    /// What the library wants back, delivered as `Revoked`: given back with the next call.
    revoked: Vec<u32>,
    /// Records taken from the library to keep the member alive while its owner was busy.
    stash: VecDeque<StoredRecord>,
    /// Whether the library was paused while the owner is busy.
    paused: bool,
    /// When the library last had no unanswered request.
    served: std::time::Instant,
    /// Another process has this member's name: this client is unusable.
    fenced: bool,
    /// Partitions of the topic that the client knows of.
    known: u32,
    /// Partitions that the client has asked for a share of.
    subscribed: u32,
    /// Whether the client was given a share, be it empty.
    has_joined: bool,
    /// Whether the session ended, and no client of this member has joined since.
    is_cut_off: bool,
    /// When the client was made, or last looked at the topic.
    looked: Instant,
}

impl TopicMember {
    pub(super) fn join(log: Arc<Inner>, group: &str) -> Result<Self, LogError> {
        let instance = log.instances.next(&log.config, group);
        let subscribed = log.partitions.load(Ordering::Acquire);
        let consumer = subscribe(&log, group, &instance)?;
        Ok(Self {
            log,
            group: group.to_owned(),
            instance,
            consumer,
            commits: commits::Shared::default(),
            unanswered_since: None,
            own: BTreeMap::new(),
            revoked: Vec::new(),
            stash: VecDeque::new(),
            paused: false,
            served: std::time::Instant::now(),
            fenced: false,
            known: 0,
            subscribed,
            has_joined: false,
            is_cut_off: false,
            looked: Instant::now(),
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

    /// The owner has returned: its revoked partitions are given back.
    async fn give_back(&mut self) -> Result<Option<Delivery>, LogError> {
        if self.revoked.is_empty() {
            return Ok(None);
        }
        if let Some(delivery) = self.verify().await? {
            return Ok(Some(delivery));
        }
        let mut commits = self.lock_commits().await?;
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

    /// Before the library gets what it asks for: it does not notice that the member was expelled while it waited for
    /// that, and would keep the other partitions. So if the last proof is old, the broker is asked.
    async fn verify(&mut self) -> Result<Option<Delivery>, LogError> {
        let Some(partition) = self.own.keys().next().copied() else {
            return Ok(None);
        };
        let commits = self.lock_commits().await?;
        let margin = self.log.config.lease_margin();
        let good_for = self.log.config.session_timeout.saturating_sub(margin);
        let fresh = commits
            .proof()
            .is_some_and(|proof| proof.elapsed() < good_for);
        drop(commits);
        if fresh {
            return Ok(None);
        }
        match self.prove(partition).await {
            Ok(_) => Ok(None),
            Err(LogError::NotAssigned(_)) if self.consumer.assignment_lost() => Ok(None),
            Err(LogError::NotAssigned(_)) => self.join_anew(&"the member was thrown out"),
            Err(error) => Err(error),
        }
    }

    async fn lock_commits(&mut self) -> Result<OwnedMutexGuard<Commits>, LogError> {
        let asked = Instant::now();
        let locked = self.commits.lock(self.patience()).await;
        if locked.is_err() {
            self.answered(asked, false);
        }
        locked
    }

    async fn prove(&mut self, partition: u32) -> Result<std::time::Instant, LogError> {
        let asked = Instant::now();
        let proved = commits::prove(&self.commits, &self.target(), partition).await;
        let is_answered = !matches!(proved, Err(LogError::Unavailable(_)));
        self.answered(asked, is_answered);
        proved
    }

    /// Follows whether commits have answers, and gives the client up when they have had none until the deadline: the
    /// library waits for one without end.
    fn answered(&mut self, asked: Instant, is_answered: bool) {
        if is_answered {
            self.unanswered_since = None;
            return;
        }
        let since = *self.unanswered_since.get_or_insert(asked);
        if since.elapsed() >= self.log.config.commit_deadline() {
            self.commits.expel();
        }
    }

    /// Whether no commit of this client counts any more, as far as is known without a request.
    fn is_over(&self) -> bool {
        self.fenced || self.commits.is_expelled() || self.consumer.assignment_lost()
    }

    /// Drops the client and begins with a new one.
    fn join_anew(&mut self, why: &dyn std::fmt::Display) -> Result<Option<Delivery>, LogError> {
        tracing::warn!(group = self.group, "the member joins again: {why}");
        let subscribed = self.log.partitions.load(Ordering::Acquire);
        let place = self.place();
        self.is_cut_off = matches!(place, Place::Kept);
        if !self.is_cut_off {
            self.instance = self.log.instances.next(&self.log.config, &self.group);
        }
        let new = subscribe(&self.log, &self.group, &self.instance)?;
        let old = std::mem::replace(&mut self.consumer, new);
        let revoked = std::mem::take(&mut self.revoked);
        self.log
            .leaving
            .leave(old, &self.log.config, place, revoked);
        self.commits = commits::Shared::default();
        self.unanswered_since = None;
        self.paused = false;
        self.known = 0;
        self.subscribed = subscribed;
        self.has_joined = false;
        self.looked = Instant::now();
        self.lose_all()
    }

    /// Lets the client learn of the topic, or of all topics; see `settings`.
    async fn look(&mut self, topic: Option<&str>) -> Result<(), LogError> {
        self.looked = Instant::now();
        let consumer = Arc::clone(&self.consumer);
        let (only, patience) = (topic.map(str::to_owned), self.patience());
        let metadata = blocking(move || consumer.fetch_metadata(only.as_deref(), patience)).await?;
        let metadata = metadata.map_err(|error| errors::away("metadata", &error))?;
        let own = |topic: &&MetadataTopic| topic.name() == self.log.config.topic;
        let found = metadata.topics().iter().find(own);
        let count = found.map_or(0, |topic| topic.partitions().len());
        self.known = u32::try_from(count).unwrap_or(u32::MAX).max(self.known);
        Ok(())
    }

    /// Renews what the client knows of the topic, and asks for a share of partitions that were added since it asked. The
    /// library does that at the end of a rebalance that is under way.
    async fn follow_topic(&mut self) -> Result<(), LogError> {
        let topic = self.log.config.topic.clone();
        let age = self.looked.elapsed();
        if !self.has_joined {
            // A join waits for ever for the topic if the one answer about it was lost. One about all topics lets it go
            // on, and does no harm before there is anything to give back.
            if age >= JOINED_WITHIN {
                // An error mends itself or shows elsewhere.
                let _ = self.look(None).await;
            }
            return Ok(());
        }
        let partitions = self.log.partitions.load(Ordering::Acquire);
        let has_grown = self.subscribed < partitions;
        if age >= RENEWED_EVERY || (has_grown && age >= LOOK_AGAIN_AFTER) {
            // Like the one above.
            let _ = self.look(Some(&topic)).await;
        }
        if has_grown && self.known >= partitions {
            let subscribed = self.consumer.subscribe(&[&topic]);
            subscribed.map_err(|error| errors::away("subscribe", &error))?;
            self.subscribed = self.known;
        }
        Ok(())
    }

    /// What becomes of the place of this member's client when that ends.
    fn place(&self) -> Place {
        let (instance, context) = (&self.instance, self.consumer.context());
        // A client without a session, or that waits for an answer, does not leave: if the brokers were away, they keep
        // its place from other members, and the next client takes it over. One whose name was taken does not get it back.
        let is_cut_off = self.is_cut_off
            || self.unanswered_since.is_some()
            || self.consumer.assignment_lost()
            || context.lost().is_some();
        match instance.is_configured() || (is_cut_off && !self.fenced) {
            true => Place::Kept,
            false => Place::GivenUp(instance.clone()),
        }
    }

    fn lose_all(&mut self) -> Result<Option<Delivery>, LogError> {
        let all: Vec<u32> = self.own.keys().copied().collect();
        let lost = self.forget(&all);
        self.count("lost");
        Ok((!lost.is_empty()).then_some(Delivery::Lost(lost)))
    }

    /// The library's request as a delivery. A change stays until it is done, so a dropped call loses none.
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
                    // The library joins again, and may wait for the topic as at the start.
                    self.has_joined = false;
                    self.is_cut_off = true;
                    self.looked = Instant::now();
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
        // The library fetches nothing of a partition that it has not heard of.
        if partitions.iter().any(|partition| *partition >= self.known) {
            self.look(Some(&self.log.config.topic.clone())).await?;
        }
        let log = Arc::clone(&self.log);
        let starts = log.offsets.starts(&self.group, partitions).await?;
        let mut commits = self.lock_commits().await?;
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
        // A partition that was paused when it was revoked comes back paused. On an error the next wait resumes it.
        if let Err(error) = self.consumer.resume(&offsets) {
            tracing::debug!(error.message = %error, "partitions were not resumed");
            self.paused = true;
        }
        for (partition, offset) in &starts {
            commits.assigned(*partition, *offset);
            self.own.insert(*partition, *offset);
        }
        drop(commits);
        self.has_joined = true;
        self.is_cut_off = false;
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

    /// Available records, or the first that arrive. Empty when the library has a request, or at the end of the wait.
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
        let Ok(batch) = tokio::time::timeout_at(until, batch).await else {
            return Ok(Vec::new());
        };
        self.fenced |= batch.errors.iter().any(errors::is_fatal);
        batch.told()
    }

    /// Tells the library that the member lives though its owner is busy, and takes its requests. Nothing more is
    /// fetched until the owner returns, so this takes no memory however often it is done.
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

    /// The end of a lease: of the proved session, and of the time that the group waits in a rebalance.
    fn lease_end(&self, proof: std::time::Instant) -> std::time::Instant {
        let config = &self.log.config;
        let session = proof + config.session_timeout;
        let waited_for = self.served + config.max_poll_interval();
        let margin = config.lease_margin();
        let end = session.min(waited_for);
        end.checked_sub(margin).unwrap_or(proof)
    }
}

/// The record, if it is the next one of an assigned partition.
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
    instance: &Instance,
) -> Result<Arc<StreamConsumer<Rebalances>>, LogError> {
    let consumer: StreamConsumer<Rebalances> = log
        .config
        .member(group, instance.name())
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
            if self.fenced && !self.instance.is_configured() {
                // Only this process knows the name: an answer to an earlier client of it came late.
                let lost = self.join_anew(&"its name was taken")?;
                self.fenced = false;
                if let Some(delivery) = lost {
                    return Ok(delivery);
                }
            }
            if self.fenced {
                if let Some(delivery) = self.lose_all()? {
                    return Ok(delivery);
                }
                return Err(LogError::Settings(format!(
                    "another process joined {} under this one's instance_id",
                    self.group
                )));
            }
            if self.commits.is_expelled()
                && let Some(delivery) =
                    self.join_anew(&"its commits are refused or not answered")?
            {
                return Ok(delivery);
            }
            if let Some(delivery) = self.give_back().await? {
                return Ok(delivery);
            }
            if let Some(delivery) = self.change().await? {
                return Ok(delivery);
            }
            self.follow_topic().await?;
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
        if self.is_over() || !self.own.contains_key(&partition) {
            return Err(LogError::NotAssigned(partition));
        }
        let asked = Instant::now();
        let target = self.target();
        let committed = commits::commit(&self.commits, &target, partition, next_offset).await;
        let is_answered = !matches!(committed, Err(LogError::Unavailable(_)));
        self.answered(asked, is_answered);
        committed
    }

    async fn lease(&mut self) -> Result<Lease, LogError> {
        let Some(partition) = self.own.keys().next().copied() else {
            return Err(LogError::NotAssigned(0));
        };
        let config = Arc::clone(&self.log.config);
        let good_for = config.session_timeout.saturating_sub(config.lease_margin());
        if self.is_over() {
            return Err(LogError::NotAssigned(partition));
        }
        let commits = self.lock_commits().await?;
        let proof = commits.proof();
        drop(commits);
        if let Some(lost) = self.consumer.context().lost() {
            return Err(LogError::NotAssigned(lost));
        }
        if let Some(proof) = proof {
            let end = self.lease_end(proof);
            // Less is too little for an insert.
            if end > std::time::Instant::now() + good_for * 2 / 3 {
                return Ok(Lease::Until(end));
            }
        }
        self.serve()?;
        let proof = self.prove(partition).await?;
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
        let (consumer, place) = (Arc::clone(&self.consumer), self.place());
        let revoked = std::mem::take(&mut self.revoked);
        let log = &self.log;
        log.leaving.leave(consumer, &log.config, place, revoked);
    }
}
