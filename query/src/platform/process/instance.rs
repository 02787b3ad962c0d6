//! Instances that were started: one, and lists.

use axum::Json;
use axum::extract::State;
use schemas::fault::Fault;
use schemas::filter::{instant_ms, invalid_parameter};
use schemas::run::Instant;
use serde::Serialize;
use serde_json::value::RawValue;
use store::instances::{InstanceQuery, InstanceRecord};
use utoipa::ToSchema;
use uuid::Uuid;

use super::cursor;
use super::start::Started;
use crate::access::{Caller, is_one};
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, PathId};
use crate::state::QueryState;

const LIMIT_USUAL: usize = 50;
const LIMIT_MAX: usize = 1000;
/// What a column of times holds: 1900 and 2299.
const TIMES: std::ops::RangeInclusive<i64> = -2_208_988_800_000..=10_413_791_999_999;

/// An instance of a process.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Instance {
    /// Its project, where the credential reaches several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    project_id: Option<String>,
    #[serde(flatten)]
    started: Started,
    /// When it was started.
    #[schema(value_type = String, format = DateTime)]
    started_at: Instant,
    /// Public identifier of the credential it was started with.
    started_by: String,
    /// The platform its client named.
    platform: String,
    /// What it was started with, as it was sent; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, required = false)]
    input: Option<Box<RawValue>>,
}

/// A page of instances.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InstancePage {
    /// Newest first.
    data: Vec<Instance>,
    /// For the next page; `null` on the last.
    #[schema(required)]
    next_cursor: Option<String>,
    /// Whether there is a next page.
    has_more: bool,
}

impl Instance {
    fn of(mut record: InstanceRecord, names_project: bool) -> Result<Self, Fault> {
        let project_id = names_project.then(|| record.project_id.clone());
        let input = std::mem::take(&mut record.input);
        let input = match input.as_str() {
            "" => None,
            _ => Some(RawValue::from_string(input).map_err(|_| {
                tracing::error!("the input of an instance is no JSON");
                Fault::internal()
            })?),
        };
        Ok(Self {
            project_id,
            started_at: Instant(record.started_at),
            started_by: record.started_by.clone(),
            platform: record.platform.clone(),
            input,
            started: Started::of(record)?,
        })
    }
}

/// One instance of a process
#[utoipa::path(
    get,
    path = "/api/platform/process/{uuid}",
    operation_id = "get_process_instance",
    tag = "platform",
    params(
        ("uuid" = String, Path, description = "The instance"),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "The instance with its tokens; with its input for whoever may read runs, and for whoever started it", body = Instance),
        (status = 400, description = "An unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The API key lacks the scope `read`, or the project is another", body = FaultBody),
        (status = 404, description = "There is no such instance, or none that the credential reaches", body = FaultBody),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(state): State<QueryState>,
    caller: Caller,
    PathId(uuid): PathId,
    pairs: Pairs,
) -> Result<Json<Instance>, Refusal> {
    let [project_id] = pairs.only(["project_id"])?;
    let projects = caller.reached(project_id)?;
    let instances = &state.starts().instances;
    // Written in any way; what is none is found nowhere.
    let uuid = Uuid::try_parse(&uuid).map_or(uuid, |uuid| uuid.to_string());
    let Some(mut found) = instances.one(&projects, None, &uuid).await? else {
        let message = "there is no such instance, or it is not yours to see";
        return Err(Fault::not_found(message).into());
    };
    // Whoever may only start sees what they started themselves.
    if !caller.sees_content() && found.started_by != caller.starter() {
        found.input.clear();
    }
    Ok(Json(Instance::of(found, !is_one(&projects))?))
}

/// List instances of processes
///
/// Newest first, without their input. Pages go on with `cursor`: no instance twice.
#[utoipa::path(
    get,
    path = "/api/platform/process",
    operation_id = "list_process_instances",
    tag = "platform",
    params(
        ("app_id" = Option<String>, Query, description = "Application", min_length = 1, max_length = 256),
        ("build_id" = Option<String>, Query, description = "Build", min_length = 1, max_length = 256),
        ("name" = Option<String>, Query, description = "Name of the process", min_length = 1, max_length = 256),
        ("from" = Option<String>, Query, description = "Started then or later: ISO 8601, or Unix milliseconds"),
        ("to" = Option<String>, Query, description = "Started then or earlier"),
        ("limit" = Option<u32>, Query, description = "Instances on the page, 50 unless given", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before, with the same filter", min_length = 1, max_length = 256),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, description = "A page", body = InstancePage),
        (status = 400, description = "An unknown parameter, or a value that cannot be meant", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The API key lacks the scope `read`, or the project is another", body = FaultBody),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "The database is away or busy, or the question took too long", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(state): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<InstancePage>, Refusal> {
    let names = [
        "app_id",
        "build_id",
        "name",
        "from",
        "to",
        "limit",
        "cursor",
        "project_id",
    ];
    let given = pairs.only(names)?;
    let [app_id, build_id, name, from, to, limit, cursor, project_id] = given;
    let projects = caller.reached(project_id)?;
    let filter = [app_id, build_id, name, from, to, project_id].map(Option::unwrap_or_default);
    let limit = limit.map_or(Ok(LIMIT_USUAL), limit_of)?;
    let from_ms = from.map(|text| time("from", text)).transpose()?;
    let to_ms = to.map(|text| time("to", text)).transpose()?;
    if let (Some(from_ms), Some(to_ms)) = (from_ms, to_ms)
        && from_ms > to_ms
    {
        let allowed = "not later than `to`";
        return Err(invalid_parameter("from", from.unwrap_or_default(), allowed).into());
    }
    let query = InstanceQuery {
        app_id: app_id.map(str::to_owned),
        build_id: build_id.map(str::to_owned),
        process: name.map(str::to_owned),
        from_ms,
        to_ms,
        after: cursor
            .map(|text| cursor::decode(text, &filter))
            .transpose()?,
        limit: limit + 1,
    };
    let mut found = state.starts().instances.list(&projects, &query).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| has_more);
    let next_cursor = last.map(|last| cursor::encode((last.started_at, &last.uuid), &filter));
    let names_project = !is_one(&projects);
    let data = found
        .into_iter()
        .map(|one| Instance::of(one, names_project));
    Ok(Json(InstancePage {
        data: data.collect::<Result<_, _>>()?,
        next_cursor,
        has_more,
    }))
}

fn limit_of(text: &str) -> Result<usize, Fault> {
    let limit = text
        .parse()
        .ok()
        .filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| {
        invalid_parameter(
            "limit",
            text,
            &format!("a whole number from 1 to {LIMIT_MAX}"),
        )
    })
}

fn time(name: &str, text: &str) -> Result<i64, Fault> {
    let time_ms = instant_ms(text).filter(|time_ms| TIMES.contains(time_ms));
    time_ms.ok_or_else(|| {
        let allowed = "an ISO 8601 time such as 2026-11-20T10:00:00.000Z";
        invalid_parameter(name, text, allowed)
    })
}
