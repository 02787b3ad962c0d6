//! The sending task: a batch every interval, at once if one is full, and the rest when the client closes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use tokio::sync::{Notify, watch};

use crate::answer::{self, Outcome};
use crate::queue::{Batch, Fate, Queue};
use crate::settings::Settings;
use crate::stats::Stats;

/// Minimum time between two warnings: an unreachable server is logged once per interval, not once per batch.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);
/// Bytes of a response that are read: a report with all its reasons has some tens of kilobytes.
const ANSWER_BYTES: usize = 1 << 20;

/// Shared by the program and the task.
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    /// Notified when a batch is full.
    pub(crate) full: Notify,
    /// When everything has to be sent; set once, when the client closes.
    pub(crate) close_by: watch::Sender<Option<Instant>>,
    pub(crate) done: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(queue: Queue) -> Self {
        Self {
            queue: Mutex::new(queue),
            full: Notify::new(),
            close_by: watch::Sender::new(None),
            done: watch::Sender::new(false),
        }
    }

    /// Held for a push or a count, never over a wait.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Connection {
    pub(crate) http: reqwest::Client,
    pub(crate) authorization: Option<HeaderValue>,
}

/// State of the task.
pub(crate) struct Sender {
    shared: Arc<Shared>,
    settings: Settings,
    connection: Connection,
    url: String,
    warned: Option<(Instant, Stats)>,
}

/// Releases waiting callers, however the task ends.
struct Done(Arc<Shared>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.queue().leave();
        self.0.done.send_replace(true);
    }
}

impl Sender {
    pub(crate) fn new(shared: Arc<Shared>, settings: Settings, connection: Connection) -> Self {
        Self {
            url: format!("{}/api/report", settings.url.trim_end_matches('/')),
            shared,
            settings,
            connection,
            warned: None,
        }
    }

    /// Sends until the client closes, on a runtime of its own on this thread. It ends without waiting for a look-up of
    /// the server's name that hangs.
    pub(crate) fn run(self) {
        let _done = Done(Arc::clone(&self.shared));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => {
                runtime.block_on(self.send_all());
                runtime.shutdown_background();
            }
            Err(error) => tracing::error!(error = %error, "events cannot be sent"),
        }
    }

    /// Sends until the client closes, then the rest, as far as there is time.
    async fn send_all(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut close_by = shared.close_by.subscribe();
        while close_by.borrow_and_update().is_none() {
            let is_full = shared.queue().is_batch_full();
            if !is_full {
                tokio::select! {
                    () = tokio::time::sleep(self.settings.flush_interval) => {}
                    () = shared.full.notified() => {}
                    _ = close_by.changed() => continue,
                }
            }
            self.send_next().await;
        }
        while self.send_next().await {}
    }

    async fn send_next(&mut self) -> bool {
        let Some(batch) = self.shared.queue().take() else {
            return false;
        };
        let mut settling = Settling {
            shared: &self.shared,
            events: batch.events,
            fate: Fate::Left,
        };
        let (fate, why) = self.deliver(&batch).await;
        settling.fate = fate;
        drop(settling);
        if let Some(why) = why {
            self.warn(&why);
        }
        true
    }

    async fn deliver(&self, batch: &Batch) -> (Fate, Option<String>) {
        let mut close_by = self.shared.close_by.subscribe();
        let mut retry = 0;
        loop {
            let outcome = tokio::select! {
                biased;
                () = over(&mut close_by) => return (Fate::Left, Some("there was no more time".to_owned())),
                outcome = self.attempt(&batch.body) => outcome,
            };
            let (why, after) = match outcome {
                Outcome::Taken {
                    accepted,
                    rejected,
                    reason,
                } => return (Fate::Sent { accepted, rejected }, reason),
                Outcome::Never { why } => return (Fate::Failed, Some(why)),
                Outcome::Later { why, .. } if retry >= self.settings.retries => {
                    return (Fate::Failed, Some(why));
                }
                Outcome::Later { why, after } => (why, after),
            };
            let wait = answer::wait(retry, self.settings.retry_wait, after, share());
            tokio::select! {
                biased;
                () = over(&mut close_by) => return (Fate::Left, Some(why)),
                () = tokio::time::sleep(wait) => {}
            }
            retry += 1;
            self.shared.queue().retried();
        }
    }

    async fn attempt(&self, body: &str) -> Outcome {
        let mut request = self.connection.http.post(&self.url);
        if let Some(authorization) = &self.connection.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .timeout(self.settings.request_timeout)
            .body(body.to_owned());
        // The message of a failed request may contain its URL, and a URL a password.
        let later = |error: reqwest::Error| Outcome::Later {
            why: error.without_url().to_string(),
            after: None,
        };
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return later(error),
        };
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok().map(str::to_owned));
        let mut bytes = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= ANSWER_BYTES => {
                    bytes.extend_from_slice(&chunk);
                }
                Ok(_) => break,
                // The status alone is enough, except for a 200 with an incomplete body.
                Err(error) if status == 200 => return later(error),
                Err(_) => break,
            }
        }
        answer::outcome(status, retry_after.as_deref(), &bytes)
    }

    /// Logs what was lost, at most every half minute.
    fn warn(&mut self, why: &str) {
        let now = Instant::now();
        let before = match self.warned {
            Some((at, _)) if now.duration_since(at) < WARNING_INTERVAL => return,
            Some((_, before)) => before,
            None => Stats::default(),
        };
        let stats = self.shared.queue().stats();
        self.warned = Some((now, stats));
        tracing::warn!(
            spindle.dropped = stats.dropped.total() - before.dropped.total(),
            spindle.rejected = stats.rejected - before.rejected,
            spindle.waiting = stats.waiting,
            spindle.reason = why,
            "events did not reach Spindle"
        );
    }
}

/// Settles a batch, also when the task is dropped in the middle of it.
struct Settling<'a> {
    shared: &'a Shared,
    events: u64,
    fate: Fate,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.shared.queue().settle(self.events, self.fate);
    }
}

/// Waits until the deadline of closing has passed; for ever while the client is open.
async fn over(close_by: &mut watch::Receiver<Option<Instant>>) {
    loop {
        let by = *close_by.borrow_and_update();
        match by {
            Some(by) => return tokio::time::sleep_until(by.into()).await,
            None if close_by.changed().await.is_err() => std::future::pending().await,
            None => {}
        }
    }
}

/// A random share from 0 to 1.
fn share() -> f64 {
    (uuid::Uuid::new_v4().as_u64_pair().0 >> 11) as f64 / (1u64 << 53) as f64
}
