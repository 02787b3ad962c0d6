//! The path of an event from a client, its runs and its messages into the queue, and the end of that.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use reqwest::header::HeaderValue;

use crate::event::Event;
use crate::queue::{Bounds, Queue};
use crate::sender::{Connection, Sender, Shared};
use crate::settings::Settings;
use crate::stats::Stats;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not an HTTP URL.
    #[error("`{0}` is no address of a server: it begins with http:// or https://")]
    Url(String),
    /// The key contains characters that are invalid in a header.
    #[error("the API key holds characters that a header cannot")]
    Key,
    /// The thread that sends could not be started.
    #[error("the thread that sends events could not be started: {0}")]
    Thread(#[from] std::io::Error),
    /// No HTTP client can be made, for example without certificates.
    #[error("HTTP cannot be used: {0}")]
    Http(String),
}

/// Queues events for the thread that sends. Clones share the queue; when the last one is dropped, it closes.
#[derive(Clone)]
pub(crate) struct Reporter(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    app_id: Option<String>,
    close_timeout: Duration,
    /// Sends, on a runtime of its own, so that it outlives the program's.
    thread: Option<JoinHandle<()>>,
}

impl Inner {
    /// Rejects further events, and has the queued ones sent within `close_timeout`. Only the first call counts.
    fn close(&self) {
        self.shared.queue().close();
        self.shared.close_by.send_if_modified(|by| {
            let is_first = by.is_none();
            // Stands in for no bound.
            let far = Duration::from_secs(86_400);
            by.get_or_insert(Instant::now() + self.close_timeout.min(far));
            is_first
        });
    }
}

impl Drop for Inner {
    /// Blocks for at most `close_timeout`: when `main` returns, a thread that was not waited for is gone.
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Reporter {
    /// See [`crate::Client::start`].
    pub(crate) fn start(settings: Settings) -> Result<Self, ClientError> {
        let is_http = ["http://", "https://"]
            .iter()
            .any(|scheme| settings.url.starts_with(scheme));
        let url = reqwest::Url::parse(&settings.url).ok();
        if !is_http || !url.is_some_and(|url| url.has_host()) {
            return Err(ClientError::Url(settings.url));
        }
        let authorization = settings
            .api_key
            .as_ref()
            .map(|key| {
                let mut value = HeaderValue::try_from(format!("Bearer {key}"))?;
                value.set_sensitive(true);
                Ok::<_, reqwest::header::InvalidHeaderValue>(value)
            })
            .transpose()
            .map_err(|_| ClientError::Key)?;
        // No redirects: neither a report nor its key goes to another server.
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(crate::identity::NAME)
            .build()
            .map_err(|error| ClientError::Http(error.to_string()))?;
        let shared = Arc::new(Shared::new(Queue::new(Bounds::of(&settings))));
        let (app_id, close_timeout) = (settings.app_id.clone(), settings.close_timeout);
        let connection = Connection {
            http,
            authorization,
        };
        let sender = Sender::new(Arc::clone(&shared), settings, connection);
        let thread = std::thread::Builder::new()
            .name("spindle-client".to_owned())
            .spawn(move || sender.run())?;
        Ok(Self(Arc::new(Inner {
            shared,
            app_id,
            close_timeout,
            thread: Some(thread),
        })))
    }

    /// See [`crate::Client::report`].
    pub(crate) fn report(&self, mut event: Event) {
        // A program that reports faster than events can be sent pays next to nothing for dropped ones.
        if self.0.shared.queue().refuses() {
            return;
        }
        if event.app_id.is_none() {
            event.app_id.clone_from(&self.0.app_id);
        }
        let is_full = self.0.shared.queue().push(event.to_json());
        if is_full {
            self.0.shared.full.notify_one();
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.0.shared.queue().stats()
    }

    /// See [`crate::Client::close`].
    pub(crate) async fn close(&self) -> Stats {
        self.0.close();
        let mut done = self.0.shared.done.subscribe();
        // This client holds the sender, so the wait ends with the task.
        let _ = done.wait_for(|is_done| *is_done).await;
        self.stats()
    }
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter")
            .field("stats", &self.stats())
            .finish()
    }
}
