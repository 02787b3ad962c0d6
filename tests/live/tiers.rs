//! Ingest, processor and query as processes of their own: what one does the others know, and each does without what it
//! can do without.

use std::time::{Duration, Instant};

use eventlog::conformance::proxy::{Network, Proxy};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{KNOWN_WITHIN, Server, Setup, VISIBLE_WITHIN, event};

async fn administer(server: &Server, method: Method, path: &str, body: Value) -> Value {
    let (status, answer) = server.ask(method, &server.token, path, Some(body)).await;
    assert!(status.is_success(), "{path}: {status} {answer}");
    answer
}

async fn reported(server: &Server, key: &str, run: &str) -> StatusCode {
    let events = [event("tiers", run, "agent_start", 0)];
    server.report_as(key, &events).await.unwrap().status()
}

/// Waits until reports with this key are answered so; says how long it took from `since`.
async fn until_answered(
    server: &Server,
    key: &str,
    expected: StatusCode,
    since: Instant,
) -> Duration {
    let answered = async || {
        let status = reported(server, key, "asked").await;
        (status == expected).then_some(())
    };
    server
        .until("the key is answered so", VISIBLE_WITHIN, answered)
        .await;
    since.elapsed()
}

/// Rounds of a measurement, so that one pause of a busy machine does not decide.
const ROUNDS: usize = 3;

/// How long a new key, and then its revocation, took to be known where reports come in.
async fn key_known_after(server: &Server) -> (Duration, Duration) {
    let path = "/api/internal/keys";
    let asked = json!({"project_id": "default", "name": "n"});
    let made = administer(server, Method::POST, path, asked).await;
    let (id, key) = (&made["id"], made["secret"].as_str().unwrap());
    let new = until_answered(server, key, StatusCode::OK, Instant::now()).await;
    let since = Instant::now();
    let path = format!("{path}/{}", id.as_str().unwrap());
    administer(server, Method::DELETE, &path, json!(null)).await;
    let revoked = until_answered(server, key, StatusCode::UNAUTHORIZED, since).await;
    (new, revoked)
}

