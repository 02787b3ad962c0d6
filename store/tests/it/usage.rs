//! Sums over runs equal the sums of a plain model, whatever is unmerged, moved or deleted in the table (P3).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use schemas::fold::RunStatus;
use schemas::money::Dollars;
use schemas::run::{Instant, Seconds};
use schemas::usage::{
    Activity, Bucket, Example, Failures, Group, GroupBy, Interval, Question, Spend,
};
use store::reads::current::Scope;
use store::reads::filter_sql::Projects;
use store::tables::rows::RunRow;
use store::testing::TestDatabase;

use crate::database;
use store::reads::usage::{Breakdown, Grouping};

use crate::rows::{NOON_MS, run};

const NOW_MS: i64 = NOON_MS + 3_600_000;
const DAY_MS: i64 = 86_400_000;
const RUNS: [&str; 10] = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"];

/// The effect of one insert on one run.
#[derive(Clone, Debug)]
struct Change {
    run: usize,
    app: &'static str,
    project: &'static str,
    /// Days and milliseconds from the beginning: few, so that many runs start together.
    start: (i64, i64),
    /// Removed entirely.
    gone: bool,
    row: Values,
}

#[derive(Clone, Debug)]
struct Values {
    kind: &'static str,
    status: RunStatus,
    model: &'static str,
    agent: &'static str,
    user: &'static str,
    error: (&'static str, &'static str),
    length_ms: Option<i64>,
    tokens: Option<u64>,
    cost: i128,
}

fn any_change() -> impl Strategy<Value = Change> {
    let values = (
        prop_oneof![Just("llm"), Just("agent")],
        prop_oneof![
            Just(RunStatus::Started),
            Just(RunStatus::Success),
            Just(RunStatus::Error)
        ],
        prop_oneof![Just(""), Just("m1"), Just("m2")],
        prop_oneof![Just(""), Just("scout")],
        prop_oneof![Just(""), Just("u@x"), Just("v@x")],
        prop_oneof![
            Just(("", "")),
            Just(("Limit", "429")),
            Just(("", "broken pipe"))
        ],
        proptest::option::of(0i64..5000),
        proptest::option::of(prop_oneof![0u64..100, Just(1 << 53)]),
        prop_oneof![Just(0i128), 1..10_000_000_000_000_000_000i128],
    )
        .prop_map(
            |(kind, status, model, agent, user, error, length_ms, tokens, cost)| Values {
                kind,
                status,
                model,
                agent,
                user,
                error,
                length_ms,
                tokens,
                cost,
            },
        );
    (
        (0..RUNS.len(), prop_oneof![3 => Just("a"), 1 => Just("b")]),
        prop_oneof![5 => Just("default"), 1 => Just("theirs")],
        (0i64..3, 0i64..4),
        prop::bool::weighted(0.1),
        values,
    )
        .prop_map(|((run, app), project, start, gone, row)| Change {
            run,
            app,
            project,
            start,
            gone,
            row,
        })
}

/// Inserts, each followed by a merge of everything or not.
fn any_history() -> impl Strategy<Value = Vec<(Vec<Change>, bool)>> {
    let first = (prop::collection::vec(any_change(), 0..60), any::<bool>());
    let later = (
        prop::collection::vec(any_change(), 0..4),
        prop::bool::weighted(0.2),
    );
    (first, prop::collection::vec(later, 0..5)).prop_map(|(first, later)| {
        let mut all = vec![first];
        all.extend(later);
        all
    })
}

/// The current rows by project, app and run, as a plain map.
type Model = BTreeMap<(&'static str, &'static str, usize), RunRow<'static>>;

/// The rows of one insert: a run whose start moved leaves a tombstone.
fn rows_of(model: &mut Model, changes: &[Change], version: &mut u64) -> Vec<RunRow<'static>> {
    let mut rows = Vec::new();
    for change in changes {
        *version += 1;
        let name = (change.project, change.app, change.run);
        let started_at = NOON_MS - change.start.0 * DAY_MS + change.start.1;
        let values = &change.row;
        let row = RunRow {
            project_id: change.project,
            r#type: values.kind,
            calls: u64::from(values.kind == "llm"),
            status: values.status,
            model: values.model,
            agent: values.agent,
            user_email: values.user,
            error_name: values.error.0,
            error_message: values.error.1,
            latency_ms: values.length_ms,
            prompt_tokens: values.tokens,
            completion_tokens: values.tokens.map(|tokens| tokens / 3),
            ttft_ms: values.length_ms.and_then(first_token_of),
            total_tokens: values.tokens.map(|tokens| tokens / 2),
            cost: values.cost,
            ..run(change.app, RUNS[change.run], *version, started_at)
        };
        if let Some(old) = model.remove(&name)
            && (old.started_at != started_at || change.gone)
        {
            rows.push(RunRow {
                is_deleted: 1,
                version: *version,
                ..old
            });
        }
        if !change.gone {
            rows.push(row.clone());
            model.insert(name, row);
        }
    }
    rows
}

