//! `/v1` and `/api/app`: operations of lunary's and llmonitor's clients beside reporting.
//!
//! Their Python client (1.4.41) reports a run under a hash of its id and the key, and scores it under the id itself
//! (`utils.py` and `score` of the package). So each id here stands for both.

pub(crate) mod datasets;
pub(crate) mod feedback;
pub(crate) mod greeting;
pub(crate) mod score;
pub(crate) mod templates;

use api::ErrorResponse;
use schemas::api_error::ApiError;
use schemas::credential::Credential;
use sha2::{Digest, Sha256};
use store::Store;
use store::reads::filter_sql::Projects;

use crate::access::Caller;

/// A run or a message.
pub(crate) struct Subject {
    pub(crate) run_id: String,
    pub(crate) project: String,
    pub(crate) app: String,
}

/// The runs and messages that an id of a client can stand for.
enum Subjects {
    /// The id, or its hash, of a stored run or message.
    Stored(Subject),
    /// Nothing is stored yet: both ids under which a client with this API key may report it.
    Possible([Subject; 2]),
}

/// # Errors
/// 404 without an API key if nothing is stored: the app is unknown.
async fn subjects(
    store: &Store,
    caller: &Caller,
    projects: &Projects,
    run_id: String,
) -> Result<Subjects, ErrorResponse> {
    if let Some(subject) = find(store, projects, &run_id).await? {
        return Ok(Subjects::Stored(subject));
    }
    let (
        Some(key),
        Credential::Key {
            project,
            default_app,
            ..
        },
    ) = (caller.key(), caller.credential())
    else {
        return Err(not_found().into());
    };
    let hashed = hashed(&run_id, key);
    if let Some(subject) = find(store, projects, &hashed).await? {
        return Ok(Subjects::Stored(subject));
    }
    let subject = |run_id| Subject {
        run_id,
        project: project.as_str().to_owned(),
        app: default_app.as_str().to_owned(),
    };
    Ok(Subjects::Possible([run_id, hashed].map(subject)))
}

async fn find(
    store: &Store,
    projects: &Projects,
    id: &str,
) -> Result<Option<Subject>, ErrorResponse> {
    let mut runs = store.runs_by_id(projects, None, id).await?.into_iter();
    let found = match runs.next() {
        Some(run) => Some((run.project_id, run.app_id)),
        None => store.app_of_message(projects, None, id).await?,
    };
    Ok(found.map(|(project, app)| Subject {
        run_id: id.to_owned(),
        project,
        app,
    }))
}

fn not_found() -> ApiError {
    ApiError::not_found(
        "run or message not found; a new one can be read about a second after its report",
    )
}

/// The id under which lunary's Python client reports: the first 128 bits of SHA-256 over id and key, as a UUID.
fn hashed(run_id: &str, key: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(run_id);
    hash.update(key);
    let hex: String = hash
        .finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_equals_that_of_the_python_client() {
        // Made with `create_uuid_from_string` of lunary 1.4.41.
        let id = "3f2a1b0c-0000-4000-8000-000000000001";
        let key = "sp_key_000000000000000000000000000000000000000000000001";
        assert_eq!(hashed(id, key), "be2e2c02-2206-8f42-41cb-60f4dec5f72a");
    }
}
