//! The durable log in a folder of this machine.
//!
//! Records are rows of *segments*: files of an embedded store (redb), each a range of the log of all partitions. One
//! thread takes all queued appends, writes them in one transaction with one `fdatasync`, and answers them together. A
//! second thread does the same for commits (one more store file) and removes whole segments that every known group has
//! committed past. A third reads back what is no longer in the bounded tail in memory.
//! `docs/decisions/0001-embedded-log.md` has the layout and the reasons.
//!
//! # After an error
//!
//! A failed write or sync is never answered as success. The affected segment takes no more records: it is opened again,
//! for reading, at its last complete commit (rewritten first if a sync failed, because the page cache may then differ
//! from the disk), and the next append begins another segment. Offsets of failed appends are not assigned again. So a
//! full or read-only disk needs no restart: appends fail with [`LogError::Full`] or [`LogError::Unavailable`] until it
//! takes writes again.
//!
//! # Known limits
//!
//! A member that never calls `next` again keeps its partitions until it is dropped. A registered group that never
//! returns holds the log until [`EmbeddedLog::forget`]. Dropping the last handle waits for the threads (for one write
//! at most).

mod commands;
mod committer;
mod config;
mod cursors;
mod disk;
mod frame;
mod gaps;
mod ledger;
mod metrics;
mod opening;
mod segment;
mod store;
mod tail;
mod writer;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use prometheus::Registry;
use tokio::sync::{mpsc, oneshot, watch};

pub use config::EmbeddedConfig;
pub use disk::Disk;
pub use gaps::Loss;

use crate::groups::Groups;
use crate::member::{GroupMember, Source};
use crate::scan::Scan;
use crate::{
    Bounds, GroupState, Inventory, Lag, Log, LogError, Member, Position, Reader, Record,
    StoredRecord, partition_of,
};
use commands::{CommitterCommand, Pending, Reply, WriterCommand};
use committer::Committer;
use cursors::Cursors;
use ledger::Ledger;
use metrics::Metrics;
use store::Surroundings;
use writer::Writer;

/// Queued reads from files. A member has one at a time.
const READ_QUEUE_LEN: usize = 256;

/// The durable log. Clones are the same log; the folder is unlocked when the last clone and the last member are
/// dropped.
#[derive(Clone)]
pub struct EmbeddedLog {
    shared: Arc<Shared>,
}

struct Shared {
    ledger: Arc<Ledger>,
    groups: Groups,
    senders: Option<Senders>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Senders {
    appends: mpsc::Sender<WriterCommand>,
    commits: mpsc::Sender<CommitterCommand>,
    reads: mpsc::Sender<ReadRequest>,
}

struct ReadRequest {
    from: Position,
    max_bytes: usize,
    reply: oneshot::Sender<Result<Vec<StoredRecord>, LogError>>,
}

impl EmbeddedLog {
    /// Opens or creates the log. Blocks on the disk for tens of milliseconds: not for an async task. After a crash each
    /// file is restored to its last complete commit.
    pub fn open(config: EmbeddedConfig, registry: &Registry) -> Result<Self, LogError> {
        config.check()?;
        let folder = disk::Folder::lock(&config.folder)?;
        Self::open_on(config, Arc::new(folder), registry)
    }

