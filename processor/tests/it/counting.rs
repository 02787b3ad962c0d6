//! A call is counted once, however many instrumentations saw it: the rule written plainly over all runs at once, and
//! random trees in which every call is reported several times.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use schemas::event::response_id::{self, Signal};
use serde_json::{Value, json};

use crate::fold::{BASE_MS, Between, Reported, any_between, block_on, rates, run};
use crate::memory_tables::RunId;
use crate::reference::{Counted, Run, Runs, ancestors, is_complete, parent};

/// One model call in the runs: the runs that report it.
type Reports = BTreeSet<RunId>;

/// The runs whose call another run counts, and that run.
pub(crate) fn counted(runs: &Runs) -> Counted {
    let calls: BTreeMap<RunId, Value> = runs
        .iter()
        .filter_map(|(id, run)| Some((id.clone(), run.one_call()?)))
        .collect();
    let above: BTreeMap<&RunId, Vec<RunId>> = calls
        .keys()
        .map(|id| (id, calls_above(id, runs, &calls)))
        .collect();
    // Runs with the same response at one time are one call, and the two of a pair of signals.
    let mut all: Vec<Reports> = Vec::new();
    let pairs = pairs_of_signals(runs, &calls);
    for id in calls.keys() {
        let same = |other: &RunId| {
            let response = &calls[id]["response_id"];
            let is_paired = pairs.contains(&(id, other)) || pairs.contains(&(other, id));
            let is_same = !response.is_null()
                && *response == calls[other]["response_id"]
                && is_at_one_time(&runs[id], &runs[other]);
            let is_by_counts = response.as_str().is_some_and(is_by_counts);
            let is_one = if is_by_counts { is_paired } else { is_same };
            other.0 == id.0 && other.1 == id.1 && is_one
        };
        let (joined, others) = all
            .into_iter()
            .partition::<Vec<Reports>, _>(|call| call.iter().any(same));
        let mut call: Reports = joined.into_iter().flatten().collect();
        call.insert(id.clone());
        all = others;
        all.push(call);
    }
    // Around each call, from the inside out, there may be a run that reports it again.
    let mut from_inside: Vec<&RunId> = calls.keys().collect();
    from_inside.sort_by_key(|id| std::cmp::Reverse(above[id].len()));
    for outer in from_inside {
        let own = place(outer, &all);
        let is_below = |id: &&RunId| above[*id].contains(outer);
        if calls
            .keys()
            .filter(is_below)
            .any(|id| all[own].contains(id))
        {
            continue;
        }
        let alike = calls.keys().filter(is_below).filter(|inner| {
            let [(model, tokens), (inner_model, inner_tokens)] =
                [outer, *inner].map(|id| figures(&calls[id]));
            let is_same_usage = tokens == inner_tokens || !is_complete(&calls[outer]);
            is_in_time(&runs[outer], &runs[*inner]) && model == inner_model && is_same_usage
        });
        let alike: BTreeSet<usize> = alike.map(|inner| place(inner, &all)).collect();
        let responses = |at: usize| -> BTreeSet<String> {
            let texts = all[at].iter().map(|id| calls[id]["response_id"].as_str());
            let texts = texts.flatten().map(|text| match is_by_counts(text) {
                true => text.rsplit('-').next().unwrap(),
                false => text,
            });
            texts.map(str::to_owned).collect()
        };
        let alike = alike.into_iter().filter(|other| {
            let both: BTreeSet<String> = &responses(own) | &responses(*other);
            both.len() < 2
        });
        let alike: Vec<usize> = alike.collect();
        if let [only] = alike[..] {
            let reports = std::mem::take(&mut all[own]);
            all[only].extend(reports);
        }
    }
    join_across_traces(&mut all, &calls, runs);
    let mut counted = Counted::new();
    for call in all {
        let usable: Vec<&RunId> = call.iter().filter(|id| is_complete(&calls[*id])).collect();
        let from = match usable.is_empty() {
            true => call.iter().collect(),
            false => usable,
        };
        let deepest = from
            .iter()
            .filter(|id| !from.iter().any(|other| above[*other].contains(id)));
        let counts = deepest.min_by_key(|id| {
            let is_root = parent(id, runs).is_none() || is_least_of_cycle(id, runs);
            // Of two signals that say the same, the record.
            let is_log = |id: &RunId| {
                let response = calls[id]["response_id"].as_str();
                response.is_some_and(|text| text.starts_with("counts-of-log-"))
            };
            let is_second = call.iter().any(is_log) && !is_log(id);
            (is_second, is_root, runs[**id].started_at(), &id.2)
        });
        if let Some(counts) = counts {
            let others = call.iter().filter(|id| id != counts);
            counted.extend(others.map(|id| (id.clone(), (*counts).clone())));
        }
    }
    counted
}

