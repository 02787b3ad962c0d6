//! Scans of the platform over services that the test itself starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Json, Router};
use query::QueryState;
use query::platform::scan::{AuthProviderConfig, ScanConfig, ServiceConfig, StorageConfig};
use query::{Cleared, DiskReport, Infrastructure, LogReport, Processes};
use schemas::control::KnownProcess;
use schemas::control::{CacheReport, Heartbeat};
use schemas::credential::{Role, Scope};
use serde_json::{Value, json};
use store::Secret;
use store::credentials::Credentials;
use store::prices::Prices;
use store::{Store, StoreConfig};
use tower::ServiceExt;

use crate::tier::Tier;

const DISCOVER: &str = "/api/platform/discover";
const SCANS: &str = "/api/platform/scan";
/// A service that hangs is given up after this long: long for one that is well, on however busy a machine.
const PROBE: Duration = Duration::from_millis(1500);

/// One process that is everything.
struct Alone;

#[async_trait]
impl Processes for Alone {
    fn processes(&self) -> Vec<KnownProcess> {
        vec![KnownProcess {
            heartbeat: Heartbeat {
                process: "p".to_owned(),
                role: "serve".to_owned(),
                version: "9.9.9".to_owned(),
                endpoint: "http://127.0.0.1:7070".to_owned(),
                missing: vec![("processor".to_owned(), "paused".to_owned())],
                caches: vec![CacheReport {
                    name: "credentials".to_owned(),
                    entries: 4,
                    used_bytes: 3 << 20,
                    max_bytes: 12 << 20,
                    hits: 10,
                    misses: 1,
                }],
                ..Heartbeat::default()
            },
            silent_ms: 0,
        }]
    }

    async fn clear(&self, _: &[String]) -> Result<Cleared, String> {
        Err("not here".to_owned())
    }
}

struct Log(Result<LogReport, String>);

#[async_trait]
impl Infrastructure for Log {
    async fn log(&self) -> Result<LogReport, String> {
        self.0.clone()
    }

    fn log_kind(&self) -> &'static str {
        "kafka"
    }

    async fn disk(&self) -> Option<DiskReport> {
        None
    }
}

fn log() -> LogReport {
    LogReport {
        kind: "kafka",
        version: "unknown".to_owned(),
        brokers: 3,
        topics: 7,
        lag_records: Some(0),
        bytes: None,
    }
}

