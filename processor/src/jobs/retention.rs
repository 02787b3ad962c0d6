//! Retention (S1): drops whole days of data older than the limit of their project, except what is kept.
//!
//! 1. Wait until everything accepted before the start of the job is stored, because it may contain a save.
//! 2. Determine what is kept; see [`store::maintenance::retention`].
//! 3. Day by day and table by table: copy the rows that stay, acquire the barrier, and put the copy in place if nothing
//!    was written into the day meanwhile. The barrier is held only for the exchange.
//! 4. Recompute, through the log, runs that stay and lost relatives (P6).
//! 5. Wait for saves that were accepted meanwhile. Process what they keep of the dropped days again, through the log,
//!    from the detached days. Only then delete the detached days.
//!
//! Ages are counted from retention's own time, which a jump of the clock does not move; see [`clock`].
//!
//! A job that is taken over first completes steps 4 and 5 for what the previous runner dropped, then continues:
//! completed days have nothing more to drop.

pub(super) mod clock;
mod tally;

use std::collections::BTreeMap;
use std::time::Duration;

use clock::RetentionClock;
use schemas::ids::{AppId, ProjectId};
use schemas::job::{Retention as Asked, RetentionReport};
use schemas::reprice::Reprice;
use serde::{Deserialize, Serialize};
use store::StoreError;
use store::maintenance::retention::{BackEvent, Day, DayTable, Limit, Retention, UnresolvedRun};
use tally::{Pending, Tally};

use super::desk::{Desk, Ends};
use super::{EXCHANGE_TIME, JobError, now_ms};
use crate::step::again;
use crate::step::slices::record;
use control::BarrierGuard;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Copies of one day before it is left for the next retention: hardly anything is written into days that old.
const COPIES_MAX: usize = 5;
/// A row is written a little after its own time, and clocks are set back.
const CLOCK_SLACK_MS: i64 = 60_000;
/// Runs in one record to recompute: each may bring its ancestors and descendants into the step.
const RESOLVED_PER_RECORD: usize = 200;
/// Events and bytes in one record of events that are processed again.
const BACK_EVENTS: usize = 1000;
const BACK_BYTES: usize = 1 << 20;

/// Attempts to exchange a day while the result of an earlier one is unknown, and the pauses between them: a minute in
/// all, during which the barrier is held.
const SWAP_TRIES: usize = 20;
const SWAP_PAUSE: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The time that ages are counted from.
    now_ms: i64,
    /// By how much the clock was ahead of that time when the job began.
    #[serde(default)]
    behind_ms: i64,
    dropped: Tally,
    /// The day that is being dropped; it counts once it has nothing more to drop.
    pending: Option<Pending>,
    days_left: u64,
    brought_back: u64,
}

impl Checkpoint {
    fn report(&self, days_of: &BTreeMap<String, u32>) -> RetentionReport {
        RetentionReport {
            projects: self.dropped.projects(days_of),
            others: self.dropped.others(),
            days_left: self.days_left,
            brought_back: self.brought_back,
            counted_from: clock::text(self.today_ms()),
            clock_ahead_days: u64::try_from(self.behind_ms / DAY_MS).unwrap_or(0),
        }
    }

    /// Start of the day that ages are counted from.
    fn today_ms(&self) -> i64 {
        self.now_ms - self.now_ms.rem_euclid(DAY_MS)
    }

    fn count_from(&mut self, clock: RetentionClock) {
        clock.warn_if_behind();
        self.now_ms = clock.now_ms();
        self.behind_ms = clock.behind_ms();
    }
}

struct Work<'a> {
    desk: &'a mut Desk,
    tables: Retention,
    stand: Checkpoint,
    days_of: BTreeMap<String, u32>,
    /// Saves since then may be missing from what is kept.
    kept_at_ms: i64,
}

pub(super) async fn run(desk: &mut Desk) -> Result<(), JobError> {
    let asked: Asked = desk.parameters()?;
    let mut stand: Checkpoint = desk.checkpoint()?;
    let store = desk.parts.store.clone();
    if stand.now_ms == 0 {
        // A dry run shows what `trust_clock` would drop without trusting the clock.
        stand.count_from(match (asked.trust_clock, asked.dry_run) {
            (true, true) => RetentionClock::trusting(now_ms()),
            (true, false) => clock::trust(&store, now_ms()).await?,
            (false, _) => clock::look(&store, now_ms()).await?,
        });
    }
    let days_of = store.retention_days().await?;
    let days_of: BTreeMap<String, u32> =
        days_of.into_iter().filter(|(_, days)| *days > 0).collect();
    let tables = store.retention();
    let mut work = Work {
        desk,
        tables,
        stand,
        days_of,
        kept_at_ms: 0,
    };
    work.begin().await?;
    let ends = work.desk.log_ends().await?;
    work.desk.processed_up_to(&ends).await?;
    work.find_kept().await?;
    let dropped = work.drop_days(asked.dry_run).await;
    // After a stop or a retryable error, the next attempt begins by completing this one. A canceled or failed job
    // completes it now.
    let goes_on = match &dropped {
        Err(JobError::Stopped) => true,
        Err(error) => error.is_retryable(),
        Ok(()) => false,
    };
    if !asked.dry_run && !goes_on {
        work.desk.finish_anyway();
        let finished = work.finish().await;
        if let (Err(_), Err(error)) = (&dropped, &finished) {
            tracing::error!(error = %error, "what a failed retention dropped is resolved by the next one");
        }
        dropped?;
        finished?;
    } else {
        dropped?;
    }
    work.tables.forget().await?;
    work.tell().await
}

