//! The definition of a build: as it is sent, checked and stored.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use schemas::api_error::{ApiError, ErrorCode};
use schemas::limits::ID_BYTES;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::key::derived;
use super::schema::Schema;
use super::{check_text, checks};

/// Bound on compiling the schemas of one build: 4 MiB of them take some seconds.
pub(super) const CHECK_TIME: Duration = Duration::from_secs(10);
/// Processes of one build: large builds have some dozens (X1).
pub(super) const PROCESSES_MAX: usize = 256;
/// Bytes of a process name: with the suffix `_start` it is the name of an event, which has at most 512.
pub(super) const PROCESS_NAME_BYTES: usize = 500;
/// Bytes of one schema.
const SCHEMA_BYTES: usize = 256 << 10;
/// Start nodes of one process; each is a token of every instance.
const START_NODES_MAX: usize = 64;
/// Allowed roles of one process.
const ROLES_MAX: usize = 32;

/// A build to register. It replaces a build with the same app and id.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PutBuild {
    /// Status, for example `COMMITTED`.
    #[schema(min_length = 1, max_length = 256)]
    pub(super) status: String,
    #[schema(min_length = 1, max_length = 256)]
    pub(super) workspace_id: Option<String>,
    #[schema(min_length = 1, max_length = 256)]
    pub(super) parent_application_id: Option<String>,
    #[schema(min_length = 1, max_length = 256)]
    pub(super) root_application_id: Option<String>,
    /// Processes with distinct names.
    #[schema(max_items = 256)]
    pub(super) processes: Vec<PutProcess>,
}

/// A process to register.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PutProcess {
    /// Name, any characters.
    #[schema(min_length = 1, max_length = 500)]
    name: String,
    /// Identifier; by default derived from project, app and name.
    #[schema(min_length = 1, max_length = 256)]
    uuid: Option<String>,
    /// JSON Schema of the input, up to 256 KiB. It must not refer to other documents, and must have at most 10,000
    /// subschemas, 200 patterns, and 50,000 checks of each value through `allOf` and similar keywords and `$ref`.
    #[schema(value_type = Object)]
    schema: Value,
    /// Start nodes, one token each; by default one token without a node.
    #[schema(max_items = 64)]
    start_nodes: Option<Vec<String>>,
    /// Roles that may start it: `starter`, `operator`, `admin`, or roles of the identity provider. By default all callers
    /// who may start processes.
    #[schema(max_items = 32)]
    roles: Option<Vec<String>>,
}

/// The stored form of a build, without its status.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Definition {
    pub(super) workspace_id: Option<String>,
    pub(super) parent_application_id: Option<String>,
    pub(super) root_application_id: Option<String>,
    pub(super) processes: Vec<Process>,
}

/// A registered process.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    pub(super) name: String,
    pub(super) uuid: String,
    #[schema(value_type = Object)]
    pub(super) schema: Value,
    pub(super) start_nodes: Vec<String>,
    /// Roles that may start it; empty for all callers who may start processes.
    pub(super) roles: Vec<String>,
}

impl Definition {
    /// Checks a build and adds defaults.
    ///
    /// # Errors
    /// 400 for an invalid field, 503 when the deadline passes before all schemas are compiled.
    pub(crate) fn of(
        put: PutBuild,
        project_id: &str,
        app_id: &str,
        deadline: Instant,
    ) -> Result<Self, ApiError> {
        check_text("status", &put.status, ID_BYTES)?;
        for (field, value) in [
            ("workspaceId", &put.workspace_id),
            ("parentApplicationId", &put.parent_application_id),
            ("rootApplicationId", &put.root_application_id),
        ] {
            if let Some(value) = value {
                check_text(field, value, ID_BYTES)?;
            }
        }
        if put.processes.len() > PROCESSES_MAX {
            return Err(too_long("processes", put.processes.len(), PROCESSES_MAX));
        }
        let mut names = HashSet::new();
        let mut processes = Vec::new();
        for (at, process) in put.processes.into_iter().enumerate() {
            if Instant::now() >= deadline {
                return Err(checks::too_slow(CHECK_TIME));
            }
            let uuid = || derived(&["process", project_id, app_id, &process.name]).to_string();
            let uuid = process.uuid.clone().unwrap_or_else(uuid);
            let process = completed(process, uuid, &format!("processes[{at}]"))?;
            if !names.insert(process.name.clone()) {
                let message = format!("`processes[{at}].name` is a duplicate: `{}`", process.name);
                return Err(invalid(message));
            }
            processes.push(process);
        }
        Ok(Self {
            workspace_id: put.workspace_id,
            parent_application_id: put.parent_application_id,
            root_application_id: put.root_application_id,
            processes,
        })
    }
}

