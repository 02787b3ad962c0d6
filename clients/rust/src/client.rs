//! The client: takes events without waiting, and has them sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::header::HeaderValue;

use crate::event::{Event, Kind, Rating, Role};
use crate::identity::new_id;
use crate::message::Message;
use crate::queue::{Bounds, Queue};
use crate::run::RunBuilder;
use crate::sender::{Sender, Shared};
use crate::settings::Settings;
use crate::stats::Stats;

/// Why a client could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is no address of HTTP.
    #[error("`{0}` is no address of a server: it begins with http:// or https://")]
    Url(String),
    /// The key holds characters that no header can.
    #[error("the API key holds characters that a header cannot")]
    Key,
    /// There is no runtime of tokio to send from.
    #[error("a client is started inside of a tokio runtime")]
    NoRuntime,
    /// There can be no HTTP client, for example without certificates.
    #[error("HTTP cannot be used: {0}")]
    Http(String),
}

/// Takes events and sends them in the background. Clones are the same client; when the last one is dropped, what waits
/// is still sent, as far as the runtime goes on for it. [`Client::close`] waits for that.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    app_id: Option<String>,
    close_timeout: Duration,
}

impl Drop for Inner {
    fn drop(&mut self) {
        close(&self.shared, self.close_timeout);
    }
}

/// Takes no more events, and has those that wait sent within this time. Only the first time counts.
fn close(shared: &Shared, within: Duration) {
    shared.queue().close();
    shared.close_by.send_if_modified(|by| {
        let is_first = by.is_none();
        // Without a bound the far future will do.
        let far = Duration::from_secs(86_400);
        by.get_or_insert(Instant::now() + within.min(far));
        is_first
    });
}

impl Client {
    /// Starts a client, and on the current runtime the task that sends. The server need not be there.
    ///
    /// # Errors
    /// When the settings cannot be meant, or outside of a tokio runtime.
    pub fn start(settings: Settings) -> Result<Self, ClientError> {
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
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| ClientError::NoRuntime)?;
        // A report is never sent on to somewhere else, and its key neither.
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| ClientError::Http(error.to_string()))?;
        let shared = Arc::new(Shared::new(Queue::new(Bounds::of(&settings))));
        let inner = Inner {
            shared: Arc::clone(&shared),
            app_id: settings.app_id.clone(),
            close_timeout: settings.close_timeout,
        };
        runtime.spawn(Sender::new(shared, settings, (http, authorization)).run());
        Ok(Self(Arc::new(inner)))
    }

    /// Takes an event as it is, but for the app, which it gets where it names none. Never waits: an event that cannot
    /// be kept is dropped and counted.
    pub fn report(&self, mut event: Event) {
        // A program that reports faster than can be sent pays next to nothing for what is dropped.
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

    /// A run of an agent.
    pub fn agent(&self, name: impl Into<String>) -> RunBuilder {
        self.run(Kind::Agent, name)
    }

    /// A run of several steps in order.
    pub fn chain(&self, name: impl Into<String>) -> RunBuilder {
        self.run(Kind::Chain, name)
    }

    /// A run of a tool.
    pub fn tool(&self, name: impl Into<String>) -> RunBuilder {
        self.run(Kind::Tool, name)
    }

    /// A call of a model, which is its name as well.
    pub fn llm(&self, model: impl Into<String>) -> RunBuilder {
        let model = model.into();
        self.run(Kind::Llm, model.clone()).model(model)
    }

    fn run(&self, kind: Kind, name: impl Into<String>) -> RunBuilder {
        RunBuilder::new(self.clone(), kind, name.into())
    }

    /// A message of a conversation.
    pub fn chat(&self, role: Role, content: impl Into<String>) -> Message {
        Message::new(self.clone(), role, content.into())
    }

    /// A judgement on a run or a message.
    pub fn feedback(&self, run_id: impl Into<String>, rating: Rating, comment: Option<&str>) {
        self.report(Event {
            rating: Some(rating),
            comment: comment.map(str::to_owned),
            ..Event::new("feedback", run_id)
        });
    }

    /// Keeps a run past retention, for datasets.
    pub fn saved(&self, run_id: impl Into<String>) {
        self.report(Event::new("saved", run_id));
    }

    /// Takes that back.
    pub fn unsaved(&self, run_id: impl Into<String>) {
        self.report(Event::new("unsaved", run_id));
    }

    /// What became of every event so far.
    pub fn stats(&self) -> Stats {
        self.0.shared.queue().stats()
    }

    /// Takes no more events, sends those that wait, and says what became of all of them. What could not be sent within
    /// `close_timeout` of the settings is dropped and counted.
    pub async fn close(&self) -> Stats {
        close(&self.0.shared, self.0.close_timeout);
        let mut done = self.0.shared.done.subscribe();
        // The sender is in the hands of this client, so this ends with the task.
        let _ = done.wait_for(|is_done| *is_done).await;
        self.stats()
    }

    /// A new id, for whoever makes events of their own.
    pub fn new_id(&self) -> String {
        new_id()
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("stats", &self.stats())
            .finish()
    }
}
