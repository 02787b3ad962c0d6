//! From a request to its answer.

use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use prometheus::Registry;
use query::{QueryState, Reporter};
use schemas::credential::{Role, Scope};
use schemas::fault::Fault;
use schemas::ids::{AppId, ProjectId};
use schemas::start::Start;
use serde_json::{Value, json};
use store::Store;
use store::credentials::{Credentials, NewKey, NewToken};
use store::prices::Prices;
use store::rows::{CostStatus, EventRow, InstanceRow, RunRow, RunStatus};
use store::testing::{TestDatabase, database};
use tower::ServiceExt;

/// 2026-11-20T10:00:00Z.
pub(crate) const NOON_MS: i64 = 1_795_168_800_000;

/// Keeps what was reported.
#[derive(Default)]
pub(crate) struct Reports(
    pub(crate) Mutex<Vec<(String, String, Value)>>,
    /// Where the instances of started processes are stored at once, as if a processor were there; set where several
    /// processes have to know of them.
    pub(crate) OnceLock<Store>,
    std::sync::atomic::AtomicBool,
);

impl Reports {
    /// Takes nothing, as a log that is away, or takes everything again.
    pub(crate) fn fail(&self, fails: bool) {
        self.2.store(fails, std::sync::atomic::Ordering::SeqCst);
    }
}

#[async_trait]
impl Reporter for Reports {
    async fn report(&self, project: &ProjectId, app: &AppId, event: String) -> Result<(), Fault> {
        if self.2.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(Fault::unavailable("the log is away", 1));
        }
        let event = serde_json::from_str(&event).unwrap();
        let report = (project.to_string(), app.to_string(), event);
        self.0.lock().unwrap().push(report);
        Ok(())
    }

    async fn start(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: String,
        start: Start,
    ) -> Result<(), Fault> {
        self.report(project, app, event.clone()).await?;
        if let Some(store) = self.1.get() {
            let event: Value = serde_json::from_str(&event).unwrap();
            let input = event["input"].to_string();
            let row = InstanceRow::of(project.as_str(), app.as_str(), &start, &input);
            store.insert_instances([row].into_iter()).await.unwrap();
        }
        Ok(())
    }
}

pub(crate) struct Tier {
    pub(crate) store: TestDatabase,
    pub(crate) credentials: Credentials,
    pub(crate) state: QueryState,
    pub(crate) router: Router,
    pub(crate) registry: Registry,
    pub(crate) reports: Arc<Reports>,
}

impl Tier {
    pub(crate) async fn new() -> Self {
        let store = database().await.unwrap();
        let credentials = Credentials::new((*store).clone());
        credentials
            .put_project(&ProjectId::new("ours"), "app", &[])
            .await
            .unwrap();
        let prices = Prices::new((*store).clone()).unwrap();
        let registry = Registry::new();
        let reports = Arc::new(Reports::default());
        let state = QueryState::new((*store).clone(), credentials.clone(), prices, &registry)
            .unwrap()
            .reporting_to(reports.clone());
        Self {
            store,
            credentials,
            router: query::router(state.clone()),
            state,
            registry,
            reports,
        }
    }

    /// The router of another process over the same tables, where several are.
    pub(crate) fn another_process(&self) -> Router {
        let store = self.store.of_several().unwrap();
        let prices = Prices::new(store.clone()).unwrap();
        let credentials = Credentials::new(store.clone());
        let state = QueryState::new(store, credentials, prices, &Registry::new()).unwrap();
        query::router(state.reporting_to(self.reports.clone()))
    }

    pub(crate) async fn key(&self, project: &str, scopes: &[Scope]) -> String {
        let project = ProjectId::new(project);
        let new = NewKey {
            project,
            name: String::new(),
            scopes: scopes.to_vec(),
            secret: None,
        };
        self.credentials
            .create_key(new)
            .await
            .unwrap()
            .secret
            .reveal()
            .to_owned()
    }

    pub(crate) async fn token(&self, role: Role, projects: Option<&[&str]>) -> String {
        let projects =
            projects.map(|names| names.iter().map(|name| ProjectId::new(*name)).collect());
        let new = NewToken {
            name: String::new(),
            role,
            projects,
            expires_at_ms: None,
            secret: None,
        };
        self.credentials
            .create_token(new)
            .await
            .unwrap()
            .secret
            .reveal()
            .to_owned()
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        secret: &str,
        path: &str,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let body = body.map_or_else(String::new, |body| body.to_string());
        let (status, answer) = self.ask_with(method, secret, path, body).await;
        (status, serde_json::from_str(&answer).unwrap_or_default())
    }

