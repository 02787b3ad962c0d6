//! A message of a conversation, before it is sent.

use crate::event::{Event, Role};
use crate::identity::new_id;
use crate::reporter::Reporter;

/// A message. It is reported by [`Message::send`].
#[derive(Debug)]
#[must_use = "a message is reported by `send`"]
pub struct Message {
    reporter: Reporter,
    event: Event,
}

impl Message {
    pub(crate) fn new(reporter: Reporter, role: Role, content: String) -> Self {
        let event = Event {
            role: Some(role),
            content: Some(content),
            ..Event::new("chat", new_id())
        };
        Self { reporter, event }
    }

    /// The conversation. Without one, Spindle groups messages by agent and user in windows of 30 minutes.
    pub fn thread(mut self, id: impl Into<String>) -> Self {
        self.event.thread_id = Some(id.into());
        self
    }

    /// The agent of the conversation.
    pub fn agent(mut self, name: impl Into<String>) -> Self {
        self.event.agent = Some(name.into());
        self
    }

    /// The user of the conversation.
    pub fn user(mut self, email: impl Into<String>) -> Self {
        self.event.user_email = Some(email.into());
        self
    }

    /// The run of the message: question and answer of one run are shown with it, and rated together.
    pub fn of_run(mut self, run_id: impl Into<String>) -> Self {
        self.event.run_id = run_id.into();
        self
    }

    /// Adds a tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.event.tags.push(tag.into());
        self
    }

    /// Reports the message; returns its id, for feedback.
    pub fn send(self) -> String {
        let id = self.event.run_id.clone();
        self.reporter.report(self.event);
        id
    }
}
