//! Requests of lunary's clients: to a separate path, with keys in place of apps.

use axum::body::Body;
use axum::http::{Method, Request, header};
use ingest::IngestConfig;
use schemas::record::RecordHeader;
use serde_json::{Value, json};

use crate::fixture::{
    NOBODYS_KEY, OTHER_KEY, OWN_KEY, READING_KEY, Tier, batch, event, request, tier, tier_with,
    with_authorization,
};

const PATH: &str = "/v1/runs/ingest";

/// The same request under lunary's path.
fn to_lunary(mut request: Request<Body>) -> Request<Body> {
    *request.uri_mut() = PATH.parse().unwrap();
    request
}

/// An event as lunary's Python client writes it.
fn lunary(run_id: &str, app_id: Value) -> String {
    json!({
        "event": "start", "type": "agent", "name": "clerk", "userId": null, "userProps": null, "tags": null,
        "runId": run_id, "parentRunId": null, "timestamp": "2024-05-01T10:00:00.123456+00:00", "input": "hello",
        "output": null, "error": null, "feedback": null, "runtime": "lunary-py", "tokensUsage": null,
        "metadata": null, "params": {"temperature": 0.5}, "templateId": null, "appId": app_id
    })
    .to_string()
}

/// Project, app and run ids of every record, in the order of the log.
fn kept(tier: &Tier) -> Vec<(String, String, Vec<String>)> {
    let of = |record: eventlog::Record| {
        let headers = record.headers.iter();
        let pairs = headers.map(|(name, value)| (name.as_str(), value.as_ref()));
        let header = RecordHeader::decode(pairs).unwrap();
        let payload: Value = serde_json::from_slice(&record.payload).unwrap();
        let events = payload["events"].as_array().unwrap().iter();
        let runs: Vec<String> = events
            .map(|event| event["runId"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(header.events as usize, runs.len());
        let (project, app) = (header.project.as_str(), header.app.as_str());
        (project.to_owned(), app.to_owned(), runs)
    };
    tier.records().into_iter().map(of).collect()
}

fn record(project: &str, app: &str, runs: &[&str]) -> (String, String, Vec<String>) {
    let runs = runs.iter().map(|run| (*run).to_owned()).collect();
    (project.to_owned(), app.to_owned(), runs)
}

#[tokio::test]
async fn lunarys_path_is_a_report_with_the_same_checks_and_answers() {
    let tier = tier();
    let body = batch(&[lunary("a", Value::Null), event("b"), "{}".to_owned()]);
    let answer = tier.send(to_lunary(request(body.clone()))).await;
    // Their Python client takes any 2xx, earlier ones exactly 200; none of them reads the body.
    assert_eq!((answer.status, &answer.json["accepted"]), (200, &json!(2)));
    let same = tier.report(body.clone()).await;
    assert_eq!(answer.json, same.json);
    let payloads = tier.payloads();
    assert_eq!(payloads[0], payloads[1]);

    let stranger = to_lunary(with_authorization(Some("Bearer unknown"), body.clone()));
    assert_eq!(tier.send(stranger).await.error(), (401, "unauthorized"));
    let reader = to_lunary(with_authorization(Some("Bearer read"), body));
    assert_eq!(tier.send(reader).await.error(), (403, "forbidden"));
    let no_batch = to_lunary(request("[]"));
    assert_eq!(tier.send(no_batch).await.error(), (400, "invalid_body"));
    let get = Request::get(PATH).body(Body::empty()).unwrap();
    let answer = tier.send(get).await;
    assert_eq!(answer.error(), (405, "method_not_allowed"));
    assert_eq!(answer.headers[header::ALLOW], "POST");
}

#[tokio::test]
async fn a_browser_may_report_to_lunarys_path_from_the_origins_in_the_settings() {
    let tier = tier_with(IngestConfig {
        allowed_origins: vec!["https://app.example.com".to_owned()],
        ..IngestConfig::default()
    });
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri(PATH)
        .header(header::ORIGIN, "https://app.example.com")
        .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
        .header(
            header::ACCESS_CONTROL_REQUEST_HEADERS,
            "authorization,content-type",
        );
    let answer = tier.send(preflight.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 200);
    let allowed = &answer.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN];
    assert_eq!(allowed, "https://app.example.com");
}

#[tokio::test]
async fn a_key_in_the_place_of_an_app_says_whose_the_event_is_and_is_not_kept_t1_x2() {
    for path in [PATH, "/api/report"] {
        let tier = tier();
        let events = [
            lunary("plain", Value::Null),
            lunary("own", json!(OWN_KEY)),
            lunary("other", json!(OTHER_KEY)),
            lunary("named", json!("support")),
            lunary("other too", json!(OTHER_KEY)),
        ];
        let mut request = with_authorization(Some(&format!("Bearer {OWN_KEY}")), batch(&events));
        *request.uri_mut() = path.parse().unwrap();
        let answer = tier.send(request).await;
        assert_eq!((answer.status, &answer.json["accepted"]), (200, &json!(5)));
        let expected = [
            record("acme", "main", &["plain", "own"]),
            record("other", "theirs", &["other", "other too"]),
            record("acme", "support", &["named"]),
        ];
        assert_eq!(kept(&tier), expected);
        for payload in tier.payloads() {
            let text = String::from_utf8(payload.to_vec()).unwrap();
            assert!(!text.contains("sp_key_"), "{text}");
        }
        let accepted = tier.metric("spindle_ingest_accepted_events_total");
        assert_eq!(accepted, 5.0);
    }
}

#[tokio::test]
async fn a_batch_of_one_key_is_kept_without_it_too_x2() {
    let tier = tier();
    let body = batch(&[lunary("a", json!(OWN_KEY)), lunary("b", json!(OWN_KEY))]);
    let request = with_authorization(Some(&format!("Bearer {OWN_KEY}")), body);
    let answer = tier.send(to_lunary(request)).await;
    assert_eq!(answer.json["accepted"], 2, "{answer:?}");
    assert_eq!(kept(&tier), [record("acme", "main", &["a", "b"])]);
    let payload = tier.payloads().remove(0);
    assert!(!String::from_utf8_lossy(&payload).contains(OWN_KEY));
}

#[tokio::test]
async fn a_key_that_may_not_report_is_a_reason_and_no_app_t1() {
    let tier = tier();
    let escaped = lunary("escaped", json!(OTHER_KEY)).replace("sp_key_", "\\u0073p_key_");
    let events = [
        lunary("a", json!(NOBODYS_KEY)),
        lunary("b", json!(READING_KEY)),
        escaped,
        lunary("c", Value::Null),
    ];
    let answer = tier.send(to_lunary(request(batch(&events)))).await;
    let errors = answer.json["errors"].as_array().unwrap();
    assert_eq!((answer.status, errors.len()), (200, 3), "{answer:?}");
    for (place, error) in errors.iter().enumerate() {
        let seen = (&error["index"], &error["code"]);
        assert_eq!(seen, (&json!(place), &json!("app_not_allowed")));
        assert!(!error["message"].to_string().contains("sp_key_"));
    }
    assert_eq!(kept(&tier), [record("acme", "main", &["c"])]);
}

#[tokio::test]
async fn what_lunarys_clients_were_recorded_to_send_is_kept_whole() {
    let captures = [
        include_str!("../../../tests/captures/npm-lunary-1.0.18/main/002-POST-v1-runs-ingest.json"),
        include_str!(
            "../../../tests/captures/pypi-lunary-1.4.41/main/001-POST-v1-runs-ingest.json"
        ),
    ];
    for capture in captures {
        let tier = tier();
        let capture: Value = serde_json::from_str(capture).unwrap();
        let events = capture["body"]["events"].as_array().unwrap();
        let answer = tier
            .send(to_lunary(request(capture["body"].to_string())))
            .await;
        // The logs of the JavaScript client belong to no run.
        let logs = events.iter().filter(|event| event["type"] == "log").count();
        let told = (&answer.json["accepted"], &answer.json["rejected"]);
        let expected = (&json!(events.len() - logs), &json!(logs));
        assert_eq!(told, expected, "{}", answer.json);
    }
}

#[tokio::test]
async fn a_key_beside_the_app_is_not_kept_either_x2() {
    let tier = tier();
    let own = format!("Bearer {OWN_KEY}");
    let beside = lunary("beside", json!(OTHER_KEY))
        .replace("\"event\":", "\"app\":\"support\",\"event\":")
        .replace("0.5", &format!("\"{READING_KEY}\""));
    let events = [beside, lunary("plain", Value::Null)];
    let answer = tier
        .send(with_authorization(Some(&own), batch(&events)))
        .await;
    assert_eq!(answer.json["accepted"], 2, "{answer:?}");
    for payload in tier.payloads() {
        let text = String::from_utf8_lossy(&payload).into_owned();
        for key in [OWN_KEY, OTHER_KEY, READING_KEY] {
            assert!(!text.contains(key), "{text}");
        }
    }
}

#[tokio::test]
async fn the_secret_of_the_request_as_an_app_is_the_keys_own_app_x2() {
    let tier = tier();
    // `user:both`, and a secret that is not written as a key.
    for authorization in ["Bearer both", "both", "Basic dXNlcjpib3Ro"] {
        let body = batch(&[lunary("a", json!("both"))]);
        let answer = tier
            .send(with_authorization(Some(authorization), body))
            .await;
        assert_eq!(answer.json["accepted"], 1, "{answer:?}");
    }
    assert_eq!(kept(&tier), vec![record("acme", "main", &["a"]); 3]);
    for payload in tier.payloads() {
        assert!(!String::from_utf8_lossy(&payload).contains("both"));
    }
}
