//! The message of a chat event, in both dialects.
//!
//! Spindle's own dialect is strict. Old clients' events are accepted as they are: the message is in `message`, or the
//! question in `input` of a `start` and the answer in `output` of an `end`; an event without any of these has no
//! message.

use crate::api_error::EventCode;
use std::borrow::Cow;

use serde_json::value::RawValue;

use super::values::{self, Named, as_text, lookup};
use super::{FieldFault, Message};

/// The message of a chat event in Spindle's own dialect.
pub(crate) fn own<'a>(role: Named<'a>, content: Named<'a>) -> Result<Message<'a>, FieldFault> {
    const ROLES: &str = "\"user\" or \"assistant\"";
    let role = match values::name(role)? {
        Some(role) if matches!(role.as_ref(), "user" | "assistant") => role,
        Some(_) => {
            let rest = format!("role must be {ROLES}");
            return Err(FieldFault::new(EventCode::InvalidValue, rest));
        }
        None => {
            let rest = format!("role is required: {ROLES}");
            return Err(FieldFault::new(EventCode::MissingField, rest));
        }
    };
    let content = content
        .1
        .ok_or_else(|| FieldFault::new(EventCode::MissingField, "content is required"))?;
    // Empty text is a valid message.
    let content = as_text(content)
        .ok_or_else(|| FieldFault::new(EventCode::WrongType, "content must be a string"))?;
    Ok(Message { role, content })
}

/// Fields of an old client's chat event that may contain the message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OldChat<'a> {
    /// `message`: `{role, content}`.
    pub(crate) message: Option<&'a RawValue>,
    pub(crate) input: Option<&'a RawValue>,
    pub(crate) output: Option<&'a RawValue>,
    /// Whether the event closes, which makes it the answer.
    pub(crate) is_end: bool,
}

/// The message of an old client's chat event.
pub(crate) fn old(chat: OldChat<'_>) -> Option<Message<'_>> {
    if let Some(message) = chat.message {
        return said(message, "user");
    }
    let question = (chat.input, "user");
    let answer = (chat.output, "assistant");
    let order = if chat.is_end {
        [answer, question]
    } else {
        [question, answer]
    };
    let (value, role) = order
        .into_iter()
        .find_map(|(value, role)| Some((value?, role)))?;
    said(value, role)
}

/// A message in any of these clients' formats: text, an object with role and content, or another value, which is shown
/// as its JSON text.
fn said<'a>(value: &'a RawValue, usual_role: &'static str) -> Option<Message<'a>> {
    let pairs = if value.get().starts_with('{') {
        values::object(("message", Some(value))).unwrap_or_default()
    } else {
        Vec::new()
    };
    let role = lookup(&pairs, "role")
        .and_then(as_text)
        .filter(|role| !role.is_empty() && role.len() <= crate::limits::NAME_BYTES)
        .map_or(Cow::Borrowed(usual_role), known_role);
    let has_a_messages_shape = ["role", "content", "text"]
        .into_iter()
        .any(|key| pairs.iter().any(|(name, _)| name == key));
    let content = if has_a_messages_shape {
        // A model that only calls tools has no other content.
        ["content", "text", "tool_calls", "refusal"]
            .into_iter()
            .find_map(|key| lookup(&pairs, key))?
    } else {
        value
    };
    Some(Message {
        role,
        content: as_text(content).unwrap_or(Cow::Borrowed(content.get())),
    })
}

/// `ai` is the early clients' name of the assistant; the other words come from the frameworks that they report.
fn known_role(role: Cow<'_, str>) -> Cow<'_, str> {
    match role.as_ref() {
        "ai" | "bot" | "model" => Cow::Borrowed("assistant"),
        "human" => Cow::Borrowed("user"),
        "function" => Cow::Borrowed("tool"),
        "developer" => Cow::Borrowed("system"),
        _ => role,
    }
}
