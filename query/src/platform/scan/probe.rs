//! HTTP requests of a scan, bounded in time and bytes.
//!
//! Each scan has its own client: it uses no old connections, and reads the current certificates of the system.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, Url};

use super::health_response::{Health, HealthResponse, assess, reason, timed_out};

/// Bytes of a health response that are read (X1).
const HEALTH_BYTES: usize = 64 << 10;
/// Redirects within one host that are followed (X1).
const REDIRECTS_MAX: usize = 3;

#[derive(Clone)]
pub(crate) struct Prober {
    client: Client,
    limit: Duration,
}

pub(crate) struct ProbeResponse {
    pub(crate) status: u16,
    /// Whether `Content-Type` is JSON.
    pub(crate) is_json: bool,
    /// `None` for a body over the bound.
    pub(crate) body: Option<Vec<u8>>,
}

impl Prober {
    /// For services of this platform, without a proxy. Each request ends within `limit`.
    pub(crate) fn inside(limit: Duration) -> reqwest::Result<Self> {
        Self::of(Client::builder().no_proxy(), limit)
    }

    /// For external systems, over the proxy of the environment. Each request ends within `limit`.
    pub(crate) fn outside(limit: Duration) -> reqwest::Result<Self> {
        Self::of(Client::builder(), limit)
    }

    fn of(client: ClientBuilder, limit: Duration) -> reqwest::Result<Self> {
        let client = client
            .redirect(Policy::custom(within_one_host))
            .connect_timeout(limit)
            .timeout(limit)
            .user_agent(concat!("spindle/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { client, limit })
    }

    pub(crate) async fn health(&self, url: &Url) -> Health {
        match self
            .get(url, "application/json, */*;q=0.5", HEALTH_BYTES)
            .await
        {
            Ok(response) => assess(&HealthResponse {
                status: response.status,
                is_json: response.is_json,
                body: response.body.as_deref(),
            }),
            Err(problem) => Health::unhealthy(problem),
        }
    }

    /// The response with at most `bytes` of body.
    ///
    /// # Errors
    /// Why the request failed.
    pub(crate) async fn get(
        &self,
        url: &Url,
        accept: &str,
        bytes: usize,
    ) -> Result<ProbeResponse, String> {
        let response = async {
            let request = self.client.get(url.clone()).header(ACCEPT, accept);
            let response = request.send().await?;
            let is_json = response
                .headers()
                .get(CONTENT_TYPE)
                .and_then(|kind| kind.to_str().ok())
                .is_some_and(is_json);
            let status = response.status().as_u16();
            let body = bounded(response, bytes).await?;
            Ok(ProbeResponse {
                status,
                is_json,
                body,
            })
        };
        // The client has the same timeout, which may not cover the DNS look-up.
        match tokio::time::timeout(self.limit, response).await {
            Ok(response) => response.map_err(|error: reqwest::Error| match error.is_timeout() {
                true => timed_out(self.limit),
                false => reason(&error),
            }),
            Err(_) => Err(timed_out(self.limit)),
        }
    }
}

/// The body, or `None` if it is longer than `bytes`.
async fn bounded(
    mut response: reqwest::Response,
    bytes: usize,
) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > bytes {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Follows redirects to the same scheme, host and port only.
fn within_one_host(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let first = attempt.previous().first().map(Url::origin);
    let is_same = first.is_some_and(|first| first == attempt.url().origin());
    if is_same && attempt.previous().len() <= REDIRECTS_MAX {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// `application/json`, `application/health+json` and the like.
fn is_json(kind: &str) -> bool {
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_media_types_are_json() {
        for kind in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.spring-boot.actuator.v3+json",
            "application/health+json",
        ] {
            assert!(is_json(kind), "{kind}");
        }
        assert!(!is_json("text/html") && !is_json("") && !is_json("text/json-like"));
    }

    /// Set in the child process of the test below, whose environment names a proxy.
    const PROXIED: &str = "SPINDLE_TEST_PROXIED";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn external_systems_are_probed_over_the_proxy_of_the_environment_and_services_are_not() {
        let limit = Duration::from_secs(20);
        if std::env::var_os(PROXIED).is_some() {
            let away: Url = "http://away.invalid/a".parse().unwrap();
            let outside = Prober::outside(limit).unwrap();
            let response = outside.get(&away, "*/*", 100).await.unwrap();
            assert_eq!(response.body.unwrap(), b"http://away.invalid/a");
            let inside = Prober::inside(limit).unwrap();
            assert!(inside.get(&away, "*/*", 100).await.is_err());
            return;
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let echo = |uri: axum::http::Uri| async move { uri.to_string() };
        let router = axum::Router::new().fallback(echo);
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let child = tokio::task::spawn_blocking(move || {
            let name = "external_systems_are_probed_over_the_proxy_of_the_environment_and_services_are_not";
            std::process::Command::new(std::env::current_exe().unwrap())
                .args([&format!("platform::scan::probe::tests::{name}"), "--exact"])
                .env("http_proxy", proxy)
                .env(PROXIED, "yes")
                .env_remove("NO_PROXY")
                .env_remove("no_proxy")
                .env_remove("REQUEST_METHOD")
                .output()
                .unwrap()
        });
        let child = child.await.unwrap();
        let output = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(
            child.status.success() && output.contains("1 passed"),
            "{output}"
        );
    }
}
