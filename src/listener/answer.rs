//! The body of a response, and the bound on how long an HTTP/2 stream may hold it.
//!
//! Over HTTP/1.1 a client that does not read fills the socket, which `stream.rs` notices. Over HTTP/2 it may keep the
//! window of one stream closed while others continue, so each stream has its own [`Pace`] and is reset when that runs
//! out.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body as AnyBody;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::Instant;

use super::connections::{Ended, HttpMetrics, InRequest};
use super::pace::{Pace, PaceLimits};

/// Largest chunk passed to a stream at once: how much a stream has taken is known per chunk.
const PIECE_BYTES: usize = 16 << 10;

tokio::task_local! {
    /// The outlet of the stream that this task serves.
    static OUTLET: Arc<Outlet>;
}

/// Progress of the response body of one HTTP/2 stream.
struct Outlet(Mutex<Leaving>);

struct Leaving {
    pace: Pace,
    /// The chunk that was passed last, and when: taken as soon as another one is requested.
    handed: Option<(usize, Instant)>,
}

impl Outlet {
    fn leaving<T>(&self, with: impl FnOnce(&mut Leaving) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn taken(&self) {
        self.leaving(|leaving| {
            if let Some((bytes, since)) = leaving.handed.take() {
                leaving.pace.waited(since.elapsed());
                leaving.pace.moved(bytes);
            }
        });
    }

    fn hand(&self, bytes: usize) {
        self.leaving(|leaving| leaving.handed = Some((bytes, Instant::now())));
    }

    /// Returns when the client takes too long for a chunk.
    async fn overdue(&self, longest: Duration) {
        loop {
            let left = self.leaving(|leaving| match leaving.handed {
                Some((_, since)) => leaving.pace.left().saturating_sub(since.elapsed()),
                None => longest,
            });
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// Runs the streams of HTTP/2 connections, each with a bound on how long its client may hold it.
#[derive(Clone)]
pub(crate) struct Streams {
    pub(crate) limits: PaceLimits,
    pub(crate) metrics: HttpMetrics,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let Self { limits, metrics } = self.clone();
        let outlet = Arc::new(Outlet(Mutex::new(Leaving {
            pace: Pace::new(limits),
            handed: None,
        })));
        tokio::spawn(async move {
            let served = OUTLET.scope(outlet.clone(), stream);
            tokio::select! {
                () = served => {}
                // Dropping the future resets the stream.
                () = outlet.overdue(limits.stall) => metrics.ended(Ended::SlowAnswer),
            }
        });
    }
}

/// A response body. The request is over when it is dropped.
pub(crate) struct Answer {
    body: AnyBody,
    /// Data that did not fit into the last chunk.
    rest: Bytes,
    outlet: Option<Arc<Outlet>>,
    _request: InRequest,
}

impl Answer {
    /// Call in the task that serves the request.
    pub(crate) fn new(body: AnyBody, request: InRequest) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            outlet: OUTLET.try_with(Arc::clone).ok(),
            _request: request,
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let Some(outlet) = &this.outlet else {
            return Pin::new(&mut this.body).poll_frame(cx);
        };
        outlet.taken();
        if this.rest.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        outlet.hand(piece.len());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(outlet) = &self.outlet {
            outlet.taken();
        }
    }
}
