//! HTTP in, log out: takes batches of events at `POST /api/report`, what OpenTelemetry exports at `/v1/traces` and
//! `/v1/logs`, and what Langfuse's SDKs send below `/api/public`, and keeps them in the event log.
//!
//! The path of a batch: the API key determines the project before the body is read ([`Authenticator`]); the body is
//! read within its bounds and decompressed; every event is checked once and on its own; the accepted ones are appended
//! to the log, a whole body unchanged where all its events are valid and of one app; the response follows when all of
//! it is durable.
//!
//! # Promises
//!
//! - A 200 is sent only after the log has acknowledged every accepted event as durable (L1).
//! - Events of one project and app are appended under one key (L2).
//! - The project comes from the credential, never from the payload (T1).
//! - Bodies are bounded each and together, in time and in rate; what exceeds a bound gets an error and is never dropped
//!   (X1).
//! - Neither a secret nor the content of an event is written to the program's log (X2).
//!
//! # What it deliberately does not do
//!
//! It folds nothing, and knows no table and no consumer; between requests it keeps only hints, such as the apps of runs. It does not look for duplicates:
//! the events' identities make them harmless later.
//!
//! Start reading at `intake.rs`, then `plan.rs`, which is the pure core; `otlp.rs` is the entry point for traces, `langfuse.rs`
//! for Langfuse's SDKs.

mod append;
mod auth;
mod body;
mod compressed;
mod config;
mod days;
mod error;
mod in_flight;
mod inside;
mod intake;
mod langfuse;
mod metrics;
mod named_keys;
mod otlp;
mod outcome;
mod owner;
mod plan;
mod rate;
mod report;
mod run_apps;
mod state;

use std::time::Duration;

use axum::Router;
use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method};
use axum::routing::{any, post};
use schemas::api_error::ApiError;
use tower_http::cors::{AllowOrigin, CorsLayer};
use utoipa::openapi::OpenApi;
use utoipa::{PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use auth::{AuthUnavailable, Authenticator};
pub use compressed::Compressed;
pub use config::{ClientCost, IngestConfig};
pub use error::IngestError;
pub use in_flight::{InFlight, Reservation};
pub use outcome::{Rejection, Report};
pub use report::ReportBody;
pub use run_apps::{RunApp, RunLookup};
pub use state::{Counts, IngestState};

/// How long a browser may cache a preflight response: the longest that all browsers honor.
const PREFLIGHT_AGE: Duration = Duration::from_secs(2 * 60 * 60);

/// Paths on which events are sent.
const ROUTES: [&str; 11] = [
    "/api/report",
    "/v1/runs/ingest",
    "/v1/traces",
    "/v1/logs",
    "/api/public/otel/v1/traces",
    "/api/public/ingestion",
    "/api/public/scores",
    "/api/public/projects",
    "/api/public/health",
    otlp::grpc::TRACES,
    otlp::grpc::LOGS,
];

/// Trailing and doubled slashes are removed before these routes match.
pub fn router(state: IngestState) -> Router {
    let cors = cors(&state.0.config.allowed_origins);
    let (router, _) = routes().split_for_parts();
    // gRPC is not part of the OpenAPI document.
    let router = router
        .route(otlp::grpc::TRACES, post(otlp::grpc::traces))
        .route(otlp::grpc::LOGS, post(otlp::grpc::logs));
    // Langfuse's SDKs show the message of a 404; the paths of what is not kept are not part of the document either.
    let router = router.route(langfuse::OTHERS, any(langfuse::not_kept));
    let router = match cors {
        Some(cors) => router.route_layer(cors),
        None => router,
    };
    router.with_state(state)
}

/// Whether events are sent to this path.
pub fn is_route(path: &str) -> bool {
    ROUTES.contains(&path)
}

/// What this tier adds to the OpenAPI document.
pub fn openapi() -> OpenApi {
    let mut document = routes().into_openapi();
    // The error responses refer to these schemas without adding them.
    let components = document.components.get_or_insert_default();
    for (name, schema) in [
        (ApiError::name(), ApiError::schema()),
        (
            otlp::answer::StatusBody::name(),
            otlp::answer::StatusBody::schema(),
        ),
    ] {
        components.schemas.insert(name.into_owned(), schema);
    }
    document
}

fn routes() -> OpenApiRouter<IngestState> {
    let mut router = OpenApiRouter::new();
    for (schemas, paths, methods) in [
        routes!(report::report),
        routes!(report::runs),
        routes!(otlp::traces),
        routes!(otlp::logs),
        routes!(otlp::langfuse_traces),
    ] {
        let methods = methods.fallback(report::method_not_allowed);
        router = router.routes((schemas, paths, methods));
    }
    for (schemas, paths, methods) in [
        routes!(langfuse::ingestion),
        routes!(langfuse::scores),
        routes!(langfuse::projects),
        routes!(langfuse::health),
    ] {
        // What Langfuse serves there by another method.
        let methods = methods.fallback(langfuse::other_method);
        router = router.routes((schemas, paths, methods));
    }
    router
}

fn cors(origins: &[String]) -> Option<CorsLayer> {
    let allowed = if origins.is_empty() {
        return None;
    } else if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(
            origins
                .iter()
                .filter_map(|origin| HeaderValue::from_str(origin).ok()),
        )
    };
    Some(
        CorsLayer::new()
            .allow_origin(allowed)
            .allow_methods([Method::POST])
            .allow_headers([AUTHORIZATION, CONTENT_TYPE, CONTENT_ENCODING])
            .expose_headers([RETRY_AFTER])
            .max_age(PREFLIGHT_AGE),
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_path_of_the_document_is_known_as_a_route() {
        let document = super::openapi();
        assert_eq!(document.paths.paths.len() + 2, super::ROUTES.len());
        for path in document.paths.paths.keys() {
            assert!(super::is_route(path), "{path}");
        }
    }
}
