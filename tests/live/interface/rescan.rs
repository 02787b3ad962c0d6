//! Force platform rescan: sections 2.2, 4.2, 5 and 7.2 of the interface.

use chrono::{DateTime, Utc};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::harness::{READY_WITHIN, Server, Setup, both_ways};

both_ways!(rescanning_answers_as_the_interface_says);

const DISCOVER: &str = "/api/platform/discover";
/// Every key that `services` is documented to have.
const SERVICES: [&str; 7] = [
    "svcEngine",
    "svcDesigner",
    "svcAdmin",
    "svcCms",
    "documentManagement",
    "notifications",
    "taskManagement",
];
/// The tiers of this program, reported as further services.
const TIERS: [&str; 3] = ["spindleIngest", "spindleProcessor", "spindleQuery"];

/// What a field may hold.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Integer,
    Text,
    Time,
    Object,
    Texts,
    /// `healthy`, `unhealthy` or `unknown`.
    Status,
    /// A size text such as `1.0 MiB`.
    Size,
    /// A duration text such as `0.123s`.
    Duration,
}
use Kind::{Duration, Integer, Object, Size, Status, Text, Texts, Time};

/// Section 2.2, top level, infrastructure, integrations and summary: one row for each field.
const FIELDS: [(&str, Kind); 43] = [
    ("/scanTimestamp", Time),
    ("/totalServices", Integer),
    ("/healthyServices", Integer),
    ("/unhealthyServices", Integer),
    ("/services", Object),
    ("/infrastructure", Object),
    ("/externalIntegrations", Object),
    ("/summary", Object),
    ("/infrastructure/database", Object),
    ("/infrastructure/database/type", Text),
    ("/infrastructure/database/version", Text),
    ("/infrastructure/database/status", Status),
    ("/infrastructure/database/connections", Object),
    ("/infrastructure/database/connections/active", Integer),
    ("/infrastructure/database/connections/idle", Integer),
    ("/infrastructure/database/connections/max", Integer),
    ("/infrastructure/database/lastHealthCheck", Time),
    ("/infrastructure/messageBroker", Object),
    ("/infrastructure/messageBroker/type", Text),
    ("/infrastructure/messageBroker/version", Text),
    ("/infrastructure/messageBroker/status", Status),
    ("/infrastructure/messageBroker/brokers", Integer),
    ("/infrastructure/messageBroker/topics", Integer),
    ("/infrastructure/messageBroker/lastHealthCheck", Time),
    ("/infrastructure/cacheStore", Object),
    ("/infrastructure/cacheStore/type", Text),
    ("/infrastructure/cacheStore/version", Text),
    ("/infrastructure/cacheStore/status", Status),
    ("/infrastructure/cacheStore/memory", Object),
    ("/infrastructure/cacheStore/memory/used", Size),
    ("/infrastructure/cacheStore/memory/available", Size),
    ("/infrastructure/cacheStore/lastHealthCheck", Time),
    ("/externalIntegrations/authProvider/name", Text),
    ("/externalIntegrations/authProvider/status", Status),
    ("/externalIntegrations/authProvider/endpoint", Text),
    ("/externalIntegrations/documentStorage/name", Text),
    ("/externalIntegrations/documentStorage/status", Status),
    ("/externalIntegrations/documentStorage/endpoint", Text),
    ("/externalIntegrations/documentStorage/buckets", Integer),
    ("/summary/scanDuration", Duration),
    ("/summary/newServicesFound", Integer),
    ("/summary/configurationChanges", Integer),
    ("/summary/issuesDetected", Integer),
];
/// The one field of section 2.2 that is a list.
const RECOMMENDATIONS: (&str, Kind) = ("/summary/recommendations", Texts);
/// Section 2.2, service record; `error` only of an unhealthy one, `lastHealthCheck` only of one that was checked.
const OF_A_SERVICE: [(&str, Kind); 5] = [
    ("/name", Text),
    ("/version", Text),
    ("/status", Status),
    ("/endpoint", Text),
    ("/capabilities", Texts),
];
const LAST_CHECK: &str = "lastHealthCheck";
/// Names and values.
type Headers = &'static [(&'static str, &'static str)];
/// Section 4.2: what may be in the headers of a request, and how its answer is packed.
const HEADERS: [(Headers, Option<&str>); 8] = [
    (&[], None),
    (&[("Cache-Control", "no-cache")], None),
    (&[("Accept", "*/*")], None),
    (&[("Accept", "text/html")], None),
    (&[("User-Agent", "a client")], None),
    (&[("Accept-Encoding", "gzip, deflate, br")], Some("br")),
    (&[("Accept-Encoding", "gzip")], Some("gzip")),
    (&[("Accept-Encoding", "deflate")], Some("deflate")),
];

