//! Starting a process by build and name.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use schemas::fault::Fault;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::filter_sql::Projects;
use store::instances::InstanceRecord;
use utoipa::ToSchema;

use super::build::USUAL_PROJECT;
use super::registry::{Ready, ReadyProcess};
use super::schema::{Exceeded, VIOLATIONS_MAX, Violation};
use super::starts::{self, Plan};
use super::{checks, key, may_start};
use crate::access::{Caller, is_one};
use crate::error::{FaultBody, Refusal};
use crate::params::{Pairs, PathIds, check_json, read_body};
use crate::state::QueryState;

/// Bytes of a start's body: with what is said around it, it is an event of a run, which may have 1 MiB.
pub(super) const BODY_BYTES: usize = 512 << 10;
/// Time for a whole body to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of `svc-platform`.
const PLATFORM_BYTES: usize = 256;
const PLATFORM: &str = "svc-platform";
/// How long a body is held against its schema: the largest one of a usual kind takes some ten milliseconds.
const CHECK_TIME: Duration = Duration::from_secs(2);
/// Projects that are named where a pair exists in several.
const PROJECTS_NAMED: usize = 10;

/// The instance that was started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    /// Identifier of the process definition.
    process_definition_flowx_uuid: String,
    /// The build.
    build_id: String,
    /// Status of the build when the process started.
    #[schema(example = "COMMITTED")]
    build_status_at_start: String,
    /// The application.
    application_id: String,
    /// Parent application, `null` if there is none.
    #[schema(required)]
    parent_application_id: Option<String>,
    /// Root application, `null` if there is none.
    #[schema(required)]
    root_application_id: Option<String>,
    /// Name of the process.
    process_definition_name: String,
    /// Active tokens of the instance: one at each node it starts at.
    #[schema(value_type = Vec<ProcessToken>)]
    tokens: Box<RawValue>,
    /// State of the instance.
    #[schema(example = "STARTED")]
    state: String,
    /// Identifier of the instance.
    uuid: String,
    /// Both identifiers of the instance.
    instance_metadata: InstanceMetadata,
}

/// A token of an instance.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what is stored as JSON")]
pub(crate) struct ProcessToken {
    /// Unique in the deployment, and exact in JavaScript.
    id: u64,
    /// `ACTIVE`.
    #[schema(example = "ACTIVE")]
    state: String,
    /// `ARRIVED`.
    #[schema(example = "ARRIVED")]
    status_current_node: String,
    /// The node it stands at, `null` where the definition names none.
    #[schema(required)]
    current_node: Option<String>,
}

/// Both identifiers of an instance.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceMetadata {
    /// A number, unique in the deployment and exact in JavaScript.
    process_instance_id: u64,
    /// The same as `uuid`.
    process_instance_uuid: String,
}