fn key_of(by: GroupBy, row: &RunRow<'_>) -> String {
    match by {
        GroupBy::Model => row.model,
        GroupBy::Agent => row.agent,
        GroupBy::UserEmail => row.user_email,
        GroupBy::AppId => row.app_id,
        GroupBy::Reason if row.error_name.is_empty() => row.error_message,
        GroupBy::Reason => row.error_name,
    }
    .to_owned()
}

fn spend_of(rows: &[&RunRow<'_>]) -> Spend {
    Spend {
        runs: rows.len() as u64,
        calls: rows.iter().filter(|row| row.r#type == "llm").count() as u64,
        prompt_tokens: rows
            .iter()
            .map(|row| u128::from(row.prompt_tokens.unwrap_or(0)))
            .sum(),
        completion_tokens: rows
            .iter()
            .map(|row| u128::from(row.completion_tokens.unwrap_or(0)))
            .sum(),
        total_tokens: rows
            .iter()
            .map(|row| u128::from(row.total_tokens.unwrap_or(0)))
            .sum(),
        cost: Dollars(rows.iter().map(|row| row.cost).sum()),
    }
}

fn activity_of(rows: &[&RunRow<'_>]) -> Activity {
    let errors = rows
        .iter()
        .filter(|row| row.status == RunStatus::Error)
        .count() as u64;
    let mut lengths: Vec<i64> = rows.iter().filter_map(|row| row.latency_ms).collect();
    lengths.sort_unstable();
    let at = |part: f64| {
        let place = (lengths.len() as f64 * part) as usize;
        lengths.get(place).copied().map(Seconds)
    };
    let mut first_tokens: Vec<u64> = rows.iter().filter_map(|row| row.ttft_ms).collect();
    first_tokens.sort_unstable();
    let first_token_at = |part: f64| {
        let place = (first_tokens.len() as f64 * part) as usize;
        first_tokens.get(place).copied()
    };
    let (mut generated, mut generating_ms) = (0_u64, 0_i64);
    for row in rows.iter().filter(|row| row.r#type == "llm") {
        let (Some(length_ms), Some(tokens)) = (row.latency_ms, row.completion_tokens) else {
            continue;
        };
        if length_ms > 0 && tokens > 0 {
            let wait_ms = row.ttft_ms.map_or(0, |ttft_ms| ttft_ms as i64);
            generated += tokens;
            generating_ms += match wait_ms < length_ms {
                true => length_ms - wait_ms,
                false => length_ms,
            };
        }
    }
    Activity {
        spend: spend_of(rows),
        errors,
        error_rate: errors as f64 / rows.len().max(1) as f64,
        latency_p50_s: at(0.5),
        latency_p95_s: at(0.95),
        ttft_p50_ms: first_token_at(0.5),
        ttft_p95_ms: first_token_at(0.95),
        tokens_per_second: (generating_ms > 0)
            .then(|| (generated as f64 * 10_000.0 / generating_ms as f64).round() / 10.0),
    }
}

/// Known for some runs, and for some of them later than their end.
fn first_token_of(length_ms: i64) -> Option<u64> {
    let ttft_ms = u64::try_from(length_ms).ok()?;
    match ttft_ms % 4 {
        0 => None,
        1 => Some(ttft_ms + 5),
        _ => Some(ttft_ms / 2),
    }
}

fn failures_of(rows: &[&RunRow<'_>]) -> Failures {
    let newest = rows
        .iter()
        .map(|row| {
            let seen = row.started_at + row.latency_ms.unwrap_or(0);
            (seen, row.project_id, row.app_id, row.run_id)
        })
        .max();
    Failures {
        count: rows.len() as u64,
        last_seen: newest.map(|(seen, ..)| Instant(seen)),
        example: newest.map(|(_, project, app, run)| Example {
            project_id: Some(project.to_owned()),
            app_id: app.to_owned(),
            run_id: run.to_owned(),
        }),
    }
}

/// The same sums over a plain list.
fn reference<F: Clone>(
    rows: &[&RunRow<'_>],
    grouping: Grouping,
    figures: impl Fn(&[&RunRow<'_>]) -> F,
    rank: impl Fn(&F) -> (i128, u64),
) -> Breakdown<F> {
    let groups_of = |rows: &[&RunRow<'_>]| {
        let mut groups: BTreeMap<String, Vec<&RunRow<'_>>> = BTreeMap::new();
        for row in rows.iter().copied() {
            // The rows live as long as the list.
            groups
                .entry(key_of(grouping.by, row))
                .or_default()
                .push(row);
        }
        groups
            .into_iter()
            .map(|(key, rows)| (key, figures(&rows)))
            .collect::<Vec<_>>()
    };
    let mut ranked = groups_of(rows);
    ranked.sort_by(|left, right| {
        rank(&right.1)
            .cmp(&rank(&left.1))
            .then(left.0.cmp(&right.0))
    });
    let order: Vec<String> = ranked.iter().map(|(key, _)| key.clone()).collect();
    let shown = |groups: Vec<(String, F)>| {
        groups
            .into_iter()
            .map(|(key, figures)| Group {
                key: (!key.is_empty()).then_some(key),
                figures,
            })
            .collect::<Vec<_>>()
    };
    let mut buckets = Vec::new();
    if let Some(interval) = grouping.interval {
        let length_ms = interval.length_ms();
        let starts: BTreeSet<i64> = rows
            .iter()
            .map(|row| row.started_at.div_euclid(length_ms) * length_ms)
            .collect();
        for start in starts {
            let inside: Vec<&RunRow<'_>> = rows
                .iter()
                .copied()
                .filter(|row| row.started_at.div_euclid(length_ms) * length_ms == start)
                .collect();
            let mut groups = groups_of(&inside);
            groups.sort_by_key(|(key, _)| order.iter().position(|known| known == key));
            buckets.push(Bucket {
                start: Instant(start),
                totals: figures(&inside),
                groups: shown(groups),
                other: None,
            });
        }
    }
    Breakdown {
        totals: figures(rows),
        groups: shown(ranked),
        other: None,
        buckets,
    }
}

fn ask(pairs: &[(&str, &str)]) -> Question {
    Question::from_pairs(pairs.iter().copied(), &[], NOW_MS).unwrap()
}

/// Filters of the API with the same conditions on a row.
type Case = (
    &'static [(&'static str, &'static str)],
    fn(&RunRow<'_>) -> bool,
);
const FILTERS: [Case; 5] = [
    (&[], |_| true),
    (&[("app_id", "a")], |row| row.app_id == "a"),
    (&[("status", "error"), ("agent", "scout")], |row| {
        row.status == RunStatus::Error && row.agent == "scout"
    }),
    (&[("max_latency_s", "1")], |row| {
        row.latency_ms.is_some_and(|length| length <= 1000)
    }),
    (
        &[
            ("from", "2026-11-19T10:00:00.001Z"),
            ("to", "2026-11-20T10:00:00.001Z"),
        ],
        |row| (NOON_MS - DAY_MS + 1..=NOON_MS + 1).contains(&row.started_at),
    ),
];

async fn compare(
    store: &TestDatabase,
    model: &Model,
    (pairs, holds): &Case,
    interval: Option<Interval>,
) -> Result<(), TestCaseError> {
    let projects = Projects::Only(vec!["default".to_owned()]);
    let question = ask(pairs);
    let scope = Scope {
        projects: &projects,
        filter: &question.filter,
        now_ms: NOW_MS,
    };
    let rows: Vec<&RunRow<'_>> = model
        .values()
        .filter(|row| row.project_id == "default" && holds(row))
        .collect();
    let by = |by| Grouping { by, interval };
    let cost = |figures: &Spend| (figures.cost.0, figures.runs);
    for by in [by(GroupBy::Model), by(GroupBy::Agent)] {
        let found = store.spend(scope, by).await.unwrap();
        prop_assert_eq!(found, reference(&rows, by, spend_of, cost), "{:?}", pairs);
    }
    let calls: Vec<&RunRow<'_>> = rows
        .iter()
        .copied()
        .filter(|row| row.r#type == "llm")
        .collect();
    for (by, rows) in [
        (by(GroupBy::Model), &calls),
        (by(GroupBy::Agent), &rows),
        (by(GroupBy::UserEmail), &rows),
        (by(GroupBy::AppId), &rows),
    ] {
        let found = store.activity(scope, by).await.unwrap();
        let expected = reference(rows, by, activity_of, |figures| cost(&figures.spend));
        prop_assert_eq!(found, expected, "{:?}", pairs);
    }
    let failed: Vec<&RunRow<'_>> = rows
        .iter()
        .copied()
        .filter(|row| row.status == RunStatus::Error)
        .collect();
    let by = by(GroupBy::Reason);
    let found = store.failures(scope, by).await.unwrap();
    let expected = reference(&failed, by, failures_of, |figures| {
        (i128::from(figures.count), 0)
    });
    prop_assert_eq!(found, expected, "{:?}", pairs);
    Ok(())
}

#[test]
fn sums_equal_those_of_a_plain_model_whatever_lies_unmerged_p3() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(database()).unwrap();
    let config = ProptestConfig {
        cases: crate::CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let intervals = vec![None, Some(Interval::Hour), Some(Interval::Day)];
    let cases = (
        any_history(),
        0..FILTERS.len(),
        prop::sample::select(intervals),
    );
    proptest!(config, |((history, filter, interval) in cases)| {
            runtime.block_on(async {
                store
    .run_on_shards("TRUNCATE TABLE runs{local}").await.unwrap();
                let (mut model, mut version) = (Model::new(), 0);
                for (changes, is_merged) in &history {
                    let rows = rows_of(&mut model, changes, &mut version);
                    store.insert_runs(rows.iter()).await.unwrap();
                    if *is_merged {
                        store
    .run_on_shards("OPTIMIZE TABLE runs{local} FINAL").await.unwrap();
                    }
                }
                compare(&store, &model, &FILTERS[filter], interval).await
            })?;
        });
}

fn spend_by(by: GroupBy) -> Grouping {
    Grouping { by, interval: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_hold_each_run_once_while_rows_are_replaced_p3() {
    let store = database().await.unwrap();
    let names: Vec<String> = (0..400).map(|n| format!("run-{n:03}")).collect();
    // Every seventh run, from one of the first seven on.
    let rows = |version: u64, part: usize| {
        let mut rows = Vec::new();
        for n in (part..names.len()).step_by(7) {
            rows.push(RunRow {
                cost: 1,
                ..run("a", &names[n], version, NOON_MS + n as i64 % 90)
            });
        }
        rows
    };
    for part in 0..7 {
        store.insert_runs(rows(1, part).iter()).await.unwrap();
    }
    store
        .run_on_shards("OPTIMIZE TABLE runs{local} FINAL")
        .await
        .unwrap();
    let question = ask(&[]);
    let projects = Projects::Only(vec!["default".to_owned()]);
    let scope = Scope {
        projects: &projects,
        filter: &question.filter,
        now_ms: NOW_MS,
    };
    let writing = async {
        for version in 2..60 {
            let part = version as usize % 7;
            store.insert_runs(rows(version, part).iter()).await.unwrap();
            if version % 20 == 0 {
                store
                    .run_on_shards("OPTIMIZE TABLE runs{local} FINAL")
                    .await
                    .unwrap();
            }
        }
    };
    let reading = async {
        loop {
            let found = store.spend(scope, spend_by(GroupBy::Agent)).await.unwrap();
            assert_eq!((found.totals.runs, found.totals.cost), (400, Dollars(400)));
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_no_group_of_its_own_is_summed_as_other() {
    let store = database().await.unwrap();
    let names: Vec<String> = (0..130).map(|n| format!("model-{n:03}")).collect();
    let rows = names.iter().enumerate().map(|(n, name)| RunRow {
        r#type: "llm",
        calls: 1,
        model: name,
        cost: n as i128,
        ..run("a", name, 1, NOON_MS)
    });
    store.insert_runs(rows).await.unwrap();
    let question = ask(&[]);
    let scope = Scope {
        projects: &Projects::All,
        filter: &question.filter,
        now_ms: NOW_MS,
    };
    let found = store
        .activity(scope, spend_by(GroupBy::Model))
        .await
        .unwrap();
    let keys: Vec<&str> = found
        .groups
        .iter()
        .filter_map(|group| group.key.as_deref())
        .collect();
    assert_eq!(
        (keys.len(), keys[0], keys[99]),
        (100, "model-129", "model-030")
    );
    let other = found.other.unwrap();
    assert_eq!(
        (other.spend.runs, other.spend.cost),
        (30, Dollars((0..30).sum()))
    );
    let by_day = Grouping {
        by: GroupBy::Model,
        interval: Some(Interval::Day),
    };
    let found = store.spend(scope, by_day).await.unwrap();
    assert_eq!((found.groups.len(), found.buckets.len()), (20, 1));
    assert_eq!(found.buckets[0].other, found.other);
    assert_eq!(found.other.unwrap().runs, 110);
}

/// Each field's values, counted by a plain loop over the runs as they are now: more values than are listed, equal
/// counts, rows that were replaced, and filters that leave out one field each.
#[tokio::test(flavor = "multi_thread")]
async fn facets_are_the_counts_of_current_runs_whatever_is_unmerged_p3() {
    let store = database().await.unwrap();
    let names: Vec<String> = (0..130).map(|n| format!("name-{n:03}")).collect();
    let users: Vec<String> = (0..250)
        .map(|n| format!("user-{n:03}@example.com"))
        .collect();
    let ids: Vec<String> = (0..400).map(|n| format!("run-{n:03}")).collect();
    let tags = [&["a", "b"][..], &["b"], &[]];
    let row = |n: usize, version: u64| {
        let n_now = n + version as usize;
        RunRow {
            name: &names[n_now % names.len()],
            user_email: &users[n_now % users.len()],
            tags: tags[n_now % tags.len()].to_vec(),
            model: ["", "m1", "m2"][n_now % 3],
            ..run(
                "app",
                &ids[n],
                version,
                NOON_MS + (n % 7) as i64 * DAY_MS / 2,
            )
        }
    };
    store
        .insert_runs((0..ids.len()).map(|n| row(n, 1)))
        .await
        .unwrap();
    // Some are written again, with other values.
    let again = |n: &usize| n.is_multiple_of(3);
    let rewritten = (0..ids.len()).filter(again).map(|n| row(n, 2));
    store.insert_runs(rewritten).await.unwrap();
    let current = || (0..ids.len()).map(|n| row(n, if again(&n) { 2 } else { 1 }));

    let projects = Projects::Only(vec!["default".to_owned()]);
    for pairs in [
        &[][..],
        &[("model", "m1")],
        &[("model", "m1"), ("name", "name-007")],
    ] {
        let now_ms = NOON_MS + 30 * DAY_MS;
        let question = Question::from_pairs(pairs.iter().copied(), &[], now_ms).unwrap();
        let scope = Scope {
            projects: &projects,
            filter: &question.filter,
            now_ms,
        };
        let found = store.facets(scope).await.unwrap();
        let fields: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        let expected = [
            "app_id",
            "status",
            "model",
            "agent",
            "type",
            "name",
            "tags",
            "user_email",
        ];
        assert_eq!(fields, expected);
        let value_of = |row: &RunRow<'_>, field: &str| match field {
            "app_id" => vec![row.app_id.to_owned()],
            "status" => vec!["error".to_owned()],
            "model" => vec![row.model.to_owned()],
            "agent" => vec![row.agent.to_owned()],
            "type" => vec![row.r#type.to_owned()],
            "name" => vec![row.name.to_owned()],
            "tags" => row.tags.iter().map(|tag| (*tag).to_owned()).collect(),
            _ => vec![row.user_email.to_owned()],
        };
        for (field, facet) in found {
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for row in current() {
                let passes = pairs.iter().all(|(name, wanted)| {
                    *name == field || value_of(&row, name) == [(*wanted).to_owned()]
                });
                let values = value_of(&row, field).into_iter();
                for value in values.filter(|value| passes && !value.is_empty()) {
                    *counts.entry(value).or_default() += 1;
                }
            }
            let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
            counts.sort_by_key(|(value, count)| (u64::MAX - count, value.clone()));
            assert_eq!(facet.truncated, counts.len() > 100, "{field} {pairs:?}");
            counts.truncate(100);
            let values: Vec<(String, u64)> = facet
                .values
                .into_iter()
                .map(|one| (one.value, one.count))
                .collect();
            assert_eq!(values, counts, "{field} {pairs:?}");
        }
    }
}
