mod span;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::full::FullRun;
use super::*;
use crate::digest::Identity;
use crate::event::{Event, Fields};
use crate::ids::{AppId, ProjectId};
use crate::price::PriceTable;

const NOW_MS: i64 = 1_795_185_741_941;

fn with_event<T>(text: &str, look: impl FnOnce(&Event<'_>, crate::ids::EventId) -> T) -> T {
    let fields: Fields<'_> = serde_json::from_str(text).unwrap();
    let event = Event::from_fields(fields, 0, NOW_MS).unwrap();
    let identity = Identity::new(&ProjectId::new("p"), &AppId::new("a"));
    look(&event, identity.of(&event, text))
}

pub(super) fn fold<'a>(texts: impl IntoIterator<Item = &'a String>) -> RunState {
    let mut state = RunState::default();
    for text in texts {
        with_event(text, |event, id| state.apply(event, id));
    }
    state
}

/// Events of one run with overlapping and contradictory fields and equal timestamps.
fn any_event() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("llm_start"),
        Just("llm_end"),
        Just("llm_error"),
        Just("llm_call"),
        Just("note"),
        Just("saved"),
        Just("unsaved"),
        Just("feedback"),
        Just("chat")
    ];
    let optional = |values: Vec<Value>| proptest::option::of(proptest::sample::select(values));
    let fields = (
        optional(vec![json!("llm"), json!("agent")]),
        optional(vec![json!("p1"), json!("p2"), json!("None")]),
        optional(vec![json!({"q": 1}), json!("text"), json!([1, 2])]),
        optional(vec![json!("out"), json!({"o": 2})]),
        optional(vec![json!("m1"), json!("m2")]),
        optional(vec![json!(1), json!(20), json!(300)]),
        optional(vec![json!("boom"), json!({"name": "E", "message": "m"})]),
        optional(vec![json!(["t1"]), json!(["t2", "t3"])]),
        optional(vec![
            json!({"k": 1, "agent": "a1"}),
            json!({"k": "2", "user_email": "u"}),
        ]),
        optional(vec![json!("same"), json!("other")]),
        optional(vec![json!(0.25), json!(1e-9)]),
        (
            optional(vec![json!("success"), json!("error")]),
            optional(vec![json!(3), json!(40)]),
        ),
    );
    (name, 0i64..6, 0i64..3, fields).prop_map(|(name, at, duration, fields)| {
        let (kind, parent, input, output, model, tokens, error, tags, metadata, event_id, cost, (status, ttft)) =
            fields;
        json!({
            "name": name, "run_id": "r", "timestamp": NOW_MS + at, "duration_ms": duration, "type": kind,
            "parent_run_id": parent, "input": input, "output": output, "model": model, "prompt_tokens": tokens,
            "completion_tokens": tokens, "error": error, "tags": tags, "metadata": metadata, "event_id": event_id,
            "cost": cost, "status": status, "ttft_ms": ttft, "cache_write_tokens": ttft, "rating": if at % 2 == 0 { "positive" } else { "negative" }, "comment": "why",
            "role": "user", "content": "hello",
        })
        .to_string()
    })
}