impl Started {
    pub(super) fn of(record: InstanceRecord) -> Result<Self, Fault> {
        let tokens = RawValue::from_string(record.tokens).map_err(|_| {
            tracing::error!("the tokens of an instance are no JSON");
            Fault::internal()
        })?;
        let given = |text: String| (!text.is_empty()).then_some(text);
        Ok(Self {
            process_definition_flowx_uuid: record.process_uuid,
            build_id: record.build_id,
            build_status_at_start: record.build_status,
            application_id: record.app_id,
            parent_application_id: given(record.parent_app_id),
            root_application_id: given(record.root_app_id),
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
/// The body is checked against the schema of the process. The instance is durable when it is answered, and a run of the
/// type `process` a moment later. Sent again with the same `Idempotency-Key` and body, the answer is the same.
#[utoipa::path(
    post,
    path = "/rtm/api/runtime/app/{appId}/build/{buildId}/process-name/{processDefinitionName}/start",
    operation_id = "start_process",
    tag = "platform",
    params(
        ("appId" = String, Path, description = "Application; it forms a pair with the build", min_length = 1, max_length = 256),
        ("buildId" = String, Path, description = "Build", min_length = 1, max_length = 256),
        ("processDefinitionName" = String, Path, description = "Name of the process, any characters; `/` as `%2F`", min_length = 1, max_length = 500),
        ("project_id" = Option<String>, Query, description = "One of the projects the token reaches; needed where it reaches several and the pair is not in `default`", min_length = 1, max_length = 256),
        ("svc-platform" = String, Header, description = "Client platform, for example `web`", min_length = 1, max_length = 256),
        ("Idempotency-Key" = Option<String>, Header, description = "The same start sent again is started once", min_length = 1, max_length = 255),
    ),
    request_body(content = Object, description = "An object that conforms to the schema of the process, up to 512 KiB"),
    responses(
        (status = 200, description = "The instance, durable", body = Started,
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
        (status = 400, description = "No JSON object, no `svc-platform`, or an unknown parameter", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "Not a token that may start processes, or this process", body = FaultBody),
        (status = 404, description = "There is no such pair of app and build, or no such process in it; the message says which", body = FaultBody),
        (status = 408, description = "The body did not arrive in time", body = FaultBody),
        (status = 409, description = "The token reaches several projects, and the pair is not in `default`: give `project_id`", body = FaultBody),
        (status = 413, description = "The body is too large", body = FaultBody),
        (status = 415, description = "The body is not JSON", body = FaultBody),
        (status = 422, description = "The body does not conform to the schema: `details.violations` names each place; checking it takes too many steps; or the `Idempotency-Key` was used with another body", body = FaultBody),
        (status = 429, description = "The project has too many bodies being checked", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
        (status = 500, description = "The server failed", body = FaultBody),
        (status = 503, description = "It could not be checked in time, stored or reported; try again with the same `Idempotency-Key`", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn start(
    State(state): State<QueryState>,
    caller: Caller,
    PathIds([app_id, build_id, name]): PathIds<3>,
    pairs: Pairs,
    request: Request,
) -> Result<Json<Started>, Refusal> {
    let [project_id] = pairs.only(["project_id"])?;
    let projects = caller.starting(project_id)?;
    let platform = platform(request.headers())?;
    let key = key::key_of(request.headers())?;
    let room = state.starts().room(&request)?;
    let (input, body) = body(request).await?;
    let pair = state.registry().pair(&app_id, &build_id, &projects).await?;
    let build = the_one(&pair, &projects, (&app_id, &build_id))?;
    let Some(process) = build.process(&name) else {
        let message = format!(
            "the build `{build_id}` of the app `{app_id}` has no process of the name `{name}`"
        );
        return Err(Fault::not_found(message)
            .with_details(json!({"unknown": "processDefinitionName"}))
            .into());
    };
    if !may_start(&caller, &process.roles) {
        let message = "this process may be started with other roles only";
        return Err(Fault::forbidden(message).into());
    }
    let (violations, is_cut) = check(&state, &build.project_id, process, body).await?;
    if !violations.is_empty() {
        return Err(not_conforming(&name, &violations, is_cut).into());
    }
    let plan = Plan {
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
    Ok(Json(Started::of(starts::start(&state, plan, room).await?)?))
}

/// Holds the body against the schema of the process, on a thread of its own.
async fn check(
    state: &QueryState,
    project_id: &str,
    process: &Arc<ReadyProcess>,
    body: Value,
) -> Result<(Vec<Violation>, bool), Fault> {
    let process = process.clone();
    let check = move |deadline| {
        match process.schema() {
        Ok(schema) => schema.violations(&body, deadline).map_err(|exceeded| match exceeded {
            Exceeded::Time => checks::too_slow(CHECK_TIME),
            Exceeded::Steps | Exceeded::Report => Fault::new(422, "schema_too_expensive", "checking this body against the schema of the process takes more steps than are allowed; simplify the schema where subschemas repeat or refer to themselves, or send a smaller body"),
        }),
        Err(why) => {
            let message = format!("the schema of the process is refused: {why}; register the build again with one that is accepted");
            Err(Fault::new(422, "schema_refused", message))
        }
    }
    };
    let checked = state.checks().run(project_id, CHECK_TIME, check).await?;
    checked.inspect_err(|fault| {
        tracing::warn!(
            project.id = project_id,
            error.code = fault.code,
            "a body could not be held against its schema"
        );
    })
}

/// Ask from a page whether it may start a process
///
/// The preflight of a browser: no credential is needed. Whether the origin is allowed is in the headers.
#[utoipa::path(
    options,
    path = "/rtm/api/runtime/app/{appId}/build/{buildId}/process-name/{processDefinitionName}/start",
    operation_id = "start_process_preflight",
    tag = "platform",
    params(
        ("appId" = String, Path, description = "Application"),
        ("buildId" = String, Path, description = "Build"),
        ("processDefinitionName" = String, Path, description = "Name of the process"),
        ("project_id" = Option<String>, Query, description = "As in the request that is meant", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 204, description = "The headers say what is allowed"),
        (status = 400, description = "An unknown parameter", body = FaultBody),
    ),
    security(())
)]
pub(crate) async fn preflight(pairs: Pairs) -> Result<StatusCode, Refusal> {
    let [_] = pairs.only(["project_id"])?;
    Ok(StatusCode::NO_CONTENT)
}

/// The one build that is meant. Where a token reaches several projects, nobody's build is taken for being the only one
/// of its name: whoever may register in one project must not catch the starts that are meant for another (T1).
fn the_one<'a>(
    pair: &'a [Ready],
    projects: &Projects,
    (app_id, build_id): (&str, &str),
) -> Result<&'a Ready, Fault> {
    let usual = || pair.iter().find(|build| build.project_id == USUAL_PROJECT);
    match pair {
        [] => {
            let message = format!("there is no build `{build_id}` of an app `{app_id}`");
            Err(Fault::not_found(message).with_details(json!({"unknown": "appId/buildId"})))
        }
        [build] if is_one(projects) => Ok(build),
        _ if let Some(build) = usual() => Ok(build),
        several => {
            let projects = several.iter().map(|build| build.project_id.as_str());
            let projects: Vec<&str> = projects.take(PROJECTS_NAMED).collect();
            let message = format!(
                "this token reaches several projects, and a build `{build_id}` of an app `{app_id}` is in others than `{USUAL_PROJECT}`; say which is meant by `project_id`"
            );
            Err(Fault::new(409, "ambiguous_project", message)
                .with_details(json!({"projects": projects})))
        }
    }
}

fn platform(headers: &HeaderMap) -> Result<String, Fault> {
    let platform = headers.get(PLATFORM);
    let platform = platform.and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    match platform.map(str::trim) {
        Some(platform) if (1..=PLATFORM_BYTES).contains(&platform.len()) => Ok(platform.to_owned()),
        _ => {
            let message = format!(
                "the header `svc-platform` is required: the client platform, for example `web`, 1 to {PLATFORM_BYTES} bytes"
            );
            Err(Fault::bad_request("invalid_header", message)
                .with_details(json!({"header": PLATFORM})))
        }
    }
}

/// The body as it was sent, and what it says.
async fn body(request: Request) -> Result<(String, Value), Fault> {
    let (parts, body) = request.into_parts();
    check_json(&parts.headers)?;
    let read = read_body(body, BODY_BYTES);
    let bytes = tokio::time::timeout(BODY_WITHIN, read)
        .await
        .map_err(|_| {
            let message = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
            Fault::new(408, "body_timeout", message)
        })??;
    let invalid = |message: String| Fault::bad_request("invalid_body", message);
    let text =
        String::from_utf8(bytes.into()).map_err(|_| invalid("the body is not UTF-8".to_owned()))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| invalid(format!("the body is not JSON: {error}")))?;
    if !value.is_object() {
        return Err(invalid("the body has to be a JSON object".to_owned()));
    }
    Ok((text.trim().to_owned(), value))
}

fn not_conforming(name: &str, violations: &[Violation], is_cut: bool) -> Fault {
    let more = if is_cut {
        format!("; the first {VIOLATIONS_MAX} are listed")
    } else {
        String::new()
    };
    let message = format!("the body does not conform to the schema of the process `{name}`{more}");
    Fault::new(422, "schema_violation", message).with_details(json!({"violations": violations}))
}
