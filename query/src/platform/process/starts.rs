//! From a validated start to an instance that is durable and reported.

use std::time::Duration;

use api::ErrorResponse;
use schemas::api_error::ApiError;
use schemas::digest::Identity;
use schemas::ids::{AppId, ProjectId};
use serde_json::json;
use serde_json::value::RawValue;
use spindle_client::{Event, Kind, Phase, Timestamp, event_name};
use store::StoreError;
use store::platform::instances::{InstanceRecord, Instances};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use super::ProcessState;
use super::idempotency::{Lanes, start_once};
use super::start_memory::StartMemory;
use crate::clock::now_ms;

/// How long a caller waits. The start goes on, and a repeated request with the same key finds it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Seconds after which a client can retry.
const RETRY_S: u32 = 1;

/// A start whose request and build were checked.
#[derive(Clone, Debug)]
pub(super) struct StartPlan {
    pub(super) project_id: String,
    pub(super) app_id: String,
    pub(super) build_id: String,
    pub(super) build_status: String,
    pub(super) parent_app_id: Option<String>,
    pub(super) root_app_id: Option<String>,
    pub(super) process: String,
    pub(super) process_uuid: String,
    pub(super) start_nodes: Vec<String>,
    pub(super) platform: String,
    /// Public identifier of the credential.
    pub(super) started_by: String,
    pub(super) key: Option<String>,
    /// JSON as it was sent.
    pub(super) input: String,
}

impl StartPlan {
    /// Equal for bodies with the same content, whatever their spelling.
    pub(super) fn fingerprint(&self) -> String {
        let project = ProjectId::new(&*self.project_id);
        let app = AppId::new(&*self.app_id);
        let digest = Identity::new(&project, &app).of_content(&self.input);
        format!("{:032x}", digest.0)
    }
}

/// The starts of this process of the deployment.
pub(crate) struct Starts {
    pub(super) instances: Instances,
    pub(super) memory: StartMemory,
    pub(super) lanes: Lanes,
}

impl Starts {
    pub(crate) fn new(instances: Instances) -> Self {
        Self {
            instances,
            memory: StartMemory::new(),
            lanes: Lanes::new(),
        }
    }
}

/// Starts an instance, or returns the one that was started with the same key. It is durable and reported when this
/// returns. A start that has begun is completed, also when the caller is gone.
pub(super) async fn start(
    state: &ProcessState,
    plan: StartPlan,
    memory: OwnedSemaphorePermit,
) -> Result<InstanceRecord, ErrorResponse> {
    state.reporter.required()?;
    let state = state.clone();
    let task = tokio::spawn(async move {
        let outcome = carry_out(&state, plan).await;
        drop(memory);
        outcome
    });
    match tokio::time::timeout(ANSWER_WITHIN, task).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => {
            tracing::error!(error.message = %error, "a start panicked");
            Err(ApiError::internal().into())
        }
        Err(_) => Err(not_started("storing took too long").into()),
    }
}

async fn carry_out(state: &ProcessState, plan: StartPlan) -> Result<InstanceRecord, ErrorResponse> {
    match &plan.key {
        None => {
            let instance = new_instance(state, &plan, Uuid::new_v4()).await?;
            append(state, instance).await
        }
        Some(key) => {
            start_once(state, &plan, key, async |instance| {
                append(state, instance).await
            })
            .await
        }
    }
}

pub(super) async fn new_instance(
    state: &ProcessState,
    plan: &StartPlan,
    uuid: Uuid,
) -> Result<InstanceRecord, ErrorResponse> {
    let nodes: Vec<Option<&str>> = match &plan.start_nodes[..] {
        [] => vec![None],
        nodes => nodes.iter().map(|node| Some(node.as_str())).collect(),
    };
    // One number for the instance and one for each token.
    let numbers = 1 + nodes.len() as u64;
    let first = state.runtime.starts.instances.numbers(numbers).await;
    let first = first.map_err(store_error)?;
    let token = |(number, node): (u64, &Option<&str>)| json!({"id": number, "state": "ACTIVE", "statusCurrentNode": "ARRIVED", "currentNode": node});
    let tokens: Vec<_> = (first + 1..).zip(&nodes).map(token).collect();
    Ok(InstanceRecord {
        project_id: plan.project_id.clone(),
        app_id: plan.app_id.clone(),
        started_at: now_ms(),
        uuid: uuid.to_string(),
        instance_id: first,
        build_id: plan.build_id.clone(),
        build_status: plan.build_status.clone(),
        process: plan.process.clone(),
        process_uuid: plan.process_uuid.clone(),
        parent_app_id: plan.parent_app_id.clone().unwrap_or_default(),
        root_app_id: plan.root_app_id.clone().unwrap_or_default(),
        state: "STARTED".to_owned(),
        tokens: serde_json::Value::Array(tokens).to_string(),
        input: plan.input.clone(),
        platform: plan.platform.clone(),
        started_by: plan.started_by.clone(),
        fingerprint: plan.fingerprint(),
    })
}