/// The same rules, written plainly over the whole set of events: sort, then walk.
fn reference(texts: &[String]) -> BTreeMap<&'static str, Value> {
    let mut all: Vec<(i64, u128, Value)> = texts
        .iter()
        .map(|text| {
            with_event(text, |event, id| {
                (
                    event.timestamp_ms,
                    id.0,
                    serde_json::from_str(text).unwrap(),
                )
            })
        })
        .collect();
    all.sort_by_key(|(at, id, _)| (*at, id >> 64));
    let (marks, events): (Vec<_>, Vec<_>) = all
        .into_iter()
        .filter(|(_, _, event)| event["name"] != "chat")
        .partition(|(_, _, event)| {
            ["saved", "unsaved", "feedback"]
                .iter()
                .any(|name| event["name"] == *name)
        });
    let newest = |names: &[&str]| {
        let mut marks = marks.iter().rev();
        marks.find(|(_, _, event)| names.iter().any(|name| event["name"] == *name))
    };
    let saved = newest(&["saved", "unsaved"]).is_some_and(|(_, _, event)| event["name"] == "saved");
    let feedback = newest(&["feedback"]).map(|(at, _, event)| (*at, event["rating"].clone()));
    let given = |event: &Value, key: &str| {
        Some(event[key].clone()).filter(|value| !value.is_null() && value != "None")
    };
    let last = |key: &str| {
        events
            .iter()
            .rev()
            .find_map(|(_, _, event)| given(event, key))
            .unwrap_or_default()
    };
    let first = |key: &str| {
        events
            .iter()
            .find_map(|(_, _, event)| given(event, key))
            .unwrap_or_default()
    };
    let one_shot = |event: &Value| {
        let name = event["name"].as_str().unwrap();
        name == "llm_call" || (name == "note" && given(event, "output").is_some())
    };
    let has_failed = |event: &Value| {
        event["name"] == "llm_error" || event["status"] == "error" || !event["error"].is_null()
    };
    let opened = events
        .iter()
        .filter(|(_, _, event)| event["name"] == "llm_start" || one_shot(event))
        .map(|(at, _, _)| *at)
        .min();
    let closed = events
        .iter()
        .filter(|(_, _, event)| {
            one_shot(event)
                || event["name"] == "llm_end"
                || (event["name"] == "note" && event["status"] == "success")
                || has_failed(event)
        })
        .map(|(at, _, event)| {
            at + if one_shot(event) {
                event["duration_ms"].as_i64().unwrap()
            } else {
                0
            }
        })
        .max();
    let failed = events.iter().any(|(_, _, event)| has_failed(event));
    let started = opened
        .or(events.iter().map(|(at, _, _)| *at).min())
        .or(marks.iter().map(|(at, _, _)| *at).min())
        .unwrap_or_default();
    let is_llm = first("type") == "llm";
    let mut ids = BTreeSet::new();
    let closing: Vec<&Value> = events
        .iter()
        .filter(|(_, id, _)| ids.insert(*id))
        .map(|(_, _, event)| event)
        .filter(|event| event["name"] != "llm_start" || has_failed(event))
        .filter(|event| event["type"].is_null() || event["type"] == "llm")
        .filter(|event| !event["cost"].is_null() || !event["prompt_tokens"].is_null())
        .collect();
    let own = closing
        .iter()
        .filter(|event| is_llm || event["type"] == "llm");
    let own: Vec<&Value> = own.map(|event| &event["prompt_tokens"]).collect();
    let (prompt, calls) = if own.is_empty() || (is_llm && closing.len() == 1) {
        (last("prompt_tokens"), u64::from(is_llm))
    } else {
        let known = own.iter().filter_map(|count| count.as_u64());
        (
            json!(known.reduce(|sum, next| sum + next)),
            own.len() as u64,
        )
    };
    let mut tags: Vec<String> = events
        .iter()
        .flat_map(|(_, _, event)| event["tags"].as_array().cloned().unwrap_or_default())
        .map(|tag| tag.as_str().unwrap().to_owned())
        .collect();
    tags.sort();
    tags.dedup();
    BTreeMap::from([
        ("started", json!(started)),
        ("ended", json!(closed)),
        (
            "status",
            json!(if failed {
                "error"
            } else if closed.is_some() {
                "success"
            } else {
                "started"
            }),
        ),
        ("type", first("type")),
        ("parent", first("parent_run_id")),
        ("input", first("input")),
        ("output", last("output")),
        ("model", last("model")),
        ("ttft", last("ttft_ms")),
        ("prompt", prompt),
        ("calls", json!(calls)),
        ("tags", json!(tags)),
        ("saved", json!(saved)),
        ("feedback", json!(feedback)),
    ])
}

