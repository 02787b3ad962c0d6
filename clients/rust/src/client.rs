//! The client: queues events without waiting; a background task sends them.

use crate::event::{Event, Kind, Rating, Role};
use crate::identity::new_id;
use crate::message::Message;
use crate::reporter::{ClientError, Reporter};
use crate::run::RunBuilder;
use crate::settings::Settings;
use crate::stats::Stats;

/// Queues events and sends them from a thread of its own. Clones share the queue. Dropping the last one, and the
/// last run made from it, sends queued events and blocks for at most `close_timeout` of the settings, so nothing is lost when
/// `main` returns. [`Client::close`] does the same without blocking.
#[derive(Clone)]
pub struct Client(Reporter);

impl Client {
    /// Starts a client and its thread. The server need not be there.
    ///
    /// # Errors
    /// When the settings are invalid, or the thread cannot be started.
    pub fn start(settings: Settings) -> Result<Self, ClientError> {
        Reporter::start(settings).map(Self)
    }

    /// Queues an event as it is; one that names no app gets the app of the settings. Never waits: an event that cannot
    /// be queued is dropped and counted.
    pub fn report(&self, event: Event) {
        self.0.report(event);
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

    /// A call of a model; the model's name is also the run's.
    pub fn llm(&self, model: impl Into<String>) -> RunBuilder {
        let model = model.into();
        self.run(Kind::Llm, model.clone()).model(model)
    }

    fn run(&self, kind: Kind, name: impl Into<String>) -> RunBuilder {
        RunBuilder::new(self.0.clone(), kind, name.into())
    }

    /// A message of a conversation.
    pub fn chat(&self, role: Role, content: impl Into<String>) -> Message {
        Message::new(self.0.clone(), role, content.into())
    }

    /// Feedback on a run or a message.
    pub fn feedback(&self, run_id: impl Into<String>, rating: Rating, comment: Option<&str>) {
        self.report(Event {
            rating: Some(rating),
            comment: comment.map(str::to_owned),
            ..Event::new("feedback", run_id)
        });
    }

    /// Exempts a run from retention, for datasets.
    pub fn saved(&self, run_id: impl Into<String>) {
        self.report(Event::new("saved", run_id));
    }

    /// Undoes [`Client::saved`].
    pub fn unsaved(&self, run_id: impl Into<String>) {
        self.report(Event::new("unsaved", run_id));
    }

    /// Counts of all events so far.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Rejects further events, sends the queued ones, and returns the counts of all of them. What cannot be sent within
    /// the settings' `close_timeout` is dropped and counted.
    pub async fn close(&self) -> Stats {
        self.0.close().await
    }

    /// A new id, for events that the caller builds.
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