/// Services of every kind behind one address, by path.
async fn services() -> String {
    let asked = Arc::new(AtomicU32::new(0));
    let json = |text: &'static str| {
        move || async move { ([(header::CONTENT_TYPE, "application/json")], text).into_response() }
    };
    let changing = move || async move {
        let version = asked.fetch_add(1, Ordering::SeqCst) + 1;
        Json(json!({"status": "UP", "build": {"version": format!("{version}.0")}}))
    };
    let router = Router::new()
        .route("/up", get(json(r#"{"status":"UP","version":"2.1"}"#)))
        .route("/plain", get(|| async { "all is well" }))
        .route("/down", get(json(r#"{"status":"DOWN","version":"2.1"}"#)))
        .route("/500", get(|| async { StatusCode::INTERNAL_SERVER_ERROR }))
        .route("/wrong", get(json("<html>")))
        .route("/hangs", get(std::future::pending::<Response>))
        .route("/half", get(|| async {
            let first = futures::stream::once(async { Ok::<_, std::io::Error>("{") });
            let rest = futures::stream::pending();
            let body = Body::from_stream(futures::StreamExt::chain(first, rest));
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }))
        .route("/huge", get(|| async { Json("x".repeat(1 << 20)) }))
        .route("/within", get(|| async { Redirect::temporary("/up") }))
        .route("/around", get(|| async { Redirect::temporary("/around") }))
        .route("/elsewhere", get(|| async { Redirect::temporary("http://127.0.0.2:1/up") }))
        .route("/changing", get(changing))
        .route("/id/.well-known/openid-configuration", get(|request: Request<Body>| async move {
            let host = request.headers()[header::HOST].to_str().unwrap().to_owned();
            Json(json!({"issuer": format!("http://{host}/id"), "jwks_uri": format!("http://{host}/keys")}))
        }))
        .route("/other/.well-known/openid-configuration", get(json(r#"{"issuer":"http://other","jwks_uri":"http://other/keys"}"#)))
        .route("/keys", get(json(r#"{"keys":[{"kty":"oct","k":"AA"},{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#)))
        .route("/secrets", get(json(r#"{"keys":[{"kty":"oct","k":"AA"}]}"#)))
        .route("/useless/.well-known/openid-configuration", get(|request: Request<Body>| async move {
            let host = request.headers()[header::HOST].to_str().unwrap().to_owned();
            Json(json!({"issuer": format!("http://{host}/useless"), "jwks_uri": format!("http://{host}/secrets")}))
        }))
        .route("/s3/", get(|request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default();
            if !query.contains("X-Amz-Signature=") || query.contains("hunter2") {
                return StatusCode::FORBIDDEN.into_response();
            }
            let (buckets, token) = match query.contains("continuation-token=next") {
                false => (2, "<ContinuationToken>next</ContinuationToken>"),
                true => (1, ""),
            };
            let bucket = "<Bucket><Name>b</Name></Bucket>".repeat(buckets);
            format!("<ListAllMyBucketsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Buckets>{bucket}</Buckets>{token}</ListAllMyBucketsResult>").into_response()
        }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

/// An address without a listener.
async fn closed_address() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

fn service(key: &str, url: &str) -> ServiceConfig {
    ServiceConfig {
        key: key.to_owned(),
        version: "set".to_owned(),
        health_url: Some(url.parse().unwrap()),
        ..ServiceConfig::default()
    }
}

fn config(services: Vec<ServiceConfig>) -> ScanConfig {
    ScanConfig {
        probe_timeout: PROBE,
        services,
        ..ScanConfig::default()
    }
}

fn router(state: QueryState, config: ScanConfig) -> Router {
    let log = Arc::new(Log(Ok(log())));
    query::router(
        state
            .with_processes(Arc::new(Alone))
            .with_infrastructure(log)
            .scanning(config),
    )
}

async fn ask(router: &Router, secret: &str, path: &str) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {secret}"))
        .body(Body::empty())
        .unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    if path == DISCOVER && status == StatusCode::OK {
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
    }
    let body = to_bytes(response.into_body(), 1 << 22).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn scan(router: &Router, secret: &str) -> Value {
    let (status, report) = ask(router, secret, DISCOVER).await;
    assert_eq!(status, StatusCode::OK, "{report}");
    report
}

fn recommends(report: &Value, word: &str) -> bool {
    let all = report["summary"]["recommendations"].as_array().unwrap();
    all.iter().any(|text| text.as_str().unwrap().contains(word))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_answer_has_its_verdict() {
    let tier = Tier::new().await;
    let operator = tier.token(Role::Operator, None).await;
    let url = services().await;
    let kinds: BTreeMap<&str, (&str, &str)> = BTreeMap::from([
        ("up", ("healthy", "")),
        ("plain", ("healthy", "")),
        ("within", ("healthy", "")),
        ("down", ("unhealthy", "`down`")),
        ("500", ("unhealthy", "status 500")),
        ("wrong", ("unhealthy", "JSON")),
        ("hangs", ("unhealthy", "timed out after 1500 ms")),
        ("half", ("unhealthy", "timed out after 1500 ms")),
        ("huge", ("unhealthy", "too long")),
        ("around", ("unhealthy", "redirects")),
        ("elsewhere", ("unhealthy", "redirects to another host")),
        ("missing", ("unhealthy", "status 404")),
    ]);
    let at = |key: &str| {
        let with_user = url.replace("http://", "http://u:hunter2@");
        service(key, &format!("{with_user}/{key}?token=hunter2"))
    };
    let mut all: Vec<ServiceConfig> = kinds.keys().map(|key| at(key)).collect();
    all.push(service("refused", &closed_address().await));
    let router = router(tier.state.clone(), config(all));
    let report = scan(&router, &operator).await;
    for (key, (status, error)) in kinds {
        let service = &report["services"][key];
        assert_eq!(service["status"], status, "{service}");
        assert_eq!(
            service.get("error").is_some(),
            status == "unhealthy",
            "{service}"
        );
        let said = service["error"].as_str().unwrap_or_default();
        assert!(said.contains(error), "{key}: {said}");
    }
    assert_eq!(
        report["services"]["refused"]["error"],
        "the connection was refused"
    );
    assert_eq!(
        report["services"]["up"]["version"], "2.1",
        "the response takes precedence"
    );
    assert_eq!(
        report["services"]["down"]["version"], "2.1",
        "even when it is down"
    );
    assert_eq!(report["services"]["plain"]["version"], "set");
    assert!(!report.to_string().contains("hunter2"), "(X2) {report}");

    let known = [
        "svcEngine",
        "svcDesigner",
        "svcAdmin",
        "svcCms",
        "documentManagement",
        "notifications",
        "taskManagement",
    ];
    for key in known {
        assert_eq!(report["services"][key]["status"], "unknown");
        assert_eq!(report["services"][key]["endpoint"], "");
    }
    for (key, status) in [
        ("spindleIngest", "healthy"),
        ("spindleProcessor", "unhealthy"),
        ("spindleQuery", "healthy"),
    ] {
        assert_eq!(report["services"][key]["status"], status);
        assert_eq!(report["services"][key]["version"], "9.9.9");
    }
    // 13 services and the tiers.
    assert_eq!(report["totalServices"], 7 + 13 + 3);
    assert_eq!(report["healthyServices"], 3 + 2);
    assert_eq!(report["unhealthyServices"], 10 + 1);
    let on = &report["infrastructure"];
    assert_eq!(
        (&on["database"]["type"], &on["database"]["status"]),
        (&json!("ClickHouse"), &json!("healthy"))
    );
    assert!(on["database"]["version"].as_str().unwrap().contains('.'));
    assert_eq!(on["messageBroker"]["brokers"], 3);
    assert_eq!(
        on["cacheStore"]["memory"],
        json!({"used": "3.0 MiB", "available": "9.0 MiB"})
    );
    assert!(recommends(&report, "first stored scan") && recommends(&report, "`svcCms`"));
    assert!(recommends(&report, "is unhealthy: processor: paused"));
    assert!(!recommends(&report, "not ready"), "told once");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_of_fifty_services_that_hang_do_not_hold_up_a_scan() {
    let tier = Tier::new().await;
    let operator = tier.token(Role::Operator, None).await;
    let url = services().await;
    let many = |hanging: usize| -> Vec<ServiceConfig> {
        let path = |n| if n < hanging { "hangs" } else { "up" };
        (0..50)
            .map(|n| service(&format!("s{n}"), &format!("{url}/{}", path(n))))
            .collect()
    };
    let started = Instant::now();
    let report = scan(&router(tier.state.clone(), config(many(10))), &operator).await;
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(
        (&report["healthyServices"], &report["unhealthyServices"]),
        (&json!(42), &json!(11))
    );
    for n in 0..10 {
        assert_eq!(
            report["services"][format!("s{n}")]["error"],
            "timed out after 1500 ms"
        );
    }
    assert!(report["summary"]["issuesDetected"].as_u64().unwrap() >= 10);

    // Where one answer may take longer than the scan, the scan ends in time all the same.
    let short = ScanConfig {
        probe_timeout: Duration::from_secs(60),
        scan_timeout: Duration::from_secs(2),
        services: many(50),
        ..ScanConfig::default()
    };
    let started = Instant::now();
    let report = scan(&router(tier.state.clone(), short), &operator).await;
    assert!(
        started.elapsed() < Duration::from_secs(6),
        "{:?}",
        started.elapsed()
    );
    let error = report["services"]["s0"]["error"].as_str().unwrap();
    assert!(
        error.contains("before the end of the scan (after 2 s)"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_are_compared_with_the_last_one_and_kept() {
    let tier = Tier::new().await;
    let operator = tier.token(Role::Operator, None).await;
    let url = services().await;
    let refused = closed_address().await;
    let of = |services: Vec<ServiceConfig>| router(tier.state.clone(), config(services));
    let first = of(vec![
        service("changing", &format!("{url}/changing")),
        service("down", &refused),
    ]);
    let report = scan(&first, &operator).await;
    assert_eq!(
        (
            &report["summary"]["newServicesFound"],
            &report["summary"]["configurationChanges"]
        ),
        (&json!(0), &json!(0))
    );
    // The version changed, and nothing else.
    let report = scan(&first, &operator).await;
    assert_eq!(
        (
            &report["summary"]["newServicesFound"],
            &report["summary"]["configurationChanges"]
        ),
        (&json!(0), &json!(1))
    );
    assert!(
        recommends(&report, "The version of `changing` changed from 1.0 to 2.0"),
        "{report}"
    );
    assert!(
        recommends(&report, "It has been unhealthy since the scan of"),
        "{report}"
    );
    // One is gone, one is new.
    let second = of(vec![
        service("changing", &format!("{url}/up")),
        service("new", &refused),
    ]);
    let report = scan(&second, &operator).await;
    assert_eq!(report["summary"]["newServicesFound"], 1);
    assert_eq!(
        report["summary"]["configurationChanges"], 2,
        "a version, and `down` is gone: {report}"
    );
    assert!(recommends(&report, "`new` is new") && recommends(&report, "`down` was removed"));

    let (status, all) = ask(&second, &operator, SCANS).await;
    assert_eq!(status, StatusCode::OK, "{all}");
    let all = all["data"].as_array().unwrap().clone();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0]["summary"], report["summary"], "newest first");
    assert_eq!(all[0]["totalServices"], report["totalServices"]);
    assert!(all[0]["unhealthySince"]["new"].is_string());
    let mut paged = Vec::new();
    let mut path = format!("{SCANS}?limit=2");
    loop {
        let (_, page) = ask(&second, &operator, &path).await;
        paged.extend(page["data"].as_array().unwrap().clone());
        assert_eq!(page["has_more"], page["next_cursor"].is_string());
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        path = format!("{SCANS}?limit=2&cursor={next}");
    }
    assert_eq!(paged, all);
    let id = all[0]["id"].as_str().unwrap();
    let (status, one) = ask(&second, &operator, &format!("{SCANS}/{id}")).await;
    assert_eq!((status, &one["report"]), (StatusCode::OK, &report));
    assert_eq!(one["scannedBy"], all[0]["scannedBy"]);
    for nothing in ["nothing", "00000000-0000-4000-8000-000000000000"] {
        let (status, _) = ask(&second, &operator, &format!("{SCANS}/{nothing}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{nothing}");
    }
    for bad in ["limit=0", "limit=101", "cursor=x", "colour=red"] {
        let (status, _) = ask(&second, &operator, &format!("{SCANS}?{bad}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_scans_at_once_share_one_and_whoever_goes_away_stops_it_for_closed_address() {
    let tier = Tier::new().await;
    let operator = tier.token(Role::Operator, None).await;
    let url = services().await;
    let all = vec![service("hangs", &format!("{url}/hangs"))];
    let router = router(tier.state.clone(), config(all));
    let first = tokio::time::timeout(Duration::from_millis(100), scan(&router, &operator)).await;
    assert!(first.is_err(), "it goes away before the scan is over");
    let (one, other) = tokio::join!(scan(&router, &operator), scan(&router, &operator));
    assert_eq!(one, other);
    let (_, all) = ask(&router, &operator, SCANS).await;
    assert_eq!(all["data"].as_array().unwrap().len(), 1, "{all}");
    scan(&router, &operator).await;
    let (_, all) = ask(&router, &operator, SCANS).await;
    assert_eq!(
        all["data"].as_array().unwrap().len(),
        2,
        "the next one is another"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn systems_of_others_are_asked_as_those_who_use_them_do() {
    let tier = Tier::new().await;
    let operator = tier.token(Role::Operator, None).await;
    let url = services().await;
    let with = |issuer: String, storage: String| {
        let config = ScanConfig {
            auth_provider: Some(AuthProviderConfig {
                name: "Id".to_owned(),
                issuer,
            }),
            document_storage: Some(StorageConfig {
                name: "S3".to_owned(),
                endpoint: storage.parse().unwrap(),
                region: "us-east-1".to_owned(),
                access_key: "AKIA".to_owned(),
                secret_key: Secret::new("hunter2"),
            }),
            ..config(Vec::new())
        };
        router(tier.state.clone(), config)
    };
    let report = scan(&with(format!("{url}/id"), format!("{url}/s3/")), &operator).await;
    let outside = &report["externalIntegrations"];
    assert_eq!(
        (
            &outside["authProvider"]["status"],
            &outside["authProvider"]["name"]
        ),
        (&json!("healthy"), &json!("Id"))
    );
    assert_eq!(outside["authProvider"]["endpoint"], format!("{url}/id"));
    assert_eq!(
        (
            &outside["documentStorage"]["status"],
            &outside["documentStorage"]["buckets"]
        ),
        (&json!("healthy"), &json!(3)),
        "{report}"
    );
    for (issuer, storage, why) in [
        (
            format!("{url}/other"),
            format!("{url}/s3/"),
            "its `issuer` is not exactly the configured one",
        ),
        (
            format!("{url}/nothing"),
            format!("{url}/s3/"),
            "the discovery document was answered with status 404",
        ),
        (
            format!("{url}/useless"),
            format!("{url}/s3/"),
            "no key that can check tokens",
        ),
        (
            format!("{url}/id"),
            format!("{url}/up"),
            "not a list of buckets",
        ),
        (
            format!("{url}/id"),
            closed_address().await,
            "the connection was refused",
        ),
        (
            format!("{url}/id"),
            format!("{url}/hangs"),
            "timed out after 1500 ms",
        ),
    ] {
        let report = scan(&with(issuer, storage), &operator).await;
        assert!(recommends(&report, why), "{why}: {report}");
        assert!(!report.to_string().contains("hunter2"), "(X2)");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_operators_and_admins_scan_and_read_scans() {
    let tier = Tier::new().await;
    let router = router(tier.state.clone(), config(Vec::new()));
    let secrets = [
        (tier.token(Role::Operator, None).await, 200),
        (tier.token(Role::Admin, Some(&["ours"])).await, 200),
        (tier.token(Role::Viewer, None).await, 403),
        (tier.token(Role::Starter, None).await, 403),
        (tier.key("ours", &[Scope::Read, Scope::Report]).await, 403),
        ("unknown".to_owned(), 401),
    ];
    for (secret, expected) in secrets {
        for path in [DISCOVER, SCANS, "/api/platform/scan/x"] {
            let (status, body) = ask(&router, &secret, path).await;
            let expected = match (expected, path) {
                (200, "/api/platform/scan/x") => 404,
                (expected, _) => expected,
            };
            assert_eq!(status.as_u16(), expected, "{path}: {body}");
            if expected >= 400 {
                assert!(body["error"].is_string() && body["message"].is_string());
                assert_eq!(body["status"], expected);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_answers_while_the_database_and_the_log_are_away() {
    let tier = Tier::new().await;
    let operator = tier.token(Role::Operator, None).await;
    let nowhere = StoreConfig {
        url: closed_address().await.trim_end_matches('/').to_owned(),
        ..StoreConfig::default()
    };
    let registry = prometheus::Registry::new();
    let metrics = store::metrics::Metrics::register(&registry).unwrap();
    let away = Store::connect(nowhere, metrics).unwrap();
    // Who may come in is known from before.
    let credentials: Credentials = tier.credentials.clone();
    let state = QueryState::new(
        away.clone(),
        credentials,
        Prices::new(away).unwrap(),
        &registry,
    )
    .unwrap();
    let state = state
        .with_processes(Arc::new(Alone))
        .with_infrastructure(Arc::new(Log(Err("it does not answer".to_owned()))))
        .scanning(config(Vec::new()));
    let router = query::router(state);
    let report = scan(&router, &operator).await;
    let on = &report["infrastructure"];
    assert_eq!(
        (&on["database"]["status"], &on["database"]["version"]),
        (&json!("unhealthy"), &json!("unknown"))
    );
    assert_eq!(
        (&on["messageBroker"]["status"], &on["messageBroker"]["type"]),
        (&json!("unhealthy"), &json!("kafka"))
    );
    assert!(recommends(&report, "could not be stored") && recommends(&report, "could not be read"));
    assert!(report["summary"]["issuesDetected"].as_u64().unwrap() >= 4);
    let (status, _) = ask(&router, &operator, SCANS).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}
