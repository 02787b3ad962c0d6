//! Pricing runs again after the price table was changed.
//!
//! Pages of model calls, project by project in order of time, are priced with the table of now. The ids of those
//! whose stored cost is another one go to their owner through the log, which prices them, and the totals of their
//! ancestors, in order with the app's events. Runs that arrive meanwhile were priced with the new table anyway.
//!
//! The checkpoint is written before a page's ids are appended and says so: whoever takes the job up appends the page
//! again (which changes nothing twice) without counting it again, so that the sums are exact after any kill.

use std::collections::BTreeMap;

use schemas::fold::Cost;
use schemas::ids::{AppId, ProjectId};
use schemas::job::{CostReport, Recalculate};
use schemas::price::{PriceTable, Usage};
use schemas::reprice::Reprice;
use serde::{Deserialize, Serialize};
use store::costs_read::{CallFilter, CallPage, CallPlace, PricedCall};
use store::rows::CostStatus;

use super::desk::{Desk, Ends, record};
use super::{JobError, now_ms};
use crate::rows::{scaled, stored_status};

/// Runs in one record: one record is one step of the processor at least, and one step has to stay small.
const RUNS_PER_RECORD: usize = 2000;

/// Where a recalculation stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The last project in order that was counted whole.
    counted: String,
    /// The last place that was counted of the one after it.
    after: Option<(String, Place)>,
    /// What was counted and may not have been appended.
    redo: Option<Redo>,
    /// Everything was counted.
    is_counted: bool,
    before: String,
    after_sum: String,
    /// Where appended records end.
    ends: Ends,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place(i64, String, String);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Redo {
    project: String,
    after: Option<Place>,
    /// The last place of it; the project's last run without one.
    up_to: Option<Place>,
}

impl Place {
    fn of(place: CallPlace) -> Self {
        Self(place.started_at, place.app_id, place.run_id)
    }

    fn to_place(&self) -> CallPlace {
        CallPlace {
            started_at: self.0,
            app_id: self.1.clone(),
            run_id: self.2.clone(),
        }
    }
}

/// What a page comes to.
#[derive(Debug, Default)]
struct Priced {
    before: i128,
    after: i128,
    /// Runs to price again, by app.
    changed: BTreeMap<String, Vec<(String, i64)>>,
}

pub(super) async fn run(desk: &mut Desk) -> Result<(), JobError> {
    let asked: Recalculate = desk.parameters()?;
    let mut stand: Checkpoint = desk.checkpoint()?;
    let filter = CallFilter {
        from_ms: asked.from_ms,
        to_ms: asked.to_ms,
        app_id: asked.app_id.clone(),
        model: asked.model.clone(),
    };
    if let Some(redo) = stand.redo.take() {
        append_again(desk, &filter, redo, &mut stand.ends).await?;
    }
    if !stand.is_counted {
        // Steps under way may have begun with the prices of before and store their runs later than these are counted:
        // let them end. Whoever begins now takes the prices in force.
        drop(desk.parts.gate.close().await);
        count_all(desk, &filter, &asked, &mut stand).await?;
    }
    desk.processed_up_to(&stand.ends).await?;
    Ok(())
}

async fn count_all(
    desk: &mut Desk,
    filter: &CallFilter,
    asked: &Recalculate,
    stand: &mut Checkpoint,
) -> Result<(), JobError> {
    let store = desk.parts.store.clone();
    let mut projects = match desk.job.project_id.as_str() {
        "" => store.projects_with_runs().await?,
        one => vec![one.to_owned()],
    };
    if desk.job.total == 0 {
        let mut total = 0;
        for project in &projects {
            total += store.count_calls(project, filter).await?;
            desk.go_on()?;
        }
        desk.job.total = total;
    }
    projects.retain(|project| *project > stand.counted);
    for project in projects {
        loop {
            let after = stand.after.as_ref().filter(|(of, _)| *of == project);
            let after = after.map(|(_, place)| place.to_place());
            let page = store
                .calls_after((&project, filter), after.as_ref(), desk.parts.piece_rows)
                .await?;
            let is_last = page.next.is_none();
            let priced = price(&page, &desk.parts.prices.borrow().clone());
            take(desk, asked, stand, (&project, page, &priced)).await?;
            if !asked.dry_run {
                append(desk, &project, priced.changed, &mut stand.ends).await?;
            }
            if is_last {
                break;
            }
        }
    }
    stand.redo = None;
    stand.is_counted = true;
    desk.job.total = desk.job.done;
    desk.stand_at(stand).await
}

