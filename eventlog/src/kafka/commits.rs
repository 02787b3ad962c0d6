//! Commits of one member: one at a time, never backwards, and each a proof that the member is one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::errors::{self, Refusal};
use super::offsets::list;
use super::rebalance::Rebalances;
use super::topic::blocking;
use crate::LogError;

/// How soon it is tried again while the group is being put together.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What has been committed of the partitions a member has, and when the broker last took it for a member.
///
/// The lock is held as long as a commit is on its way, also when nobody waits for it any more: so commits keep their
/// order, and there is never more than one thread that waits for the broker.
#[derive(Default)]
pub(super) struct Commits {
    marks: BTreeMap<u32, Mark>,
    /// When the last commit that the broker accepted was sent.
    proof: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Mark {
    /// The highest offset anybody asked to commit.
    wanted: u64,
    /// What the broker has for certain.
    confirmed: u64,
}

/// Where commits go.
pub(super) struct Target {
    pub(super) consumer: Arc<StreamConsumer<Rebalances>>,
    pub(super) topic: String,
    /// How long a commit may take.
    pub(super) patience: Duration,
}

/// The commits of one member, shared with what is on its way.
pub(super) type Shared = Arc<Mutex<Commits>>;

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

/// Waits until no commit is on its way.
pub(super) async fn lock(
    commits: &Shared,
    patience: Duration,
) -> Result<OwnedMutexGuard<Commits>, LogError> {
    let locked = tokio::time::timeout(patience, Arc::clone(commits).lock_owned()).await;
    locked.map_err(|_| LogError::Unavailable("a commit is on its way".to_owned()))
}

/// Commits `offset`, or what was asked for before if that is more.
pub(super) async fn commit(
    commits: &Shared,
    target: &Target,
    partition: u32,
    offset: u64,
) -> Result<(), LogError> {
    let mut commits = lock(commits, target.patience).await?;
    let mark = commits.marks.get_mut(&partition);
    let mark = mark.ok_or(LogError::NotAssigned(partition))?;
    mark.wanted = mark.wanted.max(offset);
    if mark.confirmed >= mark.wanted {
        return Ok(());
    }
    send(commits, target, partition).await
}

/// Commits again what is committed: the broker takes that of members only.
pub(super) async fn prove(
    commits: &Shared,
    target: &Target,
    partition: u32,
) -> Result<Instant, LogError> {
    let guard = lock(commits, target.patience).await?;
    send(guard, target, partition).await?;
    let guard = lock(commits, target.patience).await?;
    guard.proof.ok_or(LogError::NotAssigned(partition))
}

async fn send(
    mut commits: OwnedMutexGuard<Commits>,
    target: &Target,
    partition: u32,
) -> Result<(), LogError> {
    let until = Instant::now() + target.patience;
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
            // What was lost meanwhile may have been committed for nobody.
            let lost = consumer.assignment_lost();
            if answer.is_ok() && !lost {
                if let Some(mark) = commits.marks.get_mut(&partition) {
                    mark.confirmed = mark.confirmed.max(offset);
                }
                commits.proof = Some(sent);
            }
            (commits, answer, lost)
        });
        let left = until.saturating_duration_since(Instant::now());
        let (guard, answer, lost) = match tokio::time::timeout(left, call).await {
            Ok(done) => done?,
            Err(_) => return Err(LogError::Unavailable("commit: no answer".to_owned())),
        };
        commits = guard;
        let Err(error) = answer else {
            return if lost {
                Err(LogError::NotAssigned(partition))
            } else {
                Ok(())
            };
        };
        match errors::refusal(&error) {
            Refusal::NotMember => return Err(LogError::NotAssigned(partition)),
            Refusal::Rebalancing if Instant::now() + AGAIN_AFTER < until => {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            Refusal::Rebalancing | Refusal::Away => return Err(errors::away("commit", &error)),
        }
    }
}
