//! Stored rows in the shapes of the API.

pub(crate) mod run_detail;

use axum::http::HeaderName;
use axum::http::header::CACHE_CONTROL;
use schemas::run::Run;
use store::reads::filter_sql::Projects;
use store::reads::runs::RunRecord;

use crate::access::is_one;

/// For responses that are true at one time only.
pub(crate) const NO_STORE: [(HeaderName, &str); 1] = [(CACHE_CONTROL, "no-store")];

pub(crate) fn run(record: RunRecord, projects: &Projects, now_ms: i64) -> Run {
    with_project(record.into_run(now_ms), projects)
}

/// Removes the project if the caller reaches only one.
pub(crate) fn with_project(mut run: Run, projects: &Projects) -> Run {
    if is_one(projects) {
        run.project_id = None;
    }
    run
}
