//! The thread that makes commits durable, many in one transaction, and removes what nobody needs any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::cursors::{Cursors, Update};
use super::ledger::Ledger;
use super::writer::{self, again};
use crate::{LogError, Position};

/// Commits that may wait. Members await their commit, so this is about the number of members.
pub(crate) const QUEUE_LEN: usize = 1024;

/// Answer to a command.
pub(crate) type Reply = oneshot::Sender<Result<(), LogError>>;

/// What the committer is asked.
pub(crate) enum Command {
    /// The group wants this position next.
    Commit(String, Position, Reply),
    /// Begin this group at the oldest record.
    Register(String, Reply),
    /// Forget this group and its commits.
    Forget(String, Reply),
    /// Close idle files and trim.
    Tidy,
    /// Nothing is appended any more: note where the log ends, and answer when everything before this is done.
    Close(Reply),
}

/// The state of the thread.
pub(crate) struct Committer {
    ledger: Arc<Ledger>,
    cursors: Cursors,
    appends: mpsc::WeakSender<writer::Command>,
}

impl Committer {
    pub(crate) fn new(
        ledger: Arc<Ledger>,
        cursors: Cursors,
        appends: mpsc::WeakSender<writer::Command>,
    ) -> Self {
        Committer {
            ledger,
            cursors,
            appends,
        }
    }

    /// Runs until every sender is gone.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<Command>) {
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
                // If its queue is full, the next commit asks again.
                let _ = appends.try_send(writer::Command::Roll);
            }
        }
    }

    fn handle(&mut self, commands: &mut Vec<Command>) {
        let mut commits: BTreeMap<(String, u32), u64> = BTreeMap::new();
        let mut replies = Vec::new();
        for command in commands.drain(..) {
            match command {
                Command::Commit(group, next, reply) => {
                    let offset = commits.entry((group, next.partition)).or_insert(0);
                    *offset = (*offset).max(next.offset);
                    replies.push(reply);
                }
                Command::Close(reply) => {
                    self.cursors.note_ended(self.ledger.ends());
                    replies.push(reply);
                }
                Command::Tidy => {}
                Command::Register(group, reply) => {
                    self.flush(&mut commits, &mut replies);
                    let _ = reply.send(self.register(&group));
                }
                Command::Forget(group, reply) => {
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

    /// Makes the commits durable and answers.
    fn flush(&self, commits: &mut BTreeMap<(String, u32), u64>, replies: &mut Vec<Reply>) {
        let mut updates: BTreeMap<String, Vec<Position>> = BTreeMap::new();
        for ((group, partition), offset) in std::mem::take(commits) {
            // Never backwards, and never beyond what there is.
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
            // A dropped commit: nobody wants to know.
            let _ = reply.send(done.as_ref().map_err(again).copied());
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
