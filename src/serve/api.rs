//! The one router over all tiers, and what belongs to none of them: health, metrics, the OpenAPI document, faults
//! for paths and methods nobody has.

use std::sync::{Arc, OnceLock};

use axum::Json;
use axum::Router;
use axum::body::HttpBody as Body;
use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use ingest::IngestState;
use query::platform::{headers, in_shape_of_clearing};
use query::{QueryState, SessionRules};
use schemas::fault::Fault;
use store::Store;
use store::builds::Builds;
use store::credentials::Credentials;
use store::prices::Prices;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::decompression::RequestDecompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use super::health::{Health, Part, fault};
use super::infrastructure::Beside;
use super::presence::Presence;
use super::reports::Reports;
use super::scrape::Scrape;
use super::topics::Topics;
use super::{Running, bodies, document};
use crate::caches::CacheName;
use crate::dead_letters::Letters;

/// Answers smaller than this are sent as they are: compressing them costs more than it saves.
const COMPRESS_ABOVE_BYTES: u64 = 1024;

/// What the listener serves: health and metrics from the beginning, everything once it is open.
#[derive(Clone)]
pub(crate) struct Gate {
    early: Router,
    full: Arc<OnceLock<Router>>,
}

impl Gate {
    /// A gate behind which nothing is yet.
    pub(crate) fn new(running: &Running) -> Self {
        let early = Router::new().merge(own_routes(running)).fallback(starting);
        let early = early.method_not_allowed_fallback(method_not_allowed);
        Self {
            early: for_pages(running, early),
            full: Arc::default(),
        }
    }

    /// A gate that is open from the beginning.
    pub(crate) fn of(router: Router) -> Self {
        Self {
            early: router,
            full: Arc::default(),
        }
    }

    /// Opens it.
    pub(crate) fn open(&self, router: Router) {
        // It is opened once; a second time would change nothing.
        let _ = self.full.set(router);
    }

    /// The router for a request that arrives now.
    pub(crate) fn router(&self) -> Router {
        self.full.get().unwrap_or(&self.early).clone()
    }
}

/// What this process serves: what its role is for, and its own.
pub(crate) fn router(running: &Running, parts: &RoutedParts<'_>) -> anyhow::Result<Router> {
    let role = running.role;
    let mut all = Router::new();
    if let Some(ingest) = parts.ingest.filter(|_| role.ingests()) {
        // No layer on the way of a report: it authenticates, decompresses and counts by itself.
        all = all.merge(ingest::router(ingest.clone()));
    }
    if role.queries() {
        all = all.merge(reading(running, parts)?);
    }
    let all = all.merge(own_routes(running)).fallback(not_found);
    let all = all.method_not_allowed_fallback(method_not_allowed);
    Ok(for_pages(running, all))
}

/// Where people read and processes are started, every answer carries headers for browsers, whoever gives it.
fn for_pages(running: &Running, router: Router) -> Router {
    if !running.role.queries() {
        return router;
    }
    let origins = running.config.allowed_origins.clone();
    // What was reported is never taken for something else than it is said to be.
    let router = router.layer(SetResponseHeaderLayer::if_not_present(
        X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ));
    router.layer(middleware::from_fn_with_state(
        origins,
        headers::with_headers,
    ))
}

/// What a router is made over.
pub(crate) struct RoutedParts<'a> {
    /// Takes events, from clients or from the people who read; not in every role.
    pub(crate) ingest: Option<&'a IngestState>,
    /// The logs.
    pub(crate) topics: &'a Topics,
    /// Rows.
    pub(crate) store: &'a Store,
    /// Who may come in.
    pub(crate) credentials: &'a Credentials,
    /// The price table.
    pub(crate) prices: &'a Prices,
    /// The other processes; what is kept in memory.
    pub(crate) presence: &'a Presence,
    /// Builds of applications.
    pub(crate) builds: &'a Builds,
}

/// What packs answers for whoever asks for that.
fn compression() -> CompressionLayer<WhereAsked<impl Predicate>> {
    CompressionLayer::new().compress_when(WhereAsked(
        SizeAbove::new(COMPRESS_ABOVE_BYTES)
            .and(NotForContentType::SSE)
            // Packed already.
            .and(NotForContentType::const_new(
                "application/vnd.apache.parquet",
            )),
    ))
}