/// A root, and one run elsewhere around it in which another instrumentation reports the same words. Not both name a
/// response.
fn join_across_traces(all: &mut [Reports], calls: &BTreeMap<RunId, Value>, runs: &Runs) {
    let responses = |call: &Reports| -> BTreeSet<String> {
        let texts = call.iter().map(|id| calls[id]["response_id"].as_str());
        let shared = texts.flatten().filter(|text| !is_by_counts(text));
        shared.map(str::to_owned).collect()
    };
    let words = |call: &Value| {
        let text = call["fingerprint"].as_str()?;
        text.split_once('/')
            .or(Some((text, "")))
            .map(|(said, by)| (said.to_owned(), by.to_owned()))
    };
    let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (outer, call) in calls {
        let own = place(outer, all);
        let Some((said, by)) = words(call) else {
            continue;
        };
        for (inner, other) in calls {
            let is_root = parent(inner, runs).is_none() || is_least_of_cycle(inner, runs);
            let (model, tokens) = figures(call);
            let (inner_model, inner_tokens) = figures(other);
            let root = place(inner, all);
            let both = &responses(&all[own]) | &responses(&all[root]);
            if (&outer.0, &outer.1) == (&inner.0, &inner.1)
                && root != own
                && words(other).is_some_and(|(of_root, by_root)| of_root == said && by_root != by)
                && is_root
                && both.len() < 2
                && is_in_time(&runs[outer], &runs[inner])
                && model == inner_model
                && (tokens == inner_tokens || !is_complete(call))
            {
                pairs.insert((own.min(root), own.max(root)));
            }
        }
    }
    let mut emptied = Vec::new();
    for (outer, root) in &pairs {
        let rivals = pairs
            .iter()
            .filter(|(one, other)| [one, other].iter().any(|of| *of == outer || *of == root));
        if rivals.count() == 1 {
            emptied.push((*outer, *root));
        }
    }
    for (outer, root) in emptied {
        let reports = std::mem::take(&mut all[outer]);
        all[root].extend(reports);
    }
}

fn is_by_counts(response: &str) -> bool {
    response.starts_with("counts-of-")
}

/// The runs of spans and of log records that report one call by equal counts: the first of each, the second of each.
fn pairs_of_signals<'a>(
    runs: &Runs,
    calls: &'a BTreeMap<RunId, Value>,
) -> BTreeSet<(&'a RunId, &'a RunId)> {
    let mut of_hash: BTreeMap<[&str; 3], [Vec<&RunId>; 2]> = BTreeMap::new();
    for (id, call) in calls {
        let response = call["response_id"].as_str().unwrap_or_default();
        for (at, prefix) in ["counts-of-span-", "counts-of-log-"].iter().enumerate() {
            if let Some(hash) = response.strip_prefix(prefix) {
                of_hash.entry([&id.0, &id.1, hash]).or_default()[at].push(id);
            }
        }
    }
    let mut pairs = BTreeSet::new();
    for mut signals in of_hash.into_values() {
        for ids in &mut signals {
            ids.sort_by_key(|id| (runs[*id].started_at(), &id.2));
        }
        let [spans, logs] = signals;
        let of_one_call = spans.into_iter().zip(logs).filter(|(span, log)| {
            let [one, other] = [span, log].map(|id| {
                let run = &runs[*id];
                let start = run.started_at();
                (start, run.ended_at().unwrap_or(start).max(start))
            });
            let [model, other_model] = [span, log].map(|id| figures(&calls[*id]).0);
            let is_near = one.0 - other.1 <= 10_000 && other.0 - one.1 <= 10_000;
            is_near && (model == other_model || model.is_empty() || other_model.is_empty())
        });
        pairs.extend(of_one_call);
    }
    pairs
}

