//! Asking addresses over HTTP, each within a bound of time and bytes.
//!
//! A client is made for each scan: what it says is about now, not about a connection of last week, and an
//! exchanged certificate of the system counts at once.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, ClientBuilder, Url};

use super::health_answer::{HealthAnswer, Verdict, reason, timed_out, verdict};

/// Bytes of a health answer that are read (X1).
const HEALTH_BYTES: usize = 64 << 10;
/// Redirects within one host that are followed (X1).
const REDIRECTS_MAX: usize = 3;

/// Asks.
#[derive(Clone)]
pub(crate) struct Prober {
    client: Client,
    limit: Duration,
}

/// What was answered.
pub(crate) struct Answered {
    /// HTTP status.
    pub(crate) status: u16,
    /// Whether it says of itself that it is JSON.
    pub(crate) is_json: bool,
    /// The body; `None` where it is longer than the bound.
    pub(crate) body: Option<Vec<u8>>,
}

impl Prober {
    /// Prepares a client for services beside this one, which are asked without a proxy. Every question ends within
    /// `limit`.
    pub(crate) fn inside(limit: Duration) -> reqwest::Result<Self> {
        Self::of(Client::builder().no_proxy(), limit)
    }

    /// Prepares a client for systems of others, which are asked over the proxy of the environment, as whoever uses
    /// them asks them. Every question ends within `limit`.
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

    /// Asks a service how it is.
    pub(crate) async fn health(&self, url: &Url) -> Verdict {
        match self
            .get(url, "application/json, */*;q=0.5", HEALTH_BYTES)
            .await
        {
            Ok(answered) => verdict(&HealthAnswer {
                status: answered.status,
                is_json: answered.is_json,
                body: answered.body.as_deref(),
            }),
            Err(problem) => Verdict {
                problem: Some(problem),
                version: None,
            },
        }
    }

    /// The answer, with up to so many bytes of its body.
    ///
    /// # Errors
    /// Why there is none, for a person.
    pub(crate) async fn get(
        &self,
        url: &Url,
        accept: &str,
        bytes: usize,
    ) -> Result<Answered, String> {
        let asked = async {
            let request = self.client.get(url.clone()).header(ACCEPT, accept);
            let response = request.send().await?;
            let is_json = response
                .headers()
                .get(CONTENT_TYPE)
                .and_then(|kind| kind.to_str().ok())
                .is_some_and(is_json);
            let status = response.status().as_u16();
            let body = bounded(response, bytes).await?;
            Ok(Answered {
                status,
                is_json,
                body,
            })
        };
        // The client has the same bound; this one also covers what it may forget, such as looking up a name.
        match tokio::time::timeout(self.limit, asked).await {
            Ok(answered) => answered.map_err(|error: reqwest::Error| match error.is_timeout() {
                true => timed_out(self.limit),
                false => reason(&error),
            }),
            Err(_) => Err(timed_out(self.limit)),
        }
    }
}

/// The body, or nothing once it is longer than it may be.
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

/// Follows redirects to the same scheme, host and port only: what was set to be asked is what is asked.
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
    fn json_says_so_in_several_ways() {
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

    /// What runs in a process of its own, whose environment names a proxy.
    const PROXIED: &str = "SPINDLE_TEST_PROXIED";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn systems_of_others_are_asked_over_the_proxy_of_the_environment_and_services_are_not() {
        let limit = Duration::from_secs(20);
        if std::env::var_os(PROXIED).is_some() {
            let away: Url = "http://nobody.invalid/a".parse().unwrap();
            let outside = Prober::outside(limit).unwrap();
            let answered = outside.get(&away, "*/*", 100).await.unwrap();
            assert_eq!(answered.body.unwrap(), b"http://nobody.invalid/a");
            let inside = Prober::inside(limit).unwrap();
            assert!(inside.get(&away, "*/*", 100).await.is_err());
            return;
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let asked = |uri: axum::http::Uri| async move { uri.to_string() };
        let router = axum::Router::new().fallback(asked);
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let child = tokio::task::spawn_blocking(move || {
            let name = "systems_of_others_are_asked_over_the_proxy_of_the_environment_and_services_are_not";
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
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(
            child.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }
}
