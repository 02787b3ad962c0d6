//! From a request to its answer.

use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use prometheus::Registry;
use query::{QueryState, Reporter};
use schemas::api_error::ApiError;
use schemas::credential::{Role, Scope};
use schemas::fold::{CostStatus, RunStatus};
use schemas::ids::{AppId, ProjectId};
use schemas::start::Start;
use serde_json::Value;
use store::Store;
use store::credentials::{Credentials, NewKey, NewToken};
use store::prices::Prices;
use store::tables::rows::{InstanceRow, RunRow};
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
    async fn report(
        &self,
        project: &ProjectId,
        app: &AppId,
        event: String,
    ) -> Result<(), ApiError> {
        if self.2.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(ApiError::unavailable("the log is away", 1));
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
    ) -> Result<(), ApiError> {
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
        ttft_ms: None,
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
        counted_run_id: "",
        enclosing_call: "",
        turn_at: 0,
        call_links: &[],
        calls: 0,
        input_preview: "in",
        output_preview: "",
        metadata: vec![],
        first_event_at: NOON_MS,
        last_event_at: NOON_MS + 1234,
        updated_at: NOON_MS,
        state: b"",
    }
}