fn place(id: &RunId, all: &[Reports]) -> usize {
    all.iter().position(|call| call.contains(id)).unwrap()
}

/// The calls above a run, as far as the first run of a cycle of parents. Runs of a cycle have none.
fn calls_above(id: &RunId, runs: &Runs, calls: &BTreeMap<RunId, Value>) -> Vec<RunId> {
    let mut line = Vec::new();
    for run in ancestors(id, runs) {
        let is_last = is_in_cycle(&run, runs);
        line.push(run);
        if is_last {
            break;
        }
    }
    line.retain(|run| run != id && calls.contains_key(run));
    line
}

fn is_in_cycle(id: &RunId, runs: &Runs) -> bool {
    let line = ancestors(id, runs);
    parent(&line[line.len() - 1], runs).as_ref() == Some(id)
}

fn is_least_of_cycle(id: &RunId, runs: &Runs) -> bool {
    is_in_cycle(id, runs) && ancestors(id, runs).iter().min() == Some(id)
}

fn is_in_time(outer: &Run, inner: &Run) -> bool {
    match (outer.ended_at(), inner.ended_at()) {
        (Some(end), Some(inner_end)) => {
            let [start, inner_start] = [outer.started_at(), inner.started_at()];
            // Two milliseconds either way are rounding, of what has a length.
            let rounded = if end > start && inner_end > inner_start {
                2
            } else {
                0
            };
            start - inner_start <= rounded && inner_end - end <= rounded
        }
        _ => false,
    }
}

fn is_at_one_time(one: &Run, other: &Run) -> bool {
    let [(start, end), (other_start, other_end)] = [one, other].map(|run| {
        let start = run.started_at();
        (start, run.ended_at().unwrap_or(start).max(start))
    });
    if end > start && other_end > other_start {
        return (start..end).contains(&other_start) || (other_start..other_end).contains(&start);
    }
    // Without a length: at most a second away.
    (start - other_end).max(other_start - end) <= 1000
}

/// Model and counts. What is not known is no figure.
fn figures(call: &Value) -> (String, [Option<u64>; 3]) {
    let count = |key: &str| call[key].as_u64();
    let [prompt, completion] = ["prompt_tokens", "completion_tokens"].map(count);
    let sum = match (prompt, completion) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0) + other.unwrap_or(0)),
    };
    let total = count("total_tokens").or(sum);
    let model = call["model"].as_str().unwrap_or_default();
    (model.to_owned(), [prompt, completion, total])
}

/// How the spans of one call lie: all calls of a case have the same model and the same tokens.
#[derive(Clone, Debug)]
struct Call {
    /// Number of its agent, each a trace of its own.
    agent: usize,
    /// From the outside in.
    layers: Vec<Layer>,
    /// Runs beside it, which name the response: in the same trace or in one of their own.
    beside: Vec<bool>,
    /// A root in its time that alone names the response, found by what was said.
    is_seen_by_client: bool,
    /// Whether log records report it too, and neither signal names the response.
    is_in_two_signals: bool,
}

#[derive(Clone, Copy, Debug)]
struct Layer {
    names_response: bool,
    /// Another span is around it.
    is_wrapped: bool,
    /// Not so the innermost.
    lacks_usage: bool,
    /// What was said is known, and no response named by the others.
    has_fingerprint: bool,
}

fn any_layer() -> impl Strategy<Value = Layer> {
    any::<(bool, bool, bool)>().prop_map(|(names_response, is_wrapped, lacks_usage)| Layer {
        names_response,
        is_wrapped,
        lacks_usage,
        has_fingerprint: false,
    })
}

