//! Connections to the current replica.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::Service;

use super::{Replicas, probe};
use crate::client::http::{self, Connector};

/// Time-out of connecting: a replica behind a network failure does not answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A client of these replicas.
pub(crate) fn client(replicas: &Arc<Replicas>) -> clickhouse::Client {
    let mut http = http::connector();
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_nodelay(true);
    let connector = ReplicaConnector {
        http,
        replicas: replicas.clone(),
        probing: Arc::default(),
    };
    http::client(connector)
}

/// Connects to the current replica, or the next that can be reached, whatever host the URL names.
#[derive(Clone)]
struct ReplicaConnector {
    http: Connector,
    replicas: Arc<Replicas>,
    /// Probing starts with the first connection.
    probing: Arc<probe::Once>,
}

impl Service<Uri> for ReplicaConnector {
    type Response = TokioIo<Watched>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<TokioIo<Watched>, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        self.probing.begin(&self.replicas);
        let (mut http, replicas) = (self.http.clone(), self.replicas.clone());
        Box::pin(async move {
            let mut last = io::Error::other("there is no replica");
            for replica in replicas.order() {
                let address = replicas.addresses[replica].name();
                let Ok(uri) = format!("http://{address}/").parse::<Uri>() else {
                    continue;
                };
                match http.call(uri).await {
                    Ok(stream) => {
                        return Ok(TokioIo::new(Watched {
                            stream: stream.into_inner(),
                            replicas,
                            replica,
                            is_asked: true,
                        }));
                    }
                    Err(error) => {
                        replicas.failed(replica, "it cannot be reached");
                        last = io::Error::other(error);
                    }
                }
            }
            Err(last)
        })
    }
}

/// A connection that reports when it breaks while a response is due.
struct Watched {
    stream: TcpStream,
    replicas: Arc<Replicas>,
    replica: usize,
    /// Whether a response is due: before the first one, and after every write.
    is_asked: bool,
}

impl Watched {
    /// A connection that breaks while no response is due says nothing about the replica: servers close idle
    /// connections.
    fn broke(&self) {
        if self.is_asked {
            self.replicas
                .failed(self.replica, "it broke off a connection");
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let is_end = buffer.filled().len() == before && room > 0;
        match &polled {
            Poll::Ready(Ok(())) if !is_end => self.is_asked = false,
            Poll::Ready(_) => self.broke(),
            Poll::Pending => {}
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        match &polled {
            Poll::Ready(Ok(_)) => self.is_asked = true,
            Poll::Ready(Err(_)) => self.broke(),
            Poll::Pending => {}
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connection for Watched {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}
