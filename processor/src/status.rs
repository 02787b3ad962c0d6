//! What the processor is doing.

use std::sync::Arc;

use tokio::sync::watch;

/// For the readiness of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Reading the stored runs from the tables.
    Starting,
    /// Processing, or waiting for records.
    Running,
    /// The store is away; records wait in the log.
    Waiting,
    /// Cut off from the control topic; records wait in the log.
    CutOff,
    /// By a signal, or by an error that an operator has to handle.
    Stopped,
}

/// Clones update the same status.
#[derive(Clone)]
pub(crate) struct StatusSender(Arc<watch::Sender<Status>>);

impl StatusSender {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Status::Starting)))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Status> {
        self.0.subscribe()
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.0.borrow() == Status::Running
    }

    pub(crate) fn set(&self, status: Status) {
        self.0.send_replace(status);
    }

    pub(crate) fn set_cut_off(&self, is_cut_off: bool) {
        self.0.send_if_modified(|current| {
            let status = match (is_cut_off, &*current) {
                (true, Status::Running) => Status::CutOff,
                (false, Status::CutOff) => Status::Running,
                _ => return false,
            };
            *current = status;
            true
        });
    }

    pub(crate) fn set_waiting(&self, waiting: bool) {
        let status = if waiting {
            Status::Waiting
        } else {
            Status::Running
        };
        self.0.send_if_modified(|current| {
            let changes = *current != status && *current != Status::Stopped;
            if changes {
                *current = status;
            }
            changes
        });
    }
}
