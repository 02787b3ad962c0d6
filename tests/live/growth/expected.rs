//! What has to be stored, computed from the accepted events alone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::evidence;
use crate::deployment::Deployment;

/// Pause before wrong rows are looked at again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

const ROW: &str = "SELECT app_id, run_id, status, ifNull(prompt_tokens, 0), ifNull(completion_tokens, 0), cost, total_cost FROM runs";
const COUNT: &str = "SELECT app_id, run_id, count() FROM events";
const BY_RUN: &str = "GROUP BY app_id, run_id";
const SUM: &str = "SELECT app_id, count(), sum(ifNull(prompt_tokens, 0) + ifNull(completion_tokens, 0)), sum(cost) FROM runs";
const BY_APP: &str = "GROUP BY app_id";

/// A run as its row has to be.
struct Run {
    status: &'static str,
    events: usize,
    prompt_tokens: u64,
    completion_tokens: u64,
    /// Millionths.
    cost: u64,
    parent: Option<String>,
}

/// The runs of every app by their ids.
#[derive(Default)]
pub(super) struct Expected {
    apps: BTreeMap<String, BTreeMap<String, Run>>,
}

impl Expected {
    /// Counts events that were accepted for the first time.
    pub(super) fn add(&mut self, app: &str, events: &[Value]) {
        let runs = self.apps.entry(app.to_owned()).or_default();
        for event in events {
            let id = event["run_id"].as_str().unwrap();
            let run = runs.entry(id.to_owned()).or_insert_with(|| Run {
                status: "started",
                events: 0,
                prompt_tokens: 0,
                completion_tokens: 0,
                cost: 0,
                parent: event["parent_run_id"].as_str().map(str::to_owned),
            });
            run.events += 1;
            match event["name"].as_str().unwrap() {
                "agent_error" => run.status = "error",
                "agent_end" => run.status = "success",
                "llm_end" => {
                    run.status = "success";
                    run.prompt_tokens = event["prompt_tokens"].as_u64().unwrap();
                    run.completion_tokens = event["completion_tokens"].as_u64().unwrap();
                    run.cost = (event["cost"].as_f64().unwrap() * 1e6).round() as u64;
                }
                _ => {}
            }
        }
    }

    pub(super) fn runs(&self) -> usize {
        self.apps.values().map(BTreeMap::len).sum()
    }

    pub(super) fn events(&self) -> usize {
        let runs = self.apps.values().flat_map(BTreeMap::values);
        runs.map(|run| run.events).sum()
    }

    /// Waits until every row of these apps is as expected, in the tables and in the list of one app.
    pub(super) async fn assert_stored(&self, deployment: &Deployment, until: Instant) {
        let mut wrong = self.wrong(deployment).await;
        if !wrong.is_empty() {
            report(&wrong);
            evidence::show(deployment, &wrong).await;
        }
        while !wrong.is_empty() && Instant::now() < until {
            tokio::time::sleep(ASK_AGAIN).await;
            wrong = self.wrong(deployment).await;
        }
        report(&wrong);
        assert!(wrong.is_empty(), "rows are wrong, as listed above");
        self.assert_listed(deployment).await;
    }

    /// The rows in the tables that are missing, that should not be there, or that are there twice.
    async fn wrong(&self, deployment: &Deployment) -> Vec<Difference> {
        let apps: Vec<String> = self.apps.keys().map(|app| format!("'{app}'")).collect();
        let apps = apps.join(", ");
        let (mut rows, mut counts, mut sums) = (Vec::new(), Vec::new(), Vec::new());
        for (app, runs) in &self.apps {
            let totals = totals(runs);
            for (id, run) in runs {
                let [cost, total] = [run.cost, totals[id]].map(decimal);
                let (prompt, completion) = (run.prompt_tokens, run.completion_tokens);
                let status = run.status;
                rows.push(format!(
                    "{app}\t{id}\t{status}\t{prompt}\t{completion}\t{cost}\t{total}"
                ));
                counts.push(format!("{app}\t{id}\t{}", run.events));
            }
            let sum = |of: fn(&Run) -> u64| runs.values().map(of).sum::<u64>();
            let tokens = sum(|run| run.prompt_tokens + run.completion_tokens);
            let cost = decimal(sum(|run| run.cost));
            sums.push(format!("{app}\t{}\t{tokens}\t{cost}", runs.len()));
        }
        let mut wrong = Vec::new();
        for (select, group, expected) in [
            (ROW, "", rows),
            (COUNT, BY_RUN, counts),
            (SUM, BY_APP, sums),
        ] {
            let statement = format!("{select} FINAL WHERE app_id IN ({apps}) {group} FORMAT TSV");
            let found = deployment.sql(&statement).await;
            let found: Vec<String> = found.lines().map(str::to_owned).collect();
            wrong.extend(differences(&found, &expected, select));
        }
        wrong
    }

    /// The list of the first app has each of its runs once.
    async fn assert_listed(&self, deployment: &Deployment) {
        let (app, runs) = self.apps.first_key_value().expect("an app");
        let totals = totals(runs);
        let expected = runs.iter().map(|(id, run)| {
            let total: f64 = decimal(totals[id]).parse().unwrap();
            format!("{id} {} {total}", run.status)
        });
        let listed = deployment.query().all_runs(app).await.expect("a list");
        let found = listed.iter().map(|run| {
            let (id, status) = (run["run_id"].as_str(), run["status"].as_str());
            let total = run["total_cost"].as_f64();
            format!("{} {} {}", id.unwrap(), status.unwrap(), total.unwrap())
        });
        let (found, expected): (Vec<_>, Vec<_>) = (found.collect(), expected.collect());
        let wrong = differences(&found, &expected, "the list over HTTP");
        report(&wrong);
        assert!(wrong.is_empty(), "the list is wrong, as listed above");
    }
}

/// The cost of each run with its descendants (P6).
fn totals(runs: &BTreeMap<String, Run>) -> BTreeMap<&String, u64> {
    let mut totals: BTreeMap<&String, u64> = runs.iter().map(|(id, run)| (id, run.cost)).collect();
    // A call has no children, and the parent of each is among the runs.
    for run in runs.values() {
        if let Some(parent) = &run.parent {
            *totals.get_mut(parent).unwrap() += run.cost;
        }
    }
    totals
}

/// A row with how often it is there too often, or is missing.
pub(super) struct Difference {
    what: &'static str,
    surplus: i32,
    pub(super) row: String,
}

fn differences(found: &[String], expected: &[String], what: &'static str) -> Vec<Difference> {
    let mut rows: BTreeMap<&String, i32> = BTreeMap::new();
    for row in found {
        *rows.entry(row).or_default() += 1;
    }
    for row in expected {
        *rows.entry(row).or_default() -= 1;
    }
    rows.retain(|_, surplus| *surplus != 0);
    let rows = rows.into_iter();
    rows.map(|(row, surplus)| Difference {
        what,
        surplus,
        row: row.clone(),
    })
    .collect()
}

fn report(wrong: &[Difference]) {
    for Difference { what, surplus, row } in wrong {
        eprintln!("{what}: {surplus:+} {row}");
    }
}

/// Millionths as an exact decimal, as ClickHouse and JSON write it.
pub(super) fn decimal(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
