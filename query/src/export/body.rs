//! The answer of an export: a stream that is fed by a task, ends only when everything was sent, and breaks off
//! visibly otherwise.
//!
//! The task reads the next rows while the last ones are encoded and sent. It ends with the answer: when the client
//! goes away, its future is dropped, and with it the query under way (Q1). A client that takes nothing for a minute is
//! given up, so that it holds neither a place nor memory (X1).

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use schemas::timestamp::{UnixMs, to_text};
use store::StoreError;
use store::filter_sql::Projects;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::Format;
use super::permits::Place;
use super::row::Row;
use crate::access::Caller;
use crate::error::Refusal;
use crate::state::QueryState;

/// Bytes handed to the connection at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces waiting for the client.
const PIECES_WAITING: usize = 4;
/// A client that takes no piece for so long is given up: slower than 4 KB/s is not a download.
const STALL: Duration = Duration::from_secs(60);

/// Where the rows come from.
pub(crate) trait Source: Send + 'static {
    /// The next rows; none at the end. Dropping the future cancels its queries.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;
}

/// Turns rows into the bytes of a format.
pub(crate) trait Encoder: Send {
    /// Appends what can be written of these rows; some may be kept for later.
    fn rows(&mut self, rows: Vec<Row>, out: &mut Vec<u8>) -> io::Result<()>;
    /// Appends what is left. Nothing comes after it.
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()>;
}

/// Who asked for an export, and what they were allowed then. Asked again before each read: a credential that is revoked
/// ends the exports it began.
pub(crate) struct Asker {
    pub(crate) caller: Caller,
    /// The project they chose.
    pub(crate) chosen: Option<String>,
    /// What they reached with that.
    pub(crate) projects: Projects,
}

impl Asker {
    async fn may_go_on(&self, state: &QueryState) -> Result<(), Broken> {
        let caller = self.caller.again(state).await.map_err(Broken::Store)?;
        let projects = caller.and_then(|caller| caller.readable(self.chosen.as_deref()).ok());
        if projects.as_ref() == Some(&self.projects) {
            Ok(())
        } else {
            Err(Broken::NotAllowed)
        }
    }
}

/// What the headers of the answer say.
pub(crate) struct Head {
    format: Format,
    what: &'static str,
    began_ms: UnixMs,
}

impl Head {
    /// For a file of `what`; `began_ms` is when the first export of a row of them began.
    pub(crate) fn new(format: Format, what: &'static str, began_ms: UnixMs) -> Self {
        Self {
            format,
            what,
            began_ms,
        }
    }

    fn into_response(self, body: Body) -> Response {
        let began_at = to_text(self.began_ms);
        let stamp: String = began_at
            .chars()
            .filter(|c| c.is_ascii_alphanumeric())
            .collect();
        let name = format!("spindle-{}-{stamp}.{}", self.what, self.format.extension());
        let mut response = body.into_response();
        let headers = response.headers_mut();
        let content_type = HeaderValue::from_static(self.format.content_type());
        headers.insert(CONTENT_TYPE, content_type);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        for (header, value) in [
            (
                CONTENT_DISPOSITION.as_str(),
                format!("attachment; filename=\"{name}\""),
            ),
            ("x-export-began-at", began_at),
        ] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(header, value);
            }
        }
        response
    }
}

/// Reads the first rows, so that what fails before the first byte is an answer of its own, and streams the rest.
pub(crate) async fn respond(
    state: &QueryState,
    asker: Asker,
    mut source: impl Source,
    (encoder, head): (Box<dyn Encoder>, Head),
) -> Result<Response, Refusal> {
    let mut place = state.exports().take(&asker.caller, head.format.name())?;
    let first = source.next().await.inspect_err(|_| place.failed())?;
    let (sender, pieces) = mpsc::channel(PIECES_WAITING);
    let feeding = feed(
        (state.clone(), asker),
        source,
        encoder,
        (first, place, sender),
    );
    let task = AbortOnDropHandle::new(tokio::spawn(feeding));
    let feed = Feed {
        pieces,
        is_over: false,
        _task: task,
    };
    // Fused: whoever compresses the answer asks once more after the end.
    let body = Body::from_stream(stream::unfold(feed, Feed::next).fuse());
    Ok(head.into_response(body))
}

