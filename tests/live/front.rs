//! One address before the tiers of a deployment, as a load balancer has it: reports go to ingest, everything else to
//! query; what every tier says of itself is asked of all of them.

use std::sync::{Arc, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, Method, StatusCode, header};
use axum::response::Response;
use reqwest::Client;

/// Where each tier is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tiers {
    pub(crate) ingest: String,
    pub(crate) processor: String,
    pub(crate) query: String,
}

#[derive(Clone)]
struct Shared {
    tiers: Arc<RwLock<Tiers>>,
    client: Client,
}

/// A running front. Ends when dropped.
pub(crate) struct Front {
    pub(crate) url: String,
    task: tokio::task::JoinHandle<()>,
}

/// What belongs to one connection and not to what passes over it.
const OF_THE_CONNECTION: [HeaderName; 3] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::HOST];

/// The largest body that is passed on: more than any tier takes.
const BODY_BYTES: usize = 64 << 20;

impl Front {
    pub(crate) async fn before(tiers: Tiers) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Shared {
            tiers: Arc::new(RwLock::new(tiers)),
            // A connection that is used again may be one that the tier is just closing.
            client: Client::builder().pool_max_idle_per_host(0).build().unwrap(),
        };
        let router = Router::new().fallback(pass).with_state(shared);
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { url, task }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(State(shared): State<Shared>, request: Request) -> Response {
    let tiers = shared.tiers.read().unwrap().clone();
    let clean = request
        .uri()
        .path()
        .split('/')
        .filter(|part| !part.is_empty());
    let path = clean.collect::<Vec<_>>().join("/");
    match path.as_str() {
        "health/ready" | "health/live" | "metrics" if request.method() == Method::GET => {
            all(&shared, &tiers, &path).await
        }
        "api/report" | "v1/runs/ingest" | "v1/traces" | "v1/logs" => {
            one(&shared, &tiers.ingest, request).await
        }
        // All that Langfuse's SDKs ask for.
        path if path.starts_with("api/public/") => one(&shared, &tiers.ingest, request).await,
        _ => one(&shared, &tiers.query, request).await,
    }
}

/// The answer of one tier, as it comes.
async fn one(shared: &Shared, tier: &str, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let target = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut headers = parts.headers;
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
    // Whole: a tier may answer and hang up before it has read everything.
    let Ok(body) = axum::body::to_bytes(body, BODY_BYTES).await else {
        return status(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let asked = shared
        .client
        .request(parts.method, format!("{tier}{target}"))
        .headers(headers)
        .body(body)
        .send()
        .await;
    let Ok(answer) = asked else {
        return status(StatusCode::BAD_GATEWAY);
    };
    let mut response = status(answer.status());
    *response.headers_mut() = answer.headers().clone();
    for name in OF_THE_CONNECTION {
        response.headers_mut().remove(name);
    }
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    response
}

/// What all tiers say, one after the other, where all are well; otherwise what the first says that is not.
async fn all(shared: &Shared, tiers: &Tiers, path: &str) -> Response {
    let mut response = status(StatusCode::OK);
    let mut said = Vec::new();
    for tier in [&tiers.ingest, &tiers.processor, &tiers.query] {
        let Ok(answer) = shared.client.get(format!("{tier}/{path}")).send().await else {
            return status(StatusCode::BAD_GATEWAY);
        };
        if let Some(kind) = answer.headers().get(header::CONTENT_TYPE) {
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, kind.clone());
        }
        *response.status_mut() = answer.status();
        let text = answer.text().await.unwrap_or_default();
        if !response.status().is_success() || path != "metrics" {
            said.clear();
        }
        said.push(text);
        if !response.status().is_success() {
            break;
        }
    }
    *response.body_mut() = Body::from(said.join("\n"));
    response
}

fn status(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
