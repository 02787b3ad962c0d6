//! Trees of runs in which one event changes thousands of others.

use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

const DEPTH: usize = 3000;
/// A few slices of a debug build on two busy cores; it took over 300 s.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

async fn send(server: &Server, events: &[Value]) {
    for events in events.chunks(1500) {
        let answer = server.report(events).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
}

fn run(at: usize) -> Value {
    let mut run = event("chain", &format!("r{at}"), "agent_start", 0);
    if at > 0 {
        run["parent_run_id"] = json!(format!("r{}", at - 1));
    }
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_agent_above_a_deep_chain_holds_up_neither_others_nor_the_stop_x1_r1() {
    // No second worker helps out.
    let setup = Setup::new().with("log.partitions", "1");
    let mut server = setup.start_ready().await;
    let chain: Vec<Value> = (0..DEPTH).map(run).collect();
    send(&server, &chain).await;
    let is_quiet = async || {
        let lag = server.metric("spindle_processor_lag_records").await;
        let stored = server.metric("spindle_processor_stored_events_total").await;
        (lag == 0.0 && stored >= DEPTH as f64).then_some(())
    };
    server
        .until("the chain is stored", VISIBLE_WITHIN, is_quiet)
        .await;

    // An agent and a parent above all, and tokens below all.
    let mut late = event("chain", "r0", "agent_start", 1);
    late["agent"] = json!("late");
    let mut call = event("chain", "call", "llm_call", 2);
    call["type"] = json!("llm");
    call["total_tokens"] = json!(7);
    call["parent_run_id"] = json!(format!("r{}", DEPTH - 1));
    send(&server, &[late, call]).await;
    let slices = async || server.metric("spindle_processor_slices_total").await;
    server
        .until("the chain takes several steps", SEEN_WITHIN, async || {
            (slices().await > 0.0).then_some(())
        })
        .await;
    send(&server, &[event("other", "new", "agent_start", 0)]).await;
    server
        .until("the other app's run is seen", SEEN_WITHIN, async || {
            let runs = server.all_runs("other").await?;
            (runs.len() == 1).then_some(())
        })
        .await;

    server.signal(Signal::TERM);
    let code = server.ended(Duration::from_secs(40)).await;
    assert_eq!(code, Some(0), "{}", setup.logged());
    let server = setup.start_ready().await;
    server
        .until(
            "all of the tree is exact (P6)",
            VISIBLE_WITHIN,
            async || {
                let runs = server.all_runs("chain").await?;
                let is_exact = |run: &Value| {
                    run["agent"] == "late"
                        && run["root_run_id"] == "r0"
                        && run["total_tokens_with_children"] == 7
                };
                (runs.len() == DEPTH + 1 && runs.iter().all(is_exact)).then_some(())
            },
        )
        .await;
}