fn any_call() -> impl Strategy<Value = Call> {
    let layers = proptest::collection::vec(any_layer(), 1..4);
    let beside = prop_oneof![
        3 => Just(Vec::new()),
        1 => proptest::collection::vec(any::<bool>(), 1..3),
    ];
    let all = (0usize..3, layers, beside, any::<bool>(), any::<bool>());
    all.prop_map(
        |(agent, mut layers, mut beside, is_in_two_signals, by_client)| {
            let is_seen_by_client = by_client && beside.is_empty() && !is_in_two_signals;
            if is_in_two_signals {
                // One that came in one signal only would be paired with another call: as many, but not the same ones.
                beside.resize(1, true);
                layers
                    .iter_mut()
                    .for_each(|layer| layer.names_response = false);
            }
            if let Some(last) = layers.last_mut() {
                last.names_response |= !beside.is_empty() || is_in_two_signals;
                last.lacks_usage = false;
                last.has_fingerprint = is_seen_by_client;
            }
            if is_seen_by_client {
                layers
                    .iter_mut()
                    .for_each(|layer| layer.names_response = false);
            }
            Call {
                agent,
                layers,
                beside,
                is_seen_by_client,
                is_in_two_signals,
            }
        },
    )
}

/// The events of all calls, and the runs that report each of them.
fn events(calls: &[Call]) -> (Vec<Reported>, Vec<Vec<String>>) {
    let mut events = Vec::new();
    let mut reports = Vec::new();
    let mut add = |event: Value| {
        events.push(Reported {
            project: "p",
            app: "a",
            event,
        });
    };
    for agent in 0..3 {
        add(
            json!({"name": "agent_start", "type": "agent", "run_id": format!("agent{agent}"),
            "timestamp": BASE_MS - 1}),
        );
    }
    for (at, call) in calls.iter().enumerate() {
        let mut of_call = Vec::new();
        let mut span = |run: &str, parent: Option<&str>, depth: usize, layer: Option<Layer>| {
            let kind = if layer.is_some() { "llm" } else { "chain" };
            let begin = BASE_MS + 40 * at as i64 + depth as i64;
            let end = BASE_MS + 40 * at as i64 + 30 - depth as i64;
            let is_llm = layer.is_some();
            let has_usage = layer.is_some_and(|layer| !layer.lacks_usage);
            let names = layer.is_some_and(|layer| layer.names_response);
            add(
                json!({"name": format!("{kind}_start"), "type": kind, "run_id": run,
                "parent_run_id": parent, "timestamp": begin}),
            );
            add(
                json!({"name": format!("{kind}_end"), "type": kind, "run_id": run, "timestamp": end,
                "model": is_llm.then_some("dear"), "prompt_tokens": has_usage.then_some(2),
                "completion_tokens": has_usage.then_some(1),
                "response_id": names.then(|| match (call.is_in_two_signals, run.starts_with("beside")) {
                    (false, _) => format!("response{at}"),
                    // Equal for all calls: their counts are.
                    (true, false) => response_id::of_counts(Signal::Span, 7),
                    (true, true) => response_id::of_counts(Signal::Log, 7),
                }),
                "call_fingerprint": layer.is_some_and(|layer| layer.has_fingerprint).then(|| format!("said{}/{}", at % 2, run.starts_with("client")))}),
            );
            if is_llm {
                of_call.push(run.to_owned());
            }
        };
        let agent = format!("agent{}", call.agent);
        let mut parent = agent.clone();
        for (depth, layer) in call.layers.iter().enumerate() {
            if layer.is_wrapped {
                let chain = format!("chain{at}.{depth}");
                span(&chain, Some(&parent), 2 * depth, None);
                parent = chain;
            }
            let run = format!("call{at}.{depth}");
            span(&run, Some(&parent), 2 * depth + 1, Some(*layer));
            parent = run;
        }
        for (number, is_elsewhere) in call.beside.iter().enumerate() {
            let beside = format!("beside{at}.{number}");
            let parent = (!is_elsewhere).then_some(agent.as_str());
            let layer = Layer {
                names_response: true,
                is_wrapped: false,
                lacks_usage: false,
                has_fingerprint: false,
            };
            span(&beside, parent, 0, Some(layer));
        }
        if call.is_seen_by_client {
            let layer = Layer {
                names_response: true,
                is_wrapped: false,
                lacks_usage: false,
                has_fingerprint: true,
            };
            span(&format!("client{at}"), None, 9, Some(layer));
        }
        reports.push(of_call);
    }
    (events, reports)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn calls_seen_by_several_instrumentations_count_once_p2_p5_p6(
        (calls, order) in proptest::collection::vec(any_call(), 1..6).prop_flat_map(|calls| {
            let places: Vec<usize> = (0..events(&calls).0.len()).collect();
            (Just(calls), Just(places).prop_shuffle())
        }),
        cuts in proptest::collection::vec((1usize..12, any_between()), 1..8),
    ) {
        let (events, reports) = events(&calls);
        let mut rest = order.as_slice();
        let mut batches = Vec::new();
        for (size, between) in cuts.iter().chain([&(usize::MAX, Between::Restart)]) {
            let (batch, after) = rest.split_at((*size).min(rest.len()));
            batches.push((batch.iter().map(|at| events[*at].clone()).collect(), *between));
            rest = after;
        }
        let runs = block_on(run(&batches)).visible_runs();
        prop_assert_eq!(&runs, &crate::reference::fold(&events, &rates(7, 2)));
        let columns = |run: &str| &runs[&("p".to_owned(), "a".to_owned(), run.to_owned())];
        // Three tokens a call, at seven units a token by the price table of the end.
        let whole = |count: usize| [(21 * count).to_string(), (3 * count).to_string(), count.to_string()];
        let figures = |totals: &Value| [0, 3, 4].map(|at| totals[at].as_str().unwrap_or_default().to_owned());
        for reports in &reports {
            let by: Vec<&str> = reports.iter().map(|run| columns(run)["counted by"].as_str().unwrap()).collect();
            let counts: Vec<&String> = reports.iter().filter(|run| columns(run)["counted by"] == "").collect();
            prop_assert_eq!(counts.len(), 1, "{:?} {:?}", reports, by);
            prop_assert!(by.iter().all(|by| by.is_empty() || by == counts[0]));
            prop_assert_eq!(columns(counts[0])["calls"].as_u64(), Some(1));
        }
        // Nothing above a call contains it twice.
        let mut sums = [0i128; 3];
        for run in runs.iter().filter(|((_, _, id), columns)| columns["root"] == **id).map(|(_, columns)| columns) {
            for (sum, figure) in sums.iter_mut().zip(figures(&run["totals"])) {
                *sum += figure.parse::<i128>().unwrap();
            }
        }
        prop_assert_eq!(sums.map(|sum| sum.to_string()), whole(calls.len()));
    }
}

