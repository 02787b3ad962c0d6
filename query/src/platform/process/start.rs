//! `POST /rtm/api/runtime/app/{appId}/build/{buildId}/process-name/{processDefinitionName}/start`.

use std::sync::Arc;
use std::time::Duration;

use api::request_body::{MediaType, check_decompressed, parse_json, read_body_within};
use api::{ErrorResponse, errors};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use schemas::api_error::{ApiError, ErrorCode};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::platform::instances::InstanceRecord;
use utoipa::ToSchema;

use super::registry::{CachedBuild, CachedProcess};
use super::schema::{Exceeded, VIOLATIONS_MAX, Violations};
use super::start_memory::BODY_BYTES;
use super::starts::{self, StartPlan};
use super::{ProcessPath, ProcessState, ambiguous, build_not_found, checks, key, may_start};
use crate::access::Caller;
use crate::params::{Pairs, Text, query_params};

query_params! {
    pub(crate) struct StartParams {
        /// One of the projects that the token reaches; required if several of them have the build
        project_id: Text,
    }
}

/// Time for the body to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of `svc-platform`.
const PLATFORM_BYTES: usize = 256;
const PLATFORM: &str = "svc-platform";
/// Bound on the validation of a body: the largest usual ones take some ten milliseconds.
const CHECK_TIME: Duration = Duration::from_secs(2);

/// A started process instance.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    process_definition_flowx_uuid: String,
    build_id: String,
    /// Status of the build at the start.
    #[schema(example = "COMMITTED")]
    build_status_at_start: String,
    application_id: String,
    /// Parent application, `null` if there is none.
    #[schema(required)]
    parent_application_id: Option<String>,
    /// Root application, `null` if there is none.
    #[schema(required)]
    root_application_id: Option<String>,
    /// Name of the process.
    process_definition_name: String,
    /// Active tokens, one at each start node.
    #[schema(value_type = Vec<ProcessToken>)]
    tokens: Box<RawValue>,
    #[schema(example = "STARTED")]
    state: String,
    uuid: String,
    /// Both identifiers of the instance.
    instance_metadata: InstanceMetadata,
}

/// A token of a process instance.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what is stored as JSON")]
pub(crate) struct ProcessToken {
    /// Unique in the deployment, below 2^53.
    id: u64,
    #[schema(example = "ACTIVE")]
    state: String,
    #[schema(example = "ARRIVED")]
    status_current_node: String,
    /// The node of the token; `null` if the process has no start nodes.
    #[schema(required)]
    current_node: Option<String>,
}

/// Both identifiers of a process instance.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceMetadata {
    /// Unique in the deployment, below 2^53.
    process_instance_id: u64,
    /// Equal to `uuid`.
    process_instance_uuid: String,
}

impl Started {
    pub(super) fn of(record: InstanceRecord) -> Result<Self, ApiError> {
        let tokens = RawValue::from_string(record.tokens).map_err(|_| {
            tracing::error!("the tokens of an instance are not JSON");
            ApiError::internal()
        })?;
        let non_empty = |text: String| (!text.is_empty()).then_some(text);
        Ok(Self {
            process_definition_flowx_uuid: record.process_uuid,
            build_id: record.build_id,
            build_status_at_start: record.build_status,
            application_id: record.app_id,
            parent_application_id: non_empty(record.parent_app_id),
            root_application_id: non_empty(record.root_app_id),
            process_definition_name: record.process,
            tokens,
            state: record.state,
            instance_metadata: InstanceMetadata {
                process_instance_id: record.instance_id,
                process_instance_uuid: record.uuid.clone(),
            },
            uuid: record.uuid,
        })
    }
}

