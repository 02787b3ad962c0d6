//! `GET /api/app/{app}`: the availability check of llmonitor's LangChain handler.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::params::{any_text, path_params};

path_params! {
    pub(crate) struct AppPath {
        /// Any name
        "app" _app: any_text(),
    }
}

/// The server answers.
#[derive(Serialize, ToSchema)]
pub(crate) struct Greeting {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// Check that the server answers
///
/// For llmonitor's LangChain handler, which sends no key and warns at any status but 2xx. The answer is the same for
/// every app name, so that it does not reveal which apps exist.
#[utoipa::path(
    get,
    path = "/api/app/{app}",
    operation_id = "greet_app",
    tag = "older clients",
    params(AppPath),
    responses((status = 200, description = "The server answers", body = Greeting)),
)]
pub(crate) async fn app(_: AppPath) -> Json<Greeting> {
    Json(Greeting { status: "ok" })
}
