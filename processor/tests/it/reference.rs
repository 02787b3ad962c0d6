//! The rules of a run's row written plainly over the whole set of events: fold, pricing and lineage, none of it shared
//! with the product. Only the identity of an event is the product's.

use std::collections::{BTreeMap, BTreeSet};

use schemas::digest::Identity;
use schemas::event::{Event, Fields};
use schemas::ids::{AppId, ProjectId};
use serde_json::{Value, json};

use crate::fold::Reported;
use crate::memory_tables::RunId;

/// What a token of each model costs, in units of 10^-18 USD.
pub(crate) type Rates = [(&'static str, i128)];

/// What every reader has to see: each run with its columns.
pub(crate) fn fold(events: &[Reported], rates: &Rates) -> BTreeMap<RunId, Value> {
    let mut runs: BTreeMap<RunId, Run> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for reported in events {
        let (run_id, timestamp, id) = with_event(reported, |event, id| {
            (event.run_id.to_string(), event.timestamp_ms, id)
        });
        let run = (reported.project.to_owned(), reported.app.to_owned(), run_id);
        if seen.insert((run.clone(), id)) {
            let run = runs.entry(run).or_default();
            run.add(timestamp, id, &reported.event);
        }
    }
    runs.retain(|_, run| {
        run.marks.sort_by_key(|(order, _)| *order);
        run.events.sort_by_key(|(order, _)| *order);
        !run.events.is_empty()
    });
    let counted = crate::counting::counted(&runs);
    let totals = totals(&runs, &counted, rates);
    runs.keys()
        .map(|run| {
            let mut columns = columns(run, &runs, &counted, rates);
            columns["totals"] = json!(totals[run].map(|sum| sum.to_string()));
            (run.clone(), columns)
        })
        .collect()
}

pub(crate) type Runs = BTreeMap<RunId, Run>;

/// Runs whose call another run counts.
pub(crate) type Counted = BTreeMap<RunId, RunId>;

/// Time, then the upper half of the identity.
type Order = (i64, u64);

/// The distinct events of a run, in order.
#[derive(Default)]
pub(crate) struct Run {
    marks: Vec<(Order, Value)>,
    events: Vec<(Order, Value)>,
}

fn given<'a>(event: &'a Value, key: &str) -> Option<&'a Value> {
    Some(&event[key]).filter(|value| !value.is_null())
}

fn is(event: &Value, name: &str) -> bool {
    event["name"] == name
}

fn has_phase(event: &Value, phase: &str) -> bool {
    event["name"].as_str().unwrap().rsplit('_').next() == Some(phase)
}

fn is_one_shot(event: &Value) -> bool {
    let has_phase = ["start", "end", "error"]
        .iter()
        .any(|phase| has_phase(event, phase));
    is(event, "llm_call") || (!has_phase && given(event, "output").is_some())
}

fn has_failed(event: &Value) -> bool {
    has_phase(event, "error") || event["status"] == "error" || given(event, "error").is_some()
}

/// Whether a run ends by this event, if it is no one-shot event.
fn closes(event: &Value) -> bool {
    let is_success = event["status"] == "success" && !has_phase(event, "start");
    has_phase(event, "end") || is_success || has_failed(event)
}

impl Run {
    fn add(&mut self, timestamp: i64, id: u128, event: &Value) {
        let order = (timestamp, (id >> 64) as u64);
        let event = (order, event.clone());
        match event.1["name"].as_str().unwrap() {
            "chat" => {}
            "saved" | "unsaved" | "feedback" => self.marks.push(event),
            _ => self.events.push(event),
        }
    }

    fn first(&self, key: &str) -> &str {
        let mut texts = self
            .events
            .iter()
            .filter_map(|(_, event)| given(event, key));
        texts.next().and_then(Value::as_str).unwrap_or_default()
    }

