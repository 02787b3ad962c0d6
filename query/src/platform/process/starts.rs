//! From a checked start to an instance that is durable and reported.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use schemas::digest::Identity;
use schemas::fault::Fault;
use schemas::ids::{AppId, ProjectId};
use serde_json::json;
use serde_json::value::RawValue;
use spindle_client::{Event, Kind, Phase, Timestamp, event_name};
use store::StoreError;
use store::claims::Holds;
use store::filter_sql::Projects;
use store::instances::{InstanceRecord, Instances};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

use super::key::derived;
use super::start::BODY_BYTES;
use crate::error::Refusal;
use crate::state::{QueryState, now_ms};

/// Bytes of starts under way, by the sizes of their inputs: 64 MiB (X1).
const ROOM_BYTES: usize = 64 << 20;
/// What a start takes at least of the room: so there are at most 4,096 at once.
const START_BYTES: usize = 16 << 10;
/// Bytes of starts that were begun under a key, and what one takes beside its input (X1).
const BEGUN_BYTES: u64 = 32 << 20;
const BEGUN_RECORD_BYTES: usize = 1 << 10;
/// How long they are remembered: longer than an append may be under way.
const BEGUN_FOR: Duration = Duration::from_secs(15 * 60);
/// How long a caller waits; what was begun goes on, and a repeat with the same key finds it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Seconds after which to try again where too much is under way, or storing failed.
const RETRY_S: u32 = 1;
/// Starts with a key go one by one in each of so many lanes, by their identity: few enough to keep, and enough that
/// different starts seldom meet.
const LANES: usize = 1024;
/// How long a process has a key for itself. An instance is in the log ten seconds later at most, and in the table a
/// second after that unless the processor is behind: then a repeat in another process may be a start of its own.
const CLAIM_HOLDS: Duration = Duration::from_secs(30);
/// Its append begins by then, or not at all.
const APPENDED_WITHIN: Duration = Duration::from_secs(10);
/// How long another process's start under the same key is waited for, and how often it is looked for.
const OTHER_WITHIN: Duration = Duration::from_secs(5);
const OTHER_PAUSE_MS: std::ops::Range<u64> = 20..100;

/// A start that may be: everything about the request and the build was checked.
#[derive(Clone, Debug)]
pub(super) struct Plan {
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

/// The starts of this process of the deployment.
pub(crate) struct Starts {
    pub(super) instances: Instances,
    lanes: Vec<Mutex<()>>,
    room: Arc<Semaphore>,
    /// Starts under a key that were begun here, so that a repeat after an append of which nobody knows how it ended
    /// appends the very same record.
    begun: Cache<Uuid, InstanceRecord>,
}

impl Starts {
    pub(crate) fn new(instances: Instances) -> Self {
        Self {
            instances,
            lanes: (0..LANES).map(|_| Mutex::default()).collect(),
            room: Arc::new(Semaphore::new(ROOM_BYTES)),
            begun: Cache::builder()
                .max_capacity(BEGUN_BYTES)
                .weigher(|_, one: &InstanceRecord| {
                    u32::try_from(one.input.len() + BEGUN_RECORD_BYTES).unwrap_or(u32::MAX)
                })
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(BEGUN_FOR)
                .build(),
        }
    }

    /// Room for a start, by what its body is said to take; taken before the body is read.
    pub(super) fn room(&self, request: &Request) -> Result<OwnedSemaphorePermit, Fault> {
        let said = request.headers().get(CONTENT_LENGTH);
        let said = said.and_then(|length| length.to_str().ok()?.parse().ok());
        let known = said.or_else(|| request.body().size_hint().exact());
        // What is packed, or comes in chunks, may be as large as any.
        let bytes = known.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.unwrap_or(BODY_BYTES).clamp(START_BYTES, BODY_BYTES);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.room
            .clone()
            .try_acquire_many_owned(bytes)
            .map_err(|_| {
                Fault::unavailable(
                    "too many processes are being started at once; try again",
                    RETRY_S,
                )
            })
    }

    fn lane(&self, uuid: &Uuid) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        uuid.hash(&mut hasher);
        // There is at least one lane.
        &self.lanes[(hasher.finish() % LANES as u64) as usize]
    }
}

