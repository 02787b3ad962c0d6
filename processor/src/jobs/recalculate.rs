//! Reprices runs after a change of the price table.
//!
//! Model calls are read in pages, project by project in order of time, and priced with the current table. The ids of
//! runs whose stored cost differs go to their owner through the log. It reprices them and updates the totals of their
//! ancestors, in order with the app's events. Runs that arrive meanwhile are priced with the new table anyway.
//!
//! The checkpoint is stored before a page's ids are appended. The runner that takes the job over appends the page again
//! (which changes nothing twice) without counting it again, so the sums are exact after any kill.

use std::collections::BTreeMap;

use schemas::fold::{Cost, Previews, RunState};
use schemas::ids::{AppId, ProjectId};
use schemas::job::{CostReport, Recalculate};
use schemas::price::{PriceTable, Usage};
use schemas::reprice::Reprice;
use serde::{Deserialize, Serialize};
use store::reads::costs::{CallFilter, CallPage, CallPlace, PricedCall};

use super::desk::{Desk, Ends};
use super::{JobError, now_ms};
use crate::run::OwnCost;
use crate::step::slices::record;

/// Runs in one record: a record is at least one step of the processor, and a step has to stay small.
const RUNS_PER_RECORD: usize = 2000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Checkpoint {
    /// The last project, in order, that was counted completely.
    counted: String,
    /// The last position that was counted in the project after it.
    after: Option<(String, Place)>,
    /// What was counted and may not have been appended.
    redo: Option<Redo>,
    is_counted: bool,
    before: String,
    after_sum: String,
    /// Ends of the appended records.
    ends: Ends,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place(i64, String, String);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Redo {
    project: String,
    after: Option<Place>,
    /// The last position of the page; `None` for the project's last run.
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

#[derive(Debug, Default)]
struct Priced {
    before: i128,
    after: i128,
    /// Runs to reprice, by app.
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
        // Steps in progress may have begun with the previous prices and store their runs after these are counted: let
        // them end. Steps that begin now use the current prices.
        drop(desk.parts.barrier.acquire().await);
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
                .calls_after(&project, filter, after.as_ref(), desk.parts.piece_rows)
                .await?;
            let is_last = page.next.is_none();
            let priced = price(&page, &desk.parts.prices.borrow().clone());
            let page = PricedPage {
                project: &project,
                page,
                priced: &priced,
            };
            take(desk, asked, stand, page).await?;
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

struct PricedPage<'a> {
    project: &'a str,
    page: CallPage,
    priced: &'a Priced,
}

/// Counts a page, and stores that it is counted and about to be appended.
async fn take(
    desk: &mut Desk,
    asked: &Recalculate,
    stand: &mut Checkpoint,
    page: PricedPage<'_>,
) -> Result<(), JobError> {
    let PricedPage {
        project,
        page,
        priced,
    } = page;
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

/// Appends again what was counted before a kill, without runs that were repriced meanwhile.
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
            .calls_after(&redo.project, filter, after.as_ref(), desk.parts.piece_rows)
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

/// Compares the stored cost of the page's runs with the cost by the current prices. Pure.
fn price(page: &CallPage, prices: &PriceTable) -> Priced {
    let mut priced = Priced::default();
    for call in &page.calls {
        priced.before = priced.before.saturating_add(call.cost);
        let Some(now) = cost_now(call, prices) else {
            priced.after = priced.after.saturating_add(call.cost);
            continue;
        };
        priced.after = priced.after.saturating_add(now.amount);
        let stored = OwnCost {
            amount: call.cost,
            status: call.cost_status,
            is_estimated: call.cost_estimated != 0,
        };
        if now != stored {
            let runs = priced.changed.entry(call.app_id.clone()).or_default();
            runs.push((call.run_id.clone(), call.started_at));
        }
    }
    priced
}

/// `None` if the table has no price.
fn cost_now(call: &PricedCall, prices: &PriceTable) -> Option<OwnCost> {
    if !call.is_by_price() {
        return None;
    }
    if !call.state.is_empty() {
        // A row whose state cannot be read keeps its cost; the processor reports it when it loads the run.
        let state = RunState::decode(&call.state, Previews::default()).ok()?;
        return Some(OwnCost::of(&state, prices));
    }
    let usage = Usage {
        model: &call.model,
        prompt: call.prompt_tokens,
        completion: call.completion_tokens,
        total: call.total_tokens,
        cached: call.cached_tokens,
        at_ms: call.started_at,
        ..Usage::default()
    };
    Some(Cost::of("llm", usage, prices).into())
}

/// Asks the owners to reprice the runs; durable when it returns.
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
                resolves_relations: false,
            };
            records.push(record(reprice.encode(&project, &app, now_ms())));
        }
    }
    desk.append(records, ends).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_has_the_bytes_that_the_tables_hold_r1() {
        let place = Place(1_795_168_800_007, "shop".to_owned(), "r-7".to_owned());
        let checkpoint = Checkpoint {
            counted: "acme".to_owned(),
            after: Some(("beta".to_owned(), place.clone())),
            redo: Some(Redo {
                project: "beta".to_owned(),
                after: None,
                up_to: Some(place),
            }),
            is_counted: false,
            before: "1500000000000000000".to_owned(),
            after_sum: "-2".to_owned(),
            ends: Ends::from([(0, 41), (3, 7)]),
        };
        let written = serde_json::to_vec(&checkpoint).unwrap();
        let golden = crate::golden::check("job_checkpoint.recalculate.json", &written);
        let read: Checkpoint = serde_json::from_slice(&golden).unwrap();
        assert_eq!(read, checkpoint);
    }
}
