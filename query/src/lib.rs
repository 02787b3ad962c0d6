//! Reads and administration over HTTP.
//!
//! The path of a request: `access` authenticates the credential and determines the projects that it reaches; `params`
//! parses the query string; the store answers with bounded reads; `views` converts rows to the shapes of
//! [`schemas::run`].
//!
//! # Promises
//!
//! - The project of every read comes from the credential (T1).
//! - Every read is bounded in rows, memory and time; when the client disconnects, the handler's future is dropped and
//!   with it the query (Q1).
//! - 4xx name the parameter or field and the rule, 5xx reveal no internals; unavailable and busy systems are a 503 with
//!   `Retry-After`.
//!
//! # What it deliberately does not do
//!
//! It has no access to the log: feedback, saves and process starts are reported to a [`Reporter`], and dead letters are
//! read and redriven by [`DeadLetters`]; the binary implements both. The binary also handles trailing and doubled
//! slashes, compression, and unknown paths and methods.
//!
//! Start reading at `runs/list.rs`.

mod access;
mod admin;
mod analytics;
mod clock;
mod compat;
mod datasets;
mod error;
mod export;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod metrics;
pub mod page;
mod params;
pub mod platform;
mod ports;
mod runs;
mod sessions;
mod state;
mod threads;
mod views;

use axum::Router;
use axum::middleware::from_fn_with_state;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use access::{ClaimRules, Identity, IdentityConfig, SessionRules, SigningAlgorithm};
pub use admin::cache::in_shape_of_clearing;
pub use error::QueryError;
pub use params::body_limit;
pub use ports::dead_letters::{
    DEAD_LETTERS_LISTED_MAX, DEAD_LETTERS_NAMED_MAX, DeadLetterId, DeadLetterPage,
    DeadLetterRecord, DeadLetters, Redrive, Redriven,
};
pub use ports::infrastructure::{DiskReport, Infrastructure, LogReport};
pub use ports::processes::{CORE_CACHE, Cleared, ClearedHere, Processes};
pub use ports::reporter::Reporter;
pub use state::QueryState;

/// The routes of this tier.
pub fn router(state: QueryState) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .route_layer(from_fn_with_state(state.metrics.clone(), metrics::measure))
        .with_state(state)
}

/// The OpenAPI document of this tier.
pub fn openapi() -> OpenApi {
    routes().into_openapi()
}

fn routes() -> OpenApiRouter<QueryState> {
    OpenApiRouter::new()
        .routes(routes!(runs::list::list))
        .routes(routes!(runs::detail::one))
        .routes(routes!(runs::export::runs))
        .routes(routes!(runs::feedback::feedback))
        .routes(routes!(runs::save::save))
        .routes(routes!(runs::save::unsave))
        .routes(routes!(runs::tree::tree))
        .routes(routes!(runs::calls::calls))
        .routes(routes!(runs::compare::compare))
        .routes(routes!(runs::live::live))
        .routes(routes!(threads::list))
        .routes(routes!(threads::one))
        .routes(routes!(runs::facets::facets))
        .routes(routes!(analytics::usage::costs))
        .routes(routes!(analytics::usage::models))
        .routes(routes!(analytics::usage::agents))
        .routes(routes!(analytics::usage::users))
        .routes(routes!(analytics::usage::apps))
        .routes(routes!(analytics::usage::errors))
        .routes(routes!(datasets::list))
        .routes(routes!(datasets::export))
        .routes(routes!(compat::datasets::items))
        .routes(routes!(compat::greeting::app))
        .routes(routes!(compat::score::score))
        .routes(routes!(compat::feedback::newest_feedback))
        .routes(routes!(compat::templates::one))
        .routes(routes!(compat::templates::all))
        .routes(routes!(
            sessions::who,
            sessions::sign_in,
            sessions::sign_out
        ))
        .routes(routes!(admin::projects::list, admin::projects::put))
        .routes(routes!(admin::keys::list, admin::keys::make))
        .routes(routes!(admin::keys::revoke))
        .routes(routes!(admin::tokens::list, admin::tokens::make))
        .routes(routes!(admin::tokens::revoke))
        .routes(routes!(admin::prices::list))
        .routes(routes!(admin::prices::put, admin::prices::delete))
        .routes(routes!(analytics::unpriced::list))
        .routes(routes!(admin::jobs::recalculate))
        .routes(routes!(admin::jobs::retention))
        .routes(routes!(admin::jobs::rebuild))
        .routes(routes!(admin::jobs::list))
        .routes(routes!(admin::jobs::one))
        .routes(routes!(admin::jobs::cancel))
        .routes(routes!(admin::dead_letters::list))
        .routes(routes!(admin::dead_letters::redrive))
        .routes(routes!(admin::pipeline::pipeline))
        .routes(routes!(admin::cache::list))
        .routes({
            let (schemas, paths, methods) = routes!(admin::cache::clear);
            (schemas, paths, methods.fallback(admin::cache::other_method))
        })
        .routes(routes!(
            platform::process::build::put,
            platform::process::build::one
        ))
        .routes(routes!(platform::process::build::list))
        .routes(routes!(
            platform::process::start::start,
            platform::process::start::preflight
        ))
        .routes(routes!(platform::process::instance::one))
        .routes(routes!(platform::process::instance::list))
        .routes(routes!(platform::scan::discover))
        .routes(routes!(platform::scan::list))
        .routes(routes!(platform::scan::one))
}