fn completed(put: PutProcess, uuid: String, at: &str) -> Result<Process, ApiError> {
    check_text(&format!("{at}.name"), &put.name, PROCESS_NAME_BYTES)?;
    check_text(&format!("{at}.uuid"), &uuid, ID_BYTES)?;
    // A UUID in its canonical form; other texts are kept as they are.
    let uuid = Uuid::try_parse(&uuid).map_or(uuid, |uuid| uuid.to_string());
    let schema_bytes = put.schema.to_string().len();
    if schema_bytes > SCHEMA_BYTES {
        let message =
            format!("`{at}.schema` must have at most {SCHEMA_BYTES} bytes, got {schema_bytes}");
        return Err(invalid(message));
    }
    Schema::compile(&put.schema).map_err(|reason| invalid(format!("`{at}.schema`: {reason}")))?;
    let lists = [
        ("startNodes", &put.start_nodes, START_NODES_MAX),
        ("roles", &put.roles, ROLES_MAX),
    ];
    for (field, list, max) in lists {
        let list = list.as_deref().unwrap_or_default();
        if list.len() > max {
            return Err(too_long(&format!("{at}.{field}"), list.len(), max));
        }
        for (number, one) in list.iter().enumerate() {
            check_text(&format!("{at}.{field}[{number}]"), one, ID_BYTES)?;
        }
    }
    Ok(Process {
        name: put.name,
        uuid,
        schema: put.schema,
        start_nodes: put.start_nodes.unwrap_or_default(),
        roles: put.roles.unwrap_or_default(),
    })
}

fn too_long(field: &str, len: usize, max: usize) -> ApiError {
    invalid(format!(
        "`{field}` must have at most {max} items, got {len}"
    ))
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidBody, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Result<Definition, ApiError> {
        let put = serde_json::from_value(body).unwrap_or_else(|error| panic!("{error}"));
        let deadline = Instant::now() + CHECK_TIME;
        Definition::of(put, "ours", "shop", deadline)
    }

    fn with(process: Value) -> Result<Definition, ApiError> {
        read(json!({"status": "COMMITTED", "processes": [process]}))
    }

    #[test]
    fn the_default_identifier_is_derived_from_project_app_and_name() {
        let process = |name: &str| json!({"name": name, "schema": {}});
        let uuid = |name: &str| with(process(name)).unwrap().processes[0].uuid.clone();
        assert_eq!(uuid("Order"), uuid("Order"));
        assert_ne!(uuid("Order"), uuid("Order "));
        let given =
            json!({"name": "a", "schema": {}, "uuid": "6F9619FF-8B86-D011-B42D-00CF4FC964FF"});
        assert_eq!(
            with(given).unwrap().processes[0].uuid,
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
        );
        let own = json!({"name": "a", "schema": {}, "uuid": "P-7"});
        assert_eq!(with(own).unwrap().processes[0].uuid, "P-7");
    }

    #[test]
    fn an_invalid_field_is_a_400_that_names_it() {
        let good = json!({"name": "a", "schema": {}});
        for (body, named) in [
            (json!({"status": "", "processes": []}), "status"),
            (
                json!({"status": "s", "workspaceId": "", "processes": []}),
                "workspaceId",
            ),
            (
                json!({"status": "s", "processes": [good, good]}),
                "duplicate",
            ),
            (
                json!({"status": "s", "processes": vec![good.clone(); 257]}),
                "256",
            ),
            (
                json!({"status": "s", "processes": [{"name": "", "schema": {}}]}),
                "processes[0].name",
            ),
            (
                json!({"status": "s", "processes": [{"name": "x".repeat(501), "schema": {}}]}),
                "500",
            ),
            (
                json!({"status": "s", "processes": [{"name": "a", "schema": {"type": 5}}]}),
                "processes[0].schema",
            ),
            (
                json!({"status": "s", "processes": [{"name": "a", "schema": {"x": "y".repeat(300_000)}}]}),
                "bytes",
            ),
            (
                json!({"status": "s", "processes": [{"name": "a", "schema": {}, "startNodes": [""]}]}),
                "startNodes[0]",
            ),
            (
                json!({"status": "s", "processes": [{"name": "a", "schema": {}, "roles": vec!["r"; 33]}]}),
                "roles",
            ),
        ] {
            let error = read(body).unwrap_err();
            assert!(
                error.status == 400 && error.message.contains(named),
                "{named}: {error:?}"
            );
        }
        assert!(read(json!({"status": "s", "processes": []})).is_ok());
    }
}
