//! Every endpoint with what it takes to come in. An endpoint that is new in the document fails the test until it has a
//! row here.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::Value;

/// The credential that an endpoint requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// None.
    Public,
    /// A key that may report.
    Report,
    /// A key that may read, or the role `viewer`.
    Read,
    /// A key that may report, or the role `viewer`.
    Judge,
    /// The role `admin`.
    Admin,
    /// The role `admin`, and the project that the body names.
    AdminOf,
    /// The role `admin`, limited to no project.
    AdminOfAll,
    /// Any role, or a key that may read.
    Reach,
    /// The role `starter`.
    Start,
    /// The role `operator`.
    Operate,
    /// The role `operator`, limited to no project.
    OperateAll,
    /// A token of ours or of the provider, with any roles.
    AnyToken,
    /// A token in the body.
    InBody,
}

/// An endpoint.
#[derive(Debug)]
pub(super) struct Row {
    method: &'static str,
    template: &'static str,
    pub(super) need: Need,
    /// JSON that fits; empty for none.
    body: &'static str,
}

const fn row(method: &'static str, template: &'static str, need: Need, body: &'static str) -> Row {
    Row {
        method,
        template,
        need,
        body,
    }
}

/// What is asked for in a path that takes a name.
const NO_SUCH: &str = "no-such-thing";
const COMPARED: &str = "{\"run_id_a\": \"a\", \"run_id_b\": \"b\"}";
const PRICE: &str = "{\"input_per_1m\": 1, \"output_per_1m\": 1}";
const BUILD: &str = "/api/platform/app/{appId}/build/{buildId}";
const START: &str =
    "/rtm/api/runtime/app/{appId}/build/{buildId}/process-name/{processDefinitionName}/start";

