//! Recalculation against a plain model: every run of the range costs what the new table says, to the last digit.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use schemas::filter::{RunFilter, RunQuery, Sort};
use schemas::job::{CostReport, Recalculate};
use schemas::price::rate::Rate;
use schemas::price::{PriceKey, PriceRow, PriceTable, Rates};
use schemas::run::Run;
use serde_json::{Value, json};
use store::jobs::{Job, JobKind};
use store::reads::filter_sql::Projects;

use crate::deployment::Deployment;

const START_MS: i64 = 1_795_132_800_000 - 20 * 86_400_000;
const MODELS: [&str; 3] = ["small", "large", "unknown"];
const ONE: i128 = 1_000_000_000_000_000_000;

/// Units of 10^-18 USD per token: input, output.
type Prices = BTreeMap<&'static str, (i128, i128)>;

fn table(prices: &Prices) -> Arc<PriceTable> {
    let rate = |units| Rate::from_units(units).unwrap();
    Arc::new(PriceTable::new(prices.iter().map(
        |(model, (input, output))| PriceRow {
            key: PriceKey {
                model: (*model).to_owned(),
                is_prefix: false,
                effective_from: None,
            },
            rates: Rates {
                input: rate(*input),
                output: rate(*output),
                cached_input: None,
                total: None,
                special: None,
            },
        },
    )))
}

fn before() -> Prices {
    BTreeMap::from([("small", (1_234_567_890_123, 3)), ("unknown", (7, 7))])
}

fn now() -> Prices {
    BTreeMap::from([
        ("small", (1_234_567_890_124, 3)),
        ("large", (15, 70_000_000_000_001)),
    ])
}

#[derive(Clone, Debug)]
struct Call {
    app: &'static str,
    model: &'static str,
    prompt: u64,
    completion: Option<u64>,
    total: Option<u64>,
    given: Option<i128>,
    at_ms: i64,
}

impl Call {
    fn random(random: &mut StdRng, at: usize) -> Self {
        let is_whole = random.random_bool(0.8);
        Self {
            app: if random.random_bool(0.5) { "a" } else { "b" },
            model: MODELS[random.random_range(0..3)],
            prompt: random.random_range(0..5_000_000_000),
            completion: is_whole.then(|| random.random_range(0..100_000)),
            total: (!is_whole).then(|| random.random_range(0..100_000)),
            given: random
                .random_bool(0.1)
                .then(|| random.random_range(0..5) * ONE),
            // Three days, and many in one millisecond.
            at_ms: START_MS + (at as i64 % 3) * 86_400_000 + at as i64 / 50,
        }
    }

    fn event(&self, at: usize) -> Value {
        json!({
            "name": "llm_call", "type": "llm", "run_id": format!("r{at}"), "parent_run_id": format!("tree-{}", self.app),
            "timestamp": self.at_ms, "model": self.model, "prompt_tokens": self.prompt, "output": "x",
            "completion_tokens": self.completion, "total_tokens": self.total,
            "cost": self.given.map(|given| given / ONE),
        })
    }

    fn cost(&self, prices: &Prices) -> i128 {
        if let Some(given) = self.given {
            return given;
        }
        let Some((input, output)) = prices.get(self.model) else {
            return 0;
        };
        match self.completion {
            Some(completion) => input * i128::from(self.prompt) + output * i128::from(completion),
            None => input * i128::from(self.total.unwrap()),
        }
    }
}

fn sum(calls: &[Call], prices: &Prices) -> String {
    let sum: i128 = calls.iter().map(|call| call.cost(prices)).sum();
    sum.to_string()
}

async fn report(deployment: &Deployment, calls: &[Call], first: usize) {
    for app in ["a", "b"] {
        let all = calls.iter().enumerate();
        let mut events: Vec<Value> = all
            .filter(|(_, call)| call.app == app)
            .map(|(at, call)| call.event(first + at))
            .collect();
        events.push(json!({"name": "agent_start", "run_id": format!("tree-{app}"), "timestamp": START_MS - 1}));
        deployment.report("p", app, &events).await;
    }
}

async fn runs(deployment: &Deployment) -> BTreeMap<String, Run> {
    let projects = Projects::Only(vec!["p".to_owned()]);
    let mut found = BTreeMap::new();
    let mut cursor = None;
    loop {
        let query = RunQuery {
            filter: RunFilter::default(),
            sort: Sort::StartedAtAsc,
            limit: 1000,
            ..RunQuery::default()
        };
        let page = deployment
            .store
            .list_runs(
                &projects,
                &query,
                cursor.as_ref(),
                START_MS + 30 * 86_400_000,
            )
            .await
            .unwrap();
        for run in page.runs {
            let run = run.into_run(START_MS);
            found.insert(run.run_id.clone(), run);
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return found,
        }
    }
}

