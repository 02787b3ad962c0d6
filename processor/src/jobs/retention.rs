//! Retention (S1): whole days of what is older than its project keeps are dropped, except what is kept.
//!
//! 1. Wait until everything accepted before the job began is stored: a save among it counts.
//! 2. Find what is kept; see [`store::retention`].
//! 3. Day by day and table by table: copy what stays beside, close the gate, and put the copy in place if nothing was
//!    written into the day meanwhile. The gate is closed for the exchange alone.
//! 4. Runs that stay and had relatives that went are settled anew, through the log (P6).
//! 5. Saves that were accepted while that went on are waited for. What they keep of what was dropped is processed
//!    again, through the log, from the days as they were. Only then are those thrown away.
//!
//! Ages are counted from a time of retention's own, which a jump of the clock does not move; see [`clock`].
//!
//! A job that is taken up again begins with 4 and 5 for what the dead one dropped, and goes on with what is left:
//! days that are done have nothing more to drop.

pub(super) mod clock;
mod tally;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use clock::RetentionClock;
use schemas::ids::{AppId, ProjectId};
use schemas::job::{Retention as Asked, RetentionReport};
use schemas::record::RecordHeader;
use schemas::reprice::Reprice;
use serde::{Deserialize, Serialize};
use store::StoreError;
use store::retention::{BackEvent, Day, DayTable, Limit, Retention, Unsettled};
use tally::{Pending, Tally};

use super::desk::{Desk, Ends, record};
use super::{EXCHANGE_TIME, JobError, now_ms};
use crate::decode::AGAIN;
use crate::gate::Closed;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Copies of one day before it is left for the next time: it is so old that hardly anything is written into it.
const COPIES_MAX: usize = 5;
/// A row is written a little after the time it says, and clocks are set back.
const CLOCK_SLACK_MS: i64 = 60_000;
/// Runs in one record to settle anew: each may bring its ancestors and descendants into the step.
const SETTLED_PER_RECORD: usize = 200;
/// Events and bytes in one record of events that are processed again.
const BACK_EVENTS: usize = 1000;
const BACK_BYTES: usize = 1 << 20;

/// Tries to exchange a day while it is not known whether an earlier one did it, and the pauses between them: a minute
/// in all, in which the gate is closed.
const SWAP_TRIES: usize = 20;
const SWAP_PAUSE: Duration = Duration::from_secs(3);

/// Where a retention stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The moment that ages are counted from.
    now_ms: i64,
    /// By how much the clock was ahead of it when the job began.
    #[serde(default)]
    behind_ms: i64,
    /// What has been dropped.
    dropped: Tally,
    /// The day that is being dropped, and what goes of it: it counts once it has nothing more to drop.
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

/// A retention at work.
struct Work<'a> {
    desk: &'a mut Desk,
    tables: Retention,
    stand: Checkpoint,
    days_of: BTreeMap<String, u32>,
    /// Saves since then may not be among what is kept.
    kept_at_ms: i64,
}

