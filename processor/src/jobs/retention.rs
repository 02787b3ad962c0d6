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
//! A job that is taken up again begins with 4 and 5 for what the dead one dropped, and goes on with what is left:
//! days that are done have nothing more to drop.

use std::collections::{BTreeMap, BTreeSet};

use schemas::ids::{AppId, ProjectId};
use schemas::job::{ProjectRetention, Retention as Asked, RetentionReport};
use schemas::record::RecordHeader;
use schemas::reprice::Reprice;
use serde::{Deserialize, Serialize};
use store::retention::{BackEvent, Day, DayTable, Going, Limit, Retention, Unsettled};

use super::desk::{Desk, Ends, record};
use super::{JobError, now_ms};

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

/// Where a retention stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The moment that ages are counted from.
    now_ms: i64,
    /// What has been dropped, by project and table.
    dropped: BTreeMap<String, BTreeMap<String, Dropped>>,
    /// The day that is being dropped, and what goes of it: it counts once it has nothing more to drop.
    pending: Option<Pending>,
    days_left: u64,
    brought_back: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Dropped {
    days: BTreeSet<String>,
    rows: u64,
    bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pending {
    table: String,
    day: String,
    going: Vec<(String, u64)>,
    bytes: u64,
}

impl Checkpoint {
    fn count(&mut self, pending: Pending) {
        let rows: u64 = pending.going.iter().map(|(_, rows)| rows).sum();
        for (project, going) in pending.going {
            let tables = self.dropped.entry(project).or_default();
            let dropped = tables.entry(pending.table.clone()).or_default();
            dropped.days.insert(pending.day.clone());
            dropped.rows += going;
            let share = u128::from(pending.bytes) * u128::from(going) / u128::from(rows.max(1));
            dropped.bytes += u64::try_from(share).unwrap_or(u64::MAX);
        }
    }

    fn report(&self, days_of: &BTreeMap<String, u32>) -> RetentionReport {
        let projects = self.dropped.iter().map(|(project, tables)| {
            let rows = |table: DayTable| tables.get(table.name()).map_or(0, |dropped| dropped.rows);
            let days: BTreeSet<&String> =
                tables.values().flat_map(|dropped| &dropped.days).collect();
            ProjectRetention {
                project_id: project.clone(),
                retention_days: days_of.get(project).copied().unwrap_or(0),
                days: days.len() as u64,
                runs: rows(DayTable::Runs),
                events: rows(DayTable::Events),
                messages: rows(DayTable::Messages),
                feedback: rows(DayTable::Feedback),
                bytes: tables.values().map(|dropped| dropped.bytes).sum(),
            }
        });
        RetentionReport {
            projects: projects.collect(),
            days_left: self.days_left,
            brought_back: self.brought_back,
        }
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
    if stand.now_ms == 0 {
        stand.now_ms = desk.job.created_at;
    }
    let store = desk.parts.store.clone();
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
    // Stopped, the next runner brings it to its end. Cancelled, this one does.
    if !asked.dry_run && matches!(dropped, Ok(()) | Err(JobError::Gone)) {
        work.desk.finish_anyway();
        work.finish().await?;
    }
    dropped?;
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
        Ok(self.tables.find_kept().await?)
    }

    async fn set_limits(&self) -> Result<(), JobError> {
        let today_ms = self.stand.now_ms - self.stand.now_ms.rem_euclid(DAY_MS);
        let limits = self.days_of.iter().map(|(project, days)| Limit {
            project_id: project.clone(),
            cutoff_ms: today_ms - i64::from(*days) * DAY_MS,
        });
        let limits: Vec<Limit> = limits.collect();
        Ok(self.tables.set_limits(&limits).await?)
    }

    async fn tell(&mut self) -> Result<(), JobError> {
        let rows = self.stand.dropped.values().flat_map(BTreeMap::values);
        self.desk.job.changed = rows.map(|dropped| dropped.rows).sum();
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
        let is_there = |pending: &Pending| {
            days.iter()
                .any(|day| day.table.name() == pending.table && day.id == pending.day)
        };
        if let Some(pending) = self.stand.pending.take_if(|pending| !is_there(pending)) {
            self.stand.count(pending);
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
            let (going, rows) = self.tables.going(day).await?;
            self.settle_pending(day, rows);
            if rows == 0 {
                return Ok(());
            }
            let pending = pending(day, going, rows);
            if dry_run {
                self.stand.count(pending);
                return Ok(());
            }
            self.stand.pending = Some(pending);
            self.desk.stand_at(&self.stand).await?;
            let stays = self.tables.copy(day).await?;
            let closed = self.desk.parts.gate.close().await;
            if self.tables.mark(day).await? == mark {
                let put = self.tables.put_in_place(day, stays).await;
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

    /// Counts the day that was being dropped if it has nothing more to drop.
    fn settle_pending(&mut self, day: &Day, rows: u64) {
        let is_pending =
            |pending: &Pending| pending.table == day.table.name() && pending.day == day.id;
        if let Some(pending) = self.stand.pending.take_if(|pending| is_pending(pending))
            && rows == 0
        {
            self.stand.count(pending);
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
        let events = record((header.key(), header.encode(), payload));
        self.desk.append(vec![events], ends).await
    }
}

fn pending(day: &Day, going: Vec<Going>, rows: u64) -> Pending {
    let bytes = u128::from(day.bytes) * u128::from(rows) / u128::from(day.rows.max(1));
    Pending {
        table: day.table.name().to_owned(),
        day: day.id.clone(),
        going: going
            .into_iter()
            .map(|going| (going.project_id, going.rows))
            .collect(),
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
    }
}
