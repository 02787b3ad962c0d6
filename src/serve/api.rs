//! The router over all tiers, and what belongs to none of them: health, metrics, the OpenAPI document, errors for
//! unknown paths and methods.

use std::sync::Arc;

use api::ErrorResponse;
use axum::Json;
use axum::Router;
use axum::body::HttpBody as Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ingest::IngestState;
use query::in_shape_of_clearing;
use query::platform::headers;
use query::{QueryState, SessionRules};
use schemas::api_error::{ApiError, ErrorCode};
use store::Store;
use store::credentials::Credentials;
use store::platform::builds::Builds;
use store::prices::Prices;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::decompression::RequestDecompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use super::deployment::Deployment;
use super::health::{Health, Part};
use super::infrastructure::Beside;
use super::reports::Reports;
use super::scrape::Scrape;
use super::topics::Topics;
use super::{Running, bodies, document};
use crate::caches::CacheName;
use crate::dead_letters::Letters;

/// Smaller responses are not compressed: that costs more than it saves.
const COMPRESS_ABOVE_BYTES: u64 = 1024;

/// The router before the process is ready: health and metrics; all other routes respond that the process is starting.
pub(crate) fn early(running: &Running) -> Router {
    let early = Router::new()
        .merge(own_routes(running))
        .fallback(starting)
        .method_not_allowed_fallback(method_not_allowed);
    for_pages(running, early)
}

/// The routes of the role's tiers, and the binary's own.
pub(crate) fn router(running: &Running, parts: &RoutedParts<'_>) -> anyhow::Result<Router> {
    let role = running.role;
    let mut all = Router::new();
    if let Some(ingest) = parts.ingest.filter(|_| role.ingests()) {
        // No layer around a report: ingest authenticates, decompresses and counts on its own.
        all = all.merge(ingest::router(ingest.clone()));
    }
    if role.queries() {
        all = all.merge(reading(running, parts)?);
    }
    let all = all.merge(own_routes(running));
    let all = match role.queries() {
        true => all.fallback(page_not_found),
        false => all.fallback(not_found),
    };
    let all = all.method_not_allowed_fallback(method_not_allowed);
    Ok(for_pages(running, all))
}

/// Adds the browsers' security headers to every response, for roles with the UI.
fn for_pages(running: &Running, router: Router) -> Router {
    if !running.role.queries() {
        return router;
    }
    let origins = running.config.allowed_origins.clone();
    // Browsers must not interpret reported content as another type.
    let router = router.layer(SetResponseHeaderLayer::if_not_present(
        X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ));
    router.layer(middleware::from_fn_with_state(
        origins,
        headers::with_headers,
    ))
}

/// Dependencies of the routers.
pub(crate) struct RoutedParts<'a> {
    /// Takes events, from clients or from users; absent in some roles.
    pub(crate) ingest: Option<&'a IngestState>,
    pub(crate) topics: &'a Topics,
    pub(crate) store: &'a Store,
    pub(crate) credentials: &'a Credentials,
    pub(crate) prices: &'a Prices,
    /// The other processes, and the caches.
    pub(crate) deployment: &'a Deployment,
    pub(crate) builds: &'a Builds,
}

/// Compresses responses on request.
fn compression() -> CompressionLayer<WhereAsked<impl Predicate>> {
    CompressionLayer::new().compress_when(WhereAsked(
        SizeAbove::new(COMPRESS_ABOVE_BYTES)
            .and(NotForContentType::SSE)
            // Compressed already.
            .and(NotForContentType::const_new(
                "application/vnd.apache.parquet",
            )),
    ))
}