/// Appends the start to the log, as a run and as an instance, and caches the instance.
async fn append(
    state: &ProcessState,
    instance: InstanceRecord,
) -> Result<InstanceRecord, ErrorResponse> {
    report(state, &instance).await?;
    state.runtime.starts.instances.remember(instance.clone());
    Ok(instance)
}

/// Reports the start. Safe to repeat: the event has the identity and time of the instance.
async fn report(state: &ProcessState, instance: &InstanceRecord) -> Result<(), ErrorResponse> {
    let input = RawValue::from_string(instance.input.clone()).map_err(|error| {
        tracing::error!(error.message = %error, "the input of an instance is not JSON");
        ApiError::internal()
    })?;
    let metadata = [
        ("build_id", json!(instance.build_id)),
        ("build_status", json!(instance.build_status)),
        ("process_definition_uuid", json!(instance.process_uuid)),
        ("process_instance_id", json!(instance.instance_id)),
        ("platform", json!(instance.platform)),
        ("started_by", json!(instance.started_by)),
    ];
    let event = Event {
        event_id: Some(format!("process_start/{}", instance.uuid)),
        kind: Some(Kind::Process),
        app_id: Some(instance.app_id.clone()),
        metadata: metadata.map(|(key, value)| (key.to_owned(), value)).into(),
        input: Some(input),
        ..Event::at(
            event_name(&instance.process, Phase::Start),
            instance.uuid.as_str(),
            Timestamp::from_ms(instance.started_at),
        )
    };
    let project = ProjectId::new(&*instance.project_id);
    let app = AppId::new(&*instance.app_id);
    let reporter = state.reporter.required()?;
    let reported = reporter.start(&project, &app, event.to_json(), instance.start());
    reported.await.map_err(|error| match error.status {
        500.. => error.into(),
        _ => {
            tracing::error!(
                error.code = error.code.as_str(),
                "the event of a process start was rejected"
            );
            ApiError::internal().into()
        }
    })
}

/// The error of a failed read or write. Logs it.
pub(super) fn store_error(error: StoreError) -> ErrorResponse {
    let is_temporary = error.is_retryable()
        || matches!(error, StoreError::Fenced | StoreError::TooExpensive { .. });
    match is_temporary {
        true => {
            tracing::warn!(error.message = %error, "a start was not stored");
            not_started("it could not be stored now").into()
        }
        false => {
            tracing::error!(error.message = %error, "a start was not stored");
            ApiError::internal().into()
        }
    }
}

pub(super) fn not_started(reason: &str) -> ApiError {
    let message = format!(
        "the process may not have been started: {reason}; try again, with the same `Idempotency-Key` so that it is started once"
    );
    ApiError::unavailable(message, RETRY_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(input: &str) -> StartPlan {
        StartPlan {
            project_id: "ours".to_owned(),
            app_id: "shop".to_owned(),
            build_id: "b".to_owned(),
            build_status: "COMMITTED".to_owned(),
            parent_app_id: None,
            root_app_id: None,
            process: "Order".to_owned(),
            process_uuid: "p".to_owned(),
            start_nodes: vec![],
            platform: "web".to_owned(),
            started_by: "tok".to_owned(),
            key: None,
            input: input.to_owned(),
        }
    }

    #[test]
    fn equal_bodies_have_equal_fingerprints_whatever_their_spelling() {
        let same = |a: &str, b: &str| plan(a).fingerprint() == plan(b).fingerprint();
        assert!(same(
            r#"{"a":1,"b":"ä"}"#,
            "{ \"b\": \"\\u00e4\",\n\"a\" : 1 }"
        ));
        assert!(!same(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(!same(r#"{"a":1}"#, r#"{"a":"1"}"#));
    }

    proptest! {
        #[test]
        fn bodies_with_other_values_have_other_fingerprints(a in ".{0,12}", b in ".{0,12}") {
            let body = |value: &str| json!({"key1": value}).to_string();
            let equal = plan(&body(&a)).fingerprint() == plan(&body(&b)).fingerprint();
            prop_assert_eq!(equal, a == b);
        }
    }
}