/// What the task hands over. Without the last one the answer is not whole.
enum Piece {
    Bytes(Bytes),
    End,
}

struct Feed {
    pieces: mpsc::Receiver<Piece>,
    is_over: bool,
    _task: AbortOnDropHandle<()>,
}

impl Feed {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.is_over {
            return None;
        }
        match self.pieces.recv().await {
            Some(Piece::Bytes(bytes)) => Some((Ok(bytes), self)),
            Some(Piece::End) => None,
            None => {
                self.is_over = true;
                // The connection is closed without the end of the body: the client sees that something is missing.
                Some((Err(io::Error::other("the export broke off")), self))
            }
        }
    }
}

async fn feed(
    allowed: (QueryState, Asker),
    source: impl Source,
    encoder: Box<dyn Encoder>,
    (first, mut place, sender): (Vec<Row>, Place, mpsc::Sender<Piece>),
) {
    match pump(&allowed, source, encoder, (first, &place, &sender)).await {
        Ok(()) => place.complete(),
        Err(Broken::Store(error)) => {
            place.failed();
            // Logs what happened; there is nobody left to tell.
            let _ = Refusal::from(error);
        }
        Err(Broken::Encoder(error)) => {
            place.failed();
            tracing::error!(error.message = %error, "an export could not be encoded");
        }
        Err(Broken::NotAllowed) => {
            place.failed();
            tracing::info!("an export was ended because its credential is not what it was");
        }
        Err(Broken::Stalled) => {
            tracing::warn!("the client of an export took nothing for a minute and was given up");
        }
        Err(Broken::Gone) => {}
    }
}

/// Why an export did not come to its end.
enum Broken {
    Store(StoreError),
    Encoder(io::Error),
    NotAllowed,
    Stalled,
    Gone,
}

async fn pump(
    (state, asker): &(QueryState, Asker),
    mut source: impl Source,
    mut encoder: Box<dyn Encoder>,
    (mut rows, place, sender): (Vec<Row>, &Place, &mpsc::Sender<Piece>),
) -> Result<(), Broken> {
    loop {
        let is_last = rows.is_empty();
        place.read(rows.len());
        // Packing some thousand rows takes tens of milliseconds: not on a thread that serves connections.
        let encode = tokio::task::spawn_blocking(move || {
            let mut out = Vec::new();
            let done = if is_last {
                encoder.end(&mut out)
            } else {
                encoder.rows(rows, &mut out)
            };
            done.map(|()| (encoder, out))
        });
        let next = async {
            if is_last {
                return Ok(Vec::new());
            }
            asker.may_go_on(state).await?;
            source.next().await.map_err(Broken::Store)
        };
        let (encoded, next) = tokio::join!(encode, next);
        let encoded = encoded.map_err(|error| Broken::Encoder(io::Error::other(error)))?;
        let (same, out) = encoded.map_err(Broken::Encoder)?;
        encoder = same;
        let mut out = Bytes::from(out);
        while !out.is_empty() {
            let piece = out.split_to(out.len().min(PIECE_BYTES));
            send(sender, Piece::Bytes(piece)).await?;
        }
        if is_last {
            return send(sender, Piece::End).await;
        }
        rows = next?;
    }
}

async fn send(sender: &mpsc::Sender<Piece>, piece: Piece) -> Result<(), Broken> {
    use mpsc::error::SendTimeoutError;
    match sender.send_timeout(piece, STALL).await {
        Ok(()) => Ok(()),
        Err(SendTimeoutError::Timeout(_)) => Err(Broken::Stalled),
        Err(SendTimeoutError::Closed(_)) => Err(Broken::Gone),
    }
}
