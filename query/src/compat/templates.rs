//! The template operations of lunary's clients. Spindle has no templates; the 404 reaches the user through the client.

use api::{ErrorResponse, errors};
use schemas::api_error::ApiError;

use crate::access::Caller;
use crate::params::{Pairs, ProjectParams, Text, query_params};

query_params! {
    #[allow(dead_code, reason = "`slug` is accepted and ignored")]
    pub(crate) struct TemplateParams {
        /// Name of the template
        slug: Text,
        /// One of the projects that the credential reaches
        project_id: Text,
    }
}

/// Get a template (lunary)
///
/// Always 404: Spindle has no prompt templates.
#[utoipa::path(
    get,
    path = "/v1/template_versions/latest",
    operation_id = "get_template",
    tag = "older clients",
    params(TemplateParams),
    responses(
        errors::AnyOf<(errors::Checked, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn one(caller: Caller, pairs: Pairs) -> Result<(), ErrorResponse> {
    let TemplateParams { project_id, .. } = TemplateParams::read(&pairs)?;
    caller.readable(project_id.as_deref())?;
    Err(no_templates().into())
}

/// List templates (lunary)
///
/// Always 404: Spindle has no prompt templates.
#[utoipa::path(
    get,
    path = "/v1/templates/latest",
    operation_id = "list_templates",
    tag = "older clients",
    params(ProjectParams),
    responses(
        errors::AnyOf<(errors::Checked, errors::NotFound)>,
    ),
    security(("bearer" = []))
)]
pub(crate) async fn all(caller: Caller, pairs: Pairs) -> Result<(), ErrorResponse> {
    let ProjectParams { project_id } = ProjectParams::read(&pairs)?;
    caller.readable(project_id.as_deref())?;
    Err(no_templates().into())
}

fn no_templates() -> ApiError {
    ApiError::not_found("Spindle has no prompt templates; store them in the program")
}