/// Start a process
///
/// The build determines the project: 409 `ambiguous_project` only if several projects that the token reaches have this
/// build of this app. The body is validated against the schema of the process. The instance is durable when the answer is sent, and a run of
/// type `process` within about a second. Repeating the request with the same `Idempotency-Key` and body returns the same
/// instance.
#[utoipa::path(
    post,
    path = "/rtm/api/runtime/app/{appId}/build/{buildId}/process-name/{processDefinitionName}/start",
    operation_id = "start_process",
    tag = "platform",
    params(
                ProcessPath, StartParams,
                ("svc-platform" = String, Header, description = "Client platform, for example `web`", min_length = 1, max_length = 256),
                ("Idempotency-Key" = Option<String>, Header, description = "A repeated request with the same key starts one instance", min_length = 1, max_length = 255),
    ),
    request_body(content = Object, description = "An object that conforms to the schema of the process, up to 512 KiB"),
    responses(
        (status = 200, description = "The durable instance", body = Started,
            headers(
                ("Access-Control-Allow-Credentials" = String, description = "`true`"),
                ("Access-Control-Allow-Headers" = String, description = "Allowed request headers"),
                ("Access-Control-Allow-Methods" = String, description = "`GET, PUT, POST, DELETE, PATCH`"),
                ("Access-Control-Allow-Origin" = String, description = "Allowed origin"),
                ("Strict-Transport-Security" = String, description = "Enforces HTTPS"),
                ("Vary" = String, description = "`Accept-Encoding, Origin`"),
                ("X-Content-Type-Options" = String, description = "`nosniff`"),
                ("X-XSS-Protection" = String, description = "`0`"),
            )),
        errors::AnyOf<(errors::Common, errors::RequestBody, errors::NotFound, errors::Ambiguous, errors::Start)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn start(
    State(state): State<ProcessState>,
    caller: Caller,
    path: ProcessPath,
    pairs: Pairs,
    request: Request,
) -> Result<Json<Started>, ErrorResponse> {
    let StartParams { project_id } = StartParams::read(&pairs)?;
    let projects = caller.startable(project_id.as_deref())?;
    let platform = platform(request.headers())?;
    let key = key::key_of(request.headers())?;
    let memory = state.runtime.starts.memory.reserve(&request)?;
    let (input, body) = body(request).await?;
    let ProcessPath {
        app_id,
        build_id,
        process: name,
    } = path;
    let registry = &state.runtime.registry;
    let builds = registry.builds(&app_id, &build_id, &projects).await?;
    let build = the_build(&builds, &app_id, &build_id)?;
    let Some(process) = build.process(&name) else {
        let message = format!("process `{name}` of build `{build_id}` of app `{app_id}` not found");
        return Err(ApiError::not_found(message)
            .with_details(json!({"unknown": "processDefinitionName"}))
            .into());
    };
    if !may_start(&caller, &process.roles) {
        let message = format!(
            "this process requires one of the roles `{}`",
            process.roles.join("`, `")
        );
        return Err(ApiError::forbidden(message).into());
    }
    let violations = validate(&state, &build.project_id, process, body).await?;
    if !violations.listed.is_empty() {
        return Err(schema_violation(&name, &violations).into());
    }
    let plan = StartPlan {
        project_id: build.project_id.clone(),
        build_status: build.status.clone(),
        parent_app_id: build.parent_app_id.clone(),
        root_app_id: build.root_app_id.clone(),
        process_uuid: process.uuid.clone(),
        start_nodes: process.start_nodes.clone(),
        started_by: caller.starter(),
        process: name,
        app_id,
        build_id,
        platform,
        key,
        input,
    };
    Ok(Json(Started::of(
        starts::start(&state, plan, memory).await?,
    )?))
}

/// Validates the body against the schema of the process.
async fn validate(
    state: &ProcessState,
    project_id: &str,
    process: &Arc<CachedProcess>,
    body: Value,
) -> Result<Violations, ApiError> {
    let process = process.clone();
    let check = move |deadline| {
        let schema = process.schema().map_err(|reason| {
let message = format!("the schema of the process is invalid: {reason}; register the build with a valid schema");
ApiError::new(ErrorCode::SchemaRefused, message)
})?;
        schema.violations(&body, deadline).map_err(|exceeded| match exceeded {
Exceeded::Time => checks::too_slow(CHECK_TIME),
Exceeded::Steps | Exceeded::Report => ApiError::new(ErrorCode::SchemaTooExpensive, "validating this body takes more steps than are allowed; simplify the schema where subschemas repeat or refer to themselves, or send a smaller body"),
})
    };
    let validations = &state.runtime.validations;
    let validated = validations.run(project_id, CHECK_TIME, check).await?;
    validated.inspect_err(|error| {
        tracing::warn!(
            project.id = project_id,
            error.code = error.code.as_str(),
            "a body could not be validated"
        );
    })
}

/// CORS preflight of a process start
///
/// Sent by browsers, without a credential. The headers contain the allowed origin, methods and headers.
#[utoipa::path(
    options,
    path = "/rtm/api/runtime/app/{appId}/build/{buildId}/process-name/{processDefinitionName}/start",
    operation_id = "start_process_preflight",
    tag = "platform",
    params(
        ("appId" = String, Path, description = "Application"),
        ("buildId" = String, Path, description = "Build"),
        ("processDefinitionName" = String, Path, description = "Name of the process"),
        StartParams,
    ),
    responses(
        (status = 204, description = "The CORS headers"),
        errors::Preflight,
    ),
    security(())
)]
pub(crate) async fn preflight(pairs: Pairs) -> Result<StatusCode, ErrorResponse> {
    StartParams::read(&pairs)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The one build of this app and id in the projects of the start: it determines the project.
fn the_build<'a>(
    builds: &'a [CachedBuild],
    app_id: &str,
    build_id: &str,
) -> Result<&'a CachedBuild, ApiError> {
    match builds {
        [] => Err(build_not_found(app_id, build_id)),
        [build] => Ok(build),
        several => {
            let projects = several.iter().map(|build| build.project_id.as_str());
            Err(ambiguous(app_id, build_id, projects))
        }
    }
}

fn platform(headers: &HeaderMap) -> Result<String, ApiError> {
    let platform = headers.get(PLATFORM);
    let platform = platform.and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    match platform.map(str::trim) {
        Some(platform) if (1..=PLATFORM_BYTES).contains(&platform.len()) => Ok(platform.to_owned()),
        _ => {
            let message = format!(
                "the header `svc-platform` is required, with 1 to {PLATFORM_BYTES} bytes, for example `web`"
            );
            Err(ApiError::new(ErrorCode::InvalidHeader, message)
                .with_details(json!({"header": PLATFORM})))
        }
    }
}

/// The body as it was sent, and parsed.
async fn body(request: Request) -> Result<(String, Value), ApiError> {
    let (parts, body) = request.into_parts();
    MediaType::Json.check(&parts.headers)?;
    check_decompressed(&parts.headers)?;
    let bytes = read_body_within(body, BODY_BYTES, BODY_WITHIN).await?;
    let value: Value = parse_json(&bytes)?;
    let invalid = |message: &str| ApiError::new(ErrorCode::InvalidBody, message);
    if !value.is_object() {
        return Err(invalid("request body must be a JSON object"));
    }
    let text = String::from_utf8(bytes.into()).map_err(|_| invalid("request body is not UTF-8"))?;
    Ok((text.trim().to_owned(), value))
}

fn schema_violation(process: &str, violations: &Violations) -> ApiError {
    let more = match violations.has_more {
        true => format!("; the first {VIOLATIONS_MAX} violations are listed"),
        false => String::new(),
    };
    let message =
        format!("the body does not conform to the schema of the process `{process}`{more}");
    ApiError::new(ErrorCode::SchemaViolation, message)
        .with_details(json!({"violations": violations.listed}))
}
