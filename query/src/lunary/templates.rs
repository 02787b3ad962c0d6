//! The template paths of lunary's clients: Spindle keeps no templates, and says so in a way they pass on.

use axum::extract::State;
use schemas::fault::Fault;

use crate::access::Caller;
use crate::error::{FaultBody, Refusal};
use crate::params::Pairs;
use crate::state::QueryState;

/// Ask for a template, for lunary
///
/// Spindle keeps no templates: whoever may read is told so with a 404, which these clients turn into their own error.
#[utoipa::path(
    get,
    path = "/v1/template_versions/latest",
    operation_id = "get_template",
    tag = "older clients",
    params(
        ("slug" = Option<String>, Query, description = "Name of the template", min_length = 1, max_length = 256),
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 404, description = "There are no templates", body = FaultBody),
        (status = 503, description = "Credentials cannot be checked now", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(
    State(_): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<(), Refusal> {
    let [_, project_id] = pairs.only(["slug", "project_id"])?;
    caller.readable(project_id)?;
    Err(no_templates().into())
}

/// Ask for all templates, for lunary
///
/// Spindle keeps no templates: whoever may read is told so with a 404, which these clients turn into their own error.
#[utoipa::path(
    get,
    path = "/v1/templates/latest",
    operation_id = "list_templates",
    tag = "older clients",
    params(
        ("project_id" = Option<String>, Query, description = "One of the projects the credential reaches", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 400, description = "An unknown parameter or a bad value", body = FaultBody),
        (status = 401, description = "No credential, or one that is not known", body = FaultBody),
        (status = 403, description = "The credential may not read, or not this project", body = FaultBody),
        (status = 404, description = "There are no templates", body = FaultBody),
        (status = 503, description = "Credentials cannot be checked now", body = FaultBody,
            headers(("Retry-After" = u32, description = "Seconds"))),
    ),
    security(("bearer" = []))
)]
pub(crate) async fn all(
    State(_): State<QueryState>,
    caller: Caller,
    pairs: Pairs,
) -> Result<(), Refusal> {
    let [project_id] = pairs.only(["project_id"])?;
    caller.readable(project_id)?;
    Err(no_templates().into())
}

fn no_templates() -> Fault {
    let message =
        "Spindle keeps no prompt templates; keep them in your program or where you had them before";
    Fault::not_found(message)
}