pub(super) async fn run(desk: &mut Desk) -> Result<(), JobError> {
    let asked: Asked = desk.parameters()?;
    let mut stand: Checkpoint = desk.checkpoint()?;
    let store = desk.parts.store.clone();
    if stand.now_ms == 0 {
        // What `trust_clock` would drop can be looked at without trusting it.
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
    // Stopped, or when repeating helps, the next attempt begins with bringing it to its end. Cancelled or failed, this
    // one does.
    let goes_on = match &dropped {
        Err(JobError::Stopped) => true,
        Err(error) => error.is_retryable(),
        Ok(()) => false,
    };
    if !asked.dry_run && !goes_on {
        work.desk.finish_anyway();
        let finished = work.finish().await;
        if let (Err(_), Err(error)) = (&dropped, &finished) {
            tracing::error!(error = %error, "what a failed retention dropped is settled by the next one");
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
    /// Makes the tables of work, after bringing to its end what somebody died over.
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
        // A day that was being dropped and is not there any more was dropped whole.
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
            // What is saved from here on writes into its own day, which is seen below; what of its relatives went
            // before that is seen comes back in the end.
            if self.tables.has_new_saves(self.kept_at_ms).await? {
                self.find_kept().await?;
            }
            let mark = self.tables.mark(day).await?;
            let (going, rows) = self.desk.unless_stopped(self.tables.going(day)).await?;
            self.settle_pending(day, rows);
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
            let mut closed = self.desk.parts.gate.close().await;
            if self.tables.mark(day).await? == mark {
                self.desk.is_mine().await?;
                if closed.left() < EXCHANGE_TIME {
                    return Err(JobError::Opened);
                }
                let put = self.swap(day, stays, &closed).await;
                if day.table == DayTable::Runs {
                    // Whether it worked or not: nothing that is remembered of these runs is certain now.
                    closed.tables_changed();
                }
                drop(closed);
                put?;
                self.settle_pending(day, 0);
                return Ok(());
            }
            drop(closed);
        }
        self.stand.pending = None;
        self.stand.days_left += 1;
        Ok(())
    }

    /// Puts the copy in place. Whether it did is not known after some errors: then it is done again, which changes
    /// nothing that was done, once no earlier try can come in late. The gate has to be closed all the while.
    async fn swap(&self, day: &Day, stays: bool, closed: &Closed) -> Result<(), JobError> {
        let mut outcome = self.tables.put_in_place(day, stays).await;
        for _ in 1..SWAP_TRIES {
            match outcome {
                _ if outcome.is_err() && closed.left() < EXCHANGE_TIME => break,
                Ok(()) => return Ok(()),
                Err(error) if is_certain(&error) => return Err(error.into()),
                Err(ref error) => {
                    tracing::warn!(error = %error, day = day.id, table = day.table.name(), "a day may or may not have been exchanged; trying again");
                }
            }
            // A stop is heard afterwards: to leave now would let rows be written that a late exchange throws away.
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
    fn settle_pending(&mut self, day: &Day, rows: u64) {
        if let Some(pending) = self.stand.pending.take_if(|pending| pending.is_of(day))
            && rows == 0
        {
            self.stand.dropped.count(pending);
        }
    }

    /// Settles what stays, brings back what is kept after all.
    async fn finish(&mut self) -> Result<(), JobError> {
        let mut ends = Ends::new();
        self.settle(&mut ends).await?;
        // Saves that were accepted until now may be for something that was dropped.
        let now = self.desk.log_ends().await?;
        self.desk.processed_up_to(&now).await?;
        self.find_kept().await?;
        self.bring_back(&mut ends).await?;
        self.desk.processed_up_to(&ends).await
    }

    async fn settle(&mut self, ends: &mut Ends) -> Result<(), JobError> {
        let Some(mut found) = self.tables.unsettled().await? else {
            return Ok(());
        };
        let mut batch: Vec<Unsettled> = Vec::new();
        while let Some(run) = found.next().await? {
            let is_other = |last: &Unsettled| {
                (&last.project_id, &last.app_id) != (&run.project_id, &run.app_id)
            };
            if batch.len() == SETTLED_PER_RECORD || batch.last().is_some_and(is_other) {
                self.append_unsettled(std::mem::take(&mut batch), ends)
                    .await?;
            }
            batch.push(run);
        }
        self.append_unsettled(batch, ends).await
    }

    async fn append_unsettled(
        &self,
        batch: Vec<Unsettled>,
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
        let settle = Reprice {
            runs: runs.collect(),
            slice: None,
            is_anew: true,
        };
        let settle = record(settle.encode(&project, &app, now_ms()));
        self.desk.append(vec![settle], ends).await
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

    /// Events as they were accepted, once more: whoever processed them before finds the same identities (P2).
    async fn append_back(
        &mut self,
        batch: Vec<BackEvent>,
        ends: &mut Ends,
    ) -> Result<(), JobError> {
        let Some(first) = batch.first() else {
            return Ok(());
        };
        let header = RecordHeader {
            project: ProjectId::new(&*first.project_id),
            app: AppId::new(&*first.app_id),
            received_at_ms: first.received_at,
            events: u32::try_from(batch.len()).unwrap_or(u32::MAX),
        };
        let mut payload = b"{\"events\":[".to_vec();
        for (at, event) in batch.iter().enumerate() {
            if at > 0 {
                payload.push(b',');
            }
            payload.extend_from_slice(&event.payload);
        }
        payload.extend_from_slice(b"]}");
        self.stand.brought_back += batch.len() as u64;
        let mut events = record((header.key(), header.encode(), payload));
        events
            .headers
            .push((AGAIN.to_owned(), Bytes::from_static(b"1")));
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
