//! The tier with a log that can fail and a handful of credentials.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, header};
use bytes::Bytes;
use eventlog::{MemoryLog, Record};
use http_body_util::BodyExt;
use ingest::{AuthUnavailable, Authenticator, IngestConfig, IngestState, RunApp, RunLookup};
use prometheus::Registry;
use schemas::credential::{Credential, Role, Scope};
use schemas::ids::{AppId, ProjectId};
use serde_json::Value;
use tower::ServiceExt;

/// A key of the project `acme`, one of `other`, one of `other` that may only read, and one that is
/// well-formed but unknown.
pub(crate) const OWN_KEY: &str = "sp_key_000000000000000000000000000000000000000000000001";
pub(crate) const OTHER_KEY: &str = "sp_key_000000000000000000000000000000000000000000000002";
pub(crate) const READING_KEY: &str = "sp_key_000000000000000000000000000000000000000000000003";
pub(crate) const NOBODYS_KEY: &str = "sp_key_000000000000000000000000000000000000000000000004";

/// Knows the secrets `report`, `read`, `both`, `token`, the keys above, and the app `listed` without one; `broken`
/// cannot be looked up.
pub(crate) struct FakeAuth {
    pub(crate) keyless: bool,
}

fn key(id: &str, scopes: &[Scope]) -> Arc<Credential> {
    key_of("acme", "main", id, scopes)
}

fn key_of(project: &str, app: &str, id: &str, scopes: &[Scope]) -> Arc<Credential> {
    Arc::new(Credential::Key {
        id: id.to_owned(),
        project: ProjectId::new(project),
        default_app: AppId::new(app),
        scopes: scopes.to_vec(),
    })
}

#[async_trait]
impl Authenticator for FakeAuth {
    async fn authenticate(&self, secret: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable> {
        Ok(match secret {
            "report" => Some(key("k1", &[Scope::Report])),
            "both" => Some(key("k2", &[Scope::Read, Scope::Report])),
            "read" => Some(key("k3", &[Scope::Read])),
            "token" => Some(Arc::new(Credential::Token {
                id: "t1".to_owned(),
                name: String::new(),
                role: Role::Admin,
                projects: None,
                expires_at_ms: None,
            })),
            OWN_KEY => Some(key("k4", &[Scope::Report])),
            OTHER_KEY => Some(key_of("other", "theirs", "k5", &[Scope::Report])),
            READING_KEY => Some(key_of("other", "theirs", "k6", &[Scope::Read])),
            "broken" => return Err(AuthUnavailable),
            _ => None,
        })
    }

    async fn keyless(&self, app_id: &str) -> Result<Option<Arc<Credential>>, AuthUnavailable> {
        Ok((app_id == "listed").then(|| key("keyless", &[Scope::Report])))
    }

    fn keyless_possible(&self) -> bool {
        self.keyless
    }
}

/// The project `acme` has stored the run `stored` in the app `shop`, and `twice` in `shop` and, newer, in `desk`. With
/// `unreadable` among the ids nothing can be read.
struct StoredRuns;

#[async_trait]
impl RunLookup for StoredRuns {
    async fn has_other_apps(&self, project: &ProjectId, _: &AppId) -> Option<bool> {
        Some(project.as_str() == "acme")
    }

    async fn runs(&self, project: &ProjectId, run_ids: &[&str]) -> Option<Vec<RunApp>> {
        assert_eq!(project.as_str(), "acme");
        if run_ids.contains(&"unreadable") {
            return None;
        }
        let stored = [
            ("stored", "shop", 5),
            ("twice", "shop", 5),
            ("twice", "desk", 9),
        ];
        let asked = stored.into_iter().filter(|(run, ..)| run_ids.contains(run));
        let runs = asked.map(|(run_id, app, started_at_ms)| RunApp {
            run_id: run_id.to_owned(),
            app: AppId::new(app),
            started_at_ms,
        });
        Some(runs.collect())
    }
}

pub(crate) struct Tier {
    pub(crate) log: MemoryLog,
    pub(crate) registry: Registry,
    pub(crate) state: IngestState,
    router: Router,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) json: Value,
}

impl Answer {
    /// The error code and status, after checking that the body is an error of the documented shape.
    #[track_caller]
    pub(crate) fn error(&self) -> (u16, &str) {
        assert_eq!(self.json["status"], self.status, "{self:?}");
        assert!(
            self.json["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{self:?}"
        );
        (self.status, self.json["error"].as_str().unwrap())
    }

    pub(crate) fn retry_after_s(&self) -> Option<u64> {
        self.headers
            .get(header::RETRY_AFTER)?
            .to_str()
            .ok()?
            .parse()
            .ok()
    }
}

pub(crate) fn tier() -> Tier {
    tier_with(IngestConfig::default())
}

pub(crate) fn tier_with(config: IngestConfig) -> Tier {
    // One partition, so that the contents are in order of arrival.
    let log = MemoryLog::new(1);
    let registry = Registry::new();
    // Events in tests have fixed times, which get older.
    let config = IngestConfig {
        max_event_age: std::time::Duration::ZERO,
        ..config
    };
    let auth = Arc::new(FakeAuth { keyless: true });
    let runs = Arc::new(StoredRuns);
    let state = IngestState::new(config, Arc::new(log.clone()), auth, runs, &registry).unwrap();
    Tier {
        log,
        registry,
        router: ingest::router(state.clone()),
        state,
    }
}

impl Tier {
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        self.send_raw(request).await.0
    }

    /// The same with the bytes of the answer, for those that are no JSON.
    pub(crate) async fn send_raw(&self, request: Request<Body>) -> (Answer, Bytes) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let answer = Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            json,
        };
        (answer, bytes)
    }

    /// The headers, the bytes and the trailers of an answer.
    pub(crate) async fn call(&self, request: Request<Body>) -> (HeaderMap, Bytes, HeaderMap) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or_default();
        (head.headers, body.to_bytes(), trailers)
    }

    pub(crate) async fn report(&self, body: impl Into<Body>) -> Answer {
        self.send(request(body)).await
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.log
            .contents()
            .into_iter()
            .map(|stored| stored.record)
            .collect()
    }

    pub(crate) fn payloads(&self) -> Vec<Bytes> {
        self.records()
            .into_iter()
            .map(|record| record.payload)
            .collect()
    }

    /// The sum over all labels of a metric.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families
            .iter()
            .find(|family| family.name() == name)
            .expect("a metric of that name");
        family
            .get_metric()
            .iter()
            .map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value())
            .sum()
    }
}

/// A report with a good key.
pub(crate) fn request(body: impl Into<Body>) -> Request<Body> {
    with_authorization(Some("Bearer report"), body)
}

pub(crate) fn with_authorization(value: Option<&str>, body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri("/api/report")
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(value) = value {
        request = request.header(header::AUTHORIZATION, value);
    }
    request.body(body.into()).unwrap()
}

pub(crate) fn event(run_id: &str) -> String {
    format!(
        r#"{{"name":"agent_start","run_id":"{run_id}","timestamp":"2024-05-01T10:00:00.000Z","input":{{"q":"hello"}}}}"#
    )
}

pub(crate) fn event_of(run_id: &str, app: &str) -> String {
    event(run_id).replacen('{', &format!(r#"{{"app_id":"{app}","#), 1)
}

pub(crate) fn batch(events: &[String]) -> String {
    format!(r#"{{"events":[{}]}}"#, events.join(","))
}
