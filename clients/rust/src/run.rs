//! Runs: begun by a builder, held by a guard, and always ended.

use serde::Serialize;

use crate::client::Client;
use crate::event::{ErrorInfo, Event, Kind, Phase, Timestamp, Tokens, event_name, json};
use crate::identity::{event_id, new_id};

/// A run that is about to begin. Nothing is reported before [`RunBuilder::start`].
#[derive(Debug)]
#[must_use = "a run begins with `start`"]
pub struct RunBuilder {
    client: Client,
    name: String,
    event: Event,
}

impl RunBuilder {
    /// Without a name the run is called what it is.
    pub(crate) fn new(client: Client, kind: Kind, name: String) -> Self {
        let name = match name.is_empty() {
            true => kind.as_str().to_owned(),
            false => name,
        };
        let event = Event {
            kind: Some(kind),
            ..Event::at(event_name(&name, Phase::Start), new_id(), Timestamp(0))
        };
        Self {
            client,
            name,
            event,
        }
    }

    /// An id of your own, at most 256 bytes; a random UUID unless given.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.event.run_id = id.into();
        self
    }

    /// The run it belongs to.
    pub fn parent(mut self, run_id: impl Into<String>) -> Self {
        self.event.parent_run_id = Some(run_id.into());
        self
    }

    /// The app, where it is not that of the settings.
    pub fn app(mut self, app_id: impl Into<String>) -> Self {
        self.event.app_id = Some(app_id.into());
        self
    }

    /// What goes in: anything that is JSON.
    pub fn input(mut self, input: impl Serialize) -> Self {
        self.event.input = json(input);
        self
    }

    /// The model of a model call.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.event.model = Some(model.into());
        self
    }

    /// The user it is done for; children have it from their parents.
    pub fn user(mut self, email: impl Into<String>) -> Self {
        self.event.user_email = Some(email.into());
        self
    }

    /// The agent that acts; children have it from their parents.
    pub fn acting(mut self, agent: impl Into<String>) -> Self {
        self.event.agent = Some(agent.into());
        self
    }

    /// The conversation.
    pub fn thread(mut self, id: impl Into<String>) -> Self {
        self.event.thread_id = Some(id.into());
        self
    }

    /// Labels it.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.event.tags.push(tag.into());
        self
    }

    /// Something else about it: anything that is JSON.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.event.metadata.insert(key.into(), value);
        self
    }

    /// Begins the run.
    pub fn start(mut self) -> Run {
        self.event.timestamp = Timestamp::now();
        self.event.event_id = Some(event_id());
        let run = Run {
            end: Some(Event {
                app_id: self.event.app_id.clone(),
                kind: self.event.kind,
                model: self.event.model.clone(),
                ..Event::at("", self.event.run_id.clone(), Timestamp(0))
            }),
            client: self.client,
            name: self.name,
            id: self.event.run_id.clone(),
        };
        run.client.report(self.event);
        run
    }

    /// Begins the run, does the work with it, and ends it with what came out or went wrong.
    pub async fn observe<T, E>(self, work: impl AsyncFnOnce(&Run) -> Result<T, E>) -> Result<T, E>
    where
        T: Serialize,
        E: std::fmt::Display,
    {
        let run = self.start();
        let result = work(&run).await;
        run.finish(&result);
        result
    }

    /// The same for work that does not wait.
    pub fn observe_blocking<T, E>(self, work: impl FnOnce(&Run) -> Result<T, E>) -> Result<T, E>
    where
        T: Serialize,
        E: std::fmt::Display,
    {
        let run = self.start();
        let result = work(&run);
        run.finish(&result);
        result
    }
}

/// A run that has begun. Dropped without an end it ends as failed: an early return or a panic is told as what it is.
#[derive(Debug)]
#[must_use = "a run that is dropped at once has failed"]
pub struct Run {
    client: Client,
    name: String,
    id: String,
    /// What its last event will hold; none once it was reported.
    end: Option<Event>,
}

impl Run {
    /// Its id, for feedback and for children in other processes.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A step of this kind inside of it.
    pub fn child(&self, kind: Kind, name: impl Into<String>) -> RunBuilder {
        let app = self.end.as_ref().and_then(|event| event.app_id.clone());
        let mut child = RunBuilder::new(self.client.clone(), kind, name.into()).parent(&self.id);
        child.event.app_id = app;
        child
    }

    /// An agent inside of it.
    pub fn agent(&self, name: impl Into<String>) -> RunBuilder {
        self.child(Kind::Agent, name)
    }

    /// Several steps inside of it.
    pub fn chain(&self, name: impl Into<String>) -> RunBuilder {
        self.child(Kind::Chain, name)
    }

    /// A tool that it uses.
    pub fn tool(&self, name: impl Into<String>) -> RunBuilder {
        self.child(Kind::Tool, name)
    }

    /// A call of a model, which is its name as well.
    pub fn llm(&self, model: impl Into<String>) -> RunBuilder {
        let model = model.into();
        self.child(Kind::Llm, model.clone()).model(model)
    }

    /// The tokens that it took, told with its end.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        if let Some(end) = &mut self.end {
            end.tokens = tokens;
        }
        self
    }

    /// The model that answered, where it is not the one that was asked.
    pub fn served_by(mut self, model: impl Into<String>) -> Self {
        if let Some(end) = &mut self.end {
            end.model = Some(model.into());
        }
        self
    }

    /// Ends it with what came out: anything that is JSON.
    pub fn end(mut self, output: impl Serialize) {
        self.close(Phase::End, |event| event.output = json(output));
    }

    /// Ends it as failed.
    pub fn fail(self, error: impl std::fmt::Display) {
        self.fail_with(ErrorInfo {
            message: error.to_string(),
            ..ErrorInfo::default()
        });
    }

    /// Ends it as failed, with kind and place of the error.
    pub fn fail_with(mut self, error: ErrorInfo) {
        self.close(Phase::Error, |event| event.error = Some(error));
    }

    fn finish<T: Serialize, E: std::fmt::Display>(self, result: &Result<T, E>) {
        match result {
            Ok(output) => self.end(output),
            Err(error) => self.fail(error),
        }
    }

    /// Reports its last event, once.
    fn close(&mut self, phase: Phase, fill: impl FnOnce(&mut Event)) {
        let Some(mut event) = self.end.take() else {
            return;
        };
        event.name = event_name(&self.name, phase);
        event.timestamp = Timestamp::now();
        event.event_id = Some(event_id());
        fill(&mut event);
        self.client.report(event);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let (name, message) = match std::thread::panicking() {
            true => ("Panic", "the program panicked inside of the run"),
            false => ("Unfinished", "the run was left before its end"),
        };
        self.close(Phase::Error, |event| {
            event.error = Some(ErrorInfo {
                name: Some(name.to_owned()),
                message: message.to_owned(),
                stack: None,
            });
        });
    }
}
