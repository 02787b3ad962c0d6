//! One step, from records to stored rows: the work of a worker between gathering and committing.

use std::time::Instant;

use eventlog::StoredRecord;
use schemas::ids::ProjectId;
use store::StoreError;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::dead_letter::Poison;
use crate::error::ProcessorError;
use crate::run;
use crate::tables::Rows;

pub mod again;
mod batch;
pub mod counting;
pub mod decode;
pub mod lease;
pub mod lineage;
pub mod rows;
pub mod slices;
pub mod subtree_totals;
mod working;

pub use batch::MicroBatch;
pub use working::{Sources, Working};

#[derive(Debug, Default)]
pub struct Stored {
    pub events: u64,
    /// Accepted events by project, without events that were taken from the tables to be processed again.
    pub accepted: Vec<(ProjectId, u64)>,
    /// What could not be read and has to be dead-lettered.
    pub poison: Vec<Poison>,
    /// Records that were at least partly readable.
    pub good_records: u64,
}

/// Folds the records' events, stores their rows, and updates the caches. After an error some rows may be stored: the
/// same records can be given again at any later time, alone or with others, with [`Sources::assume_partial_writes`].
pub async fn store(
    records: &[StoredRecord],
    sources: Sources<'_>,
    now_ms: i64,
) -> Result<Stored, ProcessorError> {
    let started = Instant::now();
    let MicroBatch {
        scopes,
        lines,
        changes,
        messages,
        feedback,
        starts,
        poison,
        good_records,
        accepted,
        ..
    } = computing(|| MicroBatch::fold(records));
    let working = Working::resolve(&scopes, changes, sources).await?;
    let mut stored = Rows {
        events: lines
            .iter()
            .map(|line| rows::event(line, &scopes, now_ms))
            .collect(),
        messages: messages
            .iter()
            .map(|line| rows::message(line, &scopes))
            .collect(),
        feedback: feedback
            .iter()
            .map(|line| rows::feedback(line, &scopes))
            .collect(),
        instances: starts
            .iter()
            .map(|line| rows::instance(line, &scopes))
            .collect(),
        ..Rows::default()
    };
    for (node, scope) in working.changed() {
        let rows = run::rows(node, scope, now_ms);
        // A run that moved to another parent took its totals with it, and a run that lost its links may have counted
        // others. Once that is stored, they are no longer known, so the other rows are stored first.
        if working.is_cause(node) {
            stored.causes.extend(rows);
        } else {
            stored.runs.extend(rows);
        }
    }
    sources
        .metrics
        .fold_seconds
        .observe(started.elapsed().as_secs_f64());
    working.storing(sources);
    // Before any row is stored: once a run is stored below another parent, nothing tells what was above it.
    let rest = working.rest(now_ms);
    if !rest.is_empty() {
        sources.metrics.slices.inc_by(rest.len() as u64);
        sources.continuations.append(rest).await?;
    }
    loop {
        stored.expires = sources.lease.expires().await?;
        match sources.tables.insert(&stored).await {
            // Too late, but nothing was lost meanwhile, or the lease would report it: the rows are still valid.
            Err(StoreError::Fenced) => {}
            Err(error @ StoreError::Refused { .. }) => return Err(ProcessorError::Rejected(error)),
            outcome => break outcome?,
        }
    }
    let run_rows = stored.runs.len() + stored.causes.len();
    sources.metrics.run_rows.inc_by(run_rows as u64);
    let events = stored.events.len() as u64;
    drop(stored);
    working.stored(sources);
    Ok(Stored {
        events,
        accepted: scopes
            .iter()
            .map(|scope| scope.project.clone())
            .zip(accepted)
            .collect(),
        poison,
        good_records,
    })
}

/// Runs a long computation. A runtime of several threads moves its other tasks to another thread meanwhile.
fn computing<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
