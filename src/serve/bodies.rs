//! Bounds on the request bodies of the query tier, which its handlers read completely.
//!
//! The decompressed bytes of all of them count against one budget (X1). The ingest tier has a separate budget, so that
//! the two together bound the process, and neither takes from the other: reports are accepted while everything else is
//! full.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_ENCODING;
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use ingest::{Compressed, InFlight, Reservation};
use prometheus::{IntGauge, Registry};

/// The memory budget of these bodies.
pub(crate) fn budget(
    limit: usize,
    registry: &Registry,
) -> Result<Arc<InFlight>, prometheus::Error> {
    let gauge = IntGauge::new(
        "spindle_query_in_flight_bytes",
        "Decompressed bytes of request bodies being read or worked on.",
    )?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(InFlight::new(limit, gauge))
}

/// Bounds the compressed bytes of a body. Belongs outside of the decompression.
pub(crate) async fn bound_compressed(request: Request, next: Next) -> Response {
    let request = match request.headers().contains_key(CONTENT_ENCODING) {
        true => {
            let limit = query::body_limit(request.uri().path());
            request.map(|body| Body::from_stream(Compressed::new(body, limit)))
        }
        false => request,
    };
    next.run(request).await
}

/// Counts a body against the budget until the request has a response. Belongs inside of the decompression.
pub(crate) async fn count(
    State(budget): State<Arc<InFlight>>,
    request: Request,
    next: Next,
) -> Response {
    let reservation = Arc::new(Mutex::new(budget.begin()));
    let counted = reservation.clone();
    let request = request.map(|body| Body::new(Counted { body, counted }));
    let response = next.run(request).await;
    drop(reservation);
    response
}

/// A body that fails with [`io::ErrorKind::OutOfMemory`] when the budget is used up.
struct Counted {
    body: Body,
    counted: Arc<Mutex<Reservation>>,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            if !counted.grow(data.len()) {
                let message = "memory for request bodies is taken";
                let error = io::Error::new(io::ErrorKind::OutOfMemory, message);
                return Poll::Ready(Some(Err(error.into())));
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
