//! An export of OpenTelemetry as a format of intake, over HTTP and over gRPC.

use api::request_body;
use axum::body::Body;
use axum::http::HeaderMap;
use schemas::api_error::ApiError;

use super::grpc;
use super::terms::Terms;
use super::translation::{ExportBody, Signal};
use super::wire::{Room, Wire};
use crate::body::{self, Bounds, Encoding, Received};
use crate::config::ClientCost;
use crate::intake::{Content, Decoded, Format};

/// Bodies up to this size are translated on the thread that serves connections. Translation takes several times as long
/// as parsing events.
/// as reading events.
const INLINE_BYTES: usize = 128 << 10;
/// Bytes of the events of a body, as a multiple of the limit of a body. The events of typical spans take about twice
/// their bytes, of empty ones twenty times.
const TRANSLATED_LIMITS: usize = 4;

pub(crate) struct HttpExport(pub(crate) Signal, pub(crate) ClientCost);

pub(crate) struct GrpcExport(pub(crate) Signal, pub(crate) ClientCost);

/// A body to translate into events of at most `limit` bytes.
pub(crate) struct Export {
    signal: Signal,
    wire: Wire,
    limit: usize,
    client_cost: ClientCost,
}

impl Export {
    fn within(signal: Signal, wire: Wire, bounds: &Bounds, client_cost: ClientCost) -> Self {
        Self {
            signal,
            wire,
            limit: bounds.bytes.saturating_mul(TRANSLATED_LIMITS),
            client_cost,
        }
    }
}

impl Format for HttpExport {
    type Content = Export;

    async fn receive(
        &self,
        headers: &HeaderMap,
        body: &mut Body,
        bounds: Bounds,
    ) -> Result<(Received, Export), ApiError> {
        let export = Export::within(self.0, Wire::of(headers)?, &bounds, self.1);
        let received = body::read(body, body::encoding(headers)?, bounds).await?;
        Ok((received, export))
    }
}

impl Format for GrpcExport {
    type Content = Export;

    async fn receive(
        &self,
        headers: &HeaderMap,
        body: &mut Body,
        bounds: Bounds,
    ) -> Result<(Received, Export), ApiError> {
        grpc::check(headers)?;
        let export = Export::within(self.0, Wire::Protobuf, &bounds, self.1);
        let framed = Bounds {
            bytes: bounds.bytes.saturating_add(grpc::HEAD_BYTES),
            ..bounds.clone()
        };
        let framed = body::read(body, Encoding::Identity, framed).await?;
        let (message, encoding) = grpc::message(framed.bytes, headers)?;
        // gRPC compresses the message, not the body.
        let received = body::read(&mut Body::from(message), encoding, bounds).await?;
        Ok((received, export))
    }
}

impl Content for Export {
    const INLINE_BYTES: usize = INLINE_BYTES;
    const CAN_NAME_KEYS: bool = false;

    fn decode(self, received: Received, now_ms: i64) -> Result<Decoded, ApiError> {
        let Self {
            signal,
            wire,
            limit,
            client_cost,
        } = self;
        let Received {
            bytes,
            mut reservation,
        } = received;
        let mut decoded = reservation.beside();
        let most = reservation.most_of_item();
        let room = Room::new(|bytes| decoded.grow(bytes), most);
        let body = ExportBody {
            wire,
            bytes: &bytes,
            terms: Terms {
                now_ms,
                client_cost,
            },
            events_bytes_max: limit,
        };
        let translation = signal.translate(body, room)?;
        drop(decoded);
        let more = translation.events.len().saturating_sub(bytes.len());
        if !reservation.may_grow(more) {
            return Err(request_body::too_large(limit));
        }
        if !reservation.grow(more) {
            return Err(request_body::no_memory());
        }
        Ok(Decoded {
            received: Received {
                bytes: translation.events,
                reservation,
            },
            refused: translation.rejections,
            is_text: false,
        })
    }
}