/// The query tier's routes, with what belongs around each request.
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
        .with_processes(Arc::new(parts.presence.clone()))
        .with_builds(parts.builds.clone());
    if let Some(identity) = &running.config.identity {
        query = query.with_identity(identity.clone())?;
    }
    if let Some(identity) = query.identity() {
        let (reported, cleared, warmed) = (identity.clone(), identity.clone(), identity.clone());
        let caches = parts.presence.caches();
        caches.add(
            CacheName::IdentityKeys,
            move || reported.report(),
            move || cleared.clear(),
        );
        // It ends with the time-outs of the provider.
        tokio::spawn(async move { warmed.warm().await });
    }
    let public = running.config.server.public_url.as_deref();
    let query = query
        .signing_in(SessionRules {
            lifetime: running.config.session_lifetime,
            // It was checked when the settings were read.
            public: public.and_then(|url| url.parse().ok()),
        })
        .with_infrastructure(Arc::new(Beside::new(running, parts.topics)))
        .scanning(running.config.scan.clone());
    let (shown, cleared) = (query.clone(), query.clone());
    parts.presence.caches().add(
        CacheName::Builds,
        move || shown.build_cache(),
        move || cleared.clear_builds(),
    );
    let (stop, streams) = (running.stop.clone(), query.clone());
    tokio::spawn(async move {
        stop.cancelled().await;
        streams.end_streams();
    });
    // What is not unpacked is refused by whoever reads it, in the shape of its own faults.
    let unpack = RequestDecompressionLayer::new().pass_through_unaccepted(true);
    // A cookie does not keep caches on the way from keeping an answer, as `Authorization` does.
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

/// An answer that is compressed on request whatever its size.
#[derive(Clone, Copy)]
struct AnySize;

/// The interface names `Content-Encoding` among the headers of a start, whose answers are small.
async fn any_size(request: Request, next: Next) -> Response {
    let concerns = headers::concern(request.uri());
    let mut response = next.run(request).await;
    if concerns {
        response.extensions_mut().insert(AnySize);
    }
    response
}

/// Compresses what the predicate says, and any answer with something in it that is marked.
#[derive(Clone)]
struct WhereAsked<P>(P);

impl<P: Predicate> Predicate for WhereAsked<P> {
    fn should_compress<B: Body>(&self, response: &axum::http::Response<B>) -> bool {
        let is_marked = response.extensions().get::<AnySize>().is_some();
        (is_marked && response.body().size_hint().exact() != Some(0))
            || self.0.should_compress(response)
    }
}

/// Health and metrics, and where people look for them the page and the document: at any time, for anyone.
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
    let pages = query::docs::router(&document).merge(query::page::router());
    let document = Arc::new(document);
    let pages = pages.route(
        "/api/openapi.json",
        get(move || async move { Json(document.as_ref().clone()) }),
    );
    own.merge(pages.layer(compression()))
}

/// What the listener of the metrics serves.
pub(crate) fn metrics(running: &Running) -> Router {
    let router = scrape(running).fallback(not_found);
    router.method_not_allowed_fallback(method_not_allowed)
}

fn scrape(running: &Running) -> Router {
    let token = running.config.metrics.token.reveal();
    Scrape::new(running.metered.clone(), token).router()
}

async fn starting(request: Request) -> Response {
    let early = Fault::unavailable("the server is starting", 1);
    in_shape_of_clearing(request.uri().path(), early).unwrap_or_else(fault)
}

async fn not_found(request: Request) -> Response {
    fault(Fault::not_found(format!(
        "there is nothing at {}",
        request.uri().path()
    )))
}

async fn method_not_allowed(request: Request) -> Response {
    let message = format!(
        "{} does not take {}",
        request.uri().path(),
        request.method()
    );
    fault(Fault::new(405, "method_not_allowed", message))
}

/// Reading before the tables are migrated would be a fault of ClickHouse; it is only too early.
async fn needs_tables(State(health): State<Health>, request: Request, next: Next) -> Response {
    if health.has(Part::Migrations) {
        next.run(request).await
    } else {
        starting(request).await
    }
}

/// Gives every request of the query tier a number, in the answer and in the log.
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
