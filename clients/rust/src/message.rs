//! A message of a conversation, before it is sent.

use crate::client::Client;
use crate::event::{Event, Role};
use crate::identity::new_id;

/// A message. Nothing is reported before [`Message::send`].
#[derive(Debug)]
#[must_use = "a message is reported by `send`"]
pub struct Message {
    client: Client,
    event: Event,
}

impl Message {
    pub(crate) fn new(client: Client, role: Role, content: String) -> Self {
        let event = Event {
            role: Some(role),
            content: Some(content),
            ..Event::new("chat", new_id())
        };
        Self { client, event }
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

    /// The person of the conversation.
    pub fn user(mut self, email: impl Into<String>) -> Self {
        self.event.user_email = Some(email.into());
        self
    }

    /// The run that it belongs to: question and answer of one run are shown with it, and judged together.
    pub fn of_run(mut self, run_id: impl Into<String>) -> Self {
        self.event.run_id = run_id.into();
        self
    }

    /// Labels it.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.event.tags.push(tag.into());
        self
    }

    /// Reports it, and gives its id, for feedback.
    pub fn send(self) -> String {
        let id = self.event.run_id.clone();
        self.client.report(self.event);
        id
    }
}
