//! The thread that writes: many appends, one transaction, one sync, all answered.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::committer;
use super::ledger::{Ledger, Permit};
use super::segment::{Entry, Segment};
use super::store::log_error;
use crate::{LogError, Position, Record, StoredRecord};

/// Appends that may wait for the writer; with the bound on bytes in flight this is the second bound, for many tiny
/// records.
pub(crate) const QUEUE_LEN: usize = 16_384;

/// What the writer is asked.
pub(crate) enum Command {
    /// Keep this record.
    Append(Pending),
    /// Begin another segment if the present one is done with, and trim.
    Roll,
    /// Answer when everything before this is done.
    Flush(oneshot::Sender<()>),
}

/// A record whose append waits for its answer.
pub(crate) struct Pending {
    pub(crate) record: Record,
    pub(crate) partition: u32,
    pub(crate) frame_len: usize,
    pub(crate) reply: oneshot::Sender<Result<Position, LogError>>,
    pub(crate) permit: Permit,
}

/// The state of the thread.
pub(crate) struct Writer {
    ledger: Arc<Ledger>,
    commits: mpsc::Sender<committer::Command>,
    active: Arc<Segment>,
    /// The active segment had an error and takes no more.
    failed: bool,
    /// The last group failed: said once, not with every group.
    failing: bool,
    /// Next offset to give, per partition. Never given twice, not even after an error.
    next: Vec<u64>,
}

impl Writer {
    pub(crate) fn new(
        ledger: Arc<Ledger>,
        commits: mpsc::Sender<committer::Command>,
        active: Arc<Segment>,
    ) -> Self {
        Writer {
            next: active.ends(),
            ledger,
            commits,
            active,
            failed: false,
            failing: false,
        }
    }

    /// Runs until every sender is gone.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        let mut group = Vec::new();
        while let Some(command) = queue.blocking_recv() {
            let mut bytes = 0;
            let mut command = Some(command);
            let mut then = None;
            while let Some(next) = command {
                match next {
                    Command::Append(pending) => {
                        bytes += pending.frame_len;
                        group.push(pending);
                    }
                    other => {
                        then = Some(other);
                        break;
                    }
                }
                if bytes >= self.ledger.config.max_group_bytes {
                    break;
                }
                command = queue.try_recv().ok();
            }
            self.write(&mut group);
            match then {
                Some(Command::Flush(reply)) => {
                    // Whoever asked may be gone.
                    let _ = reply.send(());
                }
                Some(Command::Roll) => self.roll_and_trim(),
                Some(Command::Append(_)) | None => {}
            }
        }
    }

    fn write(&mut self, group: &mut Vec<Pending>) {
        if group.is_empty() {
            return;
        }
        let result = match self.make_room() {
            Ok(()) => self.write_group(group),
            Err(error) => Err(error),
        };
        let metrics = &self.ledger.around.metrics;
        match result {
            Ok(positions) => {
                if self.failing {
                    self.failing = false;
                    tracing::info!("appending to the log again");
                }
                let bytes: usize = group.iter().map(|p| p.record.payload.len()).sum();
                metrics.appended_records.inc_by(group.len() as u64);
                metrics.appended_bytes.inc_by(bytes as u64);
                metrics.group_records.observe(group.len() as f64);
                let mut replies = Vec::with_capacity(group.len());
                let stored = group.drain(..).zip(positions).map(|(pending, position)| {
                    replies.push((pending.reply, position, pending.permit));
                    StoredRecord {
                        position,
                        record: pending.record,
                    }
                });
                let stored: Vec<StoredRecord> = stored.collect();
                self.ledger.publish(&self.next, stored.into_iter());
                for (reply, position, permit) in replies {
                    drop(permit);
                    // A dropped append: nobody wants to know.
                    let _ = reply.send(Ok(position));
                }
            }
            Err(error) => {
                if !self.failing {
                    self.failing = true;
                    tracing::error!(%error, "cannot append to the log");
                }
                for pending in group.drain(..) {
                    let _ = pending.reply.send(Err(again(&error)));
                }
            }
        }
    }

    fn write_group(&mut self, group: &[Pending]) -> Result<Vec<Position>, LogError> {
        let entries: Vec<Entry<'_>> = group
            .iter()
            .map(|pending| {
                let next = &mut self.next[pending.partition as usize];
                let offset = *next;
                *next += 1;
                Entry {
                    position: Position {
                        partition: pending.partition,
                        offset,
                    },
                    record: &pending.record,
                    frame_len: pending.frame_len,
                }
            })
            .collect();
        match self.active.append(&entries) {
            Ok(()) => Ok(entries.iter().map(|entry| entry.position).collect()),
            Err(error) => {
                self.failed = true;
                Err(log_error(error))
            }
        }
    }

    /// Begins another segment when the present one is full or failed.
    fn make_room(&mut self) -> Result<(), LogError> {
        if self.failed || self.active.bytes() >= self.ledger.config.segment_limit() {
            self.roll()?;
        }
        Ok(())
    }

    fn roll(&mut self) -> Result<(), LogError> {
        let id = self.active.id + 1;
        let (next, ended) = (self.next.clone(), self.active.ends());
        let segment = Segment::create(self.ledger.around.clone(), id, next, ended)?;
        self.active = Arc::new(segment);
        self.failed = false;
        self.ledger.add_segment(Arc::clone(&self.active));
        // If its queue is full, it has the same to do soon anyway.
        let _ = self.commits.try_send(committer::Command::Tidy);
        Ok(())
    }

    fn roll_and_trim(&mut self) {
        if !self.ledger.wants_roll() {
            return;
        }
        match self.roll() {
            Ok(()) => self.ledger.trim(),
            Err(error) => tracing::warn!(%error, "cannot begin another segment"),
        }
    }
}

/// The same error once more: every append of a failed group gets it.
pub(crate) fn again(error: &LogError) -> LogError {
    match error {
        LogError::Full(what) => LogError::Full(what.clone()),
        LogError::Damaged(what) => LogError::Damaged(what.clone()),
        LogError::Settings(what) => LogError::Settings(what.clone()),
        LogError::Closed => LogError::Closed,
        LogError::NotAssigned(partition) => LogError::NotAssigned(*partition),
        LogError::TooLarge { bytes, limit } => LogError::TooLarge {
            bytes: *bytes,
            limit: *limit,
        },
        LogError::Unavailable(what) => LogError::Unavailable(what.clone()),
    }
}
