//! One kept-alive HTTP/1 connection, opened when it is first needed and after an error.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Longest wait for one response: longer than the server's own longest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The server and the credential.
pub(crate) struct Target {
    address: String,
    host: HeaderValue,
    base: String,
    authorization: HeaderValue,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
}

impl Target {
    pub(crate) fn new(url: &str, key: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("--url {url:?}"))?;
        let Some(host) = uri.host() else {
            bail!("--url {url:?} names no host")
        };
        if uri.scheme_str() != Some("http") {
            bail!("--url {url:?}: the load generator speaks plain http only");
        }
        let authority = uri.authority().map_or(host, |authority| authority.as_str());
        let mut authorization =
            HeaderValue::from_str(&format!("Bearer {key}")).context("--key is no header value")?;
        authorization.set_sensitive(true);
        Ok(Self {
            address: format!("{host}:{}", uri.port_u16().unwrap_or(80)),
            host: HeaderValue::from_str(authority)?,
            base: uri.path().trim_end_matches('/').to_owned(),
            authorization,
        })
    }
}

#[derive(Default)]
pub(crate) struct Connection {
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    pub(crate) async fn get(&mut self, target: &Target, path: &str) -> anyhow::Result<Answer> {
        self.send(target, Method::GET, path, (JSON, Bytes::new()))
            .await
    }

    pub(crate) async fn report(&mut self, target: &Target, body: Bytes) -> anyhow::Result<Answer> {
        self.post(target, "/api/report", JSON, body).await
    }

    pub(crate) async fn put(
        &mut self,
        target: &Target,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        self.send(target, Method::PUT, path, (JSON, body)).await
    }

    pub(crate) async fn start(
        &mut self,
        target: &Target,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        self.post(target, path, JSON, body).await
    }

    pub(crate) async fn post(
        &mut self,
        target: &Target,
        path: &str,
        media_type: HeaderValue,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        self.send(target, Method::POST, path, (media_type, body))
            .await
    }

    /// After an error the next call opens a new connection.
    async fn send(
        &mut self,
        target: &Target,
        method: Method,
        path: &str,
        (media_type, body): (HeaderValue, Bytes),
    ) -> anyhow::Result<Answer> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", target.base))
            .header(HOST, &target.host)
            .header(AUTHORIZATION, &target.authorization)
            .header(CONTENT_TYPE, media_type)
            // Required where processes are started, ignored elsewhere.
            .header("svc-platform", "bench")
            .body(Full::new(body))?;
        let mut sender = match self.sender.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => open(target).await?,
        };
        let answer = async {
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let retry_after = head
                .headers
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.parse().ok());
            anyhow::Ok(Answer {
                status: head.status,
                retry_after: retry_after.map(Duration::from_secs),
                body: body.collect().await?.to_bytes(),
            })
        };
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, answer)
            .await
            .context("no answer")??;
        self.sender = Some(sender);
        Ok(answer)
    }
}

async fn open(target: &Target) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(&target.address)
        .await
        .with_context(|| target.address.clone())?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Ends with the connection, whose error the request in flight returns.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
