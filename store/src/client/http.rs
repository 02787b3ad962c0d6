//! HTTP connections to ClickHouse.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use tower::Service;

/// Servers close idle connections after three seconds by default; the client closes its own before.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of TCP keepalive.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Opens connections.
pub(crate) type Connector = HttpConnector<WorkerResolver>;

pub(crate) fn connector() -> Connector {
    let mut connector = HttpConnector::new_with_resolver(WorkerResolver(GaiResolver::new()));
    connector.set_keepalive(Some(KEEPALIVE));
    connector
}

/// A client with connections of this connector.
pub(crate) fn client<C>(connector: C) -> clickhouse::Client
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build(connector);
    clickhouse::Client::with_http_client(client)
}

/// Resolves host names in a task of the runtime: looking one up may start a thread, which has the priority of the thread
/// that asks, and lives on for others. Exports ask on threads of low priority.
#[derive(Clone)]
pub(crate) struct WorkerResolver(GaiResolver);

impl Service<Name> for WorkerResolver {
    type Response = GaiAddrs;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<GaiAddrs, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let mut resolver = self.0.clone();
        let task = tokio::spawn(async move { resolver.call(name).await });
        Box::pin(async move { task.await.map_err(io::Error::other)? })
    }
}
