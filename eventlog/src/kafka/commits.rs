//! Commits of one member: one at a time, never backwards, and each a proof of membership.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::errors::{self, Refusal};
use super::offsets::list;
use super::rebalance::Rebalances;
use super::topic::blocking;
use crate::LogError;

/// Pause before a retry during a rebalance.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// How long a commit of an old generation is tried again: the answer with the new one is on its way by then.
const GENERATION_WITHIN: Duration = Duration::from_secs(2);

/// Commits of the partitions of a member, and when the broker last accepted it as a member.
///
/// The lock is held as long as a commit is in flight, even if no caller waits for it any more: so commits keep their
/// order, and at most one thread waits for the broker.
#[derive(Default)]
pub(super) struct Commits {
    marks: BTreeMap<u32, Mark>,
    /// When the last accepted commit was sent.
    proof: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Mark {
    /// The highest offset that was requested.
    wanted: u64,
    /// The offset that the broker has for certain.
    confirmed: u64,
}

/// How often a wait for an answer looks whether the client has lost its partitions meanwhile.
const LOST_WITHIN: Duration = Duration::from_millis(100);

/// Where commits go.
pub(super) struct Target {
    pub(super) consumer: Arc<StreamConsumer<Rebalances>>,
    pub(super) topic: String,
    /// Time-out of a commit.
    pub(super) patience: Duration,
}

/// The commits of one client, shared with the ones in flight. Clones share.
#[derive(Clone, Default)]
pub(super) struct Shared {
    commits: Arc<Mutex<Commits>>,
    /// The broker takes no more commits of this client. Readable while a commit is in flight, and never unset: a new
    /// client has commits of its own.
    is_expelled: Arc<AtomicBool>,
}

impl Shared {
    pub(super) fn is_expelled(&self) -> bool {
        self.is_expelled.load(Ordering::Acquire)
    }

    pub(super) fn expel(&self) {
        self.is_expelled.store(true, Ordering::Release);
    }

    /// Waits until no commit is in flight.
    pub(super) async fn lock(
        &self,
        patience: Duration,
    ) -> Result<OwnedMutexGuard<Commits>, LogError> {
        let lock = Arc::clone(&self.commits).lock_owned();
        let locked = tokio::time::timeout(patience, lock).await;
        locked.map_err(|_| LogError::Unavailable("a commit is on its way".to_owned()))
    }
}

impl Target {
    /// Waits until then, or until the client has lost its partitions: it then joins again only after its owner has heard
    /// of that, and until it has joined, its heartbeats under its name make a broker that is back end it for good.
    async fn answer<T>(
        &self,
        partition: u32,
        until: Instant,
        call: impl Future<Output = T>,
    ) -> Result<T, LogError> {
        let mut call = std::pin::pin!(call);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if let Ok(done) = tokio::time::timeout(left.min(LOST_WITHIN), &mut call).await {
                return Ok(done);
            }
            if self.consumer.assignment_lost() {
                return Err(LogError::NotAssigned(partition));
            }
            if left <= LOST_WITHIN {
                return Err(LogError::Unavailable("commit: no answer".to_owned()));
            }
        }
    }

    /// Waits until no commit is in flight.
    async fn lock(
        &self,
        shared: &Shared,
        partition: u32,
    ) -> Result<OwnedMutexGuard<Commits>, LogError> {
        let lock = Arc::clone(&shared.commits).lock_owned();
        self.answer(partition, Instant::now() + self.patience, lock)
            .await
    }
}

impl Commits {
    pub(super) fn assigned(&mut self, partition: u32, start: u64) {
        let mark = Mark {
            wanted: start,
            confirmed: start,
        };
        self.marks.insert(partition, mark);
    }

    pub(super) fn gone(&mut self, partition: u32) {
        self.marks.remove(&partition);
    }

    pub(super) fn proof(&self) -> Option<Instant> {
        self.proof
    }
}

/// Commits `offset`, or an earlier requested offset if that is higher.
pub(super) async fn commit(
    shared: &Shared,
    target: &Target,
    partition: u32,
    offset: u64,
) -> Result<(), LogError> {
    let mut commits = target.lock(shared, partition).await?;
    let mark = commits.marks.get_mut(&partition);
    let mark = mark.ok_or(LogError::NotAssigned(partition))?;
    mark.wanted = mark.wanted.max(offset);
    if mark.confirmed >= mark.wanted {
        return Ok(());
    }
    send(shared, commits, target, partition).await
}

/// Repeats the last commit: the broker accepts it only from members.
pub(super) async fn prove(
    shared: &Shared,
    target: &Target,
    partition: u32,
) -> Result<Instant, LogError> {
    let guard = target.lock(shared, partition).await?;
    send(shared, guard, target, partition).await?;
    let guard = target.lock(shared, partition).await?;
    guard.proof.ok_or(LogError::NotAssigned(partition))
}

async fn send(
    shared: &Shared,
    mut commits: OwnedMutexGuard<Commits>,
    target: &Target,
    partition: u32,
) -> Result<(), LogError> {
    let began = Instant::now();
    let until = began + target.patience;
    loop {
        let Some(offset) = commits.marks.get(&partition).map(|mark| mark.wanted) else {
            return Err(LogError::NotAssigned(partition));
        };
        let raw = Offset::Offset(super::wire::raw_offset(offset));
        let positions = list(&target.topic, std::iter::once((partition, raw)))?;
        let consumer = Arc::clone(&target.consumer);
        let call = blocking(move || {
            let sent = Instant::now();
            let answer = consumer.commit(&positions, CommitMode::Sync);
            // A commit of a partition that was lost meanwhile may be void.
            let lost = consumer.assignment_lost();
            if answer.is_ok() && !lost {
                if let Some(mark) = commits.marks.get_mut(&partition) {
                    mark.confirmed = mark.confirmed.max(offset);
                }
                commits.proof = Some(sent);
            }
            (commits, answer, lost)
        });
        let (guard, answer, lost) = target.answer(partition, until, call).await??;
        commits = guard;
        let Err(error) = answer else {
            return if lost {
                Err(LogError::NotAssigned(partition))
            } else {
                Ok(())
            };
        };
        let refusal = errors::refusal(&error);
        let again_until = match refusal {
            Refusal::OldGeneration if !lost => until.min(began + GENERATION_WITHIN),
            Refusal::Rebalancing => until,
            _ => began,
        };
        if Instant::now() + AGAIN_AFTER < again_until {
            tokio::time::sleep(AGAIN_AFTER).await;
            continue;
        }
        return Err(match refusal {
            Refusal::NotMember | Refusal::OldGeneration => {
                // In the middle of a rebalance the library takes no notice of such an answer, and would keep
                // partitions whose offsets are not committed.
                if !lost {
                    shared.expel();
                }
                LogError::NotAssigned(partition)
            }
            Refusal::Fenced => LogError::NotAssigned(partition),
            Refusal::Rebalancing | Refusal::Away => errors::away("commit", &error),
        });
    }
}
