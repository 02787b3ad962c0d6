//! What a user asked and what an agent answered, in the input and the output of a run.
//!
//! A run that begins a turn of a thread shows both as messages. Clients report them as plain text, as messages of many
//! shapes (OpenAI's chat and responses, Anthropic's and Bedrock's blocks, Gemini's parts, LangChain's objects), or under
//! a key of an object that only they know. The keys are listed here, and nowhere else.
//!
//! The question is the last message of the user, the answer the last of the assistant. A text is never empty, and never
//! longer than the value it is in.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::text_of;

/// Values inside of values that are looked at: messages in a state of a graph, in a list of batches, take five.
const DEPTH: usize = 8;
/// Bytes of an output that is searched for its answer when it is folded: a step of the processor takes 40 µs for them.
const SPOKEN_BYTES: usize = 64 << 10;

/// Keys of lists of messages, on either side.
const MESSAGES: &[&str] = &["messages", "contents", "prompts"];
/// Keys of answers in what models return.
const ANSWERS: &[&str] = &["message", "choices", "candidates", "generations"];
/// Keys of the question in objects of applications, the likely ones first.
const QUESTION_KEYS: &[&str] = &[
    "input",
    "question",
    "query",
    "prompt",
    "message",
    "user_message",
    "user_input",
    "human_input",
    "chat_input",
    "text",
    "content",
    "inputs",
    "request",
    "args",
    "kwargs",
    "state",
    "data",
];
/// The same of the answer.
const ANSWER_KEYS: &[&str] = &[
    "output",
    "answer",
    "response",
    "final_output",
    "output_text",
    "result",
    "completion",
    "reply",
    "text",
    "generated_text",
    "content",
    "outputs",
    "return_values",
    "kwargs",
    "state",
    "data",
];

/// The text of the last message of the user in a run's input.
pub fn question(input: &RawValue) -> Option<String> {
    let search = Search {
        side: Side::Question,
        wrapped: Wrapped::Anywhere,
    };
    search.value(input, DEPTH)
}

/// The text of the last message of the assistant in a run's output.
pub fn answer(output: &RawValue) -> Option<String> {
    let search = Search {
        side: Side::Answer,
        wrapped: Wrapped::Anywhere,
    };
    search.value(output, DEPTH)
}

/// [`answer`] for outputs that are certainly a message: not of an object with further keys, such as the result of a tool,
/// of which a text is only a part, and not of long outputs.
pub(crate) fn spoken_answer(output: &RawValue) -> Option<String> {
    let raw = output.get();
    if raw.starts_with('"') || raw.len() > SPOKEN_BYTES {
        return None;
    }
    let search = Search {
        side: Side::Answer,
        wrapped: Wrapped::Alone,
    };
    search.value(output, DEPTH)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Question,
    Answer,
}

/// Which objects are searched for a text under a key of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrapped {
    Anywhere,
    /// Objects with this key alone.
    Alone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
    Other,
}

impl Role {
    fn of(name: &str) -> Option<Self> {
        match name {
            "user" | "human" | "HumanMessage" | "HumanMessageChunk" => Some(Self::User),
            "assistant" | "ai" | "model" | "AIMessage" | "AIMessageChunk" => Some(Self::Assistant),
            "system" | "developer" | "tool" | "function" | "SystemMessage" | "ToolMessage"
            | "FunctionMessage" => Some(Self::Other),
            _ => None,
        }
    }
}

type Object<'a> = HashMap<Key<'a>, &'a RawValue>;

/// A key, borrowed where it has no escapes.
#[derive(Deserialize, PartialEq, Eq, Hash)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl std::borrow::Borrow<str> for Key<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A message's role, and the value that holds its text.
struct Message<'a> {
    role: Role,
    content: &'a RawValue,
}

#[derive(Clone, Copy)]
struct Search {
    side: Side,
    wrapped: Wrapped,
}

impl Search {
    fn value(self, value: &RawValue, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        match value.get().as_bytes().first()? {
            b'"' => self.text(value, depth),
            b'[' => self.list(&list(value)?, depth),
            b'{' => self.object(&object(value)?, depth),
            _ => None,
        }
    }

    /// Some clients send JSON as text.
    fn text(self, value: &RawValue, depth: usize) -> Option<String> {
        let text = text_of(value)?;
        if text.starts_with(['[', '{'])
            && let Ok(inner) = serde_json::from_str::<&RawValue>(&text)
            && let Some(found) = self.value(inner, depth)
        {
            return Some(found);
        }
        given(text.into_owned())
    }

