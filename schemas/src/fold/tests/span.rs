//! Which events open, close and end a run: the table of `docs/guide/sending-events.md`, row by row.

use serde_json::{Value, json};

use super::{NOW_MS, fold};
use crate::fold::RunStatus::{self, Error, Started, Success};

/// A rule, the events of a run with their times, and the run's start, end and status. Times are milliseconds after
/// `NOW_MS`.
type Row = (
    &'static str,
    Vec<(i64, Value)>,
    (i64, Option<i64>, RunStatus),
);

/// What one event alone does.
fn single_events() -> Vec<Row> {
    let at_5 = |fields| vec![(5, fields)];
    vec![
        (
            "a start opens",
            at_5(json!({"name": "tool_start"})),
            (5, None, Started),
        ),
        (
            "a start needs nothing before its phase",
            at_5(json!({"name": "start"})),
            (5, None, Started),
        ),
        (
            "a start with an output or a length is no one-shot event",
            at_5(json!({"name": "tool_start", "output": 1, "duration_ms": 9})),
            (5, None, Started),
        ),
        (
            "a start does not close by a status of success",
            at_5(json!({"name": "tool_start", "status": "success"})),
            (5, None, Started),
        ),
        (
            "a start that failed opens and closes",
            at_5(json!({"name": "tool_start", "error": "x"})),
            (5, Some(5), Error),
        ),
        (
            "an end closes at its own time, whatever its length",
            at_5(json!({"name": "tool_end", "output": 1, "duration_ms": 9})),
            (5, Some(5), Success),
        ),
        (
            "an end can report an error",
            at_5(json!({"name": "tool_end", "status": "error"})),
            (5, Some(5), Error),
        ),
        (
            "an error closes",
            at_5(json!({"name": "tool_error", "duration_ms": 9})),
            (5, Some(5), Error),
        ),
        (
            "a one-shot event opens and closes",
            at_5(json!({"name": "llm_call"})),
            (5, Some(5), Success),
        ),
        (
            "a one-shot event ends after its length",
            at_5(json!({"name": "llm_call", "duration_ms": 9})),
            (5, Some(14), Success),
        ),
        (
            "any other name with an output is a one-shot event",
            at_5(json!({"name": "lookup", "output": {}, "duration_ms": 9, "error": "x"})),
            (5, Some(14), Error),
        ),
        (
            "an output of null is none",
            at_5(json!({"name": "lookup", "output": null, "duration_ms": 9})),
            (5, None, Started),
        ),
        (
            "any other event with a status or an error closes, and does not open",
            at_5(json!({"name": "lookup", "status": "success", "duration_ms": 9})),
            (5, Some(5), Success),
        ),
        (
            "any other event adds what it carries",
            at_5(json!({"name": "note", "input": 1})),
            (5, None, Started),
        ),
    ]
}

/// What several events of one run do together.
fn several_events() -> Vec<Row> {
    let start = |at| (at, json!({"name": "tool_start"}));
    let end = |at| (at, json!({"name": "tool_end"}));
    let call = |at, length: i64| {
        (
            at,
            json!({"name": "llm_call", "duration_ms": length, "n": length}),
        )
    };
    let mark = |at, name: &str| {
        let fields = json!({"name": name, "rating": "positive", "role": "user", "content": "x",
            "status": "error", "error": "x", "output": 1, "duration_ms": 9});
        (at, fields)
    };
    let marks = |at| ["saved", "unsaved", "feedback", "chat"].map(|name| mark(at, name));
    vec![
        (
            "the earliest opening event starts the run, the latest closing one ends it",
            vec![start(3), start(1), end(4), end(8), end(6)],
            (1, Some(8), Success),
        ),
        (
            "an event before the first opening one does not start it",
            vec![(0, json!({"name": "note"})), start(3)],
            (3, None, Started),
        ),
        (
            "without an opening event the earliest event starts it",
            vec![end(7), (2, json!({"name": "note"}))],
            (2, Some(7), Success),
        ),
        (
            "the end is the latest time at which an event ends, not the end of the latest event",
            vec![call(0, 20), call(5, 1), end(10)],
            (0, Some(20), Success),
        ),
        (
            "a start after the end opens nothing again",
            vec![start(0), end(5), start(9)],
            (0, Some(5), Success),
        ),
        (
            "an error stays, and moves the end only by its own time",
            vec![start(0), (3, json!({"name": "tool_error"})), end(5)],
            (0, Some(5), Error),
        ),
        (
            "a run that ends before it starts keeps both times",
            vec![start(9), end(4)],
            (9, Some(4), Success),
        ),
        (
            "marks and messages move nothing",
            marks(0)
                .into_iter()
                .chain([start(3), end(5)])
                .chain(marks(99))
                .collect(),
            (3, Some(5), Success),
        ),
        (
            "marks and messages end no run",
            [start(3)].into_iter().chain(marks(99)).collect(),
            (3, None, Started),
        ),
    ]
}

#[test]
fn the_start_end_and_status_of_a_run_follow_the_documented_table() {
    for (rule, events, (started, ended, status)) in
        single_events().into_iter().chain(several_events())
    {
        let texts: Vec<String> = events
            .into_iter()
            .map(|(at, mut event)| {
                event["run_id"] = json!("r");
                event["timestamp"] = json!(NOW_MS + at);
                event.to_string()
            })
            .collect();
        for run in [fold(&texts), fold(texts.iter().rev())] {
            let shown = (
                run.started_at_ms() - NOW_MS,
                run.ended_at_ms().map(|end| end - NOW_MS),
                run.status(),
            );
            assert_eq!(shown, (started, ended, status), "{rule}");
            let latency = ended.map(|ended| (ended - started).max(0));
            assert_eq!(run.latency_ms(), latency, "{rule}");
        }
    }
}
