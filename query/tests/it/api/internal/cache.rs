//! Answers of the clear operation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use prometheus::Registry;
use query::QueryState;
use query::{CORE_CACHE, Cleared, ClearedHere, Processes};
use schemas::control::KnownProcess;
use schemas::credential::Role;
use serde_json::{Value, json};
use store::credentials::Credentials;
use store::prices::Prices;
use store::{Store, StoreConfig};
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::tier::Tier;

/// Processes that do what the test says.
#[derive(Default)]
struct Others {
    ordered: Mutex<Vec<String>>,
    outcome: Mutex<Option<Result<(usize, usize), String>>>,
    /// They do it when they may go on.
    waits: AtomicBool,
    goes_on: Notify,
    done: Notify,
}

#[async_trait]
impl Processes for Others {
    fn processes(&self) -> Vec<KnownProcess> {
        Vec::new()
    }

    async fn clear(&self, names: &[String]) -> Result<Cleared, String> {
        self.ordered.lock().unwrap().extend_from_slice(names);
        if self.waits.load(Ordering::SeqCst) {
            self.goes_on.notified().await;
        }
        self.done.notify_one();
        let outcome = self.outcome.lock().unwrap().clone();
        let (confirmed, of) = outcome.unwrap_or(Ok((1, 1)))?;
        let here = match confirmed {
            0 => ClearedHere::Failed,
            _ => ClearedHere::Done,
        };
        let order = "order".to_owned();
        Ok(Cleared {
            order,
            here,
            is_published: true,
            confirmed,
            of,
        })
    }
}

async fn clear(state: &QueryState, secret: &str) -> (StatusCode, HeaderMap, Value) {
    let body = json!({ "cacheNames": [CORE_CACHE] }).to_string();
    let request = Request::post("/api/internal/cache/clear")
        .header("authorization", format!("Bearer {secret}"))
        .header("content-type", "application/json")
        .body(Body::from(body));
    let router = query::router(state.clone());
    let response = router.oneshot(request.unwrap()).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, headers, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_says_how_many_processes_did_it_and_a_failure_keeps_its_shape() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let others = Arc::new(Others::default());
    let state = tier.state.clone().with_processes(others.clone());
    let too_few = "cleared in 2 of 3 processes; the others have not confirmed it";
    for (outcome, expected, said) in [
        (Ok((1, 1)), 200, "cleared in 1 of 1 process"),
        (Ok((3, 3)), 200, "cleared in 3 of 3 processes"),
        (Ok((2, 3)), 200, too_few),
        (Ok((0, 1)), 503, "until the database answers"),
        (Err("the log is away".to_owned()), 503, "the log is away"),
    ] {
        *others.outcome.lock().unwrap() = Some(outcome);
        let (status, headers, answer) = clear(&state, &admin).await;
        assert_eq!(status, expected, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(
            message.starts_with(said) || message.ends_with(said),
            "{answer}"
        );
        assert!(answer["timestamp"].is_string());
        let is_good = expected == 200;
        assert_eq!(answer["status"], if is_good { "success" } else { "error" });
        assert_eq!(answer["clearedCaches"].is_array(), is_good);
        assert_eq!(headers.contains_key("retry-after"), !is_good);
    }
    let ordered = others.ordered.lock().unwrap().clone();
    assert_eq!(ordered, [CORE_CACHE; 5]);

    let limited = tier.token(Role::Admin, Some(&["ours"])).await;
    let (status, _, answer) = clear(&state, &limited).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    assert_eq!(
        others.ordered.lock().unwrap().len(),
        5,
        "nothing was published"
    );
    let (status, headers, answer) = clear(&tier.state, &admin).await;
    assert_eq!(
        status,
        StatusCode::SERVICE_UNAVAILABLE,
        "has no access to processes"
    );
    assert!(headers.contains_key("retry-after") && answer["status"] == "error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_stops_no_order() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let others = Arc::new(Others::default());
    others.waits.store(true, Ordering::SeqCst);
    let state = tier.state.clone().with_processes(others.clone());
    let ordered = async {
        while others.ordered.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        answer = clear(&state, &admin) => panic!("{answer:?}"),
        () = ordered => {}
    }
    others.goes_on.notify_one();
    let done = tokio::time::timeout(Duration::from_secs(30), others.done.notified());
    done.await.expect("the order goes on");
}

#[tokio::test]
async fn a_credential_that_cannot_be_checked_is_a_503_of_the_same_shape() {
    let config = StoreConfig {
        url: "http://127.0.0.1:1".to_owned(),
        ..StoreConfig::default()
    };
    let metrics = store::metrics::Metrics::register(&Registry::new()).unwrap();
    let store = Store::connect(config, metrics).unwrap();
    let credentials = Credentials::new(store.clone());
    let prices = Prices::new(store.clone()).unwrap();
    let state = QueryState::new(store, credentials, prices, &Registry::new())
        .unwrap()
        .with_processes(Arc::new(Others::default()));
    let (status, headers, answer) = clear(&state, "sp_tok_x").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    assert!(headers.contains_key("retry-after"));
    assert_eq!(answer["status"], "error");
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("cannot be checked")
    );
    assert!(answer["timestamp"].is_string() && answer["error"].is_null());
}
