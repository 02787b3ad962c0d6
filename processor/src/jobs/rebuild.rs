//! A rebuild (P5): folds the stored events again, with the processor's own code, into a second table of runs.
//!
//! 1. Fold everything that is stored, day by day.
//! 2. Fold what was stored meanwhile, and repeat until little is left. Folding an event twice changes nothing (P2), so
//!    each pass reaches back a little further than it has to.
//! 3. Compare the tables while processing continues. Differences may be events in flight.
//! 4. Acquire the barrier: fold the rest, compare again what differed or was written since, and exchange the tables. A
//!    check leaves this step out.
//!
//! A job that is taken over begins from the start: no other job uses the second table, so only time is lost.

mod shadow;

use schemas::job::{DifferentRun, Rebuild as Asked, RebuildReport};
use store::Cursor;
use store::jobs::JobKind;
use store::maintenance::rebuild::{FoldEvent, Rebuild};

use super::desk::Desk;
use super::{EXCHANGE_TIME, JobError, now_ms};
use shadow::Shadow;

/// How far each pass reaches back behind a quiet moment where only this process writes: clocks are set back a little
/// now and then.
const OVERLAP_MS: i64 = 1000;
/// How far it reaches back where other processes write too: rows carry the time of their process's clock. The overlap
/// is folded again, at the end under the barrier, so it is no longer than clocks differ that a time service sets.
const SHARED_OVERLAP_MS: i64 = 10_000;
/// Passes over what was stored meanwhile before the barrier is acquired for the rest, and the number of events below
/// which a pass is the last.
const CATCH_UPS: usize = 5;
const FEW_EVENTS: u64 = 20_000;
/// Differing runs that are listed by name.
const EXAMPLES: u32 = 20;
/// Bytes of events in one step.
const STEP_BYTES: usize = 16 << 20;

fn overlap_ms(desk: &Desk) -> i64 {
    match desk.parts.barrier.is_shared() {
        true => SHARED_OVERLAP_MS,
        false => OVERLAP_MS,
    }
}

pub(super) async fn run(desk: &mut Desk) -> Result<(), JobError> {
    let asked: Asked = desk.parameters()?;
    let tables = desk.parts.store.rebuild(asked.project_id.as_deref());
    let outcome = compare_and_exchange(desk, &tables).await;
    // The second table is of no further use. After a failure the next job removes it.
    if let Ok(()) | Err(JobError::Gone) = outcome {
        tables.forget().await?;
    }
    outcome
}

async fn compare_and_exchange(desk: &mut Desk, tables: &Rebuild) -> Result<(), JobError> {
    {
        // The previous runner may be suspended just before the exchange: under the barrier, it notices first.
        let _guard = desk.parts.barrier.acquire().await;
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

    let mut guard = desk.parts.barrier.acquire().await;
    let events = tables.events_since(since_ms - overlap_ms(desk)).await?;
    fold(desk, &shadow, events, false).await?;
    let suspects = tables.suspect(compared_ms).await?;
    tables.compare(Some(&suspects)).await?;
    let mut report = RebuildReport::default();
    if desk.job.kind == JobKind::Rebuild {
        report.carried_over = tables.carry_over().await?;
        desk.is_mine().await?;
        if guard.remaining() < EXCHANGE_TIME {
            return Err(JobError::BarrierExpires);
        }
        let exchanged = tables.exchange().await;
        // Whether the exchange succeeded or not, no cached run is certain now.
        guard.tables_replaced();
        exchanged?;
    }
    drop(guard);
    if desk.job.kind == JobKind::Rebuild
        && let Err(error) = desk.parts.store.accept_losses().await
    {
        tracing::warn!(error = %error, "losses that were known before the rebuild are reported again");
    }
    tell(desk, tables, report).await
}

/// A time before which every row that was made is stored.
async fn quiet_moment(desk: &Desk) -> i64 {
    let _guard = desk.parts.barrier.acquire().await;
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

/// Stores the report, which names runs and columns and contains no content (X2).
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