/// Starts an instance, or gives the one that was started under the same key. It is durable and reported when this
/// returns. What was begun is done to its end, whether or not the caller stays.
pub(super) async fn start(
    state: &QueryState,
    plan: Plan,
    room: OwnedSemaphorePermit,
) -> Result<InstanceRecord, Refusal> {
    // Where nothing takes events, nothing is begun.
    state.reporter()?;
    let state = state.clone();
    let work = tokio::spawn(async move {
        let outcome = carry_out(&state, plan).await;
        drop(room);
        outcome
    });
    match tokio::time::timeout(ANSWER_WITHIN, work).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => {
            tracing::error!(error.message = %error, "a start broke off");
            Err(Fault::internal().into())
        }
        Err(_) => Err(not_done("storing took too long").into()),
    }
}

async fn carry_out(state: &QueryState, plan: Plan) -> Result<InstanceRecord, Refusal> {
    let Some(key) = &plan.key else {
        let instance = instance(state, &plan, Uuid::new_v4()).await?;
        return take_up(state, instance).await;
    };
    let uuid = derived(&[
        "start",
        &plan.project_id,
        &plan.app_id,
        &plan.build_id,
        &plan.process,
        &plan.started_by,
        key,
    ]);
    let _turn = state.starts().lane(&uuid).lock().await;
    let instance = match mine_or_started(state, &plan, &uuid).await? {
        Mine::Started(instance) => return Ok(*instance),
        Mine::Yes(claimed) => {
            let instance = begun(state, &plan, uuid).await?;
            if claimed.elapsed() > APPENDED_WITHIN {
                return Err(not_done("it took too long to begin").into());
            }
            instance
        }
    };
    take_up(state, instance).await
}

/// Whether to start under a key.
enum Mine {
    /// Yes, since then.
    Yes(Instant),
    /// It was started already, by the same request.
    Started(Box<InstanceRecord>),
}

async fn mine_or_started(state: &QueryState, plan: &Plan, uuid: &Uuid) -> Result<Mine, Refusal> {
    let give_up = Instant::now() + OTHER_WITHIN;
    let instances = &state.starts().instances;
    let name = format!("start/{uuid}");
    loop {
        if let Some(found) = started(state, plan, uuid).await? {
            return Ok(Mine::Started(Box::new(found)));
        }
        let holds = Holds::For(CLAIM_HOLDS);
        let claimed = Instant::now();
        let store = state.store();
        let is_mine = store.claim(&name, instances.process(), holds).await;
        if is_mine.map_err(not_stored)? {
            // Whoever had it before may have stored it between the look and the claim.
            return Ok(match started(state, plan, uuid).await? {
                Some(found) => Mine::Started(Box::new(found)),
                None => Mine::Yes(claimed),
            });
        }
        let withdrawn = store.withdraw(&name, instances.process()).await;
        withdrawn.map_err(not_stored)?;
        if Instant::now() >= give_up {
            return Err(not_done("another server is starting it under the same key").into());
        }
        let pause_ms = rand::random_range(OTHER_PAUSE_MS);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
}

/// The instance that was started under this identity.
async fn started(
    state: &QueryState,
    plan: &Plan,
    uuid: &Uuid,
) -> Result<Option<InstanceRecord>, Refusal> {
    let project = Projects::Only(vec![plan.project_id.clone()]);
    let (instances, uuid) = (&state.starts().instances, uuid.to_string());
    let found = instances.one(&project, Some(&plan.app_id), &uuid);
    let Some(found) = found.await.map_err(not_stored)? else {
        return Ok(None);
    };
    if found.fingerprint == fingerprint(plan) {
        return Ok(Some(found));
    }
    let message = "a process was started under this `Idempotency-Key` with another body; use a new key for a new start";
    Err(Fault::new(422, "idempotency_key_reused", message).into())
}

/// Tells whether two requests have the same body, however it is written.
fn fingerprint(plan: &Plan) -> String {
    let (project, app) = (ProjectId::new(&*plan.project_id), AppId::new(&*plan.app_id));
    let digest = Identity::new(&project, &app).of_content(&plan.input);
    format!("{:032x}", digest.0)
}

async fn instance(state: &QueryState, plan: &Plan, uuid: Uuid) -> Result<InstanceRecord, Refusal> {
    let nodes: Vec<Option<&str>> = match &plan.start_nodes[..] {
        [] => vec![None],
        nodes => nodes.iter().map(|node| Some(node.as_str())).collect(),
    };
    // The instance's number and one for each token.
    let first = state
        .starts()
        .instances
        .numbers(1 + nodes.len() as u64)
        .await;
    let first = first.map_err(not_stored)?;
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
        fingerprint: fingerprint(plan),
    })
}