async fn assert_costs(deployment: &Deployment, calls: &[Call], prices: &Prices) {
    let found = runs(deployment).await;
    let mut totals: BTreeMap<&str, i128> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        let run = &found[&format!("r{at}")];
        assert_eq!(run.cost.0, call.cost(prices), "{at}: {call:?}");
        *totals.entry(call.app).or_default() += run.cost.0;
    }
    for (app, total) in totals {
        assert_eq!(found[&format!("tree-{app}")].total_cost.0, total, "(P6)");
    }
}

fn report_of(job: &Job) -> CostReport {
    serde_json::from_str(&job.report).unwrap()
}

async fn priced(seed: u64, count: usize) -> (Deployment, Vec<Call>) {
    let mut random = StdRng::seed_from_u64(seed);
    let calls: Vec<Call> = (0..count).map(|at| Call::random(&mut random, at)).collect();
    let deployment = Deployment::new().await;
    deployment.prices.send_replace(table(&before()));
    report(&deployment, &calls, 0).await;
    deployment.drained().await;
    assert_costs(&deployment, &calls, &before()).await;
    deployment.prices.send_replace(table(&now()));
    (deployment, calls)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_says_what_a_run_then_does_and_repeating_changes_nothing() {
    let (mut deployment, calls) = priced(1, 4000).await;
    deployment.piece_rows = 300;
    deployment.start_runner();
    let expected = CostReport {
        before_units: sum(&calls, &before()),
        after_units: sum(&calls, &now()),
    };
    let dry = Recalculate {
        dry_run: true,
        ..Recalculate::default()
    };
    let job = deployment.ask(JobKind::Recalculate, Some("p"), &dry).await;
    let said = deployment.done(&job.job_id).await;
    assert_eq!(report_of(&said), expected);
    assert_eq!((said.done, said.total), (4000, 4000));
    assert_costs(&deployment, &calls, &before()).await;
    let asked = Recalculate::default();
    let job = deployment
        .ask(JobKind::Recalculate, Some("p"), &asked)
        .await;
    let did = deployment.done(&job.job_id).await;
    assert_eq!(report_of(&did), expected);
    assert_eq!(did.changed, said.changed);
    assert_costs(&deployment, &calls, &now()).await;
    let job = deployment.ask(JobKind::Recalculate, None, &asked).await;
    let again = deployment.done(&job.job_id).await;
    assert_eq!((again.changed, again.done), (0, 4000));
    assert_eq!(report_of(&again).before_units, expected.after_units);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recalculation_reaches_no_further_than_it_is_asked_to() {
    let (mut deployment, calls) = priced(2, 1500).await;
    deployment.piece_rows = 100;
    deployment.start_runner();
    let asked = Recalculate {
        from_ms: Some(START_MS + 86_400_000),
        to_ms: Some(START_MS + 2 * 86_400_000 + 5),
        app_id: Some("a".to_owned()),
        model: Some("small".to_owned()),
        dry_run: false,
    };
    let job = deployment
        .ask(JobKind::Recalculate, Some("p"), &asked)
        .await;
    let done = deployment.done(&job.job_id).await;
    let is_asked = |call: &Call| {
        call.app == "a"
            && call.model == "small"
            && (asked.from_ms.unwrap()..=asked.to_ms.unwrap()).contains(&call.at_ms)
    };
    assert_eq!(
        done.done,
        calls.iter().filter(|call| is_asked(call)).count() as u64
    );
    let found = runs(&deployment).await;
    for (at, call) in calls.iter().enumerate() {
        let prices = if is_asked(call) { now() } else { before() };
        assert_eq!(
            found[&format!("r{at}")].cost.0,
            call.cost(&prices),
            "{call:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_anywhere_and_with_reporting_going_on_the_end_and_the_sums_are_the_same_r1() {
    let (mut deployment, calls) = priced(3, 6000).await;
    deployment.piece_rows = 200;
    let mut random = StdRng::seed_from_u64(4);
    let asked = Recalculate {
        to_ms: Some(START_MS + 10 * 86_400_000),
        ..Recalculate::default()
    };
    let job = deployment
        .ask(JobKind::Recalculate, Some("p"), &asked)
        .await;
    let mut late = Vec::new();
    let mut kills = 0;
    while !deployment.job(&job.job_id).await.state.is_over() && kills < 25 {
        deployment.start_runner();
        let pause = std::time::Duration::from_millis(random.random_range(1..250));
        tokio::time::sleep(pause).await;
        // These start after the range: they are priced by the new table and not counted.
        let call = Call {
            at_ms: START_MS + 11 * 86_400_000,
            ..Call::random(&mut random, 0)
        };
        report(&deployment, std::slice::from_ref(&call), 6000 + late.len()).await;
        late.push(call);
        deployment.kill_runner().await;
        kills += 1;
    }
    deployment.start_runner();
    let done = deployment.done(&job.job_id).await;
    eprintln!("killed {kills} times");
    let expected = CostReport {
        before_units: sum(&calls, &before()),
        after_units: sum(&calls, &now()),
    };
    assert_eq!((report_of(&done), done.done), (expected, 6000));
    deployment.drained().await;
    let all: Vec<Call> = calls.into_iter().chain(late).collect();
    assert_costs(&deployment, &all, &now()).await;
}
