//! The thread list: median and 95th percentile of pages by query.
//!
//! Fills five projects of a million messages each, with their runs:
//!
//! - `mixed`: named threads, threads whose answers inherit them, and windows of 5,000 users;
//! - `four`: endless windows of four users; `thousand`: of a thousand users;
//! - `taken`: as `thousand`, but agent and user are in the runs and not in the messages;
//! - `eight`: eight named threads.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;
use schemas::thread::{GroupedBy, ThreadPlace, ThreadQuery};
use store::reads::filter_sql::Projects;
use store::reads::threads::ThreadName;
use store::{Store, StoreError};

use crate::engine::BenchEngine;
use crate::round::{Line, Quantiles, long_ago, parameters};

#[derive(Args)]
pub(crate) struct ThreadArgs {
    /// Folder of the engine; kept, so that the next measurement starts at once
    #[arg(long, value_name = "DIR", default_value = "target/thread-bench")]
    folder: PathBuf,
}

/// Messages of one project.
const MESSAGES: u64 = 1_000_000;
/// Messages per statement.
const PER_INSERT: u64 = 125_000;

/// Message `number` of a project: `conversation`, its `place` in it, and the expressions of the project.
const MESSAGES_SQL: &str = "INSERT INTO messages (project_id, app_id, timestamp, event_id, run_id, parent_run_id, thread_id, agent, user_email, role, content) \
SELECT 'PROJECT', 'shop', fromUnixTimestamp64Milli(toInt64(at), 'UTC'), reinterpretAsUInt128(sipHash128(number, 'PROJECT')), RUN, '', THREAD, AGENT, USER, \
  if(number % 2 = 0, 'user', 'assistant'), \
  concat('what was said about ', toString(cityHash64(number, 13)), ' and what it means for the next ', toString(number % 1000), ' days') \
FROM (SELECT number, intDiv(number, 8) AS conversation, number % 8 AS place, conversation % 4 AS kind, TIME AS at FROM numbers(FIRST, COUNT))";

const RUNS_SQL: &str = "INSERT INTO runs (project_id, app_id, started_at, run_id, version, is_deleted, parent_run_id, root_run_id, name, type, status, \
  agent, user_email, total_cost, total_tokens_with_children, first_event_at, last_event_at, updated_at, state) \
SELECT project_id, app_id, timestamp, run, 1, 0, parent, if(parent = '', run, run_id), 'step', if(parent = '', 'agent', 'llm'), 'success', \
  if(project_id = 'taken', 'clerk', ''), if(project_id = 'taken', concat('user', toString(cityHash64(run_id) % 1000), '@example.com'), ''), \
  toDecimal128(number % 1000, 3) / 100000, number % 3000, timestamp, timestamp, timestamp, 'state' \
FROM (SELECT project_id, app_id, timestamp, run_id, cityHash64(event_id) AS number, \
    arrayJoin([(run_id, ''), (concat(run_id, '-call'), run_id)]) AS link, link.1 AS run, link.2 AS parent \
  FROM messages WHERE project_id = 'PROJECT' AND role = 'assistant')";

/// One answer in fifty has a rating.
const FEEDBACK_SQL: &str = "INSERT INTO feedback (project_id, app_id, run_id, timestamp, event_id, rating, comment) \
SELECT project_id, app_id, run_id, timestamp, event_id, if(event_id % 3 = 0, 'negative', 'positive'), '' \
FROM messages WHERE role = 'assistant' AND event_id % 50 = 0";

/// Project, time, run, thread, agent and user.
const PROJECTS: [[&str; 6]; 5] = [
    [
        "mixed",
        "NOW - conversation * 20736 - (7 - place) * 60000",
        "concat('run-', toString(conversation), '-', toString(intDiv(place, 2)))",
        "multiIf(kind = 3, '', kind = 2 AND place % 2 = 1, '', concat('thread-', toString(conversation)))",
        "if(kind = 2 AND place % 2 = 1, '', concat('agent-', toString(conversation % 6)))",
        "if(kind = 2 AND place % 2 = 1, '', concat('user', toString(cityHash64(conversation) % 5000), '@example.com'))",
    ],
    [
        "four",
        "NOW - number * 2592",
        "concat('run-', toString(intDiv(number, 2)))",
        "''",
        "'clerk'",
        "concat('user', toString(intDiv(number, 2) % 4), '@example.com')",
    ],
    [
        "thousand",
        "NOW - number * 1296",
        "concat('run-', toString(intDiv(number, 2)))",
        "''",
        "'clerk'",
        "concat('user', toString(intDiv(number, 2) % 1000), '@example.com')",
    ],
    [
        "taken",
        "NOW - number * 1296",
        "concat('run-', toString(intDiv(number, 2)))",
        "''",
        "''",
        "''",
    ],
    [
        "eight",
        "NOW - number * 2592",
        "concat('run-', toString(intDiv(number, 2)))",
        "concat('thread-', toString(intDiv(number, 2) % 8))",
        "'clerk'",
        "concat('user', toString(intDiv(number, 2) % 8), '@example.com')",
    ],
];

/// Fills the tables if they are empty, and prints a line for each query; gives them.
pub(crate) async fn run(args: ThreadArgs) -> anyhow::Result<Vec<Line>> {
    let engine = BenchEngine::start(&args.folder).await?;
    fill(&engine.client).await?;
    measure(&engine.store).await
}

