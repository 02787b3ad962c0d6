//! The files of the web UI, embedded in the binary.
//!
//! Release builds embed the files; debug builds read them from `web/dist` at each request. The UI routes by the path, so
//! all of its paths are answered with the same file. So is an unknown path that a browser opens, with the status 404;
//! every other 404 is JSON.

mod guard;

use std::borrow::Cow;
use std::sync::Arc;

use api::ErrorResponse;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::RustEmbed;
use schemas::api_error::ApiError;

use guard::{guard, guarded};

/// First segments of the UI's paths, besides the root.
pub const PAGES: [&str; 8] = [
    "runs",
    "compare",
    "calls",
    "threads",
    "overview",
    "datasets",
    "operations",
    "sign-in",
];
const FAVICON: &str = "favicon.svg";
const INDEX: &str = "index.html";
/// First segments of paths whose 404 is JSON for browsers too.
const NO_PAGES: [&str; 5] = ["api", "v1", "health", "metrics", "assets"];
/// The page of the API, which needs no script.
const DOCS: &str = "docs.html";
/// Names of assets contain a hash of their content, so that they never change.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// The browser revalidates at every use.
const REVALIDATE: &str = "no-cache";
/// The page of a binary without the UI.
const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Spindle</title>\
        <p>This binary was built without the web UI; <code>make build</code> builds it with the UI. \
        The API is described at <a href=\"/api/openapi.json\">/api/openapi.json</a>.</p></html>";

/// The files of the UI.
pub trait Files: Send + Sync + 'static {
    /// The file at a path below the folder.
    fn file(&self, path: &str) -> Option<File>;
}

/// A file of the UI.
#[derive(Clone, Debug)]
pub struct File {
    pub bytes: Cow<'static, [u8]>,
    /// Media type without a character set.
    pub kind: String,
    /// SHA-256 of the bytes.
    pub hash: [u8; 32],
}

#[derive(RustEmbed)]
#[folder = "../web/dist"]
#[allow_missing = true]
struct Dist;

struct Embedded;

impl Files for Embedded {
    fn file(&self, path: &str) -> Option<File> {
        let file = Dist::get(path)?;
        Some(File {
            kind: file.metadata.mimetype().to_owned(),
            hash: file.metadata.sha256_hash(),
            bytes: file.data,
        })
    }
}

/// The routes of the embedded UI. They need no credential, since the files contain no data.
pub fn router() -> Router {
    router_of(Arc::new(Embedded))
}

/// The routes of another UI.
pub fn router_of(files: Arc<dyn Files>) -> Router {
    let mut routes = Router::new()
        .route("/", get(index))
        .route("/docs", get(docs))
        .route("/assets/{*path}", get(asset))
        .route(&format!("/{FAVICON}"), get(favicon));
    for page in PAGES {
        routes = routes
            .route(&format!("/{page}"), get(index))
            .route(&format!("/{page}/{{*rest}}"), get(index));
    }
    guarded(routes.with_state(files))
}

/// The UI's page for an address that does not exist, if a browser opens it.
pub fn of_unknown_address(request: &Request) -> Option<Response> {
    let first = request.uri().path().split('/').nth(1).unwrap_or_default();
    let accept = request.headers().get(ACCEPT)?.to_str().ok()?;
    let is_opened = request.method() == Method::GET && accept.contains("text/html");
    if !is_opened || NO_PAGES.contains(&first) {
        return None;
    }
    let file = Embedded.file(INDEX)?;
    let response = file_response(file, "no-store", &HeaderMap::new());
    Some(guard((StatusCode::NOT_FOUND, response).into_response()))
}

async fn index(State(files): State<Arc<dyn Files>>, headers: HeaderMap) -> Response {
    page(files.as_ref(), INDEX, &headers)
}

async fn docs(State(files): State<Arc<dyn Files>>, headers: HeaderMap) -> Response {
    page(files.as_ref(), DOCS, &headers)
}

fn page(files: &dyn Files, name: &str, headers: &HeaderMap) -> Response {
    match files.file(name) {
        Some(file) => file_response(file, REVALIDATE, headers),
        None => {
            let html = [
                (CONTENT_TYPE, "text/html; charset=utf-8"),
                (CACHE_CONTROL, "no-store"),
            ];
            (StatusCode::SERVICE_UNAVAILABLE, html, NOT_BUILT).into_response()
        }
    }
}

async fn favicon(State(files): State<Arc<dyn Files>>, headers: HeaderMap) -> Response {
    match files.file(FAVICON) {
        Some(file) => file_response(file, REVALIDATE, &headers),
        None => missing(FAVICON),
    }
}

async fn asset(State(files): State<Arc<dyn Files>>, request: Request) -> Response {
    // Names of assets contain no character that needs percent-encoding.
    let path = request.uri().path().trim_start_matches('/');
    if path.split('/').any(|part| part == "..") {
        return missing(path);
    }
    match files.file(path) {
        Some(file) => file_response(file, FOR_EVER, request.headers()),
        None => missing(path),
    }
}

fn missing(path: &str) -> Response {
    let error = ApiError::not_found(format!("/{path} not found"));
    ([(CACHE_CONTROL, "no-store")], ErrorResponse(error)).into_response()
}

/// The file, or 304 if the browser has it.
fn file_response(file: File, cache_control: &'static str, headers: &HeaderMap) -> Response {
    // Weak, since compressed and uncompressed responses have the same tag.
    let hash: String = file.hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tag = format!("W/\"{hash}\"");
    let is_known = is_among(headers, &tag);
    let shared = [(CACHE_CONTROL, cache_control.to_owned()), (ETAG, tag)];
    if is_known {
        return (StatusCode::NOT_MODIFIED, shared).into_response();
    }
    let bytes = match file.bytes {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    let is_text = file.kind.starts_with("text/");
    let charset = if is_text { "; charset=utf-8" } else { "" };
    let kind = [(CONTENT_TYPE, file.kind + charset)];
    (shared, kind, Body::from(bytes)).into_response()
}

/// Whether `If-None-Match` contains this tag, by weak comparison.
fn is_among(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim);
    let bare = |tag: &str| tag.trim_start_matches("W/").to_owned();
    tags.any(|known| known == "*" || bare(known) == bare(tag))
}
