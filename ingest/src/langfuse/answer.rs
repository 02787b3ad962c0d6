//! The answers that Langfuse's SDKs expect, and their bodies in the OpenAPI document.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemas::ids::ProjectId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::batch::{Items, Kind};
use crate::intake::Taken;

/// A batch of Langfuse's older SDKs.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"batch": [{
    "id": "e-1", "type": "span-create", "timestamp": "2026-11-20T10:00:01.000Z",
    "body": {"id": "s-1", "traceId": "t-1", "name": "retrieve", "startTime": "2026-11-20T10:00:00.000Z"}
}]}))]
#[allow(dead_code, reason = "documents a body that is read in place")]
pub(crate) struct IngestionBody {
    /// `trace-create`, `span-create`, `span-update`, `generation-create`, `generation-update`, `event-create`,
    /// `agent-create`, `tool-create`, `chain-create`, `retriever-create`, `evaluator-create`, `embedding-create`,
    /// `guardrail-create`, `observation-create`, `observation-update`, `score-create` and `sdk-log`.
    batch: Vec<serde_json::Value>,
}

/// One score, or a list of them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "documents a body that is read in place")]
pub(crate) enum ScoresBody {
    One(LangfuseScore),
    List(Vec<LangfuseScore>),
}

/// A score of Langfuse's SDKs.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"traceId": "2d711642b726b04401627ca9fbac32f5", "name": "helpful", "value": 1}))]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents a body that is read in place")]
pub(crate) struct LangfuseScore {
    id: Option<String>,
    /// The trace, whose root run gets the feedback unless `observationId` names another.
    trace_id: Option<String>,
    /// The observation: a run with this id.
    observation_id: Option<String>,
    name: String,
    /// A number, a string or a boolean.
    #[schema(value_type = Object)]
    value: serde_json::Value,
    comment: Option<String>,
    /// `NUMERIC`, `BOOLEAN`, `CATEGORICAL`, `TEXT` or `CORRECTION`.
    data_type: Option<String>,
    timestamp: Option<String>,
}

/// What became of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ingested {
    successes: Vec<Success>,
    errors: Vec<Failed>,
}

/// An item that was kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Success {
    id: String,
    #[schema(example = 201)]
    status: u16,
}

/// An item that was not kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Failed {
    id: String,
    #[schema(example = 400)]
    status: u16,
    message: String,
    #[schema(example = "Invalid request data")]
    error: String,
}

/// The id of a score.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Created {
    id: String,
}

/// All scores of a list are kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    #[schema(example = "Accepted")]
    message: &'static str,
}

/// Some scores of a list are not kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PartlyAccepted {
    accepted: usize,
    rejected: usize,
    errors: Vec<Reason>,
}

/// Why a score is not kept.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reason {
    message: String,
}

/// The projects of a key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyProjects {
    pub(crate) data: Vec<KeyProject>,
}

/// A project in Langfuse's form.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyProject {
    #[schema(example = "default")]
    id: String,
    name: String,
    organization: Organization,
    /// Empty.
    #[schema(value_type = Object)]
    metadata: serde_json::Map<String, serde_json::Value>,
}

/// Langfuse's SDKs require one.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Organization {
    id: &'static str,
    name: &'static str,
}

impl KeyProject {
    pub(crate) fn of(project: &ProjectId) -> Self {
        Self {
            id: project.as_str().to_owned(),
            name: project.as_str().to_owned(),
            organization: Organization {
                id: "spindle",
                name: "Spindle",
            },
            metadata: serde_json::Map::new(),
        }
    }
}

/// The process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    #[schema(example = "OK")]
    status: &'static str,
    /// Of Spindle.
    version: &'static str,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            status: "OK",
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// The answer to a batch whose accepted events are durable.
pub(crate) fn taken(kind: Kind, items: &Items, taken: &Taken) -> Response {
    let faults = items.faults(taken);
    let ids = items.ids().iter().enumerate();
    match kind {
        Kind::Ingestion => {
            let kept = ids.filter(|(index, _)| !faults.contains_key(index));
            let successes = kept.map(|(_, id)| Success {
                id: id.clone(),
                status: StatusCode::CREATED.as_u16(),
            });
            let errors = faults.iter().map(|(index, message)| Failed {
                id: items.ids().get(*index).cloned().unwrap_or_default(),
                status: StatusCode::BAD_REQUEST.as_u16(),
                message: message.clone(),
                error: "Invalid request data".to_owned(),
            });
            let body = Ingested {
                successes: successes.collect(),
                errors: errors.collect(),
            };
            (StatusCode::MULTI_STATUS, Json(body)).into_response()
        }
        Kind::Scores if items.is_list() => {
            if faults.is_empty() {
                let body = Accepted {
                    message: "Accepted",
                };
                return (StatusCode::ACCEPTED, Json(body)).into_response();
            }
            let body = PartlyAccepted {
                accepted: items.ids().len() - faults.len(),
                rejected: faults.len(),
                errors: faults
                    .into_values()
                    .map(|message| Reason { message })
                    .collect(),
            };
            (StatusCode::MULTI_STATUS, Json(body)).into_response()
        }
        Kind::Scores => match faults.into_values().next() {
            Some(message) => super::invalid(message),
            None => {
                let id = items.ids().first().cloned().unwrap_or_default();
                Json(Created { id }).into_response()
            }
        },
    }
}
