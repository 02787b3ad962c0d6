//! `GET /api/app/{app}`: what llmonitor's LangChain handler asks before it reports, to see that somebody is there.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

/// Somebody is there.
#[derive(Serialize, ToSchema)]
pub(crate) struct Greeting {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// Ask whether reports are taken
///
/// For llmonitor's LangChain handler, which asks without a key and warns at anything but a 2xx. The answer is the same
/// for every app, whether there is one of that name or not: it tells nobody which apps exist.
#[utoipa::path(
    get,
    path = "/api/app/{app}",
    operation_id = "greet_app",
    tag = "older clients",
    params(("app" = String, Path, description = "Any name")),
    responses((status = 200, description = "Somebody is there", body = Greeting)),
)]
pub(crate) async fn app() -> Json<Greeting> {
    Json(Greeting { status: "ok" })
}
