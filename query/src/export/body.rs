//! The response of an export: a stream that a task feeds, and that breaks visibly if it is incomplete.
//!
//! The task has a thread of its own, with less CPU than the threads that answer requests: an export takes all that is
//! left, and a page does not wait for it. It encodes and sends rows while the engine finds the next ones. It ends with
//! the response: when the client disconnects, its future is dropped, and with it the running query (Q1). A client that
//! reads nothing for a minute is disconnected, so that it holds neither a permit nor memory (X1).

use std::io;
use std::thread;
use std::time::Duration;

use api::ErrorResponse;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use schemas::api_error::ApiError;
use schemas::timestamp::{UnixMs, to_text};
use store::StoreError;
use store::reads::filter_sql::Projects;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::permits::ExportPermit;
use super::row::Row;
use super::{ExportState, Format};
use crate::access::{Authenticator, Caller};

/// Bytes that the connection gets at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that wait for the client.
const CHUNKS_WAITING: usize = 4;
/// A client that reads no chunk for this long is disconnected: slower than 4 KB/s is not a download.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// Of an export's thread: a tenth of the CPU of a thread that answers requests, where both want the same core.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

pub(crate) trait RowSource: Send + 'static {
    /// The next rows; none at the end. Dropping the future cancels its queries.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;
}

/// Encodes rows in a file format.
pub(crate) trait Encoder: Send {
    /// Appends encoded rows to `out`; some may be kept for later.
    fn rows(&mut self, rows: Vec<Row>, out: &mut Vec<u8>) -> io::Result<()>;
    /// Appends the remainder. Nothing comes after it.
    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()>;
}

/// What the caller could read when the export began. It is checked before each read, so that revoking the credential
/// ends the export.
pub(crate) struct ReadGrant {
    pub(crate) caller: Caller,
    /// The project that the request selects.
    pub(crate) chosen: Option<String>,
    pub(crate) projects: Projects,
}

impl ReadGrant {
    async fn check(&self, authenticator: &Authenticator) -> Result<(), Aborted> {
        let caller = self.caller.reauthenticate(authenticator);
        let caller = caller.await.map_err(Aborted::Store)?;
        let projects = caller.and_then(|caller| caller.readable(self.chosen.as_deref()).ok());
        if projects.as_ref() == Some(&self.projects) {
            Ok(())
        } else {
            Err(Aborted::Forbidden)
        }
    }
}

/// The file that an export writes.
pub(crate) struct ExportFile {
    pub(crate) head: Head,
    pub(crate) encoder: Box<dyn Encoder>,
}

/// Values of the response headers.
pub(crate) struct Head {
    format: Format,
    content: &'static str,
    began_ms: UnixMs,
}

impl Head {
    /// `began_ms` is when the first of a row of exports began that continue each other.
    pub(crate) fn new(format: Format, content: &'static str, began_ms: UnixMs) -> Self {
        Self {
            format,
            content,
            began_ms,
        }
    }