    fn list(self, items: &[&RawValue], depth: usize) -> Option<String> {
        let wanted = match self.side {
            Side::Question => Role::User,
            Side::Answer => Role::Assistant,
        };
        let mut has_messages = false;
        let mut other = None;
        for item in items.iter().rev() {
            let Some(message) = message(item) else {
                continue;
            };
            has_messages = true;
            // A result of a tool may be in a message of the user: it has no text of theirs.
            if message.role == wanted
                && let Some(text) = content(message.content)
            {
                return Some(text);
            }
            if other.is_none() && self.side == Side::Question {
                other = content(message.content);
            }
        }
        if has_messages {
            return other;
        }
        let is_text = |item: &&RawValue| item.get().starts_with('"');
        if self.wrapped == Wrapped::Alone && items.iter().any(is_text) {
            return None;
        }
        let blocks = blocks(items);
        blocks.or_else(|| {
            let nested = items.iter().rev().filter(|item| !is_text(item));
            nested.take(DEPTH).find_map(|item| self.value(item, depth))
        })
    }

    fn object(self, object: &Object<'_>, depth: usize) -> Option<String> {
        if let Some(message) = message_in(object) {
            return content(message.content);
        }
        let find = |keys: &[&str]| {
            keys.iter()
                .filter_map(|key| object.get(*key))
                .find_map(|value| self.value(value, depth))
        };
        let found = match self.side {
            Side::Question => find(MESSAGES),
            Side::Answer => find(MESSAGES).or_else(|| find(ANSWERS)),
        };
        if found.is_some() || (self.wrapped == Wrapped::Alone && object.len() > 1) {
            return found;
        }
        let parts = object.get("parts").and_then(|parts| content(parts));
        parts.or_else(|| match self.side {
            Side::Question => find(QUESTION_KEYS),
            Side::Answer => find(ANSWER_KEYS),
        })
    }
}

fn list(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

fn object(value: &RawValue) -> Option<Object<'_>> {
    serde_json::from_str(value.get()).ok()
}

fn given(text: String) -> Option<String> {
    (!text.trim().is_empty()).then_some(text)
}

fn message(value: &RawValue) -> Option<Message<'_>> {
    match value.get().as_bytes().first()? {
        b'{' => message_in(&object(value)?),
        // LangChain's short form: `["human", "..."]`.
        b'[' => match list(value)?[..] {
            [role, content] => Some(Message {
                role: Role::of(&text_of(role)?)?,
                content,
            }),
            _ => None,
        },
        _ => None,
    }
}

/// A message has a role and a content; LangChain's have a type, or the name of their class.
fn message_in<'a>(object: &Object<'a>) -> Option<Message<'a>> {
    let text = |key: &str| object.get(key).and_then(|value| text_of(value));
    if let Some(kwargs) = object.get("kwargs")
        && let Some(id) = object.get("id").and_then(|id| list(id))
    {
        let class = text_of(id.last()?)?;
        let kwargs: Object<'a> = serde_json::from_str(kwargs.get()).ok()?;
        return Some(Message {
            role: Role::of(&class)?,
            content: kwargs.get("content")?,
        });
    }
    let role = match text("role") {
        Some(role) => Role::of(&role).unwrap_or(Role::Other),
        None => Role::of(&text("type")?)?,
    };
    let named = ["content", "parts", "text"];
    if let Some(content) = named.iter().find_map(|key| object.get(*key)) {
        return Some(Message { role, content });
    }
    let data: Object<'a> = serde_json::from_str(object.get("data")?.get()).ok()?;
    let content = data.get("content")?;
    Some(Message { role, content })
}

/// The text of a message's content: a text, or blocks.
fn content(value: &RawValue) -> Option<String> {
    match value.get().as_bytes().first()? {
        b'"' => given(text_of(value)?.into_owned()),
        b'[' => blocks(&list(value)?),
        b'{' => block(value).and_then(given),
        _ => None,
    }
}

fn blocks(items: &[&RawValue]) -> Option<String> {
    let texts: Vec<String> = items.iter().filter_map(|item| block(item)).collect();
    given(texts.join("\n"))
}

/// The text of a block that is one: not what a model thinks, and not a call of a tool.
fn block(value: &RawValue) -> Option<String> {
    if value.get().starts_with('"') {
        return text_of(value).map(Cow::into_owned);
    }
    let object = object(value)?;
    let kind = object.get("type").and_then(|kind| text_of(kind));
    let key = match kind.as_deref() {
        None => "text",
        Some("text" | "input_text" | "output_text") if object.contains_key("text") => "text",
        Some("text") => "content",
        Some(_) => return None,
    };
    if object.contains_key("role") {
        return None;
    }
    text_of(object.get(key)?).map(Cow::into_owned)
}

#[cfg(test)]
mod tests;