fn llm_call(run: &str, parent: Option<&str>, at: i64, response: Option<&str>) -> Reported {
    Reported {
        project: "p",
        app: "a",
        event: json!({"name": "llm_call", "type": "llm", "run_id": run, "parent_run_id": parent,
            "timestamp": BASE_MS + at, "model": "dear", "prompt_tokens": 2, "completion_tokens": 1,
            "response_id": response}),
    }
}

/// The number of model calls over all roots.
fn calls_of(batches: &[(Vec<Reported>, Between)]) -> u64 {
    let runs = block_on(run(batches)).visible_runs();
    let roots = runs
        .iter()
        .filter(|((_, _, id), columns)| columns["root"] == **id);
    let calls = roots.map(|(_, columns)| {
        columns["totals"][4]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    });
    calls.sum()
}

#[test]
fn an_identifier_that_all_responses_have_identifies_none_x1() {
    let calls: Vec<Reported> = (0..100)
        .map(|at| llm_call(&format!("r{at}"), None, at % 20, Some("chatcmpl-test")))
        .collect();
    let batches: Vec<_> = calls
        .chunks(7)
        .map(|some| (some.to_vec(), Between::Cold))
        .collect();
    assert_eq!(calls_of(&batches[..9]), 1, "63 runs");
    assert_eq!(calls_of(&batches), 100);
}

#[test]
fn a_model_call_around_a_hundred_others_counts_beside_them_x1() {
    let mut calls = vec![llm_call("outer", None, 0, None)];
    calls.extend((0..100).map(|at| llm_call(&format!("r{at}"), Some("outer"), 0, None)));
    assert_eq!(calls_of(&[(calls[..2].to_vec(), Between::Nothing)]), 1);
    let batches: Vec<_> = calls
        .chunks(7)
        .map(|some| (some.to_vec(), Between::Cold))
        .collect();
    assert_eq!(calls_of(&batches), 101);
}