async fn fill(client: &clickhouse::Client) -> anyhow::Result<()> {
    let rated: u64 = client
        .query("SELECT count() FROM feedback")
        .fetch_one()
        .await?;
    let now_ms = chrono::Utc::now().timestamp_millis();
    for [project, time, run, thread, agent, user] in PROJECTS {
        let count = format!("SELECT count() FROM messages WHERE project_id = '{project}'");
        let count: u64 = client.query(&count).fetch_one().await?;
        if count > 0 {
            continue;
        }
        for first in (0..MESSAGES).step_by(PER_INSERT as usize) {
            let sql = MESSAGES_SQL
                .replace("TIME", time)
                .replace("PROJECT", project)
                .replace("RUN", run)
                .replace("THREAD", thread)
                .replace("AGENT", agent)
                .replace("USER", user)
                .replace("NOW", &now_ms.to_string())
                .replace("FIRST", &first.to_string())
                .replace("COUNT", &PER_INSERT.to_string());
            client.query_raw(&sql).execute().await?;
        }
        let runs = RUNS_SQL.replace("PROJECT", project);
        client
            .query_raw(&runs)
            .with_setting("max_insert_block_size", "300000")
            .execute()
            .await?;
        println!("{project} written");
    }
    if rated == 0 {
        client.query_raw(FEEDBACK_SQL).execute().await?;
    }
    Ok(())
}

/// Pages per query, each with other values.
const ROUNDS: usize = 8;

/// Project and query; `{n}` becomes a number below n that differs from round to round, `@n` the time n days ago.
const QUESTIONS: &[(&str, &[(&str, &str)])] = &[
    ("mixed", &[]),
    ("mixed", &[("app_id", "shop")]),
    ("mixed", &[("agent", "agent-{6}")]),
    ("mixed", &[("agent", "unknown")]),
    ("mixed", &[("user_email", "user{5000}@example.com")]),
    ("mixed", &[("feedback", "positive")]),
    ("mixed", &[("feedback", "none")]),
    ("mixed", &[("feedback", "negative"), ("agent", "agent-{6}")]),
    ("mixed", &[("from", "@20"), ("to", "@17")]),
    ("four", &[]),
    ("four", &[("user_email", "user{4}@example.com")]),
    ("four", &[("feedback", "positive")]),
    ("thousand", &[]),
    ("thousand", &[("user_email", "user{1000}@example.com")]),
    ("taken", &[]),
    ("taken", &[("user_email", "user{1000}@example.com")]),
    ("eight", &[]),
    ("eight", &[("feedback", "positive")]),
    ("none", &[]),
    ("mixed", &[("limit", "1000")]),
];

async fn measure(store: &Store) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    let now_ms = newest(store).await?;
    println!(
        "{:50} {:>8} {:>8} {:>8} {:>8}",
        "ms", "p50", "p95", "deep p50", "deep p95"
    );
    for (project, pairs) in QUESTIONS {
        let (mut first, mut deep) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let owned = parameters(pairs, round, now_ms);
            let pairs = owned
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()));
            let query = ThreadQuery::from_pairs(pairs).map_err(|error| anyhow!(error.message))?;
            first.push(page(store, project, &query, None).await?);
            let place = ThreadPlace {
                ended_at_ms: long_ago(round, now_ms),
                grouped_by: GroupedBy::Window,
                key: 0,
            };
            deep.push(page(store, project, &query, Some(place)).await?);
        }
        let (first, deep) = (Quantiles::of(first), Quantiles::of(deep));
        let name = format!("{project} {pairs:?}");
        println!(
            "{name:50} {:8.1} {:8.1} {:8.1} {:8.1}",
            first.p50, first.p95, deep.p50, deep.p95
        );
        lines.push(Line { name, first });
    }
    let mut views = Vec::new();
    for round in 0..ROUNDS {
        let id = format!("thread-{}", round * 3119 * 4 % 125_000);
        views.push(view(store, "mixed", &id).await?);
    }
    let views = Quantiles::of(views);
    println!(
        "{:50} {:8.1} {:8.1}",
        "one thread of mixed", views.p50, views.p95
    );
    let mut views = Vec::new();
    for round in 0..8 {
        views.push(view(store, "eight", &format!("thread-{round}")).await?);
    }
    let views = Quantiles::of(views);
    println!(
        "{:50} {:8.1} {:8.1}",
        "one thread of eight, 10,000 messages", views.p50, views.p95
    );
    Ok(lines)
}

/// Time of the newest message.
async fn newest(store: &Store) -> Result<i64, StoreError> {
    store
        .bounded_query("SELECT toUnixTimestamp64Milli(max(timestamp)) FROM messages")
        .one()
        .await
}

fn only(project: &str) -> Projects {
    Projects::Only(vec![project.to_owned()])
}

async fn page(
    store: &Store,
    project: &str,
    query: &ThreadQuery,
    after: Option<ThreadPlace>,
) -> Result<Duration, StoreError> {
    let started = Instant::now();
    store.list_threads(&only(project), query, after).await?;
    Ok(started.elapsed())
}

async fn view(store: &Store, project: &str, thread_id: &str) -> Result<Duration, StoreError> {
    let name = ThreadName {
        app_id: None,
        thread_id,
        grouped_by: None,
    };
    let started = Instant::now();
    store.thread(&only(project), name).await?;
    Ok(started.elapsed())
}
