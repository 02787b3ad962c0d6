//! Rows out over HTTP: the run list with its filters, one run, trees, and the administration of who may do what.
//!
//! The path of a request: the credential says which projects it reaches (`access.rs`); the query string becomes a
//! [`schemas::filter::RunQuery`] or a 400 that says what is wrong; the store answers in bounded reads; the rows go
//! out in the shapes of [`schemas::run`].
//!
//! # Promises
//!
//! - The project of every read comes from the credential (T1).
//! - Every read is bounded in rows, memory and time; when the caller goes away, the handler's future is dropped and
//!   with it the query (Q1).
//! - 4xx say what is wrong and where, 5xx nothing of the inside; what is away or busy is a 503 with `Retry-After`.
//!
//! # What it deliberately does not do
//!
//! It keeps no state between requests and writes nothing but credentials and prices: what people do with a run is handed
//! to a [`Reporter`] as the event a client would report, and dead letters are read and sent again by whoever keeps
//! them ([`DeadLetters`]). Trailing and doubled slashes, compression
//! and the answers to unknown paths and methods are the business of whoever mounts the router.
//!
//! Start reading at `runs.rs`.

mod access;
mod admin;
mod compare;
mod dataset;
mod detail;
pub mod docs;
mod error;
mod export;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod greeting;
mod judge;
mod letters;
mod live;
mod lunary;
pub mod page;
mod params;
pub mod platform;
mod reporter;
mod runs;
mod session;
mod state;
mod threads;
mod unpriced;
mod usage;

use axum::Router;
use axum::middleware::from_fn_with_state;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use access::{ClaimRules, Identity, IdentityConfig, SigningAlgorithm};
pub use error::QueryError;
pub use letters::{
    DeadLetters, LETTERS_LISTED_MAX, LETTERS_NAMED_MAX, Letter, LetterPage, LetterPlace, Redrive,
    Redriven,
};
pub use params::body_limit;
pub use reporter::Reporter;
pub use session::SessionRules;
pub use state::QueryState;

/// The routes of this tier. Paths are as they stand: trailing and doubled slashes are settled before.
pub fn router(state: QueryState) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .route_layer(from_fn_with_state(state.clone(), state::measured))
        .with_state(state)
}

/// What this tier adds to the OpenAPI document.
pub fn openapi() -> OpenApi {
    routes().into_openapi()
}

fn routes() -> OpenApiRouter<QueryState> {
    OpenApiRouter::new()
        .routes(routes!(runs::list))
        .routes(routes!(runs::one))
        .routes(routes!(export::runs))
        .routes(routes!(judge::feedback))
        .routes(routes!(judge::save))
        .routes(routes!(judge::unsave))
        .routes(routes!(runs::tree))
        .routes(routes!(compare::compare))
        .routes(routes!(live::live))
        .routes(routes!(threads::list))
        .routes(routes!(threads::one))
        .routes(routes!(usage::facets))
        .routes(routes!(usage::costs))
        .routes(routes!(usage::models))
        .routes(routes!(usage::agents))
        .routes(routes!(usage::users))
        .routes(routes!(usage::apps))
        .routes(routes!(usage::errors))
        .routes(routes!(dataset::list))
        .routes(routes!(dataset::export))
        .routes(routes!(dataset::items::items))
        .routes(routes!(greeting::app))
        .routes(routes!(lunary::score::score))
        .routes(routes!(lunary::feedback::newest_feedback))
        .routes(routes!(lunary::templates::one))
        .routes(routes!(lunary::templates::all))
        .routes(routes!(session::who, session::sign_in, session::sign_out))
        .routes(routes!(admin::projects::list, admin::projects::put))
        .routes(routes!(admin::keys::list, admin::keys::make))
        .routes(routes!(admin::keys::revoke))
        .routes(routes!(admin::tokens::list, admin::tokens::make))
        .routes(routes!(admin::tokens::revoke))
        .routes(routes!(admin::prices::list))
        .routes(routes!(admin::prices::put, admin::prices::delete))
        .routes(routes!(unpriced::list))
        .routes(routes!(admin::jobs::recalculate))
        .routes(routes!(admin::jobs::retention))
        .routes(routes!(admin::jobs::rebuild))
        .routes(routes!(admin::jobs::list))
        .routes(routes!(admin::jobs::one))
        .routes(routes!(admin::jobs::cancel))
        .routes(routes!(admin::dead_letters::list))
        .routes(routes!(admin::dead_letters::redrive))
        .routes(routes!(platform::pipeline::pipeline))
        .routes(routes!(platform::cache::list))
        .routes({
            let (schemas, paths, methods) = routes!(platform::cache::clear);
            (
                schemas,
                paths,
                methods.fallback(platform::cache::other_method),
            )
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
