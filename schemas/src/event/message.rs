//! What a chat event says, in both dialects.
//!
//! The interface's own dialect is strict. The old clients are taken as they are: the message stands in `message`, or
//! the question in `input` of a `start` and the answer in `output` of an `end`; what says nothing is no message.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::values::{self, Named, as_text, lookup};
use super::{FieldFault, Message};

/// The message of a chat event of the interface's own shape.
pub(crate) fn own<'a>(role: Named<'a>, content: Named<'a>) -> Result<Message<'a>, FieldFault> {
    const ROLES: &str = "\"user\" or \"assistant\"";
    let role = match values::name(role)? {
        Some(role) if matches!(role.as_ref(), "user" | "assistant") => role,
        Some(_) => {
            let rest = format!("role must be {ROLES}");
            return Err(FieldFault::new("invalid_value", rest));
        }
        None => {
            let rest = format!("role is required: {ROLES}");
            return Err(FieldFault::new("missing_field", rest));
        }
    };
    let content = content
        .1
        .ok_or_else(|| FieldFault::new("missing_field", "content is required"))?;
    // Empty text is a message: somebody said nothing.
    let content = as_text(content)
        .ok_or_else(|| FieldFault::new("wrong_type", "content must be a string"))?;
    Ok(Message { role, content })
}

/// What a chat event of an old client may hold its message in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OldChat<'a> {
    /// `message`: `{role, content}`.
    pub(crate) message: Option<&'a RawValue>,
    pub(crate) input: Option<&'a RawValue>,
    pub(crate) output: Option<&'a RawValue>,
    /// Whether the event closes: then it is the answer.
    pub(crate) is_end: bool,
}

/// The message of a chat event of an old client, if it says anything.
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

/// A message as any of these clients writes one: text, an object with role and content, or something else, which is
/// then shown as its JSON text.
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
        // A model that only calls tools says nothing else.
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

/// `ai` is what early clients call the assistant; the other words are those of the frameworks they carry.
fn known_role(role: Cow<'_, str>) -> Cow<'_, str> {
    match role.as_ref() {
        "ai" | "bot" | "model" => Cow::Borrowed("assistant"),
        "human" => Cow::Borrowed("user"),
        "function" => Cow::Borrowed("tool"),
        "developer" => Cow::Borrowed("system"),
        _ => role,
    }
}
