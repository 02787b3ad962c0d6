//! `spindle-bench pages`: the run list of a running server, over HTTP, on a table that is live.
//!
//! It reports a day of runs in the order of time, as clients do, waits until they are stored, and asks at once, while
//! the engine still merges their parts. Ids, users, models, texts, latencies and costs are drawn at random.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use hyper::StatusCode;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use serde_json::{Value, json};
use spindle_client::Timestamp;

use crate::connection::{Connection, Target};
use crate::round::{Quantiles, parameters};

/// Runs in one request.
const RUNS_PER_REPORT: u64 = 200;
/// The runs of a tree: an agent, and what it calls.
const RUNS_PER_TREE: u64 = 4;
const APPS: u64 = 20;
const USERS: u64 = 20_000;
const DAY_MS: i64 = 86_400_000;
/// Longest wait for the last run to be listed.
const STORED_WITHIN: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(50);

const MODELS: [&str; 6] = [
    "gpt-4o",
    "gpt-4o-mini",
    "gpt-5",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
    "gemini-2.5-flash",
];
const AGENTS: [&str; 6] = [
    "planner",
    "researcher",
    "writer",
    "critic",
    "support",
    "sales",
];
const TAGS: [&[&str]; 5] = [
    &["prod"],
    &["eu", "prod"],
    &["staging"],
    &["beta", "us"],
    &[],
];

/// Parameters of a query and their values.
type Pairs = &'static [(&'static str, &'static str)];

/// A query, and the goal for its median in milliseconds.
const QUESTIONS: &[(&str, f64, Pairs)] = &[
    ("newest 50", 10.0, &[]),
    ("newest 1", 10.0, &[("limit", "1")]),
    ("one app", 10.0, &[("app_id", "app-{20}")]),
    ("roots", 10.0, &[("has_parent", "false")]),
    ("model", 10.0, &[("model", "gpt-4o")]),
    ("status=error", 10.0, &[("status", "error")]),
    ("type=llm", 10.0, &[("type", "llm")]),
    ("agent", 10.0, &[("agent", "writer")]),
    ("tag, common", 10.0, &[("tags", "eu")]),
    (
        "cost range",
        10.0,
        &[("min_cost", "0.00{9}1"), ("max_cost", "0.5")],
    ),
    ("latency at least", 10.0, &[("min_latency_s", "2.{100}")]),
    (
        "user_email",
        30.0,
        &[("user_email", "user{20000}@example.com")],
    ),
    (
        "user unknown",
        30.0,
        &[("user_email", "gone{20000}@example.com")],
    ),
    ("tag, rare", 30.0, &[("tags", "rare")]),
    (
        "model, error, window",
        30.0,
        &[
            ("model", "gpt-5"),
            ("status", "error"),
            ("from", "@1"),
            ("to", "@0"),
        ],
    ),
    (
        "user, error, latency",
        30.0,
        &[
            ("user_email", "user{20000}@example.com"),
            ("status", "error"),
            ("min_latency_s", "0.5"),
        ],
    ),
    ("cost, rare", 30.0, &[("min_cost", "0.1{100}")]),
];

#[derive(Args)]
pub(crate) struct PagesArgs {
    /// Address of the server; plain HTTP
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
    url: String,
    /// API key with the scopes `report` and `read`
    #[arg(
        long,
        value_name = "KEY",
        env = "SPINDLE_API_KEY",
        hide_env_values = true
    )]
    key: String,
    /// Runs to report first; 0 measures what is there
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    runs: u64,
    /// Pages per query, each with other values
    #[arg(long, value_name = "N", default_value_t = 60)]
    rounds: usize,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// JSON names are stable.
#[derive(Serialize)]
pub(crate) struct Measured {
    pub(crate) query: &'static str,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) goal_p50_ms: f64,
}

/// Fills the server, then prints a line for each query; gives the lines.
pub(crate) async fn run(args: PagesArgs) -> anyhow::Result<Vec<Measured>> {
    let target = Target::new(&args.url, &args.key)?;
    let now_ms = chrono::Utc::now().timestamp_millis();
    if args.runs > 0 {
        let started = Instant::now();
        fill(&target, args.runs, now_ms).await?;
        eprintln!(
            "{} runs reported and stored in {:.1} s",
            args.runs,
            started.elapsed().as_secs_f64()
        );
    }
    let measured = measure(&target, args.rounds, now_ms).await?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&measured)?);
        return Ok(measured);
    }
    println!("{:24} {:>8} {:>8} {:>8}", "ms", "p50", "p95", "goal");
    for line in &measured {
        let missed = if line.p50_ms > line.goal_p50_ms {
            " missed"
        } else {
            ""
        };
        println!(
            "{:24} {:8.1} {:8.1} {:8.0}{missed}",
            line.query, line.p50_ms, line.p95_ms, line.goal_p50_ms
        );
    }
    Ok(measured)
}

