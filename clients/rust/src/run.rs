//! Runs: configured by a builder, held by a guard, and always ended.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::event::{ErrorInfo, Event, Kind, Phase, Timestamp, Tokens, event_name, json};
use crate::identity::{CLIENT_KEY, NAME, event_id, new_id};
use crate::reporter::Reporter;

/// A run that has not begun. [`RunBuilder::start`] reports it.
#[derive(Debug)]
#[must_use = "a run begins with `start`"]
pub struct RunBuilder {
    reporter: Reporter,
    name: String,
    event: Event,
}

impl RunBuilder {
    /// An empty name is replaced by the kind.
    pub(crate) fn new(reporter: Reporter, kind: Kind, name: String) -> Self {
        let name = match name.is_empty() {
            true => kind.as_str().to_owned(),
            false => name,
        };
        let event = Event {
            kind: Some(kind),
            ..Event::at(event_name(&name, Phase::Start), new_id(), Timestamp(0))
        };
        Self {
            reporter,
            name,
            event,
        }
    }

    /// The run's id, at most 256 bytes; defaults to a random UUID.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.event.run_id = id.into();
        self
    }

    /// The parent run.
    pub fn parent(mut self, run_id: impl Into<String>) -> Self {
        self.event.parent_run_id = Some(run_id.into());
        self
    }

    /// The app, if it differs from the settings.
    pub fn app(mut self, app_id: impl Into<String>) -> Self {
        self.event.app_id = Some(app_id.into());
        self
    }

    /// Any serializable value.
    pub fn input(mut self, input: impl Serialize) -> Self {
        self.event.input = json(input);
        self
    }

    /// The model of a model call.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.event.model = Some(model.into());
        self
    }

    /// The user on whose behalf the run works; children inherit it.
    pub fn user(mut self, email: impl Into<String>) -> Self {
        self.event.user_email = Some(email.into());
        self
    }

    /// The acting agent; children inherit it.
    pub fn acting(mut self, agent: impl Into<String>) -> Self {
        self.event.agent = Some(agent.into());
        self
    }

    /// The conversation.
    pub fn thread(mut self, id: impl Into<String>) -> Self {
        self.event.thread_id = Some(id.into());
        self
    }

    /// Adds a tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.event.tags.push(tag.into());
        self
    }

    /// Adds an attribute of any serializable value.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.event.metadata.insert(key.into(), value);
        self
    }

    /// Reports the start of the run.
    pub fn start(mut self) -> Run {
        self.event.timestamp = Timestamp::now();
        self.event.event_id = Some(event_id());
        if self.event.parent_run_id.is_none() {
            let metadata = self.event.metadata.entry(CLIENT_KEY.to_owned());
            metadata.or_insert_with(|| NAME.into());
        }
        let run = Run {
            end: Some(Event {
                app_id: self.event.app_id.clone(),
                kind: self.event.kind,
                model: self.event.model.clone(),
                ..Event::at("", self.event.run_id.clone(), Timestamp(0))
            }),
            reporter: self.reporter,
            name: self.name,
            id: self.event.run_id.clone(),
            began: Instant::now(),
        };
        run.reporter.report(self.event);
        run
    }

    /// Starts the run, does the work, and ends the run with its result or error.
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

    /// [`RunBuilder::observe`] for work that is not async.
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

/// A started run. If it is dropped without an end, it ends as failed: an early return or a panic is reported as an
/// error.
#[derive(Debug)]
#[must_use = "a run that is dropped at once has failed"]
pub struct Run {
    reporter: Reporter,
    name: String,
    id: String,
    /// The final event; `None` once it was reported.
    end: Option<Event>,
    began: Instant,
}

impl Run {
    /// The id, for feedback and for children in other processes.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A child of this kind.
    pub fn child(&self, kind: Kind, name: impl Into<String>) -> RunBuilder {
        let app = self.end.as_ref().and_then(|event| event.app_id.clone());
        let mut child = RunBuilder::new(self.reporter.clone(), kind, name.into()).parent(&self.id);
        child.event.app_id = app;
        child
    }

