//! What a build says of its processes: as it is sent, checked, and kept.

use std::collections::HashSet;
use std::time::Instant;

use schemas::fault::Fault;
use schemas::limits::ID_BYTES;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::build::CHECK_TIME;
use super::key::derived;
use super::schema::Schema;
use super::{check_text, checks};

/// Processes of one build: the largest seen had some dozens (X1).
pub(super) const PROCESSES_MAX: usize = 256;
/// Bytes of a process's name: with `_start` behind it, it is the name of an event, which may have 512.
pub(super) const PROCESS_NAME_BYTES: usize = 500;
/// Bytes of one schema.
const SCHEMA_BYTES: usize = 256 << 10;
/// Nodes at which one process starts; each is a token of every instance.
const START_NODES_MAX: usize = 64;
/// Roles that one process asks for.
const ROLES_MAX: usize = 32;

/// A build to register. It takes the place of one of the same app and id.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PutBuild {
    /// Its status, such as `COMMITTED`.
    #[schema(min_length = 1, max_length = 256)]
    pub(super) status: String,
    /// The workspace it was made in.
    #[schema(min_length = 1, max_length = 256)]
    pub(super) workspace_id: Option<String>,
    /// The parent application.
    #[schema(min_length = 1, max_length = 256)]
    pub(super) parent_application_id: Option<String>,
    /// The root application.
    #[schema(min_length = 1, max_length = 256)]
    pub(super) root_application_id: Option<String>,
    /// The processes that can be started in it, each name once.
    #[schema(max_items = 256)]
    pub(super) processes: Vec<PutProcess>,
}

/// A process to register.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PutProcess {
    /// Its name: any characters.
    #[schema(min_length = 1, max_length = 500)]
    name: String,
    /// Its identifier; made of project, app and name, and always the same, unless given.
    #[schema(min_length = 1, max_length = 256)]
    uuid: Option<String>,
    /// JSON Schema of the input, up to 256 KiB. It may not refer to other documents, has at most 10,000 subschemas and
    /// 200 patterns, and asks for at most 50,000 checks of each value through `allOf` and its like and `$ref`.
    #[schema(value_type = Object)]
    schema: Value,
    /// The nodes it starts at: one token each. One token without a node unless given.
    #[schema(max_items = 64)]
    start_nodes: Option<Vec<String>>,
    /// Who may start it: `starter`, `operator`, `admin`, or roles of the identity provider. Whoever may start
    /// processes unless given.
    #[schema(max_items = 32)]
    roles: Option<Vec<String>>,
}

/// What is kept of a build beside its status.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Definition {
    pub(super) workspace_id: Option<String>,
    pub(super) parent_application_id: Option<String>,
    pub(super) root_application_id: Option<String>,
    pub(super) processes: Vec<Process>,
}

/// A process as it is registered.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    /// Its name.
    pub(super) name: String,
    /// Its identifier.
    pub(super) uuid: String,
    /// JSON Schema of the input.
    #[schema(value_type = Object)]
    pub(super) schema: Value,
    /// The nodes it starts at.
    pub(super) start_nodes: Vec<String>,
    /// Who may start it; empty for whoever may start processes.
    pub(super) roles: Vec<String>,
}

impl Definition {
    /// Checks a build and completes it.
    ///
    /// # Errors
    /// A 400 that names what is wrong, or a 503 when the deadline passes before the last schema is compiled.
    pub(crate) fn of(
        put: PutBuild,
        (project_id, app_id): (&str, &str),
        deadline: Instant,
    ) -> Result<Self, Fault> {
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
            let message = format!("`processes` has at most {PROCESSES_MAX}");
            return Err(invalid(message));
        }
        let mut names = HashSet::new();
        let mut processes = Vec::new();
        for (at, process) in put.processes.into_iter().enumerate() {
            if Instant::now() >= deadline {
                return Err(checks::too_slow(CHECK_TIME));
            }
            let process = completed(process, &format!("processes[{at}]"), (project_id, app_id))?;
            if !names.insert(process.name.clone()) {
                let message = format!("processes[{at}].name: `{}` is there twice", process.name);
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

fn completed(put: PutProcess, at: &str, of: (&str, &str)) -> Result<Process, Fault> {
    check_text(&format!("{at}.name"), &put.name, PROCESS_NAME_BYTES)?;
    let uuid = match put.uuid {
        None => derived(&["process", of.0, of.1, &put.name]).to_string(),
        Some(uuid) => {
            check_text(&format!("{at}.uuid"), &uuid, ID_BYTES)?;
            // The usual spelling, where it is one.
            Uuid::try_parse(&uuid).map_or(uuid, |uuid| uuid.to_string())
        }
    };
    if put.schema.to_string().len() > SCHEMA_BYTES {
        let message = format!("{at}.schema has at most {SCHEMA_BYTES} bytes");
        return Err(invalid(message));
    }
    Schema::compile(&put.schema).map_err(|why| invalid(format!("{at}.schema: {why}")))?;
    let lists = [
        ("startNodes", &put.start_nodes, START_NODES_MAX),
        ("roles", &put.roles, ROLES_MAX),
    ];
    for (field, list, most) in lists {
        let list = list.as_deref().unwrap_or_default();
        if list.len() > most {
            return Err(invalid(format!("{at}.{field} has at most {most}")));
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

fn invalid(message: String) -> Fault {
    Fault::bad_request("invalid_body", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Result<Definition, Fault> {
        let put = serde_json::from_value(body).unwrap_or_else(|error| panic!("{error}"));
        let deadline = Instant::now() + CHECK_TIME;
        Definition::of(put, ("ours", "shop"), deadline)
    }

    fn with(process: Value) -> Result<Definition, Fault> {
        read(json!({"status": "COMMITTED", "processes": [process]}))
    }

    #[test]
    fn an_identifier_is_made_once_and_for_all_of_project_app_and_name() {
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
    fn what_does_not_fit_is_a_400_that_names_the_place() {
        let good = json!({"name": "a", "schema": {}});
        for (body, named) in [
            (json!({"status": "", "processes": []}), "status"),
            (
                json!({"status": "s", "workspaceId": "", "processes": []}),
                "workspaceId",
            ),
            (json!({"status": "s", "processes": [good, good]}), "twice"),
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
            let fault = read(body).unwrap_err();
            assert!(
                fault.status == 400 && fault.message.contains(named),
                "{named}: {fault:?}"
            );
        }
        assert!(read(json!({"status": "s", "processes": []})).is_ok());
    }
}
