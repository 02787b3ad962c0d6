//! The body of a request, which fails once it arrives too slowly.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::connections::{BodyKind, BodyWait, Connection, Ended};
use super::pace::{PaceLimits, Stall};

/// The body that routers receive. An error of kind [`io::ErrorKind::TimedOut`] means that the client was too slow.
pub(crate) struct RequestBody {
    incoming: Incoming,
    kind: BodyKind,
    connection: Arc<Connection>,
    stall: Stall,
    /// Present while the handler waits for the body.
    wait: Option<BodyWait>,
}

impl RequestBody {
    pub(crate) fn new(
        incoming: Incoming,
        kind: BodyKind,
        connection: Arc<Connection>,
        limits: PaceLimits,
    ) -> Self {
        Self {
            incoming,
            kind,
            connection,
            stall: Stall::new(limits),
            wait: None,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                this.wait = None;
                let data = frame
                    .as_ref()
                    .and_then(|frame| frame.as_ref().ok()?.data_ref());
                this.stall.moved(data.map_or(0, Bytes::len));
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending if this.stall.poll_overdue(cx).is_pending() => {
                if this.wait.is_none() {
                    this.wait = Some(this.connection.wait_for_body(this.kind));
                }
                Poll::Pending
            }
            Poll::Pending => {
                this.wait = None;
                this.connection.metrics.ended(Ended::SlowBody);
                let message = "the body arrives too slowly";
                let error = io::Error::new(io::ErrorKind::TimedOut, message);
                Poll::Ready(Some(Err(error.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