#[track_caller]
fn check(report: &Value, (at, kind): (&str, Kind)) {
    let found = report.pointer(at);
    let is_good = |found: &Value| match kind {
        Integer => found.is_u64(),
        Text => found.is_string(),
        Object => found.is_object(),
        Texts => found
            .as_array()
            .is_some_and(|all| all.iter().all(Value::is_string)),
        Time => {
            let time = found.as_str().and_then(|text| text.parse().ok());
            time.is_some_and(|time: DateTime<Utc>| (Utc::now() - time).num_seconds() < 600)
        }
        Status => ["healthy", "unhealthy", "unknown"]
            .iter()
            .any(|word| found == word),
        Size => {
            let parts = found.as_str().and_then(|text| text.split_once(' '));
            parts.is_some_and(|(number, unit)| number.parse::<f64>().is_ok() && unit.ends_with('B'))
        }
        Duration => {
            let seconds = found.as_str().and_then(|text| text.strip_suffix('s'));
            seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
        }
    };
    assert!(found.is_some_and(is_good), "{at} is no {kind:?}: {report}");
}

/// Section 2.2, `lastHealthCheck`: the time of a check, which is not after the completion of the scan; of a service or
/// system that was not checked there is none.
fn check_times(report: &Value) {
    let within = |all: &Value| all.as_object().unwrap().clone();
    let all = ["/services", "/infrastructure", "/externalIntegrations"]
        .into_iter()
        .flat_map(|at| within(report.pointer(at).unwrap()));
    let mut unchecked = 0;
    for (key, one) in all {
        if one["status"] == "unknown" {
            assert_eq!(one.get(LAST_CHECK), None, "{key}: {one}");
            unchecked += 1;
            continue;
        }
        check(&one, ("/lastHealthCheck", Time));
        assert!(
            time(&one[LAST_CHECK]) <= time(&report["scanTimestamp"]),
            "{key}: {report}"
        );
    }
    // Six of the documented services, `ours` and both external systems.
    assert_eq!(unchecked, 9);
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

/// Section 2.2, `scanTimestamp`: the time of completion, `scanDuration` after the start.
async fn completion(server: &Server) {
    let before = Utc::now();
    let (_, report) = server.get_as(&server.token, DISCOVER).await;
    let duration = report["summary"]["scanDuration"].as_str().unwrap();
    let seconds: f64 = duration.strip_suffix('s').unwrap().parse().unwrap();
    let micros = chrono::Duration::microseconds((seconds * 1e6) as i64);
    // Both are rounded down to the millisecond.
    let completed = time(&report["scanTimestamp"]) + chrono::Duration::milliseconds(1);
    assert!(completed >= before + micros, "{before} {report}");
    assert!(time(&report["scanTimestamp"]) <= Utc::now());
}

async fn asked(server: &Server, secret: Option<&str>, headers: &[(&str, &str)]) -> Response {
    let mut request = server.client.get(format!("{}{DISCOVER}", server.url));
    if let Some(secret) = secret {
        request = request.bearer_auth(secret);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

async fn rescanning_answers_as_the_interface_says(setup: Setup) {
    // One service that is not there, behind a port that was just free, and one without a configured address.
    let free = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let services = json!([
        {"key": "svcCms", "name": "Content", "version": "4.2", "endpoint": format!("http://{free}"), "capabilities": ["content"]},
        {"key": "ours", "name": "Ours"},
    ]);
    let setup = setup.with("platform.services", &services.to_string());
    let is_distributed = setup.backing.is_some();
    let server = setup.start_ready().await;

    // A process says that it is there every few seconds.
    let report = server
        .until("every tier is heard", READY_WITHIN, async || {
            let (status, report) = server.get_as(&setup.token, DISCOVER).await;
            assert_eq!(status, StatusCode::OK, "{report}");
            let is_well = |key: &str| report["services"][key]["status"] == "healthy";
            TIERS.iter().all(|key| is_well(key)).then_some(report)
        })
        .await;
    for row in FIELDS.into_iter().chain([RECOMMENDATIONS]) {
        check(&report, row);
    }
    let found = report["services"].as_object().unwrap();
    for key in SERVICES.iter().chain(&TIERS).chain(&["ours"]) {
        let service = &found[*key];
        for row in OF_A_SERVICE {
            check(service, row);
        }
        let is_unhealthy = service["status"] == "unhealthy";
        assert_eq!(
            service.get("error").is_some_and(Value::is_string),
            is_unhealthy,
            "{service}"
        );
    }
    check_times(&report);
    assert_eq!(found.len(), 11);
    let cms = &found["svcCms"];
    assert_eq!(
        (&cms["name"], &cms["version"], &cms["endpoint"]),
        (
            &json!("Content"),
            &json!("4.2"),
            &json!(format!("http://{free}"))
        )
    );
    assert_eq!(
        (&cms["status"], &cms["capabilities"]),
        (&json!("unhealthy"), &json!(["content"]))
    );
    assert_eq!(cms["error"], "the connection was refused");
    let counts = ["totalServices", "healthyServices", "unhealthyServices"];
    assert_eq!(
        counts.map(|count| report[count].as_u64().unwrap()),
        [11, 3, 1]
    );
    for (key, service) in found
        .iter()
        .filter(|(key, _)| TIERS.contains(&key.as_str()))
    {
        assert!(
            service["endpoint"].as_str().unwrap().starts_with("http://"),
            "{key}"
        );
        assert_eq!(service["version"], env!("CARGO_PKG_VERSION"));
    }
    let (database, broker) = (
        &report["infrastructure"]["database"],
        &report["infrastructure"]["messageBroker"],
    );
    assert_eq!(
        (&database["type"], &database["status"]),
        (&json!("ClickHouse"), &json!("healthy"))
    );
    assert_eq!(database["connections"]["max"], 32);
    assert_eq!(
        (&broker["status"], &broker["brokers"]),
        (&json!("healthy"), &json!(1))
    );
    let kind = if is_distributed { "kafka" } else { "embedded" };
    assert_eq!(broker["type"], kind);
    assert!(broker["topics"].as_u64().unwrap() >= 2);
    assert_eq!(report["infrastructure"]["cacheStore"]["status"], "healthy");
    for system in ["authProvider", "documentStorage"] {
        let system = &report["externalIntegrations"][system];
        assert_eq!(
            (&system["status"], &system["endpoint"]),
            (&json!("unknown"), &json!(""))
        );
    }
    completion(&server).await;
    assert!(report["summary"]["issuesDetected"].as_u64().unwrap() >= 1);

    for (headers, packed) in HEADERS {
        let answer = asked(&server, Some(&setup.token), headers).await;
        assert_eq!(answer.status(), StatusCode::OK, "{headers:?}");
        let of = |name: &str| {
            let value = answer.headers().get(name);
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(of("content-type").as_deref(), Some("application/json"));
        assert_eq!(of("cache-control").as_deref(), Some("no-store"));
        assert_eq!(of("content-encoding").as_deref(), packed, "{headers:?}");
    }

    // Sections 5 and 7.2. The 500 cannot be provoked from outside: its shape is shown where it is made.
    let (_, viewer) = token(&server, "viewer").await;
    let (operator_id, operator) = token(&server, "operator").await;
    for (secret, expected) in [
        (None, 401),
        (Some("unknown"), 401),
        (Some(setup.key.as_str()), 403),
        (Some(&viewer), 403),
        (Some(&operator), 200),
    ] {
        let answer = asked(&server, secret, &[]).await;
        assert_eq!(answer.status().as_u16(), expected, "{secret:?}");
        let body: Value = answer.json().await.unwrap();
        if expected != 200 {
            assert!(
                body["error"].is_string() && body["message"].is_string(),
                "{body}"
            );
            assert_eq!(body["status"], expected);
        }
    }
    for authorization in crate::interface::other_schemes(&operator) {
        let headers = [("authorization", authorization.as_str())];
        let answer = asked(&server, None, &headers).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "section 5");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    }
    let (status, body) = server
        .get_as(&operator, &format!("{DISCOVER}?deep=true"))
        .await;
    assert_eq!(
        (status, &body["error"]),
        (StatusCode::BAD_REQUEST, &json!("unknown_parameter"))
    );

    // The history, and the command.
    let (_, scans) = server
        .get_as(&operator, "/api/platform/scan/?limit=1")
        .await;
    let newest = &scans["data"][0];
    assert_eq!(
        (&newest["scannedBy"], &scans["has_more"]),
        (&json!(operator_id), &json!(true))
    );
    assert!(newest["unhealthySince"]["svcCms"].is_string(), "{scans}");
    let done = server.command(&["discover"]);
    assert!(done.status.success(), "{done:?}");
    let shown = String::from_utf8(done.stdout).unwrap();
    assert!(
        shown.contains("svcCms") && shown.contains("the connection was refused"),
        "{shown}"
    );
    assert!(
        shown.contains("It has been unhealthy since the scan of"),
        "{shown}"
    );
}

/// A token of a role: its id and its secret.
async fn token(server: &Server, role: &str) -> (String, String) {
    let body = json!({"role": role, "name": "rescan"});
    let (status, made) = server
        .ask(
            Method::POST,
            &server.token,
            "/api/internal/tokens",
            Some(body),
        )
        .await;
    assert!(status.is_success(), "{made}");
    let of = |field: &str| made[field].as_str().unwrap().to_owned();
    server.informed().await;
    (of("id"), of("secret"))
}