pub(super) const ROWS: &[Row] = &[
    row("get", "/health/live", Need::Public, ""),
    row("get", "/health/ready", Need::Public, ""),
    row("get", "/metrics", Need::Public, ""),
    row("post", "/api/report", Need::Report, "{\"events\": []}"),
    row("post", "/v1/runs/ingest", Need::Report, "{\"events\": []}"),
    row("get", "/api/app/{app}", Need::Public, ""),
    row(
        "patch",
        "/v1/runs/{run_id}/score",
        Need::Judge,
        "{\"label\": \"tone\", \"value\": 1}",
    ),
    row("get", "/v1/runs/{run_id}/feedback", Need::Read, ""),
    row("get", "/v1/template_versions/latest", Need::Read, ""),
    row("get", "/v1/templates/latest", Need::Read, ""),
    row("get", "/v1/datasets/{slug}", Need::Read, ""),
    row("post", "/v1/traces", Need::Report, "{}"),
    row("post", "/v1/logs", Need::Report, "{}"),
    row("post", "/api/public/otel/v1/traces", Need::Report, "{}"),
    row(
        "post",
        "/api/public/ingestion",
        Need::Report,
        "{\"batch\": []}",
    ),
    row(
        "post",
        "/api/public/scores",
        Need::Report,
        "{\"traceId\": \"t\", \"name\": \"tone\", \"value\": 1}",
    ),
    row("get", "/api/public/projects", Need::Report, ""),
    row("get", "/api/public/health", Need::Public, ""),
    row("get", "/api/run", Need::Read, ""),
    row("get", "/api/run/{run_id}", Need::Read, ""),
    row("get", "/api/run/{run_id}/tree", Need::Read, ""),
    row("get", "/api/run/{run_id}/calls", Need::Read, ""),
    row("get", "/api/run/export", Need::Read, ""),
    row("get", "/api/run/facets", Need::Read, ""),
    row("get", "/api/run/live", Need::Read, ""),
    row("post", "/api/run/compare", Need::Read, COMPARED),
    row(
        "post",
        "/api/run/{run_id}/feedback",
        Need::Judge,
        "{\"rating\": \"positive\"}",
    ),
    row("post", "/api/run/{run_id}/save", Need::Judge, ""),
    row("post", "/api/run/{run_id}/unsave", Need::Judge, ""),
    row("get", "/api/thread", Need::Read, ""),
    row("get", "/api/thread/{thread_id}", Need::Read, ""),
    row("get", "/api/dataset", Need::Read, ""),
    row("get", "/api/dataset/export", Need::Read, ""),
    row("get", "/api/analytics/usage/costs", Need::Read, ""),
    row("get", "/api/analytics/usage/models", Need::Read, ""),
    row("get", "/api/analytics/usage/agents", Need::Read, ""),
    row("get", "/api/analytics/usage/users", Need::Read, ""),
    row("get", "/api/analytics/usage/apps", Need::Read, ""),
    row("get", "/api/analytics/usage/errors", Need::Read, ""),
    row("get", "/api/analytics/unpriced", Need::Read, ""),
    row("get", "/api/session", Need::AnyToken, ""),
    row(
        "post",
        "/api/session",
        Need::InBody,
        "{\"token\": \"sp_tok_nobodys\"}",
    ),
    // Without a session there is nothing to end.
    row("delete", "/api/session", Need::Public, ""),
    row("get", "/api/internal/pipeline", Need::OperateAll, ""),
    row("get", "/api/internal/cache", Need::AdminOfAll, ""),
    row(
        "post",
        "/api/internal/cache/clear",
        Need::AdminOfAll,
        "{\"cacheNames\": [\"svc:core:cache\"]}",
    ),
    row("get", "/api/internal/projects", Need::Admin, ""),
    row(
        "post",
        "/api/internal/projects",
        Need::AdminOf,
        "{\"project_id\": \"default\"}",
    ),
    row("get", "/api/internal/keys", Need::Admin, ""),
    row(
        "post",
        "/api/internal/keys",
        Need::AdminOf,
        "{\"project_id\": \"default\"}",
    ),
    row("delete", "/api/internal/keys/{id}", Need::Admin, ""),
    row("get", "/api/internal/tokens", Need::AdminOfAll, ""),
    row(
        "post",
        "/api/internal/tokens",
        Need::AdminOfAll,
        "{\"role\": \"viewer\"}",
    ),
    row("delete", "/api/internal/tokens/{id}", Need::AdminOfAll, ""),
    row("get", "/api/internal/prices", Need::Admin, ""),
    row(
        "put",
        "/api/internal/prices/{model}",
        Need::AdminOfAll,
        PRICE,
    ),
    row(
        "delete",
        "/api/internal/prices/{model}",
        Need::AdminOfAll,
        "",
    ),
    row("get", "/api/internal/jobs", Need::Admin, ""),
    row("get", "/api/internal/jobs/{id}", Need::Admin, ""),
    row("post", "/api/internal/jobs/{id}/cancel", Need::Admin, ""),
    row(
        "post",
        "/api/internal/cost/recalculate",
        Need::AdminOf,
        "{\"project_id\": \"default\"}",
    ),
    row("post", "/api/internal/retention", Need::AdminOfAll, ""),
    row("post", "/api/internal/rebuild", Need::AdminOfAll, ""),
    row("get", "/api/internal/dead-letters", Need::AdminOfAll, ""),
    row(
        "post",
        "/api/internal/dead-letters/redrive",
        Need::AdminOfAll,
        "{\"all\": true}",
    ),
    row("get", "/api/platform/discover", Need::Operate, ""),
    row("get", "/api/platform/scan", Need::Operate, ""),
    row("get", "/api/platform/scan/{id}", Need::Operate, ""),
    row(
        "put",
        BUILD,
        Need::AdminOf,
        "{\"status\": \"COMMITTED\", \"processes\": []}",
    ),
    row("get", BUILD, Need::Reach, ""),
    row("get", "/api/platform/app/{appId}/build", Need::Reach, ""),
    row("get", "/api/platform/process", Need::Reach, ""),
    row("get", "/api/platform/process/{uuid}", Need::Reach, ""),
    row("post", START, Need::Start, "{}"),
    // The question of a browser before the request that is meant.
    row("options", START, Need::Public, ""),
];

/// Every operation of the document has a row, and every row an operation.
pub(super) fn assert_complete(document: &Value) {
    let mut operations = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            operations.insert((method.as_str(), path.as_str()));
        }
    }
    let rows: BTreeSet<_> = ROWS.iter().map(|row| (row.method, row.template)).collect();
    let missing: Vec<_> = operations.difference(&rows).collect();
    let gone: Vec<_> = rows.difference(&operations).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "endpoints without a row: {missing:?}; rows without an endpoint: {gone:?}"
    );
}

/// A good credential and what it may do.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) secret: String,
    /// `report` or `read` of a key.
    scope: Option<&'static str>,
    roles: Vec<&'static str>,
    is_person: bool,
    /// Reaches another project than the one that is asked about.
    is_elsewhere: bool,
}

impl Holder {
    pub(super) fn key(secret: String, scope: &'static str) -> Self {
        Self {
            scope: Some(scope),
            ..Self::token(secret, "")
        }
    }

