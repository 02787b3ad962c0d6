//! The web UI: files that were built before the program and are inside of it.
//!
//! Release builds hold the files; debug builds read them from `web/dist` when they are asked for. The page finds its way
//! by the address, so every address that is one of its own is answered with the same file. Whatever else is asked for is
//! left to the API, whose 404 is JSON.

mod guard;

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::RustEmbed;
use schemas::fault::Fault;

use crate::error::Refusal;
pub(crate) use guard::guarded;

/// What the page's own addresses begin with, besides the root.
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
/// Files beside the page whose names stay the same.
const FAVICON: &str = "favicon.svg";
/// The page.
const INDEX: &str = "index.html";
/// Names of assets have a hash of their content: what has a name never changes.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// The browser asks every time whether it is still the same.
const ASK_AGAIN: &str = "no-cache";
/// Said where nobody built the page.
const MISSING: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Spindle</title>\
    <p>This program was built without its web UI: <code>make build</code> builds one with it. \
    The API is described at <a href=\"/docs\">/docs</a>.</p></html>";

/// Where the files of the page are.
pub trait Files: Send + Sync + 'static {
    /// The file at this path below the folder, if there is one.
    fn file(&self, path: &str) -> Option<File>;
}

/// A file of the page.
#[derive(Clone, Debug)]
pub struct File {
    /// What is in it.
    pub bytes: Cow<'static, [u8]>,
    /// What kind of thing that is, as `Content-Type` says it without a character set.
    pub kind: String,
    /// SHA-256 of the bytes.
    pub hash: [u8; 32],
}

#[derive(RustEmbed)]
#[folder = "../web/dist"]
#[allow_missing = true]
struct Built;

/// The files inside of the program.
struct Inside;

impl Files for Inside {
    fn file(&self, path: &str) -> Option<File> {
        let file = Built::get(path)?;
        Some(File {
            kind: file.metadata.mimetype().to_owned(),
            hash: file.metadata.sha256_hash(),
            bytes: file.data,
        })
    }
}

/// The routes of the page that is inside of the program: for anyone, since it holds nothing but the program.
pub fn router() -> Router {
    router_of(Arc::new(Inside))
}

/// The same of a page that is elsewhere.
pub fn router_of(files: Arc<dyn Files>) -> Router {
    let mut routes = Router::new()
        .route("/", get(index))
        .route("/assets/{*path}", get(asset))
        .route(&format!("/{FAVICON}"), get(favicon));
    for page in PAGES {
        routes = routes
            .route(&format!("/{page}"), get(index))
            .route(&format!("/{page}/{{*rest}}"), get(index));
    }
    guarded(routes.with_state(files), None)
}

async fn index(State(files): State<Arc<dyn Files>>, headers: HeaderMap) -> Response {
    match files.file(INDEX) {
        Some(file) => answer(file, ASK_AGAIN, &headers),
        None => {
            let html = [
                (CONTENT_TYPE, "text/html; charset=utf-8"),
                (CACHE_CONTROL, "no-store"),
            ];
            (StatusCode::SERVICE_UNAVAILABLE, html, MISSING).into_response()
        }
    }
}

async fn favicon(State(files): State<Arc<dyn Files>>, headers: HeaderMap) -> Response {
    match files.file(FAVICON) {
        Some(file) => answer(file, ASK_AGAIN, &headers),
        None => missing(FAVICON),
    }
}

async fn asset(State(files): State<Arc<dyn Files>>, request: Request) -> Response {
    // Names of assets have no letter that would have to be written otherwise in an address.
    let path = request.uri().path().trim_start_matches('/');
    if path.split('/').any(|part| part == "..") {
        return missing(path);
    }
    match files.file(path) {
        Some(file) => answer(file, FOR_EVER, request.headers()),
        None => missing(path),
    }
}

fn missing(path: &str) -> Response {
    let fault = Fault::not_found(format!("there is nothing at /{path}"));
    ([(CACHE_CONTROL, "no-store")], Refusal(fault)).into_response()
}

/// The file, or that the browser has it.
fn answer(file: File, kept: &'static str, headers: &HeaderMap) -> Response {
    // Weak, since it is the same whether the answer is packed or not.
    let hash: String = file.hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tag = format!("W/\"{hash}\"");
    let is_known = is_among(headers, &tag);
    let shared = [(CACHE_CONTROL, kept.to_owned()), (ETAG, tag)];
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

/// Whether the browser has what bears this tag. Weak tags are compared by what is in their quotes.
fn is_among(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim);
    let bare = |tag: &str| tag.trim_start_matches("W/").to_owned();
    tags.any(|known| known == "*" || bare(known) == bare(tag))
}
