//! Group commit: starts that come while an insert is under way are stored by the next one, all together.
//!
//! An insert that is durable takes as long for a row as for a thousand. One task inserts; it takes everything that
//! waits each time, so under load the groups grow by themselves, and alone a start waits for nobody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::{InstanceRecord, InstanceRow};
use crate::client::Store;
use crate::error::StoreError;

/// Starts that wait: two seconds' worth at ten times the load this is made for. More are refused (X1).
pub const WAITING_MAX: usize = 10_000;
/// Bytes of their inputs: as many as four of the largest groups (X1).
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of one group: an insert of them takes some tenths of a second.
const GROUP_BYTES: usize = 16 << 20;
/// Rows of one group.
const GROUP_ROWS: usize = 2_000;
/// Bytes of a row beside its input.
const ROW_BYTES: usize = 1 << 10;

/// A start that waits, and who waits for it.
struct Waiting {
    instance: InstanceRecord,
    /// After this moment it must not be stored any more.
    until: Option<Instant>,
    done: oneshot::Sender<Result<(), Arc<StoreError>>>,
    /// Gives its bytes free again.
    _bytes: tokio::sync::OwnedSemaphorePermit,
}

/// The way to the task that inserts. The task ends when the last of these is dropped.
pub(super) struct Commits {
    waiting: mpsc::Sender<Waiting>,
    bytes: Arc<tokio::sync::Semaphore>,
}

impl Commits {
    /// Starts the task; has to be called inside of a runtime.
    pub(super) fn start(store: Store) -> Self {
        let (waiting, received) = mpsc::channel(WAITING_MAX);
        tokio::spawn(run(store, received));
        Self {
            waiting,
            bytes: Arc::new(tokio::sync::Semaphore::new(WAITING_BYTES_MAX)),
        }
    }

    /// Stores an instance together with whatever waits; it is durable when this returns. After `until` it is not
    /// stored any more, however late its bytes arrive.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] at once when too many wait. After any other error it may be stored all the same.
    pub(super) async fn put(
        &self,
        instance: InstanceRecord,
        until: Option<Instant>,
    ) -> Result<(), Arc<StoreError>> {
        let size = u32::try_from(size_of(&instance)).unwrap_or(u32::MAX);
        let full = || {
            Arc::new(StoreError::Overloaded {
                code: 0,
                message: "too many starts of processes wait to be stored".to_owned(),
            })
        };
        let permit = self.bytes.clone().try_acquire_many_owned(size);
        let (done, answer) = oneshot::channel();
        let waiting = Waiting {
            instance,
            until,
            done,
            _bytes: permit.map_err(|_| full())?,
        };
        self.waiting.try_send(waiting).map_err(|_| full())?;
        let ended = || StoreError::Unavailable("storing instances ended".to_owned());
        answer.await.unwrap_or_else(|_| Err(Arc::new(ended())))
    }
}

fn size_of(instance: &InstanceRecord) -> usize {
    instance.input.len() + instance.tokens.len() + ROW_BYTES
}

async fn run(store: Store, mut received: mpsc::Receiver<Waiting>) {
    while let Some(first) = received.recv().await {
        let mut bytes = size_of(&first.instance);
        let mut group = vec![first];
        while group.len() < GROUP_ROWS && bytes < GROUP_BYTES {
            let Ok(next) = received.try_recv() else {
                break;
            };
            bytes += size_of(&next.instance);
            group.push(next);
        }
        let outcome = insert(&store, &group).await.map_err(Arc::new);
        for waiting in group {
            // Whoever waited may be gone.
            let _ = waiting.done.send(outcome.clone());
        }
    }
}

async fn insert(store: &Store, group: &[Waiting]) -> Result<(), StoreError> {
    let until = group.iter().filter_map(|waiting| waiting.until).min();
    let version = super::now_micros();
    let rows = group
        .iter()
        .map(|waiting| waiting.instance.row(version))
        .collect::<Vec<InstanceRow<'_>>>();
    let store = store.with_deadline(until);
    let inserted = store.insert::<InstanceRow<'_>, _>(rows.iter());
    // The client's own time-outs are per chunk; this one is over all, so that the queue moves on.
    let limit = store.config.insert_timeout + Duration::from_secs(2);
    match tokio::time::timeout(limit, inserted).await {
        Ok(inserted) => inserted.map(|_| ()),
        Err(_) => Err(StoreError::TimedOut(limit)),
    }
}