/// Whether a call that is reported a second after a price was set is priced by it.
async fn is_priced_after_a_second(server: &Server, model: &str) -> bool {
    let price = json!({"input_per_1m": 1, "output_per_1m": 1});
    let path = format!("/api/internal/prices/{model}");
    administer(server, Method::PUT, &path, price).await;
    server.informed().await;
    let mut call = event("tiers", model, "llm_call", 0);
    call["type"] = json!("llm");
    call["model"] = json!(model);
    call["prompt_tokens"] = json!(1_000_000);
    call["completion_tokens"] = json!(0);
    let answer = server.report(&[call]).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let run = server
        .until("the call is a run", VISIBLE_WITHIN, async || {
            let (status, run) = server.get(&format!("/api/run/{model}")).await;
            (status == StatusCode::OK).then_some(run)
        })
        .await;
    run["cost_status"] == json!("priced")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_key_a_revoked_one_and_a_price_are_known_to_every_process_within_a_second_timed() {
    let setup = Setup::distributed().await;
    let server = setup.start_ready().await;
    server.connected().await;
    let (mut new, mut revoked, mut priced) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        let (known, refused) = key_known_after(&server).await;
        new.push(known);
        revoked.push(refused);
        priced += usize::from(is_priced_after_a_second(&server, &format!("house-{round}")).await);
    }
    new.sort();
    revoked.sort();
    let middle = ROUNDS / 2;
    assert!(new[middle] < KNOWN_WITHIN, "new keys: {new:?}");
    assert!(revoked[middle] < KNOWN_WITHIN, "revoked keys: {revoked:?}");
    assert!(priced > middle, "{priced} of {ROUNDS} calls were priced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiers_wait_for_tables_and_go_on_by_themselves_when_they_are_there() {
    let setup = Setup::unmigrated().await;
    let server = setup.start().await;
    for process in &server.processes {
        let ready = format!("{}/health/ready", process.url);
        let told = async || {
            let answer = server.client.get(&ready).send().await.ok()?;
            let text = answer.text().await.ok()?;
            text.contains("run spindle migrate").then_some(())
        };
        server
            .until("every tier says what to do", VISIBLE_WITHIN, told)
            .await;
    }
    setup.migrate();
    server.ready().await;
    assert_eq!(reported(&server, &setup.key, "after").await, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrate_makes_first_credentials_once_and_shows_them_once() {
    let mut setup = Setup::unmigrated().await;
    (setup.key, setup.token) = (String::new(), String::new());
    let shown = setup.migrate();
    let word = |what: &str| {
        let line = shown.lines().find(|line| line.contains(what));
        line.unwrap().split_whitespace().last().unwrap().to_owned()
    };
    let again = setup.migrate();
    assert!(!again.contains("sp_"), "{again}");
    (setup.key, setup.token) = (word("API key"), word("admin token"));
    let server = setup.start_ready().await;
    assert_eq!(reported(&server, &setup.key, "r").await, StatusCode::OK);
    let (status, _) = server.get_as(&setup.token, "/api/internal/keys").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_every_tier_in_order_and_nothing_is_lost_r1() {
    let setup = Setup::distributed().await;
    let mut server = setup.start_ready().await;
    for run in 0..50 {
        let status = reported(&server, &setup.key, &format!("run-{run}")).await;
        assert_eq!(status, StatusCode::OK);
    }
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.ended(Duration::from_secs(40)).await, Some(0));
    let server = setup.start_ready().await;
    let all = async || {
        let runs = server.all_runs("tiers").await?;
        (runs.len() == 50).then_some(())
    };
    server
        .until("every run is there", VISIBLE_WITHIN, all)
        .await;
    let logged = setup.logged();
    assert!(
        !logged.contains(&setup.key) && !logged.contains(&setup.token),
        "(X2)"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ingest_starts_and_takes_reports_of_known_keys_while_clickhouse_is_away_r1() {
    let setup = Setup::distributed().await;
    let proxy = Proxy::to(setup.backing.as_ref().unwrap().clickhouse_port()).await;
    let mut start = setup.process("ingest");
    let through_the_proxy = format!("http://{}", proxy.address);
    start
        .variables
        .push(("SPINDLE_CLICKHOUSE__URL", &through_the_proxy));
    let server = setup.start_ready().await;
    let client = &server.client;
    let report = async |url: &str, key: &str, run: &str| {
        let events = json!({"events": [event("tiers", run, "agent_start", 0)]});
        let request = client.post(format!("{url}/api/report")).bearer_auth(key);
        request.json(&events).send().await.unwrap().status()
    };
    let is_ready = async |url: &str| {
        let answer = client.get(format!("{url}/health/ready")).send().await;
        answer.is_ok_and(|answer| answer.status() == StatusCode::OK)
    };

    // One beside that of the deployment, with a folder of its own.
    start.arguments.pop();
    start.arguments.push(setup.data().join("ingest-2").into());
    let mut ingest = start.listening().await;
    let snapshot = setup.data().join("ingest-2/key-snapshot.json");
    server
        .until("the keys are kept", VISIBLE_WITHIN, async || {
            let text = std::fs::read_to_string(&snapshot).ok()?;
            text.contains("secret_hash").then_some(())
        })
        .await;
    let kept = std::fs::read_to_string(&snapshot).unwrap();
    assert!(!kept.contains(&setup.key), "hashes only (X2)");

    proxy.set(Network::Refused);
    ingest.kill();
    drop(ingest);
    let ingest = start.listening().await;
    server
        .until("it is ready", VISIBLE_WITHIN, async || {
            is_ready(&ingest.url).await.then_some(())
        })
        .await;
    assert_eq!(
        report(&ingest.url, &setup.key, "away").await,
        StatusCode::OK
    );
    assert_eq!(
        report(&ingest.url, "sp_key_nobody_knows_this_one", "x").await,
        StatusCode::SERVICE_UNAVAILABLE,
        "whether the key exists cannot be checked"
    );
    proxy.set(Network::Whole);
    server
        .until(
            "an unknown key is refused again",
            VISIBLE_WITHIN,
            async || {
                let status = report(&ingest.url, "sp_key_nobody_knows_this_one", "x").await;
                (status == StatusCode::UNAUTHORIZED).then_some(())
            },
        )
        .await;
    server
        .until(
            "what was reported meanwhile is there",
            VISIBLE_WITHIN,
            async || {
                let (status, _) = server.get("/api/run/away").await;
                (status == StatusCode::OK).then_some(())
            },
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tier_in_one_process_works_over_kafka_as_well() {
    let backed = Setup::unmigrated().await;
    let mut setup = Setup::new();
    let kafka = |(name, _): &&(String, String)| name.contains("KAFKA");
    setup.variables = backed.variables.iter().filter(kafka).cloned().collect();
    let mut server = setup.start_ready().await;
    assert_eq!(reported(&server, &setup.key, "r").await, StatusCode::OK);
    let there = async || (server.get("/api/run/r").await.0 == StatusCode::OK).then_some(());
    server
        .until("the run is there", VISIBLE_WITHIN, there)
        .await;
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.ended(Duration::from_secs(40)).await, Some(0));
}