fn observed(full: &FullRun) -> BTreeMap<&'static str, Value> {
    let state = full.state();
    let text = |text: &str| {
        if text.is_empty() {
            Value::Null
        } else {
            json!(text)
        }
    };
    let parsed =
        |json: Option<&str>| json.map_or(Value::Null, |json| serde_json::from_str(json).unwrap());
    BTreeMap::from([
        ("started", json!(state.started_at_ms())),
        ("ended", json!(state.ended_at_ms())),
        ("status", json!(state.status().as_str())),
        ("type", text(state.kind())),
        ("parent", text(state.parent_run_id())),
        ("input", parsed(full.input())),
        ("output", parsed(full.output())),
        ("model", text(state.model())),
        ("ttft", json!(state.ttft_ms())),
        ("prompt", json!(state.usage().tokens.prompt)),
        ("calls", json!(state.usage().calls)),
        ("tags", json!(state.tags().collect::<Vec<_>>())),
        ("saved", json!(state.is_saved())),
        (
            "feedback",
            json!(
                state
                    .latest_feedback()
                    .map(|feedback| (feedback.at_ms, feedback.rating.as_str()))
            ),
        ),
    ])
}

proptest! {
    #[test]
    fn order_duplication_and_cuts_do_not_count_p2(
        (texts, shuffled) in proptest::collection::vec(any_event(), 0..10)
            .prop_flat_map(|texts| (Just(texts.clone()), Just(texts).prop_shuffle())),
        repeats in proptest::collection::vec(0usize..10, 0..6),
        cut in 0usize..10,
    ) {
        let whole = fold(&texts);
        let mut repeated = shuffled.clone();
        repeated.extend(repeats.iter().filter_map(|at| texts.get(*at).cloned()));
        prop_assert_eq!(&fold(&repeated), &whole, "commutative and idempotent (P2)");

        let (left, right) = shuffled.split_at(cut.min(shuffled.len()));
        let mut joined = fold(left);
        let right = fold(right);
        joined.join(RunState::decode(&right.encode().unwrap(), right.previews()).unwrap());
        prop_assert_eq!(&joined, &whole, "associative, also over what was stored between (P2)");
        let mut twice = whole.clone();
        twice.join(whole.clone());
        prop_assert_eq!(&twice, &whole);
    }

    #[test]
    fn it_agrees_with_the_rules_written_plainly(texts in proptest::collection::vec(any_event(), 1..10)) {
        // Two contents with one given id are the client's contradiction; the plain rules have no answer to it.
        let texts: Vec<String> = texts.into_iter().enumerate().map(|(at, text)| {
            let mut event: Value = serde_json::from_str(&text).unwrap();
            event["event_id"] = if event["event_id"].is_null() { Value::Null } else { json!(format!("e{at}")) };
            event.to_string()
        }).collect();
        let mut full = FullRun::default();
        for text in &texts {
            with_event(text, |event, id| full.apply(event, id));
        }
        prop_assert_eq!(observed(&full), reference(&texts));
        prop_assert_eq!(full.state(), &fold(&texts));
    }

    #[test]
    fn damaged_state_is_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = RunState::decode(&bytes, Previews::default());
    }
}

#[test]
fn bounds_on_tags_and_metadata_do_not_depend_on_order() {
    let texts: Vec<String> = (0..300)
        .map(|at| {
            json!({"name": "n", "run_id": "r", "timestamp": NOW_MS + at, "tags": [format!("t{at}")],
                   "metadata": {format!("k{at}"): "v".repeat(9999)}})
            .to_string()
        })
        .collect();
    let state = fold(&texts);
    assert_eq!(state, fold(texts.iter().rev()), "(P2, X1)");
    assert_eq!((state.tags().count(), state.metadata().count()), (128, 64));
    assert!(state.metadata().all(|(_, value)| value.len() == 512));
}

