//! Commands to the writer and the committer, from the log and from each other.

use tokio::sync::oneshot;

use super::ledger::Permit;
use crate::{LogError, Position, Record};

pub(crate) enum WriterCommand {
    Append(Pending),
    /// Begin another segment if the current one is complete, and trim.
    Roll,
    /// Answer when every earlier command is done.
    Flush(oneshot::Sender<()>),
}

/// A record with its unanswered append.
pub(crate) struct Pending {
    pub(crate) record: Record,
    pub(crate) partition: u32,
    pub(crate) frame_len: usize,
    pub(crate) reply: oneshot::Sender<Result<Position, LogError>>,
    pub(crate) permit: Permit,
}

pub(crate) type Reply = oneshot::Sender<Result<(), LogError>>;

pub(crate) enum CommitterCommand {
    Commit(String, Position, Reply),
    /// Begin this group at the oldest record.
    Register(String, Reply),
    Forget(String, Reply),
    /// Close idle files and trim.
    Tidy,
    /// Nothing is appended any more: store where the log ends, and answer when every earlier command is done.
    Close(Reply),
}
