//! A connection's socket, which fails once its client reads too slowly.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::connections::{Connection, Ended};
use super::pace::{PaceLimits, Stall};

/// Bytes that the kernel holds unsent before the socket counts as full. By default the kernel takes megabytes, and a
/// slow client looks stalled for as long as it needs for a third of them.
const UNSENT_BYTES: u32 = 64 << 10;

/// Only writing is bounded here; reads are bounded by what is read.
pub(crate) struct Stream {
    socket: TcpStream,
    connection: Arc<Connection>,
    stall: Stall,
}

impl Stream {
    pub(crate) fn new(socket: TcpStream, connection: Arc<Connection>, limits: PaceLimits) -> Self {
        let set = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES);
        if let Err(error) = set {
            tracing::debug!(http.peer = %connection.peer, error.message = %error, "could not set TCP_NOTSENT_LOWAT");
        }
        Self {
            socket,
            connection,
            stall: Stall::new(limits),
        }
    }

    fn written(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = &polled {
            self.stall.moved(written.as_ref().copied().unwrap_or(0));
            return polled;
        }
        ready!(self.stall.poll_overdue(cx));
        self.connection.metrics.ended(Ended::SlowAnswer);
        let message = "the client takes the answer too slowly";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, into)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.written(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