    /// Opens the log on another kind of disk, for tests that cut the power or fill the disk. The folder in the settings
    /// is ignored, and nothing is locked.
    pub fn open_on(
        config: EmbeddedConfig,
        disk: Arc<dyn Disk>,
        registry: &Registry,
    ) -> Result<Self, LogError> {
        config.check()?;
        let around = Surroundings {
            disk,
            metrics: Metrics::new(registry)?,
            cache_bytes: config.page_cache_bytes,
        };
        let (cursors, committed) = Cursors::open(around.clone(), config.partitions)?;
        let opened = opening::open_segments(&around, &config, &committed, cursors.noted())?;
        let Some(active) = opened.segments.last().map(Arc::clone) else {
            return Err(LogError::Damaged("no segment".to_owned()));
        };
        let changed = watch::Sender::new(0);
        let groups = Groups::new(config.partitions, changed.clone());
        let ledger = Arc::new(Ledger::new(config, around, opened, committed, changed));
        ledger.trim();
        ledger.close_idle();

        let (appends, append_queue) = mpsc::channel(writer::QUEUE_LEN);
        let (commits, commit_queue) = mpsc::channel(committer::QUEUE_LEN);
        let (reads, read_queue) = mpsc::channel(READ_QUEUE_LEN);
        let writer = Writer::new(Arc::clone(&ledger), commits.clone(), active);
        let committer = Committer::new(Arc::clone(&ledger), cursors, appends.downgrade());
        let reader = Arc::clone(&ledger);
        let threads = vec![
            spawn("eventlog-write", move || writer.run(append_queue))?,
            spawn("eventlog-commit", move || committer.run(commit_queue))?,
            spawn("eventlog-read", move || read_loop(&reader, read_queue))?,
        ];
        // The bound may have been lowered since, or the process killed before it could roll.
        let _ = commits.try_send(CommitterCommand::Tidy);
        Ok(EmbeddedLog {
            shared: Arc::new(Shared {
                ledger,
                groups,
                senders: Some(Senders {
                    appends,
                    commits,
                    reads,
                }),
                threads: Mutex::new(threads),
            }),
        })
    }

    /// Removes a group and its commits, so that it no longer prevents trimming.
    pub async fn forget(&self, group: &str) -> Result<(), LogError> {
        let group = group.to_owned();
        let command = |reply| CommitterCommand::Forget(group, reply);
        self.shared.ask_committer(command).await
    }

    /// Records that were accepted, not processed, and missing when the log was opened.
    pub fn losses(&self) -> &[Loss] {
        &self.shared.ledger.losses
    }

    /// The groups that the log keeps records for.
    pub fn groups(&self) -> Vec<String> {
        self.shared.ledger.group_names()
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, LogError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| LogError::Unavailable(format!("cannot start a thread: {error}")))
}

fn read_loop(ledger: &Ledger, mut queue: mpsc::Receiver<ReadRequest>) {
    while let Some(request) = queue.blocking_recv() {
        let result = ledger.read_files(request.from, request.max_bytes);
        // The `next` may have been dropped.
        let _ = request.reply.send(result);
    }
}

impl Shared {
    fn senders(&self) -> Result<&Senders, LogError> {
        // Present until the drop.
        self.senders.as_ref().ok_or(LogError::Closed)
    }

    async fn ask_committer(
        &self,
        command: impl FnOnce(Reply) -> CommitterCommand,
    ) -> Result<(), LogError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.senders()?.commits.send(command(reply)).await;
        sent.map_err(|_| gone("commit"))?;
        answer.await.map_err(|_| gone("commit"))?
    }
}

fn gone(what: &str) -> LogError {
    LogError::Unavailable(format!("the {what} thread has ended"))
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.senders = None;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the log panicked");
            }
        }
    }
}

#[async_trait]
impl Log for EmbeddedLog {
    async fn append(&self, record: Record) -> Result<Position, LogError> {
        let partition = partition_of(&record.key, self.partitions());
        self.append_to(partition, record).await
    }

    async fn append_to(&self, partition: u32, record: Record) -> Result<Position, LogError> {
        let ledger = &self.shared.ledger;
        if partition >= self.partitions() {
            return Err(LogError::Settings(format!("no partition {partition}")));
        }
        let metrics = &ledger.around.metrics;
        if ledger.closed.load(Ordering::Acquire) {
            return Err(metrics.refuse(LogError::Closed));
        }
        let frame_len = frame::frame_len(&record).map_err(|error| metrics.refuse(error))?;
        let limit = ledger.config.max_record_bytes;
        if frame_len > limit {
            return Err(metrics.refuse(LogError::TooLarge {
                bytes: frame_len,
                limit,
            }));
        }
        let permit = ledger
            .reserve(frame_len, frame::disk_len(frame_len))
            .map_err(|error| metrics.refuse(error))?;
        let (reply, answer) = oneshot::channel();
        let pending = Pending {
            partition,
            record,
            frame_len,
            reply,
            permit,
        };
        let sent = self
            .shared
            .senders()?
            .appends
            .try_send(WriterCommand::Append(pending));
        match sent {
            Ok(()) => answer.await.map_err(|_| gone("write"))?,
            Err(mpsc::error::TrySendError::Full(_)) => Err(metrics.refuse(LogError::Full(
                format!("{} records wait to be written", writer::QUEUE_LEN),
            ))),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(gone("write")),
        }
    }