/// Counts a page, and writes that it is counted and about to be appended.
async fn take(
    desk: &mut Desk,
    asked: &Recalculate,
    stand: &mut Checkpoint,
    (project, page, priced): (&str, CallPage, &Priced),
) -> Result<(), JobError> {
    let sum = |text: &str, more: i128| {
        let sum: i128 = text.parse().unwrap_or(0);
        sum.saturating_add(more).to_string()
    };
    stand.before = sum(&stand.before, priced.before);
    stand.after_sum = sum(&stand.after_sum, priced.after);
    let up_to = page.next.map(Place::of);
    let after = stand.after.take().filter(|(of, _)| of == project);
    stand.redo = (!asked.dry_run).then(|| Redo {
        project: project.to_owned(),
        after: after.map(|(_, place)| place),
        up_to: up_to.clone(),
    });
    match up_to {
        Some(up_to) => stand.after = Some((project.to_owned(), up_to)),
        None => stand.counted = project.to_owned(),
    }
    desk.job.done += page.calls.len() as u64;
    desk.job.total = desk.job.total.max(desk.job.done);
    desk.job.changed += priced.changed.values().map(Vec::len).sum::<usize>() as u64;
    desk.job.report = serde_json::to_string(&CostReport {
        before_units: stand.before.clone(),
        after_units: stand.after_sum.clone(),
    })?;
    desk.stand_at(stand).await
}

/// Appends what was counted before a kill once more; runs that were priced meanwhile are not among them.
async fn append_again(
    desk: &mut Desk,
    filter: &CallFilter,
    redo: Redo,
    ends: &mut Ends,
) -> Result<(), JobError> {
    let mut after = redo.after.as_ref().map(Place::to_place);
    let is_over = |place: &CallPlace| {
        redo.up_to.as_ref().is_some_and(|end| {
            (place.started_at, &place.app_id, &place.run_id) > (end.0, &end.1, &end.2)
        })
    };
    loop {
        let store = &desk.parts.store;
        let mut page = store
            .calls_after(
                (&redo.project, filter),
                after.as_ref(),
                desk.parts.piece_rows,
            )
            .await?;
        let is_last = page.next.as_ref().is_none_or(|next| {
            let end = redo.up_to.as_ref();
            end.is_some_and(|end| *end == Place::of(next.clone())) || is_over(next)
        });
        page.calls.retain(|call| !is_over(&call.place()));
        let priced = price(&page, &desk.parts.prices.borrow().clone());
        append(desk, &redo.project, priced.changed, ends).await?;
        if is_last {
            return Ok(());
        }
        after = page.next;
    }
}

/// What the page's runs cost, and would cost. Pure.
fn price(page: &CallPage, prices: &PriceTable) -> Priced {
    let mut priced = Priced::default();
    for call in &page.calls {
        priced.before = priced.before.saturating_add(call.cost);
        let Some((amount, status, is_estimated)) = cost_now(call, prices) else {
            priced.after = priced.after.saturating_add(call.cost);
            continue;
        };
        priced.after = priced.after.saturating_add(amount);
        if !call.has(amount, status, is_estimated) {
            let runs = priced.changed.entry(call.app_id.clone()).or_default();
            runs.push((call.run_id.clone(), call.started_at));
        }
    }
    priced
}

/// Cost by the table; `None` where the table has no say.
fn cost_now(call: &PricedCall, prices: &PriceTable) -> Option<(i128, CostStatus, bool)> {
    if !call.is_by_price() {
        return None;
    }
    let usage = Usage {
        model: &call.model,
        prompt: call.prompt_tokens,
        completion: call.completion_tokens,
        total: call.total_tokens,
        cached: call.cached_tokens,
        at_ms: call.started_at,
    };
    let cost = Cost::of("llm", usage, prices);
    Some((
        scaled(cost.amount),
        stored_status(cost.status),
        cost.is_estimated,
    ))
}

/// Asks the owners of the runs to price them again; durable when it returns.
async fn append(
    desk: &Desk,
    project: &str,
    changed: BTreeMap<String, Vec<(String, i64)>>,
    ends: &mut Ends,
) -> Result<(), JobError> {
    let project = ProjectId::new(project);
    let mut records = Vec::new();
    for (app, runs) in changed {
        let app = AppId::new(app);
        for runs in runs.chunks(RUNS_PER_RECORD) {
            let reprice = Reprice {
                runs: runs.to_vec(),
                slice: None,
                is_anew: false,
            };
            records.push(record(reprice.encode(&project, &app, now_ms())));
        }
    }
    desk.append(records, ends).await
}
