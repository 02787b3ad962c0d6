//! Prices from the command line and over HTTP to the cost of a run, through the whole server.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Server, Setup, VISIBLE_WITHIN, event};

crate::harness::both_ways!(a_price_acts_from_the_moment_it_is_set_and_outlives_a_kill);

/// Reports a model call and waits for its run.
async fn call(server: &Server, run: &str, model: &str) -> Value {
    let mut call = event("shop", run, "llm_call", 0);
    call["type"] = json!("llm");
    call["model"] = json!(model);
    call["prompt_tokens"] = json!(2006);
    call["completion_tokens"] = json!(300);
    call["cached_tokens"] = json!(1920);
    call["output"] = json!("x");
    let response = server.report(&[call]).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    server
        .until("the call is a run", VISIBLE_WITHIN, async || {
            let (status, run) = server.get(&format!("/api/run/{run}")).await;
            (status == StatusCode::OK).then_some(run)
        })
        .await
}

fn priced(run: &Value) -> (String, &str) {
    (
        run["cost"].to_string(),
        run["cost_status"].as_str().unwrap(),
    )
}

async fn a_price_acts_from_the_moment_it_is_set_and_outlives_a_kill(setup: Setup) {
    let mut server = setup.start_ready().await;
    // Shipped: 2.5, cached 1.25, output 10 for a million tokens.
    let shipped = call(&server, "shipped", "gpt-4o-2024-08-06").await;
    assert_eq!(priced(&shipped), ("0.005615".to_owned(), "priced"));
    let before = call(&server, "before", "house/1 ä").await;
    assert_eq!(priced(&before), ("0".to_owned(), "unpriced_model"));
    let (_, unpriced) = server.get("/api/analytics/unpriced").await;
    assert_eq!(unpriced["data"][0]["model"], json!("house/1 ä"));
    assert_eq!(unpriced["data"][0]["total_tokens"], json!(2306));

    let done = server.command(&[
        "price",
        "set",
        "house/1 ä",
        "--input-per-1m",
        "2.000000000001",
        "--output-per-1m",
        "1",
    ]);
    assert!(done.status.success(), "{done:?}");
    server.informed().await;
    let after = call(&server, "after", "house/1 ä").await;
    // 2006 * 2.000000000001 + 300, per million.
    let exact = "0.004312000000002006".to_owned();
    assert_eq!(priced(&after), (exact, "partly_priced"));
    assert_eq!(after["unpriced_kinds"], json!(["cache_read"]));
    let (_, before) = server.get("/api/run/before").await;
    assert_eq!(
        priced(&before),
        ("0".to_owned(), "unpriced_model"),
        "what is stored keeps its cost"
    );

    server.kill();
    server.ended(Duration::from_secs(20)).await;
    let server = setup.start_ready().await;
    let later = call(&server, "later", "house/1 ä").await;
    assert_eq!(priced(&later), priced(&after));

    let (status, gone) = server
        .ask(
            Method::DELETE,
            &setup.token,
            "/api/internal/prices/house%2F1%20%C3%A4",
            None,
        )
        .await;
    assert_eq!(status, StatusCode::OK, "{gone}");
    server.informed().await;
    let without = call(&server, "without", "house/1 ä").await;
    assert_eq!(priced(&without), ("0".to_owned(), "unpriced_model"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_prices_is_imported_whole_or_not_at_all() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let path = setup.folder.path().join("prices.csv");
    let import = || {
        let done = server.command(&["price", "import", path.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.success(), said, told)
    };
    let head = "model,input_per_1m,output_per_1m,prefix\n";
    std::fs::write(&path, format!("{head}a,1,2,\nb,-1,2,\nc,1,x,\n")).unwrap();
    let (is_done, _, told) = import();
    assert!(
        !is_done && told.contains("line 3") && told.contains("line 4"),
        "{told}"
    );
    let list = "/api/internal/prices?origin=changed";
    let (_, none) = server.get_as(&setup.token, list).await;
    assert_eq!(none["data"], json!([]));

    std::fs::write(&path, format!("{head}a,1,2,\na,3,4,true\ngpt-4o,9,9,\n")).unwrap();
    let (is_done, said, told) = import();
    assert!(is_done, "{told}");
    assert_eq!(said, "2 new, 1 changed, 0 unchanged\n");
    assert_eq!(import().1, "0 new, 0 changed, 3 unchanged\n");
    let (_, three) = server.get_as(&setup.token, list).await;
    assert_eq!(three["data"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_price_list_is_imported_once_and_reports_what_it_skips() {
    let setup = Setup::new();
    let server = setup.start_ready().await;
    let list = format!(
        "{}/tests/fixtures/prices/litellm.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let import = |more: &[&str]| {
        let all = ["price", "import", "--format", "litellm", &list];
        let done = server.command(&[&all[..], more].concat());
        assert!(done.status.success(), "{done:?}");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let changed = "/api/internal/prices?origin=changed";
    let said = import(&["--dry-run"]);
    assert!(
        said.starts_with("5 new, 0 changed, 0 unchanged (dry run)\n"),
        "{said}"
    );
    assert!(
        said.contains("\nskipped 2: no price per token: painter, speaker\n"),
        "{said}"
    );
    let (_, none) = server.get_as(&setup.token, changed).await;
    assert_eq!(none["data"], json!([]));

    assert_eq!(
        import(&["--only", "maker/large"]),
        "1 new, 0 changed, 0 unchanged\n\
         skipped 1: a service tier without a common factor, left out: maker/large\n"
    );
    assert!(import(&[]).starts_with("4 new, 0 changed, 1 unchanged\n"));
    assert!(import(&[]).starts_with("0 new, 0 changed, 5 unchanged\n"));
    let (_, large) = server
        .get_as(&setup.token, "/api/internal/prices?model=maker/large")
        .await;
    let large = &large["data"][0];
    assert_eq!(large["cache_write_1h_per_1m"], json!(6));
    assert_eq!(large["tiers"][0]["cache_write_1h_per_1m"], json!(12));
    assert_eq!(large["service_tiers"], json!({"batch": 0.5, "priority": 2}));

    // A name with a provider in front has the price of the bare one.
    server.informed().await;
    let run = call(&server, "decorated", "openai/gpt-4o-2024-08-06").await;
    assert_eq!(priced(&run), ("0.005615".to_owned(), "priced"));
}
