//! The listener: accepts connections, serves them over HTTP/1.1 and HTTP/2, and ends them gracefully.
//!
//! The same bounds hold for every route of every tier (X1), before a credential is known:
//!
//! - connections, in total and per client address; when the table is full, the oldest one that only waits for its
//!   client is evicted for a new one (`connections.rs`), so waiting clients cannot keep a report out;
//! - time for the head of a request, and between requests;
//! - the pace of a request body (`request_body.rs`) and of the client that reads a response (`stream.rs`, `answer.rs`):
//!   a client that keeps a minimum rate is never cut off, and one that stops is cut off after a fixed time (`pace.rs`);
//! - memory for heads, and for data in the windows of HTTP/2;
//! - time for requests in flight to finish once the server stops.
//!
//! The routers bound the size of a body.

mod answer;
pub(crate) mod connections;
pub(crate) mod files;
pub(crate) mod pace;
mod paths;
mod request_body;
pub(crate) mod routes;
mod stream;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use self::answer::{Answer, Streams};
use self::connections::{Admitted, BodyKind, Connection, Connections, Ended, HttpMetrics};
use self::pace::PaceLimits;
use self::request_body::RequestBody;
use self::routes::Routes;
use self::stream::Stream;

/// Bytes of a request's head, and of a body read ahead of its handler, per HTTP/1.1 connection. A URL has at most 64
/// KiB.
const BUFFER_BYTES: usize = 64 << 10;
/// Concurrent streams of one HTTP/2 connection: a little more than the minimum that RFC 9113 recommends.
const STREAMS: u32 = 128;
/// Body bytes that an HTTP/2 client may send ahead of the handlers, per stream and per connection.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 512 << 10;
/// Bytes of a response that wait for the window of a stream.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// An HTTP/2 connection without a stream is closed after this long. For HTTP/1.1 the time for a head applies.
const IDLE: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub(crate) struct HttpConfig {
    /// Open connections in total.
    pub(crate) max_connections: usize,
    /// Open connections of one client address.
    pub(crate) max_connections_per_address: usize,
    /// Time for a client to send the head of a request.
    pub(crate) header_timeout: Duration,
    /// How slowly a request body may arrive.
    pub(crate) body: PaceLimits,
    /// How slowly an answer may be read.
    pub(crate) answer: PaceLimits,
    /// Bytes of all request bodies of the query tier.
    pub(crate) in_flight_bytes: usize,
    /// Time for requests in flight to finish after a stop.
    pub(crate) drain_timeout: Duration,
}

/// Serves until `stop` is canceled and the connections have ended, or the drain time is over.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Routes,
    config: HttpConfig,
    metrics: HttpMetrics,
    stop: CancellationToken,
) {
    let connections = Connections::new(
        config.max_connections,
        config.max_connections_per_address,
        metrics.clone(),
    );
    let server = Server {
        builder: builder(&config, metrics),
        routes,
        config: config.clone(),
        stop: stop.clone(),
    };
    let server = Arc::new(server);
    let tasks = TaskTracker::new();
    loop {
        let (socket, peer) = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = stop.cancelled() => break,
        };
        let admitted = tokio::select! {
            admitted = connections.admit(peer) => admitted,
            () = stop.cancelled() => break,
        };
        match admitted {
            Some(admitted) => drop(tasks.spawn(server.clone().connection(socket, admitted))),
            None => tracing::debug!(http.peer = %peer, "too many connections of this address"),
        }
    }
    drop(listener);
    tasks.close();
    let drained = tokio::time::timeout(config.drain_timeout, tasks.wait()).await;
    if drained.is_err() {
        tracing::warn!(
            http.drain_timeout_ms = config.drain_timeout.as_millis(),
            "requests were still in flight at the end of the drain time"
        );
    }
}

fn builder(config: &HttpConfig, metrics: HttpMetrics) -> Builder<Streams> {
    let mut builder = Builder::new(Streams {
        limits: config.answer,
        metrics,
    });
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_buf_size(BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// Shared by all connections.
struct Server {
    builder: Builder<Streams>,
    routes: Routes,
    config: HttpConfig,
    stop: CancellationToken,
}

impl Server {
    /// Serves a connection until it ends, is evicted, or the server stops.
    async fn connection(self: Arc<Self>, socket: TcpStream, admitted: Admitted) {
        let connection = &admitted.connection;
        let peer = connection.peer;
        let begun = tokio::select! {
            begun = tokio::time::timeout(self.config.header_timeout, has_begun(&socket)) => begun,
            () = connection.end.cancelled() => return,
            () = self.stop.cancelled() => return,
        };
        match begun {
            Ok(Ok(true)) => {}
            Ok(_) => return,
            Err(_) => {
                connection.metrics.ended(Ended::Silent);
                return;
            }
        }
        let (server, of) = (self.clone(), connection.clone());
        let service = service_fn(move |request| server.clone().answer(request, of.clone()));
        let stream = Stream::new(socket, connection.clone(), self.config.answer);
        let served = self.builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(served);
        let mut is_ending = false;
        loop {
            tokio::select! {
                outcome = served.as_mut() => {
                    if let Err(error) = outcome {
                        tracing::debug!(http.peer = %peer, error.message = %error, "connection ended early");
                    }
                    return;
                }
                () = connection.end.cancelled() => return,
                () = self.stop.cancelled(), if !is_ending => {}
                () = connection.is_idle(self.config.header_timeout, IDLE), if !is_ending => {}
            }
            is_ending = true;
            served.as_mut().graceful_shutdown();
        }
    }

    async fn answer(
        self: Arc<Self>,
        mut request: hyper::Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Result<Response<Answer>, Infallible> {
        let in_request = connection.begin();
        paths::normalise(request.uri_mut());
        let kind = match ingest::is_route(request.uri().path()) {
            true => BodyKind::Report,
            false => BodyKind::Other,
        };
        let peer = ConnectInfo(connection.peer);
        request.extensions_mut().insert(peer);
        let request = request
            .map(|body| Body::new(RequestBody::new(body, kind, connection, self.config.body)));
        let answered = self.routes.current().call(request).await;
        let response = answered.unwrap_or_else(|never| match never {});
        Ok(response.map(|body| Answer::new(body, in_request)))
    }
}

/// Waits until a connection has sent enough to distinguish HTTP/1 from HTTP/2; `false` when it ended before. hyper
/// waits for that without a time-out, so silent connections could otherwise stay for ever.
async fn has_begun(stream: &TcpStream) -> std::io::Result<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // Only a client that stops inside of the preface is polled more than once.
    const AGAIN: Duration = Duration::from_millis(20);
    let mut start = [0; 24];
    loop {
        let length = stream.peek(&mut start).await?;
        let said = &start[..length];
        if length == 0 || length == PREFACE.len() || !PREFACE.starts_with(said) {
            return Ok(length > 0);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The next connection. A failure to accept concerns the machine (file descriptors), so it is retried after a pause.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(http.peer = %peer, error.message = %error, "could not set TCP_NODELAY");
                }
                return (stream, peer);
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error.message = %error, "cannot accept connections");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Whether only the connection being accepted failed, not the listener.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionAborted | ConnectionReset
    )
}

#[cfg(test)]
mod tests;