    /// Asks with a body as it stands, and gives back the answer as it stands.
    pub(crate) async fn ask_with(
        &self,
        method: Method,
        secret: &str,
        path: &str,
        body: String,
    ) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(path);
        if !secret.is_empty() {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        let response = self
            .router
            .clone()
            .oneshot(request.body(Body::from(body)).unwrap())
            .await
            .unwrap();
        let status = response.status();
        let bytes = to_bytes(response.into_body(), 8 << 20).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    pub(crate) async fn get(&self, secret: &str, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, secret, path, None).await
    }
}

pub(crate) fn run<'a>(
    project_id: &'a str,
    app_id: &'a str,
    run_id: &'a str,
    parent_run_id: &'a str,
) -> RunRow<'a> {
    RunRow {
        project_id,
        app_id,
        started_at: NOON_MS,
        run_id,
        version: 1,
        is_deleted: 0,
        parent_run_id,
        root_run_id: if parent_run_id.is_empty() {
            run_id
        } else {
            parent_run_id
        },
        name: "agent",
        r#type: "agent",
        status: RunStatus::Success,
        agent: "scout",
        user_email: "",
        model: "",
        tags: vec!["a"],
        thread_id: "",
        ended_at: Some(NOON_MS + 1234),
        latency_ms: Some(1234),
        prompt_tokens: Some(7),
        completion_tokens: None,
        total_tokens: None,
        cached_tokens: Some(3),
        reasoning_tokens: None,
        cost: 1,
        cost_status: CostStatus::Priced,
        cost_estimated: 1,
        total_cost: 1_500_000_000_000_000_000,
        total_prompt_tokens: 7,
        total_completion_tokens: 0,
        total_tokens_with_children: 7,
        llm_calls: 1,
        error_count: 0,
        error_name: "",
        error_message: "",
        saved: 0,
        feedback_rating: "positive",
        feedback_comment: "",
        feedback_at: None,
        input_preview: "in",
        output_preview: "",
        metadata: vec![],
        first_event_at: NOON_MS,
        last_event_at: NOON_MS + 1234,
        updated_at: NOON_MS,
        state: b"",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_the_list_has_the_fields_of_the_api_exactly() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    tier.store
        .insert_runs([run("ours", "app", "r", "")].into_iter())
        .await
        .unwrap();
    let (status, page) = tier.get(&key, "/api/run?count=true").await;
    assert_eq!(status, StatusCode::OK, "{page}");
    let expected = json!({
        "data": [{
            "run_id": "r", "app_id": "app", "parent_run_id": null, "root_run_id": "r", "name": "agent", "type": "agent",
            "status": "success", "stale": false, "agent": "scout", "model": null, "user_email": null, "tags": ["a"],
            "thread_id": null, "started_at": "2026-11-20T10:00:00.000Z", "ended_at": "2026-11-20T10:00:01.234Z",
            "latency_s": 1.234, "prompt_tokens": 7, "completion_tokens": null, "total_tokens": null, "cost": 1e-18,
            "cost_status": "priced", "total_cost": 1.5, "total_tokens_with_children": 7, "llm_calls": 1, "error_count": 0,
            "error": null, "saved": false, "feedback": {"rating": "positive", "comment": null, "at": null},
            "input_preview": "in", "output_preview": null
        }],
        "next_cursor": null, "has_more": false, "count": 1, "count_capped": false
    });
    assert_eq!(page, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_comes_whole_with_its_events_and_its_tree() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    let rows = [
        run("ours", "app", "r", ""),
        run("ours", "app", "child", "r"),
        run("ours", "other", "r", ""),
    ];
    tier.store.insert_runs(rows.into_iter()).await.unwrap();
    let start = br#"{"name":"agent_start","run_id":"r","timestamp":"2026-11-20T10:00:00Z","input":{"q":1},"odd":[1],"metadata":{"k":"v"}}"#;
    let end = br#"{"name":"agent_end","run_id":"r","timestamp":"2026-11-20T10:00:01.234Z","output":"done"}"#;
    let event = |payload: &'static [u8], event_id, timestamp| EventRow {
        project_id: "ours",
        app_id: "app",
        timestamp,
        run_id: "r",
        event_id,
        name: "agent",
        payload,
        received_at: timestamp,
        stored_at: timestamp,
    };
    tier.store
        .insert_events([event(end, 2, NOON_MS + 1234), event(start, 1, NOON_MS)].into_iter())
        .await
        .unwrap();
    let (status, whole) = tier.get(&key, "/api/run/r?app_id=app").await;
    assert_eq!(status, StatusCode::OK, "{whole}");
    assert_eq!(
        (&whole["input"], &whole["output"]),
        (&json!({"q": 1}), &json!("done"))
    );
    assert_eq!(
        (&whole["metadata"], &whole["fields"]["odd"]),
        (&json!({"k": "v"}), &json!([1]))
    );
    assert_eq!(
        (&whole["cached_tokens"], &whole["cost_estimated"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(whole["events"].as_array().unwrap().len(), 2);
    assert_eq!(whole["events"][0]["payload"]["input"], json!({"q": 1}));
    let (_, either) = tier.get(&key, "/api/run/r").await;
    assert_eq!(
        either["also_in_apps"].as_array().unwrap().len(),
        1,
        "{either}"
    );
    let (_, tree) = tier.get(&key, "/api/run/r/tree?app_id=app").await;
    let ids: Vec<&str> = tree["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|run| run["run_id"].as_str())
        .collect();
    assert_eq!(
        (ids, &tree["truncated"]),
        (vec!["r", "child"], &json!(false))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_learns_nothing_t1() {
    let tier = Tier::new().await;
    tier.credentials
        .put_project(&ProjectId::new("theirs"), "app", &[])
        .await
        .unwrap();
    let rows = [
        run("ours", "app", "r", ""),
        run("theirs", "app", "r", ""),
        run("theirs", "app", "only", ""),
    ];
    tier.store.insert_runs(rows.into_iter()).await.unwrap();
    let ours = tier.key("ours", &[Scope::Read]).await;
    let reporter = tier.key("ours", &[Scope::Report]).await;
    for (secret, path, expected) in [
        ("", "/api/run", 401),
        ("sp_key_nobody", "/api/run", 401),
        (reporter.as_str(), "/api/run", 403),
        (&ours, "/api/run?project_id=theirs", 403),
        (&ours, "/api/run/only", 404),
        (&ours, "/api/run/only/tree", 404),
        (&ours, "/api/internal/keys", 403),
    ] {
        let (status, body) = tier.get(secret, path).await;
        assert_eq!(status.as_u16(), expected, "{path}: {body}");
        assert_eq!(body["status"], json!(expected));
    }
    let (_, page) = tier.get(&ours, "/api/run").await;
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
    // Whoever reaches several projects is told which.
    let viewer = tier.token(Role::Viewer, None).await;
    let (_, page) = tier.get(&viewer, "/api/run?sort=started_at").await;
    let projects: Vec<&Value> = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["project_id"])
        .collect();
    assert_eq!(
        projects,
        [&json!("ours"), &json!("theirs"), &json!("theirs")]
    );
    let limited = tier.token(Role::Viewer, Some(&["theirs"])).await;
    let (_, page) = tier.get(&limited, "/api/run").await;
    assert_eq!(page["data"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_questions_are_a_400_that_says_what_is_allowed() {
    let tier = Tier::new().await;
    let key = tier.key("ours", &[Scope::Read]).await;
    for (path, named) in [
        ("/api/run?colour=red", "colour"),
        ("/api/run?status=done", "status"),
        ("/api/run?min_cost=2&max_cost=1", "max_cost"),
        ("/api/run?cursor=abc", "cursor"),
        ("/api/run?model=%FF", "UTF-8"),
        ("/api/run/r?limit=5", "limit"),
        ("/api/run/%FF", "UTF-8"),
    ] {
        let (status, body) = tier.get(&key, path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {body}");
        assert!(
            body["message"].as_str().unwrap().contains(named),
            "{path}: {body}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_makes_and_revokes_credentials_whose_secrets_are_shown_once() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let (status, project) = tier
        .ask(
            Method::POST,
            &admin,
            "/api/internal/projects",
            Some(json!({"project_id": "new"})),
        )
        .await;
    assert_eq!(
        (status, &project["default_app"]),
        (StatusCode::OK, &json!("default")),
        "{project}"
    );
    let (status, key) = tier
        .ask(
            Method::POST,
            &admin,
            "/api/internal/keys",
            Some(json!({"project_id": "new"})),
        )
        .await;
    assert_eq!(status, StatusCode::CREATED, "{key}");
    let secret = key["secret"].as_str().unwrap();
    assert_eq!(tier.get(secret, "/api/run").await.0, StatusCode::OK);
    let (_, keys) = tier.get(&admin, "/api/internal/keys?project_id=new").await;
    assert_eq!(keys["data"][0]["id"], key["id"]);
    assert!(
        !keys.to_string().contains(secret),
        "a secret is shown once (X2)"
    );
    let path = format!("/api/internal/keys/{}", key["id"].as_str().unwrap());
    assert_eq!(
        tier.ask(Method::DELETE, &admin, &path, None).await.0,
        StatusCode::OK
    );
    assert_eq!(
        tier.get(secret, "/api/run").await.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        tier.ask(Method::DELETE, &admin, &path, None).await.0,
        StatusCode::NOT_FOUND
    );
    for (path, body, expected) in [
        ("/api/internal/keys", json!({"project_id": "gone"}), 404),
        (
            "/api/internal/keys",
            json!({"project_id": "new", "scopes": ["write"]}),
            400,
        ),
        (
            "/api/internal/projects",
            json!({"project_id": "Not valid"}),
            400,
        ),
        ("/api/internal/tokens", json!({"role": "king"}), 400),
        (
            "/api/internal/tokens",
            json!({"role": "viewer", "projects": ["gone"]}),
            404,
        ),
    ] {
        let (status, answer) = tier.ask(Method::POST, &admin, path, Some(body)).await;
        assert_eq!(status.as_u16(), expected, "{path}: {answer}");
    }
    // Who is limited to projects administers those, and no tokens.
    let limited = tier.token(Role::Admin, Some(&["ours"])).await;
    assert_eq!(
        tier.get(&limited, "/api/internal/tokens").await.0,
        StatusCode::FORBIDDEN
    );
    let answer = tier
        .ask(
            Method::POST,
            &limited,
            "/api/internal/keys",
            Some(json!({"project_id": "new"})),
        )
        .await;
    assert_eq!(answer.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_token_is_made_to_end_and_says_so_when_it_has_ended() {
    let tier = Tier::new().await;
    let admin = tier.token(Role::Admin, None).await;
    let path = "/api/internal/tokens";
    let make = async |body: Value| tier.ask(Method::POST, &admin, path, Some(body)).await;
    let (status, made) = make(json!({"role": "viewer", "expires_in": "30d"})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let ends = chrono::DateTime::parse_from_rfc3339(made["expires_at"].as_str().unwrap()).unwrap();
    let days = (ends.to_utc() - chrono::Utc::now()).num_hours();
    assert!((719..=720).contains(&days), "{made}");
    let (_, listed) = tier.ask(Method::GET, &admin, path, None).await;
    let listed = listed["data"].as_array().unwrap();
    let listed = listed
        .iter()
        .find(|token| token["id"] == made["id"])
        .unwrap();
    assert_eq!(listed["expires_at"], made["expires_at"]);
    let (_, forever) = make(json!({"role": "viewer"})).await;
    assert_eq!(forever["expires_at"], Value::Null);
    for bad in [
        json!({"role": "viewer", "expires_in": "soon"}),
        json!({"role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}),
        json!({"role": "viewer", "expires_in": "1d", "expires_at": "2027-01-01T00:00:00Z"}),
    ] {
        let (status, fault) = make(bad).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{fault}");
    }

    let ended = NewToken {
        name: String::new(),
        role: Role::Admin,
        projects: None,
        expires_at_ms: Some(NOON_MS - 365 * 86_400_000),
        secret: None,
    };
    let ended = tier.credentials.create_token(ended).await.unwrap();
    let (status, fault) = tier
        .ask(Method::GET, ended.secret.reveal(), "/api/run", None)
        .await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let message = fault["message"].as_str().unwrap();
    assert!(
        message.contains("expired at 2025-11-20T10:00:00.000Z"),
        "{message}"
    );
}
