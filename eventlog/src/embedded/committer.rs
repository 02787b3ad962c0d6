//! The thread that makes commits durable, many in one transaction, and removes segments that no group needs any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::commands::{CommitterCommand, Reply, WriterCommand};
use super::cursors::{Cursors, Update};
use super::ledger::Ledger;
use crate::{LogError, Position};

/// Queued commits. Members await their commit, so this is about the number of members.
pub(crate) const QUEUE_LEN: usize = 1024;

pub(crate) struct Committer {
    ledger: Arc<Ledger>,
    cursors: Cursors,
    appends: mpsc::WeakSender<WriterCommand>,
}

impl Committer {
    pub(crate) fn new(
        ledger: Arc<Ledger>,
        cursors: Cursors,
        appends: mpsc::WeakSender<WriterCommand>,
    ) -> Self {
        Committer {
            ledger,
            cursors,
            appends,
        }
    }

    /// Runs until every sender is dropped.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<CommitterCommand>) {
        let mut commands = Vec::new();
        self.cursors.note_open();
        loop {
            if queue.blocking_recv_many(&mut commands, QUEUE_LEN) == 0 {
                return;
            }
            self.handle(&mut commands);
            if let Some(newest) = self.ledger.newest_segment() {
                self.cursors.note_newest(newest);
            }
            self.cursors.heal();
            self.ledger.trim();
            self.ledger.close_idle();
            if self.ledger.wants_roll()
                && let Some(appends) = self.appends.upgrade()
            {
                // If its queue is full, the next commit tries again.
                let _ = appends.try_send(WriterCommand::Roll);
            }
        }
    }

    fn handle(&mut self, commands: &mut Vec<CommitterCommand>) {
        let mut commits: BTreeMap<(String, u32), u64> = BTreeMap::new();
        let mut replies = Vec::new();
        for command in commands.drain(..) {
            match command {
                CommitterCommand::Commit(group, next, reply) => {
                    let offset = commits.entry((group, next.partition)).or_insert(0);
                    *offset = (*offset).max(next.offset);
                    replies.push(reply);
                }
                CommitterCommand::Close(reply) => {
                    self.cursors.note_ended(self.ledger.ends());
                    replies.push(reply);
                }
                CommitterCommand::Tidy => {}
                CommitterCommand::Register(group, reply) => {
                    self.flush(&mut commits, &mut replies);
                    let _ = reply.send(self.register(&group));
                }
                CommitterCommand::Forget(group, reply) => {
                    self.flush(&mut commits, &mut replies);
                    let done = self.cursors.write(&[Update::Forget(group.clone())]);
                    if done.is_ok() {
                        self.ledger.forget_group(&group);
                    }
                    let _ = reply.send(done);
                }
            }
        }
        self.flush(&mut commits, &mut replies);
    }

    fn flush(&self, commits: &mut BTreeMap<(String, u32), u64>, replies: &mut Vec<Reply>) {
        let mut updates: BTreeMap<String, Vec<Position>> = BTreeMap::new();
        for ((group, partition), offset) in std::mem::take(commits) {
            // Never backwards, and never beyond the end.
            let offset = offset.min(self.ledger.end(partition));
            if self.ledger.knows(&group) && offset > self.ledger.committed(&group, partition) {
                updates
                    .entry(group)
                    .or_default()
                    .push(Position { partition, offset });
            }
        }
        let updates: Vec<Update> = updates
            .into_iter()
            .map(|(group, positions)| Update::Set(group, positions))
            .collect();
        let done = if updates.is_empty() {
            Ok(())
        } else {
            self.cursors.write(&updates)
        };
        if done.is_ok() {
            for update in &updates {
                if let Update::Set(group, positions) = update {
                    for next in positions {
                        self.ledger.set_committed(group, *next);
                    }
                }
            }
        }
        for reply in replies.drain(..) {
            // The commit may have been dropped.
            let _ = reply.send(done.as_ref().map_err(LogError::duplicate).copied());
        }
    }

    fn register(&self, group: &str) -> Result<(), LogError> {
        if self.ledger.knows(group) {
            return Ok(());
        }
        let oldest: Vec<u64> = (0..self.ledger.config.partitions)
            .map(|partition| self.ledger.oldest(partition))
            .collect();
        let positions = (0u32..).zip(&oldest).map(|(partition, offset)| Position {
            partition,
            offset: *offset,
        });
        let update = Update::Set(group.to_owned(), positions.collect());
        self.cursors.write(&[update])?;
        self.ledger.set_group(group, oldest);
        Ok(())
    }
}
