//! What lunary clients ask beside reporting: scores, feedback, and templates, which Spindle has none of.
//!
//! Their Python client (1.4.41) reports a run under a hash of its id and the key, and scores it under the id itself
//! (`utils.py` and `score` of the package); what is asked about a run here is asked about both.

pub(crate) mod feedback;
pub(crate) mod score;
pub(crate) mod templates;

use schemas::credential::Credential;
use schemas::fault::Fault;
use sha2::{Digest, Sha256};
use store::filter_sql::Projects;

use crate::access::Caller;
use crate::error::Refusal;
use crate::state::QueryState;

/// A run or a message: its id, project and app.
pub(crate) struct Subject {
    pub(crate) run_id: String,
    pub(crate) project: String,
    pub(crate) app: String,
}

/// What a client may mean by an id: the first one that is a run or a message; else, for a key, everything it may
/// become, in the key's own app. Never empty.
///
/// # Errors
/// 404 where nothing is known and no key says where it would be.
async fn subjects(
    state: &QueryState,
    (caller, projects): (&Caller, &Projects),
    run_id: String,
) -> Result<(Vec<Subject>, bool), Refusal> {
    let mut ids = vec![run_id];
    if let Some(key) = caller.key() {
        ids.push(hashed(&ids[0], key));
    }
    for id in &ids {
        if let Some((project, app)) = find(state, projects, id).await? {
            let run_id = id.clone();
            let subject = Subject {
                run_id,
                project,
                app,
            };
            return Ok((vec![subject], true));
        }
    }
    let Credential::Key {
        project,
        default_app,
        ..
    } = caller.credential()
    else {
        return Err(nothing_there().into());
    };
    let subject = |run_id| Subject {
        run_id,
        project: project.as_str().to_owned(),
        app: default_app.as_str().to_owned(),
    };
    Ok((ids.into_iter().map(subject).collect(), false))
}

async fn find(
    state: &QueryState,
    projects: &Projects,
    id: &str,
) -> Result<Option<(String, String)>, Refusal> {
    let mut runs = state
        .store()
        .runs_by_id(projects, None, id)
        .await?
        .into_iter();
    match runs.next() {
        Some(run) => Ok(Some((run.project_id, run.app_id))),
        None => Ok(state.store().app_of_message(projects, None, id).await?),
    }
}

fn nothing_there() -> Fault {
    let message = "there is no such run or message, or it is not yours to see; one that was just reported is there a moment later";
    Fault::not_found(message)
}

/// The id under which lunary's Python client reports: the first 128 bits of SHA-256 over id and key, written as a UUID.
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
    fn the_hash_is_that_of_the_python_client() {
        // Made with `create_uuid_from_string` of lunary 1.4.41.
        let id = "3f2a1b0c-0000-4000-8000-000000000001";
        let key = "sp_key_000000000000000000000000000000000000000000000001";
        assert_eq!(hashed(id, key), "be2e2c02-2206-8f42-41cb-60f4dec5f72a");
    }
}