    fn last<'a>(&'a self, key: &str) -> Option<&'a Value> {
        let events = self.events.iter().rev();
        events.filter_map(|(_, event)| given(event, key)).next()
    }

    /// The last text of the key, also in the metadata of an event.
    fn last_of_metadata(&self, key: &str) -> &str {
        let events = self.events.iter().rev();
        let mut texts =
            events.filter_map(|(_, event)| given(event, key).or(given(&event["metadata"], key)));
        texts.next().and_then(Value::as_str).unwrap_or_default()
    }

    fn parent(&self) -> &str {
        Some(self.first("parent_run_id"))
            .filter(|parent| *parent != "None")
            .unwrap_or_default()
    }

    fn name(&self) -> &str {
        let name = self.first("name");
        let stripped = ["_start", "_end", "_error"]
            .iter()
            .find_map(|phase| name.strip_suffix(phase));
        stripped.filter(|rest| !rest.is_empty()).unwrap_or(name)
    }

    pub(crate) fn started_at(&self) -> i64 {
        let opening = self
            .events
            .iter()
            .filter(|(_, event)| has_phase(event, "start") || is_one_shot(event));
        let opened = opening.map(|((at, _), _)| *at).min();
        opened.unwrap_or(self.events[0].0.0)
    }

    pub(crate) fn ended_at(&self) -> Option<i64> {
        let closing = self
            .events
            .iter()
            .filter(|(_, event)| is_one_shot(event) || closes(event));
        let length = |event: &Value| match is_one_shot(event) {
            true => event["duration_ms"].as_i64().unwrap_or(0),
            false => 0,
        };
        closing.map(|((at, _), event)| at + length(event)).max()
    }

    fn has_failed(&self) -> bool {
        self.events.iter().any(|(_, event)| has_failed(event))
    }

    fn is_saved(&self) -> bool {
        let mut marks = self.marks.iter().rev().map(|(_, mark)| mark);
        let mark = marks.find(|mark| is(mark, "saved") || is(mark, "unsaved"));
        mark.is_some_and(|mark| is(mark, "saved"))
    }

    fn feedback(&self) -> [&str; 2] {
        let mut marks = self.marks.iter().rev().map(|(_, mark)| mark);
        let feedback = marks.find(|mark| is(mark, "feedback"));
        ["rating", "comment"].map(|key| {
            let text = feedback.and_then(|feedback| feedback[key].as_str());
            text.unwrap_or_default()
        })
    }

    /// The one call that a run of type `llm` is.
    pub(crate) fn one_call(&self) -> Option<Value> {
        let is_one = self.first("type") == "llm" && self.several_calls().is_none();
        is_one.then(|| {
            let mut call = self.whole();
            let of_calls = self
                .events
                .iter()
                .rev()
                .filter(|(_, event)| given(event, "type").is_none_or(|kind| kind == "llm"));
            let mut responses = of_calls.filter_map(|(_, event)| given(event, "response_id"));
            call["response_id"] = responses.next().cloned().unwrap_or_default();
            call["fingerprint"] = self.last("call_fingerprint").cloned().unwrap_or_default();
            call
        })
    }

    /// The latest of each figure.
    fn whole(&self) -> Value {
        let parts = [
            "model",
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "cost",
            "estimated_cost",
        ];
        parts
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), self.last(key)?.clone())))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    /// Interface 6.3: each event of type `llm` with usage or a cost of its own is a call; what opens a run only begins
    /// one. A run of type `llm` with a single call has all of its events as parts of it.
    fn several_calls(&self) -> Option<Vec<&Value>> {
        let is_llm = self.first("type") == "llm";
        let closing: Vec<&Value> = self
            .events
            .iter()
            .map(|(_, event)| event)
            .filter(|event| !has_phase(event, "start") || has_failed(event))
            .filter(|event| given(event, "type").is_none_or(|kind| kind == "llm"))
            .filter(|event| is_complete(event))
            .collect();
        let calls: Vec<&Value> = closing
            .iter()
            .copied()
            .filter(|event| is_llm || event["type"] == "llm")
            .collect();
        (!calls.is_empty() && (!is_llm || closing.len() > 1)).then_some(calls)
    }

    fn own(&self, rates: &Rates) -> Own {
        let Some(calls) = self.several_calls() else {
            let kind = match self.first("type") {
                "llm" => "llm",
                _ => "",
            };
            return Own::of_call(&self.whole(), kind, rates);
        };
        let model = self.last("model");
        let each = calls.into_iter().map(|call| {
            let mut call = call.clone();
            if given(&call, "model").is_none() {
                call["model"] = model.cloned().unwrap_or_default();
            }
            Own::of_call(&call, "llm", rates)
        });
        each.reduce(Own::and).unwrap()
    }
}

