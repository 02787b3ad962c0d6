//! One step: from records to stored rows. What the worker does between gathering and committing.

use std::time::Instant;

use eventlog::StoredRecord;
use schemas::ids::ProjectId;
use store::StoreError;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::batch::{MicroBatch, Sources, Working};
use crate::decode::Poison;
use crate::tables::Rows;
use crate::{ProcessorError, rows};

/// What became of some records.
#[derive(Debug, Default)]
pub struct Stored {
    /// Events whose rows are stored.
    pub events: u64,
    /// The accepted ones among them by project: without those that were taken from the tables to be processed again.
    pub accepted: Vec<(ProjectId, u64)>,
    /// What could not be read and has to go to the dead letters.
    pub poison: Vec<Poison>,
    /// Records of which something could be read.
    pub good_records: u64,
}

/// Folds the records' events, stores their rows, and lets the caches follow. After an error nothing is known to be
/// stored, and some may be: the same records can be given again, with care ([`Sources::careful`]), and with others, at
/// any later time.
pub async fn store(
    records: &[StoredRecord],
    sources: Sources<'_>,
    now_ms: i64,
) -> Result<Stored, ProcessorError> {
    let started = Instant::now();
    let MicroBatch {
        scopes,
        lines,
        deltas,
        repriced,
        resumed,
        messages,
        feedback,
        starts,
        poison,
        good_records,
        accepted,
        ..
    } = computing(|| MicroBatch::fold(records));
    let working = Working::settle(&scopes, (deltas, repriced, resumed), sources).await?;
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
        let rows = rows::run(node, scope, now_ms);
        // A run that hangs below another parent than before took its figures with it. Once that is stored, nobody
        // could tell any more whom they were taken from: so the others first.
        if working.is_rewired(node) {
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
    // Before any row is stored: once a run hangs below another parent, nothing tells what was above it.
    let rest = working.rest(now_ms);
    if !rest.is_empty() {
        sources.metrics.slices.inc_by(rest.len() as u64);
        sources.later.put(rest).await?;
    }
    loop {
        stored.until = sources.fence.until().await?;
        match sources.tables.insert(&stored).await {
            // Too late, but nothing was lost meanwhile, or the fence would say so: the rows are as good as before.
            Err(StoreError::Fenced) => {}
            Err(error @ StoreError::Refused { .. }) => return Err(ProcessorError::Refused(error)),
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

/// Runs a long stretch of computing. On a runtime of several threads its other tasks move to another one meanwhile.
fn computing<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