    pub(super) fn token(secret: String, role: &'static str) -> Self {
        Self {
            secret,
            scope: None,
            roles: vec![role],
            is_person: false,
            is_elsewhere: false,
        }
    }

    pub(super) fn person(secret: String, roles: &[&'static str]) -> Self {
        Self {
            roles: roles.to_vec(),
            is_person: true,
            ..Self::token(secret, "")
        }
    }

    pub(super) fn elsewhere(self) -> Self {
        Self {
            is_elsewhere: true,
            ..self
        }
    }

    /// For a person who reads why the test failed: without the secret.
    pub(super) fn name(&self) -> String {
        let kind = match (self.scope, self.is_person) {
            (Some(scope), _) => format!("a key to {scope}"),
            (None, false) => "a token".to_owned(),
            (None, true) => "a person".to_owned(),
        };
        let place = if self.is_elsewhere { " elsewhere" } else { "" };
        format!("{kind} {:?}{place}", self.roles)
    }

    /// As in the interface: the operator is viewer and starter and may scan, the administrator may do everything.
    fn holds(&self, needed: &str) -> bool {
        let covers = |role: &&str| match *role {
            "admin" => true,
            "operator" => needed != "admin",
            role => role == needed,
        };
        self.scope.is_none() && self.roles.iter().any(covers)
    }
}

impl Row {
    pub(super) fn method(&self) -> Method {
        self.method.to_uppercase().parse().unwrap()
    }

    /// The path with names that nothing has.
    pub(super) fn path(&self) -> String {
        let parts = self.template.split('/').map(|part| match part.as_bytes() {
            [b'{', ..] => NO_SUCH,
            _ => part,
        });
        parts.collect::<Vec<_>>().join("/")
    }

    pub(super) fn body(&self) -> Option<Value> {
        (!self.body.is_empty()).then(|| serde_json::from_str(self.body).unwrap())
    }

    /// What it needs besides the credential.
    pub(super) fn headers(&self) -> &'static [(&'static str, &'static str)] {
        match self.need {
            Need::Start => &[("svc-platform", "web")],
            _ => &[],
        }
    }

    /// Whether what it says comes to an end by itself.
    pub(super) fn has_an_end(&self) -> bool {
        self.template != "/api/run/live"
    }

    /// Whether its errors have a shape of their own.
    pub(super) fn has_own_faults(&self) -> bool {
        self.template == "/api/internal/cache/clear"
    }

    /// Writes get an unknown parameter, which is rejected after the credential was checked, so that nothing changes.
    /// Reads name a project that some credentials do not reach.
    pub(super) fn query(&self, holder: &Holder) -> &'static str {
        match self.need {
            Need::Read | Need::Reach | Need::Start if holder.is_elsewhere => "?project_id=default",
            Need::AdminOf if holder.is_elsewhere && self.template == BUILD => "?project_id=default",
            // So that it comes to the project in the body.
            Need::AdminOf if holder.is_elsewhere => "",
            Need::Admin | Need::AdminOf | Need::AdminOfAll if self.method != "get" => "?unknown=1",
            // A scan takes its time, and one is enough for all.
            Need::Operate => "?unknown=1",
            _ => "",
        }
    }

    /// The status of the rejection; `None` where the credential suffices.
    pub(super) fn expected(&self, holder: &Holder) -> Option<StatusCode> {
        let scope = |scope| holder.scope == Some(scope);
        let has_role = ["viewer", "starter", "operator", "admin"]
            .iter()
            .any(|role| holder.holds(role));
        let is_let_in = match self.need {
            Need::Public | Need::InBody => true,
            Need::AnyToken => holder.scope.is_none(),
            // There, people are not known at all.
            Need::Report if holder.is_person => return Some(StatusCode::UNAUTHORIZED),
            Need::Report => scope("report"),
            Need::Read => scope("read") || holder.holds("viewer") && !holder.is_elsewhere,
            Need::Reach => scope("read") || has_role && !holder.is_elsewhere,
            Need::Start => holder.holds("starter") && !holder.is_elsewhere,
            Need::Operate => holder.holds("operator"),
            Need::OperateAll => holder.holds("operator") && !holder.is_elsewhere,
            Need::Judge => scope("report") || holder.holds("viewer"),
            Need::Admin => holder.holds("admin"),
            Need::AdminOf | Need::AdminOfAll => holder.holds("admin") && !holder.is_elsewhere,
        };
        (!is_let_in).then_some(StatusCode::FORBIDDEN)
    }
}