/// The query tier's routes, with their layers.
fn reading(running: &Running, parts: &RoutedParts<'_>) -> anyhow::Result<Router> {
    let mut query = QueryState::new(
        parts.store.clone(),
        parts.credentials.clone(),
        parts.prices.clone(),
        &running.metered.own,
    )?;
    if let Some(ingest) = parts.ingest {
        query = query.reporting_to(Arc::new(Reports(ingest.clone())));
    }
    let letters = Letters::new(
        parts.topics.dead_letters.clone(),
        parts.topics.events.clone(),
        parts.store.clone(),
        &running.metered.own,
    )?;
    let mut query = query
        .with_dead_letters(Arc::new(letters))
        .with_processes(Arc::new(parts.deployment.clone()))
        .with_builds(parts.builds.clone());
    if let Some(identity) = &running.config.identity {
        query = query.with_identity(identity.clone())?;
    }
    if let Some(identity) = query.identity() {
        let (reported, cleared, warmed) = (identity.clone(), identity.clone(), identity.clone());
        let caches = parts.deployment.caches();
        caches.add(
            CacheName::IdentityKeys,
            move || reported.report(),
            move || cleared.clear(),
        );
        // Ends with the time-outs of the provider.
        tokio::spawn(async move { warmed.warm().await });
    }
    let public = running.config.server.public_url.as_deref();
    let query = query
        .signing_in(SessionRules {
            lifetime: running.config.session_lifetime,
            // Validated with the settings.
            public: public.and_then(|url| url.parse().ok()),
        })
        .with_infrastructure(Arc::new(Beside::new(running, parts.topics)))
        .scanning(running.config.scan.clone());
    let (shown, cleared) = (query.clone(), query.clone());
    parts.deployment.caches().add(
        CacheName::Builds,
        move || shown.build_cache(),
        move || cleared.clear_builds(),
    );
    let (stop, streams) = (running.stop.clone(), query.clone());
    tokio::spawn(async move {
        stop.cancelled().await;
        streams.end_streams();
    });
    // A body with an unknown encoding is rejected by its handler, in the format of its own errors.
    let unpack = RequestDecompressionLayer::new().pass_through_unaccepted(true);
    // Unlike `Authorization`, a cookie does not keep shared caches from storing a response.
    let unkept =
        SetResponseHeaderLayer::if_not_present(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let budget = bodies::budget(
        running.config.server.http.in_flight_bytes,
        &running.metered.own,
    )?;
    Ok(query::router(query)
        .layer(middleware::from_fn_with_state(budget, bodies::count))
        .layer(unpack)
        .layer(middleware::from_fn(bodies::bound_compressed))
        .layer(unkept)
        .layer(middleware::from_fn_with_state(
            running.health.clone(),
            needs_tables,
        ))
        .layer(middleware::from_fn(any_size))
        .layer(compression())
        .layer(middleware::from_fn(traced)))
}

/// Marks a response that is compressed on request whatever its size.
#[derive(Clone, Copy)]
struct AnySize;

/// The API has `Content-Encoding` among the headers of a start, whose responses are small.
async fn any_size(request: Request, next: Next) -> Response {
    let concerns = headers::apply_to(request.uri());
    let mut response = next.run(request).await;
    if concerns {
        response.extensions_mut().insert(AnySize);
    }
    response
}

/// Compresses by the predicate, and any marked response with a body.
#[derive(Clone)]
struct WhereAsked<P>(P);

impl<P: Predicate> Predicate for WhereAsked<P> {
    fn should_compress<B: Body>(&self, response: &axum::http::Response<B>) -> bool {
        let is_marked = response.extensions().get::<AnySize>().is_some();
        (is_marked && response.body().size_hint().exact() != Some(0))
            || self.0.should_compress(response)
    }
}

/// Health and metrics, and for roles with the UI the page and the document: at any time, without a credential.
fn own_routes(running: &Running) -> Router {
    let own = Router::new()
        .route("/health/live", get(document::live))
        .route("/health/ready", get(document::ready))
        .with_state(running.health.clone());
    let own = match running.config.metrics.listen {
        Some(_) => own,
        None => own.merge(scrape(running)),
    };
    if !running.role.queries() {
        return own;
    }
    let document = document::whole();
    let pages = query::page::router();
    let document = Arc::new(document);
    let pages = pages.route(
        "/api/openapi.json",
        get(move || async move { Json(document.as_ref().clone()) }),
    );
    own.merge(pages.layer(compression()))
}

/// The routes of the metrics listener.
pub(crate) fn metrics(running: &Running) -> Router {
    let router = scrape(running).fallback(not_found);
    router.method_not_allowed_fallback(method_not_allowed)
}

fn scrape(running: &Running) -> Router {
    let token = running.config.metrics.token.reveal();
    Scrape::new(running.metered.clone(), token).router()
}

fn error(error: ApiError) -> Response {
    ErrorResponse(error).into_response()
}

async fn starting(request: Request) -> Response {
    let early = ApiError::unavailable("the server is starting", 1);
    in_shape_of_clearing(request.uri().path(), early).unwrap_or_else(error)
}

async fn not_found(request: Request) -> Response {
    error(ApiError::not_found(format!(
        "there is nothing at {}",
        request.uri().path()
    )))
}

/// [`not_found`], as a page for browsers.
async fn page_not_found(request: Request) -> Response {
    match query::page::of_unknown_address(&request) {
        Some(page) => page,
        None => not_found(request).await,
    }
}

async fn method_not_allowed(request: Request) -> Response {
    let message = format!(
        "{} does not take {}",
        request.uri().path(),
        request.method()
    );
    error(ApiError::new(ErrorCode::MethodNotAllowed, message))
}

/// Reading before the tables are migrated would cause an error of ClickHouse; it is only too early.
async fn needs_tables(State(health): State<Health>, request: Request, next: Next) -> Response {
    if health.has(Part::Migrations) {
        next.run(request).await
    } else {
        starting(request).await
    }
}

/// Gives every request of the query tier an id, in the response and in the log.
async fn traced(request: Request, next: Next) -> Response {
    let id = HeaderValue::from_str(&format!("{:016x}", rand::random::<u64>()));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let started = std::time::Instant::now();
    let mut response = next.run(request).await;
    if let Ok(id) = id {
        tracing::debug!(
            http.request_id = ?id,
            http.method = %method,
            http.path = path,
            http.status = response.status().as_u16(),
            http.duration_ms = started.elapsed().as_millis(),
            "answered"
        );
        response.headers_mut().insert("x-request-id", id);
    }
    response
}
