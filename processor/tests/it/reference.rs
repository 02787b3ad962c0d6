//! The rules of a run's row written plainly over the whole set of events, lineage included.

use std::collections::{BTreeMap, BTreeSet};

use schemas::digest::Identity;
use schemas::event::{Event, Fields};
use schemas::fold::{RunState, Status};
use schemas::ids::{AppId, ProjectId};
use schemas::price::PriceTable;
use serde_json::{Value, json};

use crate::fold::Reported;
use crate::memory_tables::RunId;

/// What every reader has to see: each run with its columns.
pub(crate) fn fold(events: &[Reported], prices: &PriceTable) -> BTreeMap<RunId, Value> {
    let mut states: BTreeMap<RunId, RunState> = BTreeMap::new();
    for reported in events {
        with_event(reported, |event, id| {
            if event.custom.is_none_or(schemas::fold::is_mark) {
                let run = (
                    reported.project.to_owned(),
                    reported.app.to_owned(),
                    event.run_id.to_string(),
                );
                states
                    .entry(run)
                    .or_default()
                    .apply(event, schemas::ids::EventId(id));
            }
        });
    }
    states.retain(|_, state| !state.is_unseen());
    let totals = totals(&states, prices);
    states
        .keys()
        .map(|run| {
            let mut columns = columns(run, &states, prices);
            columns["totals"] = json!(totals[run].map(|sum| sum.to_string()));
            (run.clone(), columns)
        })
        .collect()
}

/// How many different judgements there are.
pub(crate) fn judgements(events: &[Reported]) -> usize {
    let feedback = events
        .iter()
        .filter(|reported| reported.event["name"] == "feedback");
    let ids: BTreeSet<u128> = feedback
        .map(|reported| with_event(reported, |_, id| id))
        .collect();
    ids.len()
}

/// How many different events there are.
pub(crate) fn distinct(events: &[Reported]) -> usize {
    let ids: BTreeSet<u128> = events
        .iter()
        .map(|reported| with_event(reported, |_, id| id))
        .collect();
    ids.len()
}

fn with_event<T>(reported: &Reported, look: impl FnOnce(&Event<'_>, u128) -> T) -> T {
    let text = reported.event.to_string();
    let fields: Fields<'_> = serde_json::from_str(&text).unwrap();
    let event = Event::from_fields(fields, 0, i64::MAX).unwrap();
    let identity = Identity::new(&ProjectId::new(reported.project), &AppId::new(reported.app));
    look(&event, identity.of(&event, &text).0)
}

/// Every run's figures added to the run itself and to everything above it, each once (P6).
fn totals(states: &BTreeMap<RunId, RunState>, prices: &PriceTable) -> BTreeMap<RunId, [i128; 6]> {
    let mut totals: BTreeMap<RunId, [i128; 6]> = BTreeMap::new();
    for (run, state) in states {
        let count = |count: Option<u64>| i128::from(count.unwrap_or(0));
        let own = [
            processor::rows::own_cost(state, prices).amount,
            count(state.prompt_tokens()),
            count(state.completion_tokens()),
            count(state.total_tokens()),
            i128::from(state.kind() == "llm"),
            i128::from(state.status() == Status::Error),
        ];
        for above in ancestors(run, states) {
            let sums = totals.entry(above).or_default();
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
    }
    totals
}

fn columns(run: &RunId, states: &BTreeMap<RunId, RunState>, prices: &PriceTable) -> Value {
    let state = &states[run];
    let ancestors = ancestors(run, states);
    let nearest = |own: fn(&RunState) -> &str| {
        ancestors
            .iter()
            .map(|run| own(&states[run]))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let cost = processor::rows::own_cost(state, prices);
    let verdict = state.verdict();
    json!({
        "started_at": state.started_at_ms(),
        "ended_at": state.ended_at_ms(),
        "status": state.status().as_str(),
        "parent": state.parent_run_id(),
        "root": root(&ancestors, states),
        "agent": nearest(RunState::own_agent),
        "user": nearest(RunState::own_user_email),
        "tags": state.tags().collect::<Vec<_>>(),
        "name": state.name(),
        "saved": state.is_saved(),
        "feedback": verdict.map_or(["", ""], |verdict| [verdict.rating.as_str(), verdict.comment]),
        "cost": [cost.amount.to_string(), format!("{:?}", cost.status)],
    })
}

/// The run, its parent, and so on, as far as they are known and each once.
fn ancestors(run: &RunId, states: &BTreeMap<RunId, RunState>) -> Vec<RunId> {
    let mut line = vec![run.clone()];
    let mut seen = BTreeSet::from([run.clone()]);
    while let Some(parent) = parent(&line[line.len() - 1], states) {
        if !seen.insert(parent.clone()) {
            break;
        }
        line.push(parent);
    }
    line
}

fn parent(run: &RunId, states: &BTreeMap<RunId, RunState>) -> Option<RunId> {
    let parent = states[run].parent_run_id();
    let key = (run.0.clone(), run.1.clone(), parent.to_owned());
    (!parent.is_empty() && states.contains_key(&key)).then_some(key)
}

/// The topmost ancestor; where the line goes round, the least id of the circle.
fn root(line: &[RunId], states: &BTreeMap<RunId, RunState>) -> String {
    let top = &line[line.len() - 1];
    match parent(top, states) {
        None => top.2.clone(),
        Some(again) => {
            let from = line.iter().position(|run| *run == again).unwrap();
            line[from..].iter().map(|run| run.2.clone()).min().unwrap()
        }
    }
}
