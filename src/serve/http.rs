//! The listener: accepts connections, serves them over HTTP/1.1 and HTTP/2, and ends them in order.
//!
//! Bounds (X1): connections at once, time for the headers of a request, time for requests in flight to finish once
//! the server stops. Bounds on bodies belong to the routers, which know what a body is for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::api::Gate;
use super::paths;

/// Bounds of the listener.
#[derive(Clone, Debug)]
pub(crate) struct HttpConfig {
    /// Connections open at once; further ones wait in the kernel's queue.
    pub(crate) max_connections: usize,
    /// Time for a client to send the headers of a request.
    pub(crate) header_timeout: Duration,
    /// Time for requests in flight to finish after a stop.
    pub(crate) drain_timeout: Duration,
}

/// Serves until `stop` is cancelled and the connections have ended, or the drain time is over.
pub(crate) async fn serve(
    listener: TcpListener,
    gate: Gate,
    config: HttpConfig,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(config.max_connections));
    let graceful = GracefulShutdown::new();
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(30));
    let builder = Arc::new(builder);

    loop {
        let permit = tokio::select! {
            permit = permits.clone().acquire_owned() => permit,
            () = stop.cancelled() => break,
        };
        let Ok(permit) = permit else { break };
        let (stream, peer) = tokio::select! {
            accepted = accept(&listener) => accepted,
            () = stop.cancelled() => break,
        };
        let gate = gate.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            paths::normalise(request.uri_mut());
            let mut router = gate.router();
            async move {
                Ok::<_, Infallible>(
                    router
                        .call(request)
                        .await
                        .unwrap_or_else(|never| match never {}),
                )
            }
        });
        let (builder, watcher, stop) = (builder.clone(), graceful.watcher(), stop.clone());
        tokio::spawn(async move {
            let speaks = tokio::select! {
                speaks = tokio::time::timeout(config.header_timeout, has_begun(&stream)) => speaks,
                () = stop.cancelled() => return,
            };
            if !matches!(speaks, Ok(Ok(true))) {
                tracing::debug!(http.peer = %peer, "connection closed before it said anything");
                return;
            }
            let connection = builder
                .serve_connection_with_upgrades(TokioIo::new(stream), service)
                .into_owned();
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(http.peer = %peer, error.message = %error, "connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(config.drain_timeout, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!(
            http.drain_timeout_ms = config.drain_timeout.as_millis(),
            "requests were still in flight at the end of the drain time"
        );
    }
}

/// Waits until a connection has said enough to be told HTTP/1 from HTTP/2; `false` when it ended before. The server
/// decides that without a time-out of its own, so silent connections could otherwise hold every permit for ever.
async fn has_begun(stream: &TcpStream) -> std::io::Result<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // Only a client that stops inside of the preface is looked at more than once.
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

/// The next connection. A failure to accept is the machine's (file descriptors), so it waits a moment and goes on.
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
