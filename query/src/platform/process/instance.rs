//! `/api/platform/process`: process instances.

use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::State;
use schemas::api_error::ApiError;
use schemas::cursor::{self, Position};
use schemas::filter::invalid_parameter;
use schemas::run::Instant;
use schemas::timestamp::UnixMs;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::platform::instances::{InstanceQuery, InstanceRecord};
use utoipa::ToSchema;
use utoipa::openapi::schema::Schema;
use uuid::Uuid;

use super::ProcessState;
use super::start::Started;
use crate::access::{Caller, is_one};
use crate::params::{
    Limit, Pairs, Param, ProjectParams, Text, Time, any_text, path_params, query_params,
};

const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 1000;
/// Range of a time column: 1900 to 2299.
const TIMES: std::ops::RangeInclusive<i64> = -2_208_988_800_000..=10_413_791_999_999;

/// [`Time`] within the range of a column.
pub(crate) struct ColumnTime;

impl Param for ColumnTime {
    type Value = UnixMs;

    fn parse(name: &str, text: &str) -> Result<UnixMs, ApiError> {
        let time_ms = Time::parse(name, text)?;
        match TIMES.contains(&time_ms) {
            true => Ok(time_ms),
            false => Err(invalid_parameter(name, text, "a time from 1900 to 2299")),
        }
    }

    fn schema() -> Schema {
        Time::schema()
    }
}

query_params! {
    pub(crate) struct InstanceParams {
        /// Application
        app_id: Text,
        /// Build
        build_id: Text,
        /// Name of the process
        name: Text,
        /// Started at or after: ISO 8601, or Unix milliseconds
        from: ColumnTime,
        /// Started at or before
        to: ColumnTime,
        /// Largest page size, default 50
        limit: Limit<LIMIT_MAX>,
        /// `next_cursor` of the previous page, with the same filter
        cursor: Text,
        /// One of the projects that the credential reaches
        project_id: Text,
    }
}

path_params! {
    pub(crate) struct InstancePath {
        /// UUID of the instance
        "uuid" uuid: any_text(),
    }
}

/// A process instance.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Instance {
    /// Project; only if the credential reaches several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    project_id: Option<String>,
    #[serde(flatten)]
    started: Started,
    #[schema(value_type = String, format = DateTime)]
    started_at: Instant,
    /// Public identifier of the credential of the start.
    started_by: String,
    /// Platform of the client.
    platform: String,
    /// Body of the start; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, required = false)]
    input: Option<Box<RawValue>>,
}

/// A page of instances.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InstancePage {
    /// Newest first.
    data: Vec<Instance>,
    /// `cursor` of the next page; `null` on the last.
    #[schema(required)]
    next_cursor: Option<String>,
    /// Whether another page exists.
    has_more: bool,
}

impl Instance {
    fn of(mut record: InstanceRecord, names_project: bool) -> Result<Self, ApiError> {
        let project_id = names_project.then(|| record.project_id.clone());
        let input = std::mem::take(&mut record.input);
        let input = match input.as_str() {
            "" => None,
            _ => Some(RawValue::from_string(input).map_err(|_| {
                tracing::error!("the input of an instance is not JSON");
                ApiError::internal()
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

/// Get a process instance
#[utoipa::path(
    get,
    path = "/api/platform/process/{uuid}",
    operation_id = "get_process_instance",
    tag = "platform",
    params(
                InstancePath, ProjectParams,
    ),
    responses(
        (status = 200, description = "The instance with its tokens. Its input is included for callers who may read runs, and for the caller who started it", body = Instance),
        errors::AnyOf<(errors::Common, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(state): State<ProcessState>,
    caller: Caller,
    InstancePath { uuid }: InstancePath,
    pairs: Pairs,
) -> Result<Json<Instance>, ErrorResponse> {
    let ProjectParams { project_id } = ProjectParams::read(&pairs)?;
    let projects = caller.reachable(project_id.as_deref())?;
    let instances = &state.runtime.starts.instances;
    // Any spelling of a UUID.
    let uuid = Uuid::try_parse(&uuid).map_or(uuid, |uuid| uuid.to_string());
    let Some(mut found) = instances.one(&projects, None, &uuid).await? else {
        return Err(ApiError::not_found("process instance not found").into());
    };
    // A caller with the role `starter` only reads the input of own starts.
    if !caller.reads_content() && found.started_by != caller.starter() {
        found.input.clear();
    }
    Ok(Json(Instance::of(found, !is_one(&projects))?))
}

/// Position in the list of instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InstancePosition {
    /// Start of the last instance.
    pub(crate) started_at_ms: UnixMs,
    pub(crate) uuid: String,
}

impl Position for InstancePosition {
    const LIST: u8 = 3;
}

/// List process instances
///
/// Newest first, without input. `cursor` continues after a page without duplicates.
#[utoipa::path(
    get,
    path = "/api/platform/process",
    operation_id = "list_process_instances",
    tag = "platform",
    params(
                InstanceParams,
    ),
    responses(
        (status = 200, description = "A page", body = InstancePage),
        errors::AnyOf<(errors::Common, errors::Paged)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn list(
    State(state): State<ProcessState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<Json<InstancePage>, ErrorResponse> {
    let filter = ["app_id", "build_id", "name", "from", "to", "project_id"];
    let filter = filter.map(|name| pairs.get(name).unwrap_or_default());
    let fingerprint = cursor::fingerprint(&filter);
    let params = InstanceParams::read(&pairs)?;
    let projects = caller.reachable(params.project_id.as_deref())?;
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    if let (Some(from_ms), Some(to_ms)) = (params.from, params.to)
        && from_ms > to_ms
    {
        let allowed = "not later than `to`";
        return Err(invalid_parameter("from", filter[3], allowed).into());
    }
    let query = InstanceQuery {
        app_id: params.app_id,
        build_id: params.build_id,
        process: params.name,
        from_ms: params.from,
        to_ms: params.to,
        after: params
            .cursor
            .map(|text| cursor::decode::<InstancePosition>(&text, fingerprint))
            .transpose()?
            .map(|position| (position.started_at_ms, position.uuid)),
        limit: limit + 1,
    };
    let mut found = state
        .runtime
        .starts
        .instances
        .list(&projects, &query)
        .await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| has_more);
    let next_cursor = last.map(|last| {
        let position = InstancePosition {
            started_at_ms: last.started_at,
            uuid: last.uuid.clone(),
        };
        cursor::encode(&position, fingerprint)
    });
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
