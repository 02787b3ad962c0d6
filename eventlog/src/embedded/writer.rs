//! The thread that writes: many appends in one transaction with one sync, all answered.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::commands::{CommitterCommand, Pending, WriterCommand};
use super::ledger::Ledger;
use super::segment::{Entry, Segment};
use super::store::log_error;
use crate::{LogError, Position, StoredRecord};

/// Queued appends; the second bound besides bytes in flight, for many tiny records.
pub(crate) const QUEUE_LEN: usize = 16_384;

pub(crate) struct Writer {
    ledger: Arc<Ledger>,
    commits: mpsc::Sender<CommitterCommand>,
    active: Arc<Segment>,
    /// The active segment had an error and takes no more.
    failed: bool,
    /// The last group failed: logged once, not with every group.
    failing: bool,
    /// By partition, the next offset. Never assigned twice, not even after an error.
    next: Vec<u64>,
}

impl Writer {
    pub(crate) fn new(
        ledger: Arc<Ledger>,
        commits: mpsc::Sender<CommitterCommand>,
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

    /// Runs until every sender is dropped.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<WriterCommand>) {
        let mut group = Vec::new();
        while let Some(command) = queue.blocking_recv() {
            let mut bytes = 0;
            let mut command = Some(command);
            let mut then = None;
            while let Some(next) = command {
                match next {
                    WriterCommand::Append(pending) => {
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
                Some(WriterCommand::Flush(reply)) => {
                    // The receiver may be gone.
                    let _ = reply.send(());
                }
                Some(WriterCommand::Roll) => self.roll_and_trim(),
                Some(WriterCommand::Append(_)) | None => {}
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
                    // The append may have been dropped.
                    let _ = reply.send(Ok(position));
                }
            }
            Err(error) => {
                if !self.failing {
                    self.failing = true;
                    tracing::error!(%error, "cannot append to the log");
                }
                for pending in group.drain(..) {
                    let _ = pending.reply.send(Err(error.duplicate()));
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

    /// Begins another segment when the current one is full or failed.
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
        // If its queue is full, it will do the same soon.
        let _ = self.commits.try_send(CommitterCommand::Tidy);
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
