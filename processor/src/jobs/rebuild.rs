//! A rebuild (P5): the stored events are folded again, by the processor's own code, into a second table of runs.
//!
//! 1. Everything that is stored, day by day.
//! 2. What was stored meanwhile, again and again until little is left. Folding an event twice changes nothing (P2), so
//!    each time reaches back a little further than it has to.
//! 3. The tables are compared while processing goes on. What differs then may only be on its way.
//! 4. The gate is closed: the rest is folded, what differed or was written since is compared again, and the second
//!    table takes the first one's place. A check leaves that out.
//!
//! A job that is taken up again begins anew: the second table belongs to nobody else, so there is nothing to save from
//! it but time.

mod shadow;

use schemas::job::{DifferentRun, Rebuild as Asked, RebuildReport};
use store::jobs::JobKind;
use store::reads::Cursor;
use store::rebuild::{FoldEvent, Rebuild};

use super::desk::Desk;
use super::{EXCHANGE_TIME, JobError, now_ms};
use shadow::Shadow;

/// How far each time reaches back behind a quiet moment, where this process is the only one that writes: clocks are set
/// back a little now and then.
const OVERLAP_MS: i64 = 1000;
/// The same where others write too: rows say when they were made by the clock of their process. What is reached back
/// over is folded again, at the end with the gate closed, so this is no more than clocks that are set by a time service
/// ever differ.
const SHARED_OVERLAP_MS: i64 = 10_000;
/// Times that what was stored meanwhile is folded before the gate is closed for the rest, and how few events end that
/// earlier.
const CATCH_UPS: usize = 5;
const FEW_EVENTS: u64 = 20_000;
/// Runs that differ and are told by name.
const EXAMPLES: u32 = 20;
/// Bytes of events in one step.
const STEP_BYTES: usize = 16 << 20;

fn overlap_ms(desk: &Desk) -> i64 {
    match desk.parts.gate.is_shared() {
        true => SHARED_OVERLAP_MS,
        false => OVERLAP_MS,
    }
}

pub(super) async fn run(desk: &mut Desk) -> Result<(), JobError> {
    let asked: Asked = desk.parameters()?;
    let tables = desk.parts.store.rebuild(asked.project_id.as_deref());
    let outcome = compare_and_exchange(desk, &tables).await;
    // Whatever came of it, the second table is of no use to anyone. After a failure the next beginning removes it.
    if let Ok(()) | Err(JobError::Gone) = outcome {
        tables.forget().await?;
    }
    outcome
}

async fn compare_and_exchange(desk: &mut Desk, tables: &Rebuild) -> Result<(), JobError> {
    {
        // Whoever had the job before may be asleep in front of the exchange: behind the gate, it finds out first.
        let _closed = desk.parts.gate.close().await;
        tables.prepare().await?;
    }
    let shadow = Shadow::new(&desk.parts).await?;
    let mut since_ms = quiet_moment(desk).await;
    let days = tables.event_days().await?;
    desk.job.done = 0;
    desk.job.total = days.iter().map(|(_, events)| events).sum();
    desk.stand_at(&()).await?;
    for (day, _) in days {
        let events = tables.events_of_day(&day).await?;
        fold(desk, &shadow, events, true).await?;
    }
    for _ in 0..CATCH_UPS {
        let now_ms = quiet_moment(desk).await;
        let events = tables.events_since(since_ms - overlap_ms(desk)).await?;
        since_ms = now_ms;
        if fold(desk, &shadow, events, false).await? < FEW_EVENTS {
            break;
        }
    }
    let compared_ms = quiet_moment(desk).await - overlap_ms(desk);
    tables.compare(None).await?;
    desk.go_on()?;

    let mut closed = desk.parts.gate.close().await;
    let events = tables.events_since(since_ms - overlap_ms(desk)).await?;
    fold(desk, &shadow, events, false).await?;
    let suspects = tables.suspect(compared_ms).await?;
    tables.compare(Some(&suspects)).await?;
    let mut report = RebuildReport::default();
    if desk.job.kind == JobKind::Rebuild {
        report.carried_over = tables.carry_over().await?;
        desk.is_mine().await?;
        if closed.left() < EXCHANGE_TIME {
            return Err(JobError::Opened);
        }
        let exchanged = tables.exchange().await;
        // Whether it worked or not: nothing that is remembered of any run is certain now.
        closed.tables_replaced();
        exchanged?;
    }
    drop(closed);
    if desk.job.kind == JobKind::Rebuild
        && let Err(error) = desk.parts.store.accept_losses().await
    {
        tracing::warn!(error = %error, "losses that were known before the rebuild are told again");
    }
    tell(desk, tables, report).await
}

/// A moment before which everything is stored that began to be.
async fn quiet_moment(desk: &Desk) -> i64 {
    let _closed = desk.parts.gate.close().await;
    now_ms()
}

/// Folds events into the second table; returns how many.
async fn fold(
    desk: &mut Desk,
    shadow: &Shadow,
    mut events: Cursor<FoldEvent>,
    counts: bool,
) -> Result<u64, JobError> {
    let most = usize::try_from(desk.parts.piece_rows).unwrap_or(usize::MAX);
    let mut folded = 0;
    let mut step: Vec<FoldEvent> = Vec::new();
    let mut bytes = 0;
    loop {
        let event = events.next().await?;
        let is_full = step.len() >= most || bytes >= STEP_BYTES;
        if (event.is_none() || is_full) && !step.is_empty() {
            let count = step.len() as u64;
            folded += count;
            let prices = desk.parts.prices.borrow().clone();
            shadow.fold(std::mem::take(&mut step), &prices).await?;
            bytes = 0;
            if counts {
                desk.job.done += count;
                desk.stand_at(&()).await?;
            }
            desk.go_on()?;
        }
        let Some(event) = event else {
            break;
        };
        bytes += event.payload.len();
        step.push(event);
    }
    Ok(folded)
}

/// Writes what was found. Names runs and columns, and nothing that is in them (X2).
async fn tell(
    desk: &mut Desk,
    tables: &Rebuild,
    mut report: RebuildReport,
) -> Result<(), JobError> {
    let found = tables.differences().await?;
    for run in tables.examples(EXAMPLES).await? {
        let columns = match run.kind.as_str() {
            "different" => tables.columns_of(&run).await?,
            _ => Vec::new(),
        };
        report.examples.push(DifferentRun {
            project_id: run.project_id,
            app_id: run.app_id,
            run_id: run.run_id,
            kind: run.kind,
            columns: columns.into_iter().map(str::to_owned).collect(),
        });
    }
    report.missing = found.missing;
    report.extra = found.extra;
    report.different = found.different;
    report.repriced = found.repriced;
    desk.job.changed = found.missing + found.extra + found.different;
    desk.job.total = desk.job.total.max(desk.job.done);
    desk.job.done = desk.job.total;
    desk.job.report = serde_json::to_string(&report)?;
    desk.stand_at(&()).await
}
