//! HTTP in, log out: takes batches of events at `POST /api/report`, and what OpenTelemetry exports at `/v1/traces` and
//! `/v1/logs`, and keeps them in the event log.
//!
//! The path of a batch: the API key says whose it is, before the body is read ([`Authenticator`]); the body is read
//! within its bounds and decompressed; every event is checked once and by itself; the good ones are appended to the
//! log, a whole body as it came where all its events are good and of one app; the answer follows when all of it is
//! durable.
//!
//! # Promises
//!
//! - A 200 is given only after the log has acknowledged every accepted event as durable (L1).
//! - Events of one project and app are appended under one key (L2).
//! - The project comes from the credential, never from the payload (T1).
//! - Bodies have a bound each and together, a time, and a rate; what is over it is answered, never dropped (X1).
//! - Neither a secret nor what an event holds is written to the program's log (X2).
//!
//! # What it deliberately does not do
//!
//! It keeps no state between requests, folds nothing, knows no table and no consumer: what becomes of the events
//! is not its concern once they are in the log. It does not look for duplicates: the events' identities make them
//! harmless later.
//!
//! Start reading at `intake.rs`, then `plan.rs`, which is the pure heart of it; `otlp.rs` is the way in for traces.

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
mod metrics;
mod named_keys;
mod otlp;
mod plan;
mod rate;
mod report;
mod state;

use std::time::Duration;

use axum::Router;
use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method};
use axum::routing::post;
use tower_http::cors::{AllowOrigin, CorsLayer};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use auth::{AuthUnavailable, Authenticator};
pub use compressed::Compressed;
pub use config::IngestConfig;
pub use error::IngestError;
pub use in_flight::{InFlight, Reservation};
pub use plan::Rejection;
pub use report::{Report, ReportBody};
pub use state::{Counts, IngestState};

/// How long a browser may remember what a preflight allowed: the longest that all of them honour.
const PREFLIGHT_AGE: Duration = Duration::from_secs(2 * 60 * 60);

/// Paths on which events are sent.
const ROUTES: [&str; 6] = [
    "/api/report",
    "/v1/runs/ingest",
    "/v1/traces",
    "/v1/logs",
    otlp::grpc::TRACES,
    otlp::grpc::LOGS,
];

/// The routes of this tier. Paths are as they stand: trailing and doubled slashes are settled before.
pub fn router(state: IngestState) -> Router {
    let cors = cors(&state.0.config.allowed_origins);
    let (router, _) = routes().split_for_parts();
    // Not HTTP as people write it, so not in the document.
    let router = router
        .route(otlp::grpc::TRACES, post(otlp::grpc::traces))
        .route(otlp::grpc::LOGS, post(otlp::grpc::logs));
    let router = match cors {
        Some(cors) => router.route_layer(cors),
        None => router,
    };
    router.with_state(state)
}

/// Whether a path is one of this tier's, on which events are sent.
pub fn is_route(path: &str) -> bool {
    ROUTES.contains(&path)
}

/// What this tier adds to the OpenAPI document.
pub fn openapi() -> OpenApi {
    routes().into_openapi()
}

fn routes() -> OpenApiRouter<IngestState> {
    let mut router = OpenApiRouter::new();
    for (schemas, paths, methods) in [
        routes!(report::report),
        routes!(report::runs),
        routes!(otlp::traces),
        routes!(otlp::logs),
    ] {
        let methods = methods.fallback(report::method_not_allowed);
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