/// Whether an event has what a cost is made of.
pub(crate) fn is_complete(event: &Value) -> bool {
    let has = |key: &str| given(event, key).is_some();
    has("cost")
        || has("estimated_cost")
        || has("total_tokens")
        || (has("prompt_tokens") && has("completion_tokens"))
}

/// What a run uses itself.
struct Own {
    /// In units of 10^-18 USD.
    cost: i128,
    status: &'static str,
    prompt: i128,
    completion: i128,
    tokens: i128,
    calls: i128,
}

impl Own {
    /// Of a run whose call another one counts.
    fn nothing() -> Self {
        Self {
            cost: 0,
            status: "CountedElsewhere",
            prompt: 0,
            completion: 0,
            tokens: 0,
            calls: 0,
        }
    }

    fn of_call(call: &Value, kind: &str, rates: &Rates) -> Self {
        let count = |key: &str| call[key].as_u64().map(i128::from);
        let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
        let sum = prompt.unwrap_or(0) + completion.unwrap_or(0);
        let total = count("total_tokens");
        let has_tokens = total.is_some() || (prompt.is_some() && completion.is_some());
        let rate = rates.iter().find(|(model, _)| call["model"] == *model);
        let provided = |dollars: u64| (i128::from(dollars) * 10i128.pow(18), "Provided");
        let estimated = call["estimated_cost"].as_u64().map(provided);
        let (cost, status) = if let Some(cost) = call["cost"].as_u64() {
            provided(cost)
        } else if kind != "llm" {
            (0, "NotLlm")
        } else if given(call, "model").is_none() {
            estimated.unwrap_or((0, "NoModel"))
        } else if !has_tokens {
            estimated.unwrap_or((0, "NoTokens"))
        } else if let Some((_, units)) = rate {
            let charged = match prompt.is_some() && completion.is_some() {
                true => sum,
                false => total.unwrap(),
            };
            (units * charged, "Priced")
        } else {
            estimated.unwrap_or((0, "UnpricedModel"))
        };
        Self {
            cost,
            status,
            prompt: prompt.unwrap_or(0),
            completion: completion.unwrap_or(0),
            tokens: total.unwrap_or(sum),
            calls: i128::from(kind == "llm"),
        }
    }

    fn and(self, other: Self) -> Self {
        let has_price = |status| ["Priced", "Provided"].contains(&status);
        Self {
            cost: self.cost + other.cost,
            status: match (self.status, other.status) {
                (one, same) if one == same => one,
                (one, other) if has_price(one) || has_price(other) => "Priced",
                _ => "UnpricedModel",
            },
            prompt: self.prompt + other.prompt,
            completion: self.completion + other.completion,
            tokens: self.tokens + other.tokens,
            calls: self.calls + other.calls,
        }
    }
}