impl Work<'_> {
    /// Makes the work tables, after completing the work of a runner that died.
    async fn begin(&mut self) -> Result<(), JobError> {
        self.tables.prepare().await?;
        self.set_limits().await?;
        if self.tables.is_unfinished().await? {
            self.finish().await?;
        }
        self.tables.forget().await?;
        self.tables.prepare().await?;
        self.set_limits().await
    }

    async fn find_kept(&mut self) -> Result<(), JobError> {
        self.kept_at_ms = now_ms() - CLOCK_SLACK_MS;
        self.desk.unless_stopped(self.tables.find_kept()).await
    }

    async fn set_limits(&self) -> Result<(), JobError> {
        let today_ms = self.stand.today_ms();
        let limits = self.days_of.iter().map(|(project, days)| Limit {
            project_id: project.clone(),
            cutoff_ms: today_ms - i64::from(*days) * DAY_MS,
        });
        let limits: Vec<Limit> = limits.collect();
        Ok(self.tables.set_limits(&limits).await?)
    }

    async fn tell(&mut self) -> Result<(), JobError> {
        self.desk.job.changed = self.stand.dropped.rows();
        self.desk.job.report = serde_json::to_string(&self.stand.report(&self.days_of))?;
        self.desk.stand_at(&self.stand).await
    }

    async fn drop_days(&mut self, dry_run: bool) -> Result<(), JobError> {
        let mut days = Vec::new();
        for table in DayTable::ALL {
            days.extend(self.tables.days(table).await?);
        }
        self.desk.job.done = 0;
        self.desk.job.total = days.len() as u64;
        // A day that was being dropped and no longer exists was dropped as a whole.
        let is_there = |pending: &Pending| days.iter().any(|day| pending.is_of(day));
        if let Some(pending) = self.stand.pending.take_if(|pending| !is_there(pending)) {
            self.stand.dropped.count(pending);
        }
        for day in days {
            self.drop_day(&day, dry_run).await?;
            self.desk.job.done += 1;
            self.tell().await?;
        }
        Ok(())
    }

    async fn drop_day(&mut self, day: &Day, dry_run: bool) -> Result<(), JobError> {
        for _ in 0..COPIES_MAX {
            // A save from here on writes into its own day, which is noticed below; relatives dropped before that are
            // brought back in the end.
            if self.tables.has_new_saves(self.kept_at_ms).await? {
                self.find_kept().await?;
            }
            let mark = self.tables.mark(day).await?;
            let (going, rows) = self.desk.unless_stopped(self.tables.going(day)).await?;
            self.count_pending(day, rows);
            if rows == 0 {
                return Ok(());
            }
            let pending = self.stand.dropped.pending(day, going, rows);
            if dry_run {
                self.stand.dropped.count(pending);
                return Ok(());
            }
            self.stand.pending = Some(pending);
            self.desk.stand_at(&self.stand).await?;
            let stays = self.desk.unless_stopped(self.tables.copy(day)).await?;
            let mut guard = self.desk.parts.barrier.acquire().await;
            if self.tables.mark(day).await? == mark {
                self.desk.is_mine().await?;
                if guard.remaining() < EXCHANGE_TIME {
                    return Err(JobError::BarrierExpires);
                }
                let put = self.swap(day, stays, &guard).await;
                if day.table == DayTable::Runs {
                    // Whether the exchange succeeded or not, no cached run of the day is certain now.
                    guard.tables_changed();
                }
                drop(guard);
                put?;
                self.count_pending(day, 0);
                return Ok(());
            }
            drop(guard);
        }
        self.stand.pending = None;
        self.stand.days_left += 1;
        Ok(())
    }

    /// Puts the copy in place. After some errors the result is unknown: then the exchange is repeated, which is
    /// idempotent once no earlier attempt can still execute. The barrier has to be held meanwhile.
    async fn swap(&self, day: &Day, stays: bool, guard: &BarrierGuard) -> Result<(), JobError> {
        let mut outcome = self.tables.put_in_place(day, stays).await;
        for _ in 1..SWAP_TRIES {
            match outcome {
                _ if outcome.is_err() && guard.remaining() < EXCHANGE_TIME => break,
                Ok(()) => return Ok(()),
                Err(error) if is_certain(&error) => return Err(error.into()),
                Err(ref error) => {
                    tracing::warn!(error = %error, day = day.id, table = day.table.name(), "a day may or may not have been exchanged; trying again");
                }
            }
            // A stop takes effect afterwards: leaving now would allow writes that a late exchange discards.
            tokio::time::sleep(SWAP_PAUSE).await;
            outcome = match self.tables.is_exchanging(day).await {
                Ok(false) => self.tables.put_in_place(day, stays).await,
                Ok(true) => continue,
                Err(error) => Err(error),
            };
        }
        outcome.map_err(|source| JobError::Unknown {
            day: format!("{} of {}", day.id, day.table.name()),
            source,
        })
    }

    /// Counts the day that was being dropped if it has nothing more to drop.
    fn count_pending(&mut self, day: &Day, rows: u64) {
        if let Some(pending) = self.stand.pending.take_if(|pending| pending.is_of(day))
            && rows == 0
        {
            self.stand.dropped.count(pending);
        }
    }

    /// Resolves the relations of runs that stay, and brings back what is kept after all.
    async fn finish(&mut self) -> Result<(), JobError> {
        let mut ends = Ends::new();
        self.resolve_relations(&mut ends).await?;
        // Saves accepted until now may refer to something that was dropped.
        let now = self.desk.log_ends().await?;
        self.desk.processed_up_to(&now).await?;
        self.find_kept().await?;
        self.bring_back(&mut ends).await?;
        self.desk.processed_up_to(&ends).await
    }

    async fn resolve_relations(&mut self, ends: &mut Ends) -> Result<(), JobError> {
        let Some(mut found) = self.tables.unresolved_runs().await? else {
            return Ok(());
        };
        let mut batch: Vec<UnresolvedRun> = Vec::new();
        while let Some(run) = found.next().await? {
            let is_other = |last: &UnresolvedRun| {
                (&last.project_id, &last.app_id) != (&run.project_id, &run.app_id)
            };
            if batch.len() == RESOLVED_PER_RECORD || batch.last().is_some_and(is_other) {
                self.append_unresolved(std::mem::take(&mut batch), ends)
                    .await?;
            }
            batch.push(run);
        }
        self.append_unresolved(batch, ends).await
    }

    async fn append_unresolved(
        &self,
        batch: Vec<UnresolvedRun>,
        ends: &mut Ends,
    ) -> Result<(), JobError> {
        let Some(first) = batch.first() else {
            return Ok(());
        };
        let (project, app) = (
            ProjectId::new(&*first.project_id),
            AppId::new(&*first.app_id),
        );
        let runs = batch.into_iter().map(|run| (run.run_id, run.started_at));
        let resolve = Reprice {
            runs: runs.collect(),
            slice: None,
            resolves_relations: true,
        };
        let resolve = record(resolve.encode(&project, &app, now_ms()));
        self.desk.append(vec![resolve], ends).await
    }

    async fn bring_back(&mut self, ends: &mut Ends) -> Result<(), JobError> {
        let Some(mut found) = self.tables.wanted_back().await? else {
            return Ok(());
        };
        let mut batch: Vec<BackEvent> = Vec::new();
        let mut bytes = 0;
        while let Some(event) = found.next().await? {
            let is_other = |last: &BackEvent| {
                (&last.project_id, &last.app_id, last.received_at)
                    != (&event.project_id, &event.app_id, event.received_at)
            };
            if batch.len() == BACK_EVENTS
                || bytes > BACK_BYTES
                || batch.last().is_some_and(is_other)
            {
                self.append_back(std::mem::take(&mut batch), ends).await?;
                bytes = 0;
            }
            bytes += event.payload.len();
            batch.push(event);
        }
        self.append_back(batch, ends).await
    }

    /// Appends events of one app and time of acceptance.
    async fn append_back(
        &mut self,
        batch: Vec<BackEvent>,
        ends: &mut Ends,
    ) -> Result<(), JobError> {
        let Some(first) = batch.first() else {
            return Ok(());
        };
        let payloads: Vec<&[u8]> = batch.iter().map(|event| &*event.payload).collect();
        let events = again::record(
            &first.project_id,
            &first.app_id,
            first.received_at,
            &payloads,
        );
        self.stand.brought_back += batch.len() as u64;
        self.desk.append(vec![events], ends).await
    }
}

/// Whether nothing was exchanged, and nothing will be.
fn is_certain(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Refused { .. } | StoreError::TooExpensive { .. } | StoreError::Invalid(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_has_the_bytes_that_the_tables_hold_r1() {
        let golden = crate::golden::bytes("job_checkpoint.retention.json");
        let read: Checkpoint = serde_json::from_slice(&golden).unwrap();
        crate::golden::check(
            "job_checkpoint.retention.json",
            &serde_json::to_vec(&read).unwrap(),
        );
        let report = read.report(&BTreeMap::from([("acme".to_owned(), 30)]));
        let acme = &report.projects[0];
        assert_eq!((acme.days, acme.runs, acme.events), (4, 30, 90));
        let others = report.others.unwrap();
        assert_eq!((others.projects_at_least, others.messages), (2, 5));
        assert_eq!((report.days_left, report.brought_back), (1, 4));
        assert_eq!(report.clock_ahead_days, 2);
        assert!(read.pending.is_some());
        let older = crate::golden::bytes("job_checkpoint.retention.older.json");
        let older: Checkpoint = serde_json::from_slice(&older).unwrap();
        assert_eq!((older.now_ms, older.behind_ms), (read.now_ms, 0));
    }
}