/// Every query in turn, round by round, so that all of them meet the same state of the table.
async fn measure(target: &Target, rounds: usize, now_ms: i64) -> anyhow::Result<Vec<Measured>> {
    let mut connection = Connection::default();
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); QUESTIONS.len()];
    for round in 0..rounds {
        for ((name, _, pairs), times) in QUESTIONS.iter().zip(&mut times) {
            let query: Vec<String> = parameters(pairs, round, now_ms)
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let path = format!("/api/run/?{}", query.join("&"));
            let asked = Instant::now();
            let answer = connection.get(target, &path).await?;
            times.push(asked.elapsed());
            let text = String::from_utf8_lossy(&answer.body);
            ensure!(
                answer.status == StatusCode::OK,
                "{name}: {} {text}",
                answer.status
            );
        }
    }
    let measured = QUESTIONS.iter().zip(times);
    Ok(measured
        .map(|((query, goal_p50_ms, _), times)| {
            let Quantiles { p50, p95 } = Quantiles::of(times);
            Measured {
                query,
                p50_ms: p50,
                p95_ms: p95,
                goal_p50_ms: *goal_p50_ms,
            }
        })
        .collect())
}

/// Reports `runs` runs of the day before `now_ms`, oldest first, and waits until the last one is listed.
async fn fill(target: &Target, runs: u64, now_ms: i64) -> anyhow::Result<()> {
    let nonce = format!("{:08x}", rand::random::<u32>());
    let reports = runs.div_ceil(RUNS_PER_REPORT);
    let mut connection = Connection::default();
    let mut rng = StdRng::from_os_rng();
    for report in 0..reports {
        let numbers = report * RUNS_PER_REPORT..runs.min((report + 1) * RUNS_PER_REPORT);
        let events: Vec<Value> = numbers
            .flat_map(|number| {
                let age_ms = DAY_MS - (DAY_MS as f64 * number as f64 / runs as f64) as i64;
                run_events(&nonce, number, now_ms - age_ms, now_ms, &mut rng)
            })
            .collect();
        let body = Bytes::from(serde_json::to_vec(&json!({ "events": events }))?);
        loop {
            let answer = connection.report(target, body.clone()).await?;
            if answer.status == StatusCode::OK {
                break;
            }
            let text = String::from_utf8_lossy(&answer.body);
            let pause = answer.retry_after;
            tokio::time::sleep(pause.with_context(|| format!("{}: {text}", answer.status))?).await;
        }
    }
    let last = run_id(&nonce, runs - 1);
    let asked = Instant::now();
    loop {
        let answer = connection.get(target, &format!("/api/run/{last}")).await?;
        if answer.status == StatusCode::OK {
            return Ok(());
        }
        ensure!(
            asked.elapsed() < STORED_WITHIN,
            "the last run is not listed"
        );
        tokio::time::sleep(POLL).await;
    }
}

fn run_id(nonce: &str, number: u64) -> String {
    format!("{nonce}-{number:010x}")
}

/// Start and end of one run.
fn run_events(
    nonce: &str,
    number: u64,
    start_ms: i64,
    now_ms: i64,
    rng: &mut StdRng,
) -> [Value; 2] {
    let tree = number / RUNS_PER_TREE;
    let root = run_id(nonce, tree * RUNS_PER_TREE);
    let kind = ["agent", "llm", "tool", "llm"][(number % RUNS_PER_TREE) as usize];
    // The same in each event of a tree, and different from one to the next.
    let mut of_tree = StdRng::seed_from_u64(tree);
    let app = format!("app-{}", of_tree.random_range(0..APPS));
    let user = format!("user{}@example.com", of_tree.random_range(0..USERS));
    let agent = AGENTS[of_tree.random_range(0..AGENTS.len())];
    let latency_ms = (7.0 + 1.3 * normal(rng)).exp() as i64;
    let end_ms = (start_ms + latency_ms).min(now_ms);
    let tags = match rng.random_ratio(1, 20_000) {
        true => &["rare"][..],
        false => TAGS[rng.random_range(0..TAGS.len())],
    };
    let mut start = json!({
        "name": format!("{kind}_start"),
        "type": kind,
        "app_id": app,
        "run_id": run_id(nonce, number),
        "timestamp": Timestamp::from_ms(start_ms).to_string(),
        "user_email": user,
        "agent": agent,
        "tags": tags,
        "metadata": {"env": "prod", "shard": rng.random_range(0..64)},
        "input": format!("please tell me about {:x} and what it means for the next {} days, with every source that you used", rng.random::<u64>(), rng.random_range(1..1000)),
    });
    let mut end = json!({
        "name": format!("{kind}_end"),
        "type": kind,
        "app_id": app,
        "run_id": run_id(nonce, number),
        "timestamp": Timestamp::from_ms(end_ms).to_string(),
        "output": format!("the answer to the question is {:x} because of the long history of such things {:x}", rng.random::<u64>(), rng.random::<u64>()),
    });
    if !number.is_multiple_of(RUNS_PER_TREE) {
        start["parent_run_id"] = root.into();
    }
    if kind == "llm" {
        start["model"] = MODELS[rng.random_range(0..MODELS.len())].into();
        end["prompt_tokens"] = rng.random_range(50..4000).into();
        end["completion_tokens"] = rng.random_range(5..1000).into();
    }
    if rng.random_ratio(3, 100) {
        end["name"] = format!("{kind}_error").into();
        end["error"] =
            json!({"name": "RateLimitError", "message": "429: too many requests in this minute"});
    }
    [start, end]
}

/// A standard normal value.
fn normal(rng: &mut StdRng) -> f64 {
    let (one, two): (f64, f64) = (rng.random_range(1e-9..1.0), rng.random());
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * two).cos()
}