/// How many different feedback events there are.
pub(crate) fn feedback_events(events: &[Reported]) -> usize {
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

/// Every run's totals added to the run itself and to all its ancestors, each once (P6).
fn totals(runs: &Runs, counted: &Counted, rates: &Rates) -> BTreeMap<RunId, [i128; 6]> {
    let mut totals: BTreeMap<RunId, [i128; 6]> = BTreeMap::new();
    for (id, run) in runs {
        let own = match counted.contains_key(id) {
            true => Own::nothing(),
            false => run.own(rates),
        };
        let own = [
            own.cost,
            own.prompt,
            own.completion,
            own.tokens,
            own.calls,
            i128::from(run.has_failed()),
        ];
        for above in ancestors(id, runs) {
            let sums = totals.entry(above).or_default();
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
    }
    totals
}

fn columns(id: &RunId, runs: &Runs, counted: &Counted, rates: &Rates) -> Value {
    let run = &runs[id];
    let ancestors = ancestors(id, runs);
    let nearest = |key: &str| {
        let mut texts = ancestors.iter().map(|id| runs[id].last_of_metadata(key));
        let found = texts.find(|text| !text.is_empty());
        found.unwrap_or_default().to_owned()
    };
    let tags = run
        .events
        .iter()
        .filter_map(|(_, event)| event["tags"].as_array());
    let tags: BTreeSet<&str> = tags.flatten().filter_map(Value::as_str).collect();
    let own = match counted.contains_key(id) {
        true => Own::nothing(),
        false => run.own(rates),
    };
    let status = match (run.has_failed(), run.ended_at()) {
        (true, _) => "error",
        (false, Some(_)) => "success",
        (false, None) => "started",
    };
    json!({
        "started_at": run.started_at(),
        "ended_at": run.ended_at(),
        "status": status,
        "parent": run.parent(),
        "root": root(&ancestors, runs),
        "agent": nearest("agent"),
        "user": nearest("user_email"),
        "thread": thread(id, runs),
        "turn": turn(id, runs),
        "tags": tags,
        "name": run.name(),
        "saved": run.is_saved(),
        "feedback": run.feedback(),
        "cost": [own.cost.to_string(), own.status],
        "counted by": counted.get(id).map_or("", |run| &run.2),
        "calls": u64::try_from(own.calls).unwrap(),
    })
}

/// The run's thread, else the nearest ancestor's.
fn thread(id: &RunId, runs: &Runs) -> String {
    let ancestors = ancestors(id, runs);
    let mut named = ancestors.iter().filter_map(|id| runs[id].last("thread_id"));
    let thread = named.next().and_then(Value::as_str);
    thread.unwrap_or_default().to_owned()
}

/// When the turn that the run begins has ended; 0 if its parent, or another run of its cycle, is in its thread.
fn turn(id: &RunId, runs: &Runs) -> i64 {
    let (run, own) = (&runs[id], thread(id, runs));
    let above = parent(id, runs).map(|above| thread(&above, runs));
    let is_root = root(&ancestors(id, runs), runs) == id.2;
    match !own.is_empty() && (is_root || above != Some(own)) {
        true => {
            let ended = run.ended_at().unwrap_or(run.started_at());
            let after_a_day = run.started_at() + 86_400_000;
            ended.clamp(run.started_at(), after_a_day)
        }
        false => 0,
    }
}

/// The run, its parent, and so on, as far as known and each once.
pub(crate) fn ancestors(run: &RunId, runs: &Runs) -> Vec<RunId> {
    let mut line = vec![run.clone()];
    let mut seen = BTreeSet::from([run.clone()]);
    while let Some(parent) = parent(&line[line.len() - 1], runs) {
        if !seen.insert(parent.clone()) {
            break;
        }
        line.push(parent);
    }
    line
}

pub(crate) fn parent(run: &RunId, runs: &Runs) -> Option<RunId> {
    let parent = runs[run].parent();
    let key = (run.0.clone(), run.1.clone(), parent.to_owned());
    (!parent.is_empty() && runs.contains_key(&key)).then_some(key)
}

/// The topmost ancestor; in a cycle, the smallest id.
fn root(line: &[RunId], runs: &BTreeMap<RunId, Run>) -> String {
    let top = &line[line.len() - 1];
    match parent(top, runs) {
        None => top.2.clone(),
        Some(again) => {
            let from = line.iter().position(|run| *run == again).unwrap();
            line[from..].iter().map(|run| run.2.clone()).min().unwrap()
        }
    }
}