    async fn join(&self, group: &str) -> Result<Box<dyn Member>, LogError> {
        if !self.shared.ledger.knows(group) {
            let name = group.to_owned();
            let command = |reply| CommitterCommand::Register(name, reply);
            self.shared.ask_committer(command).await?;
        }
        let member = GroupMember::new(Arc::clone(&self.shared), group);
        self.shared.count_members(group);
        Ok(Box::new(member))
    }

    async fn lag(&self, group: &str) -> Result<Vec<Lag>, LogError> {
        let ledger = &self.shared.ledger;
        let lag = (0..ledger.config.partitions).map(|partition| Lag {
            partition,
            committed: ledger.committed(group, partition),
            end: ledger.end(partition),
        });
        Ok(lag.collect())
    }

    async fn group_state(&self, group: &str) -> Result<GroupState, LogError> {
        Ok(self.shared.groups().state(group))
    }

    async fn reader(&self, from: Vec<Position>) -> Result<Box<dyn Reader>, LogError> {
        Ok(Box::new(Scan::new(Arc::clone(&self.shared), from)))
    }

    async fn bounds(&self) -> Result<Vec<Bounds>, LogError> {
        let ledger = &self.shared.ledger;
        let bounds = (0..self.partitions()).map(|partition| Bounds {
            partition,
            begin: ledger.oldest(partition),
            end: ledger.end(partition),
        });
        Ok(bounds.collect())
    }

    async fn inventory(&self) -> Result<Inventory, LogError> {
        let ledger = &self.shared.ledger;
        let held = ledger.disk_bytes.load(Ordering::Acquire);
        Ok(Inventory {
            brokers: 1,
            topics: 1,
            bytes: Some((held, ledger.config.max_bytes)),
        })
    }

    fn partitions(&self) -> u32 {
        self.shared.ledger.config.partitions
    }

    fn topic(&self) -> &str {
        "events"
    }

    fn max_record_bytes(&self) -> usize {
        self.shared.ledger.config.max_record_bytes
    }

    async fn close(&self) {
        let ledger = &self.shared.ledger;
        ledger.closed.store(true, Ordering::Release);
        let Ok(senders) = self.shared.senders() else {
            return;
        };
        let (reply, answer) = oneshot::channel();
        if senders
            .appends
            .send(WriterCommand::Flush(reply))
            .await
            .is_ok()
        {
            // On an error the thread has ended: nothing is in flight any more.
            let _ = answer.await;
        }
        let _ = self.shared.ask_committer(CommitterCommand::Close).await;
    }
}

impl Shared {
    fn count_members(&self, group: &str) {
        self.ledger.set_members(group, self.groups.members(group));
    }
}

#[async_trait]
impl Source for Shared {
    fn groups(&self) -> &Groups {
        &self.groups
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.ledger.changed.subscribe()
    }

    fn committed(&self, group: &str, partition: u32) -> u64 {
        self.ledger.committed(group, partition)
    }

    async fn read(
        &self,
        _group: &str,
        from: Position,
        max_bytes: usize,
    ) -> Result<Vec<StoredRecord>, LogError> {
        if let Some(records) = self.ledger.read_tail(from, max_bytes) {
            return Ok(records);
        }
        let (reply, answer) = oneshot::channel();
        let request = ReadRequest {
            from,
            max_bytes,
            reply,
        };
        let sent = self.senders()?.reads.send(request).await;
        sent.map_err(|_| gone("read"))?;
        answer.await.map_err(|_| gone("read"))?
    }

    fn delivered(&self, group: &str, next: Position) {
        self.ledger.delivered(group, next);
    }

    async fn commit(&self, group: &str, next: Position) -> Result<(), LogError> {
        let group = group.to_owned();
        self.ask_committer(|reply| CommitterCommand::Commit(group, next, reply))
            .await
    }

    fn left(&self, group: &str) {
        self.count_members(group);
    }
}