    fn into_response(self, body: Body) -> Response {
        let began_at = to_text(self.began_ms);
        let stamp: String = began_at
            .chars()
            .filter(|c| c.is_ascii_alphanumeric())
            .collect();
        let extension = self.format.extension();
        let name = format!("spindle-{}-{stamp}.{extension}", self.content);
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

/// Reads the first rows, so that an error before the first byte has its own response, and streams the rest.
pub(crate) async fn respond(
    state: &ExportState,
    grant: ReadGrant,
    mut source: impl RowSource,
    ExportFile { head, encoder }: ExportFile,
) -> Result<Response, ErrorResponse> {
    let mut permit = state.exports.acquire(&grant.caller, head.format.name())?;
    let first = source.next().await.inspect_err(|_| permit.failed())?;
    let (sender, chunks) = mpsc::channel(CHUNKS_WAITING);
    let task = ExportTask {
        authenticator: state.authenticator.clone(),
        grant,
        source,
        permit,
        chunks: sender,
    };
    let stream = ExportStream {
        chunks,
        is_over: false,
    };
    task.start(encoder, first)?;
    // Fused: the compression layer polls again after the end.
    let body = Body::from_stream(stream::unfold(stream, ExportStream::next).fuse());
    Ok(head.into_response(body))
}

/// A part of the body. Without `End` the export is incomplete.
enum Chunk {
    Bytes(Bytes),
    End,
}

/// The task ends when this is dropped.
struct ExportStream {
    chunks: mpsc::Receiver<Chunk>,
    is_over: bool,
}

impl ExportStream {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        if self.is_over {
            return None;
        }
        match self.chunks.recv().await {
            Some(Chunk::Bytes(bytes)) => Some((Ok(bytes), self)),
            Some(Chunk::End) => None,
            None => {
                self.is_over = true;
                // The connection closes before the end of the body, so the client sees that the export is incomplete.
                Some((Err(io::Error::other("the export is incomplete")), self))
            }
        }
    }
}

/// Why an export ended early.
enum Aborted {
    Store(StoreError),
    Encoder(io::Error),
    Forbidden,
    Stalled,
    Disconnected,
}

struct ExportTask<S> {
    authenticator: Authenticator,
    grant: ReadGrant,
    source: S,
    permit: ExportPermit,
    chunks: mpsc::Sender<Chunk>,
}

impl<S: RowSource> ExportTask<S> {
    /// Runs on a thread of its own until the export is complete or the client is gone.
    ///
    /// # Errors
    /// 503 when there is no thread for it.
    fn start(self, encoder: Box<dyn Encoder>, first: Vec<Row>) -> Result<(), ApiError> {
        let runtime = Handle::current();
        let client = self.chunks.clone();
        let work = move || {
            give_way();
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = client.closed() => {}
                    () = self.run(encoder, first) => {}
                }
            });
        };
        let thread = thread::Builder::new().name("export".to_owned()).spawn(work);
        thread.map(|_| ()).map_err(|error| {
            tracing::error!(error.message = %error, "an export has no thread");
            ApiError::unavailable("the server has no thread for an export", 1)
        })
    }

    async fn run(mut self, encoder: Box<dyn Encoder>, first: Vec<Row>) {
        match self.stream(encoder, first).await {
            Ok(()) => {}
            Err(Aborted::Store(error)) => {
                self.permit.failed();
                // Logs the error; the response has begun already.
                let _ = ErrorResponse::from(error);
            }
            Err(Aborted::Encoder(error)) => {
                self.permit.failed();
                tracing::error!(error.message = %error, "an export could not be encoded");
            }
            Err(Aborted::Forbidden) => {
                self.permit.failed();
                tracing::info!("an export ended because its credential lost the permission");
            }
            Err(Aborted::Stalled) => {
                tracing::warn!("an export ended because its client read nothing for a minute");
            }
            Err(Aborted::Disconnected) => {}
        }
    }

    async fn stream(
        &mut self,
        mut encoder: Box<dyn Encoder>,
        mut rows: Vec<Row>,
    ) -> Result<(), Aborted> {
        loop {
            let is_last = rows.is_empty();
            self.permit.read(rows.len());
            let next = async {
                match is_last {
                    true => Ok(Vec::new()),
                    false => self.next_rows().await,
                }
            };
            let encode = async {
                let mut out = Vec::new();
                let done = match is_last {
                    true => encoder.end(&mut out),
                    false => encoder.rows(rows, &mut out),
                };
                done.map(|()| out)
            };
            // In this order: the query runs while these rows are encoded.
            let (next, encoded) = tokio::join!(next, encode);
            let out = encoded.map_err(Aborted::Encoder)?;
            let mut out = Bytes::from(out);
            while !out.is_empty() {
                let chunk = out.split_to(out.len().min(CHUNK_BYTES));
                send(&self.chunks, Chunk::Bytes(chunk)).await?;
            }
            if is_last {
                // Before the client knows, so that it may begin the next one.
                self.permit.complete();
                return send(&self.chunks, Chunk::End).await;
            }
            rows = next?;
        }
    }

    async fn next_rows(&mut self) -> Result<Vec<Row>, Aborted> {
        self.grant.check(&self.authenticator).await?;
        self.source.next().await.map_err(Aborted::Store)
    }
}

/// Lowers the priority of this thread. On other systems that would be the priority of the whole process.
fn give_way() {
    // Fails only where a sandbox forbids it; the export works without it.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

async fn send(chunks: &mpsc::Sender<Chunk>, chunk: Chunk) -> Result<(), Aborted> {
    use mpsc::error::SendTimeoutError;
    match chunks.send_timeout(chunk, STALLED_AFTER).await {
        Ok(()) => Ok(()),
        Err(SendTimeoutError::Timeout(_)) => Err(Aborted::Stalled),
        Err(SendTimeoutError::Closed(_)) => Err(Aborted::Disconnected),
    }
}