    /// A child that is an agent.
    pub fn agent(&self, name: impl Into<String>) -> RunBuilder {
        self.child(Kind::Agent, name)
    }

    /// A child of several steps in order.
    pub fn chain(&self, name: impl Into<String>) -> RunBuilder {
        self.child(Kind::Chain, name)
    }

    /// A child that executes a tool.
    pub fn tool(&self, name: impl Into<String>) -> RunBuilder {
        self.child(Kind::Tool, name)
    }

    /// A call of a model; the model's name is also the run's.
    pub fn llm(&self, model: impl Into<String>) -> RunBuilder {
        let model = model.into();
        self.child(Kind::Llm, model.clone()).model(model)
    }

    /// The tokens used, reported with the end.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        if let Some(end) = &mut self.end {
            end.tokens = tokens;
        }
        self
    }

    /// The tier, unless it is the standard one.
    pub fn service_tier(mut self, tier: impl Into<String>) -> Self {
        if let Some(end) = &mut self.end {
            end.service_tier = Some(tier.into());
        }
        self
    }

    /// What the provider charged, USD.
    pub fn cost(mut self, dollars: f64) -> Self {
        if let Some(end) = &mut self.end {
            end.cost = Some(dollars);
        }
        self
    }

    /// What the call costs by a price list of the program, USD; counts only where the server has no price.
    pub fn estimated_cost(mut self, dollars: f64) -> Self {
        if let Some(end) = &mut self.end {
            end.estimated_cost = Some(dollars);
        }
        self
    }

    /// The identifier that the provider gave to the response: runs of one response are counted once.
    pub fn response_id(mut self, id: impl Into<String>) -> Self {
        if let Some(end) = &mut self.end {
            end.response_id = Some(id.into());
        }
        self
    }

    /// The first token of a streamed answer has arrived; only the first call counts.
    pub fn first_token(&mut self) {
        self.first_token_after(self.began.elapsed());
    }

    fn first_token_after(&mut self, since: Duration) {
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        if let Some(end) = &mut self.end {
            end.ttft_ms.get_or_insert(since_ms);
        }
    }

    /// The model that answered, if it is not the requested one.
    pub fn served_by(mut self, model: impl Into<String>) -> Self {
        if let Some(end) = &mut self.end {
            end.model = Some(model.into());
        }
        self
    }

    /// Ends the run with its output: any serializable value.
    pub fn end(mut self, output: impl Serialize) {
        self.close(Phase::End, |event| event.output = json(output));
    }

    /// Ends the run as failed.
    pub fn fail(self, error: impl std::fmt::Display) {
        self.fail_with(ErrorInfo {
            message: error.to_string(),
            ..ErrorInfo::default()
        });
    }

    /// Ends the run as failed, with type and stack trace of the error.
    pub fn fail_with(mut self, error: ErrorInfo) {
        self.close(Phase::Error, |event| event.error = Some(error));
    }

    fn finish<T: Serialize, E: std::fmt::Display>(self, result: &Result<T, E>) {
        match result {
            Ok(output) => self.end(output),
            Err(error) => self.fail(error),
        }
    }

    /// Reports the final event, once.
    fn close(&mut self, phase: Phase, fill: impl FnOnce(&mut Event)) {
        let Some(mut event) = self.end.take() else {
            return;
        };
        event.name = event_name(&self.name, phase);
        event.timestamp = Timestamp::now();
        event.event_id = Some(event_id());
        fill(&mut event);
        self.reporter.report(event);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Client, Settings};

    #[test]
    fn only_the_first_call_of_first_token_counts() {
        let settings = Settings {
            close_timeout: Duration::ZERO,
            ..Settings::default()
        };
        let client = Client::start(settings).unwrap();
        let mut run = client.llm("m").start();
        run.first_token_after(Duration::from_micros(40_900));
        run.first_token_after(Duration::from_millis(90));
        assert_eq!(run.end.as_ref().and_then(|end| end.ttft_ms), Some(40));
        run.end("");
    }
}
