//! A compressed body on its way to a decoder.
//!
//! Decoders read until they have output. An endless sequence of empty gzip members has none: 20 bytes each, and a
//! decoder that is set up again for each of them. So compressed bytes have a separate bound, and the task yields while
//! they are read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::BoxError;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures::Stream;
use http_body_util::BodyDataStream;

/// Bytes passed to a decoder at once: 25 empty members of gzip.
const SLICE_BYTES: usize = 512;
/// Time after which the task yields; a slice takes some microseconds of it.
const TURN: Duration = Duration::from_micros(500);
/// What encoders add to incompressible bytes: gzip, zstd and brotli stay below a hundredth, and some bytes of header.
const OVERHEAD_SHARE: usize = 64;
const OVERHEAD_BYTES: usize = 1 << 10;

/// Compressed bytes. Ends with [`io::ErrorKind::FileTooLarge`] past its bound; other errors come from the body.
#[derive(Debug)]
pub struct Compressed<B = Body> {
    body: BodyDataStream<B>,
    /// Bytes that may still arrive.
    left: usize,
    /// Bytes that arrived and were not passed on yet.
    ahead: Bytes,
    /// Start of the task's turn, as far as known.
    turn: Option<Instant>,
}

impl<B> Compressed<B> {
    /// For a body of at most `bytes` decompressed bytes.
    pub fn new(body: B, bytes: usize) -> Self {
        Self {
            body: BodyDataStream::new(body),
            left: bytes
                .saturating_add(bytes / OVERHEAD_SHARE)
                .saturating_add(OVERHEAD_BYTES),
            ahead: Bytes::new(),
            turn: None,
        }
    }
}

impl<B> Stream for Compressed<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Item = io::Result<Bytes>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        let this = &mut *self;
        if this.turn.get_or_insert_with(Instant::now).elapsed() >= TURN {
            this.turn = None;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        while this.ahead.is_empty() {
            match Pin::new(&mut this.body).poll_next(cx) {
                Poll::Ready(Some(Ok(bytes))) => this.ahead = bytes,
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    this.turn = None;
                    return Poll::Pending;
                }
            }
        }
        let slice = this.ahead.split_to(this.ahead.len().min(SLICE_BYTES));
        let Some(left) = this.left.checked_sub(slice.len()) else {
            let message = "more compressed bytes than the bound on the body allows";
            let error = io::Error::new(io::ErrorKind::FileTooLarge, message);
            return Poll::Ready(Some(Err(error)));
        };
        this.left = left;
        Poll::Ready(Some(Ok(slice)))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn bytes_come_in_slices_and_end_at_the_bound() {
        let mut within = Compressed::new(Body::from(vec![7; 10_000]), 10_000);
        let mut sizes = Vec::new();
        while let Some(slice) = within.next().await {
            sizes.push(slice.unwrap().len());
        }
        assert_eq!(sizes.iter().sum::<usize>(), 10_000);
        assert!(sizes.iter().all(|size| (1..=SLICE_BYTES).contains(size)));

        let mut over = Compressed::new(Body::from(vec![7; 200_000]), 100_000);
        let mut bytes = 0;
        let error = loop {
            match over.next().await.unwrap() {
                Ok(slice) => bytes += slice.len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!((100_000..103_000).contains(&bytes), "{bytes}");
    }

    #[tokio::test]
    async fn others_get_their_turn_between_slices() {
        let mut slices = Compressed::new(Body::from(vec![7; 3 * SLICE_BYTES]), 1 << 20);
        let mut yields = 0;
        let all = std::future::poll_fn(|cx| {
            loop {
                match slices.poll_next_unpin(cx) {
                    // A slow decoder.
                    Poll::Ready(Some(_)) => std::thread::sleep(TURN),
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        yields += 1;
                        return Poll::Pending;
                    }
                }
            }
        });
        all.await;
        assert_eq!(yields, 3);
    }
}