/// The instance that was begun under this identity by the same request, or a new one.
async fn begun(state: &QueryState, plan: &Plan, uuid: Uuid) -> Result<InstanceRecord, Refusal> {
    let begun = &state.starts().begun;
    let same = begun
        .get(&uuid)
        .filter(|one| one.fingerprint == fingerprint(plan));
    if let Some(same) = same {
        return Ok(same);
    }
    let new = instance(state, plan, uuid).await?;
    begun.insert(uuid, new.clone());
    Ok(new)
}

/// Appends the start to the log, as a run and as an instance, and knows it from then on.
async fn take_up(state: &QueryState, instance: InstanceRecord) -> Result<InstanceRecord, Refusal> {
    report(state, &instance).await?;
    state.starts().instances.remember(instance.clone());
    Ok(instance)
}

/// Reports the start as a run, and has it stored as an instance: both are durable when this returns. Reported again it
/// changes nothing: its identity and its moment are those of the instance.
async fn report(state: &QueryState, instance: &InstanceRecord) -> Result<(), Refusal> {
    let input = RawValue::from_string(instance.input.clone()).map_err(|error| {
        tracing::error!(error.message = %error, "the input of an instance is no JSON");
        Fault::internal()
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
        // As it was sent, with every digit.
        input: Some(input),
        ..Event::at(
            event_name(&instance.process, Phase::Start),
            instance.uuid.as_str(),
            Timestamp::from_ms(instance.started_at),
        )
    };
    let (project, app) = (
        ProjectId::new(&*instance.project_id),
        AppId::new(&*instance.app_id),
    );
    let reporter = state.reporter()?;
    match reporter
        .start(&project, &app, event.to_json(), instance.start())
        .await
    {
        Ok(()) => Ok(()),
        Err(fault) if fault.status < 500 => {
            tracing::error!(
                error.code = fault.code,
                "the start of a process was refused as an event"
            );
            Err(Fault::internal().into())
        }
        Err(fault) => Err(fault.into()),
    }
}

fn not_stored(error: StoreError) -> Refusal {
    failed(&error)
}

/// What a caller is told where the store failed. Logged here, once.
fn failed(error: &StoreError) -> Refusal {
    if error.is_retryable() || matches!(error, StoreError::Fenced | StoreError::TooExpensive { .. })
    {
        tracing::warn!(error.message = %error, "a start was not stored");
        return not_done("it could not be stored now").into();
    }
    tracing::error!(error.message = %error, "a start was not stored");
    Fault::internal().into()
}

fn not_done(why: &str) -> Fault {
    let message = format!(
        "the process may not have been started: {why}; try again, with the same `Idempotency-Key` so that it is started once"
    );
    Fault::unavailable(message, RETRY_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(input: &str) -> Plan {
        Plan {
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
    fn bodies_are_the_same_whatever_their_blanks_and_order() {
        let same = |a: &str, b: &str| fingerprint(&plan(a)) == fingerprint(&plan(b));
        assert!(same(
            r#"{"a":1,"b":"ä"}"#,
            "{ \"b\": \"\\u00e4\",\n\"a\" : 1 }"
        ));
        assert!(!same(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(!same(r#"{"a":1}"#, r#"{"a":"1"}"#));
    }

    proptest! {
        #[test]
        fn another_value_is_another_body(a in ".{0,12}", b in ".{0,12}") {
            let body = |value: &str| json!({"key1": value}).to_string();
            let equal = fingerprint(&plan(&body(&a))) == fingerprint(&plan(&body(&b)));
            prop_assert_eq!(equal, a == b);
        }
    }
}
