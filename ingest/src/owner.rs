//! The project and app of an event.

use schemas::ids::{AppId, ProjectId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// `None` for the project that reports.
    pub(crate) project: Option<ProjectId>,
    pub(crate) app: AppId,
}