#[test]
fn marks_wait_for_their_run_and_cost_nothing_where_there_are_none() {
    let run = json!({"name": "a_start", "run_id": "r", "timestamp": NOW_MS}).to_string();
    let saved = json!({"name": "saved", "run_id": "r", "timestamp": NOW_MS + 5}).to_string();
    let mark = fold([&saved]);
    assert!(mark.is_unseen() && mark.is_saved());
    assert_eq!(mark.started_at_ms(), NOW_MS + 5);
    let both = fold([&saved, &run]);
    assert!(!both.is_unseen() && both.is_saved());
    assert_eq!(both.started_at_ms(), NOW_MS);
    assert_eq!(
        fold([&run]).encode().unwrap()[0],
        1,
        "as rows were written before there were marks"
    );
    let bytes = both.encode().unwrap();
    assert_eq!(RunState::decode(&bytes, both.previews()).unwrap(), both);
}

#[test]
fn a_closed_run_is_not_opened_again_and_an_error_stays() {
    let start = json!({"name": "a_start", "run_id": "r", "timestamp": NOW_MS}).to_string();
    let end = json!({"name": "a_end", "run_id": "r", "timestamp": NOW_MS + 1500}).to_string();
    let error = json!({"name": "a_error", "run_id": "r", "timestamp": NOW_MS + 10, "error": "x"})
        .to_string();
    let late_start =
        json!({"name": "a_start", "run_id": "r", "timestamp": NOW_MS + 9000}).to_string();
    assert_eq!(fold([&start]).status(), RunStatus::Started);
    assert_eq!(fold([&start]).latency_ms(), None);
    let state = fold([&start, &end, &late_start]);
    assert_eq!(
        (state.status(), state.latency_ms()),
        (RunStatus::Success, Some(1500))
    );
    assert_eq!(fold([&end, &error, &start]).status(), RunStatus::Error);
}

#[test]
fn cost_says_why_it_is_what_it_is() {
    let cost = |fields: Value| {
        let mut event = json!({"name": "llm_call", "run_id": "r", "timestamp": NOW_MS});
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        let cost = fold([&event.to_string()]).cost(&PriceTable::default());
        (cost.status.as_str(), cost.amount.to_string())
    };
    let zero = || "0".to_owned();
    assert_eq!(
        cost(json!({"type": "tool", "model": "m", "total_tokens": 5})),
        ("not_llm", zero())
    );
    assert_eq!(
        cost(json!({"type": "llm", "total_tokens": 5})),
        ("no_model", zero())
    );
    assert_eq!(
        cost(json!({"type": "llm", "model": "m", "completion_tokens": 5})),
        ("no_tokens", zero())
    );
    assert_eq!(
        cost(json!({"type": "llm", "model": "m", "total_tokens": 5})),
        ("unpriced_model", zero())
    );
    assert_eq!(
        cost(json!({"type": "llm", "cost": 0.1})),
        ("provided", "0.1".to_owned())
    );
}

#[test]
fn previews_are_text_of_bounded_length_whatever_comes_in() {
    let raw = |text: &str| serde_json::from_str::<Box<RawValue>>(text).unwrap();
    assert_eq!(&*preview(&raw(r#""a\nb""#)), "a\nb");
    assert_eq!(&*preview(&raw(r#"{"a": 1}"#)), r#"{"a": 1}"#);
    for text in [
        "\"".to_owned() + &"é".repeat(99_999) + "\"",
        "\"".to_owned() + &"\\ud83d\\ude00".repeat(99_999) + "\"",
        "\"".to_owned() + &"\\u00e9\\n".repeat(9_999) + "\"",
        "[".to_owned() + &"1,".repeat(9_999) + "1]",
    ] {
        assert_eq!(preview(&raw(&text)).chars().count(), 160, "{}", &text[..20]);
    }
    assert_eq!(&*preview(&raw(r#""\ud800""#)), r#""\ud800""#);
}
