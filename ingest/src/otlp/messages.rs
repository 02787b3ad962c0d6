//! The messages of a model call, converted from every reported shape to the one that Spindle shows, counts and exports:
//! OpenAI's chat, `{role, content, tool_calls, tool_call_id, ...}`.
//!
//! Unknown fields stay on the message under their own names.

use serde_json::{Map, Value, json};

use super::value::{Any, parsed};

/// Messages in one list: more than a model reads at once.
const MESSAGES: usize = 10_000;

/// The messages to a model, and its output.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) input: Vec<Value>,
    pub(crate) output: Vec<Value>,
}

impl Said {
    pub(crate) fn take_input(&mut self) -> Option<Value> {
        (!self.input.is_empty()).then(|| std::mem::take(&mut self.input).into())
    }

    /// One message, or a list of several.
    pub(crate) fn take_output(&mut self) -> Option<Value> {
        match self.output.len() {
            0 => None,
            1 => self.output.pop(),
            _ => Some(std::mem::take(&mut self.output).into()),
        }
    }
}

/// What a tool was called with, or gave back, out of the message in which GenAI events carry it.
pub(crate) fn of_tool(mut said: Value) -> Value {
    if let Some([one]) = said.as_array_mut().map(Vec::as_mut_slice) {
        said = one.take();
    }
    let calls = said["tool_calls"].as_array().map(Vec::as_slice);
    let value = match calls {
        Some([call]) => &call["function"]["arguments"],
        _ => &said["content"],
    };
    match value {
        Value::Null => said,
        Value::String(text) if text.starts_with(['{', '[']) => {
            serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
        }
        value => of_blocks(value),
    }
}

/// The messages in an attribute: a list, one message, or a text, also as JSON inside of a text. `role` is the default.
pub(crate) fn of_attribute(any: &Any, role: &str) -> Vec<Value> {
    of_value(parsed(any), role)
}

/// See [`of_attribute`].
pub(crate) fn of_value(value: Value, role: &str) -> Vec<Value> {
    match value {
        // As messages they would take hundreds of times their bytes.
        Value::Array(list) if list.len() > MESSAGES => {
            vec![json!({"role": role, "content": list})]
        }
        Value::Array(list) => list
            .into_iter()
            .flat_map(|one| message(one, role))
            .collect(),
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        one => message(one, role),
    }
}

/// The instructions beside the messages: text, or a list of parts.
pub(crate) fn of_instructions(any: &Any) -> Vec<Value> {
    match parsed(any) {
        // Messages already.
        Value::Array(list) if list.iter().any(|one| one.get("role").is_some()) => {
            of_value(Value::Array(list), "system")
        }
        Value::Array(parts) => message(json!({"parts": parts}), "system"),
        other => of_value(other, "system"),
    }
}

/// One message, which may become several: results of tools are separate messages.
fn message(value: Value, role: &str) -> Vec<Value> {
    let mut fields = match value {
        Value::Object(fields) => unwrapped(fields),
        other => return vec![json!({"role": role, "content": other})],
    };
    if !fields.get("role").is_some_and(Value::is_string) {
        fields.insert("role".to_owned(), role.into());
    }
    if let Some(parts) = fields.get("content").and_then(parts_in_text) {
        fields.insert("content".to_owned(), parts);
    }
    let parts = fields
        .get_mut("content")
        .and_then(|content| blocks(content).or_else(|| parts_of_ai_sdk(content)));
    if let Some(parts) = parts {
        fields.remove("content");
        return from_parts(fields, parts);
    }
    match fields.remove("tool_calls") {
        None | Some(Value::Null) => {}
        Some(Value::Array(calls)) if calls.is_empty() => {}
        Some(Value::Array(calls)) => {
            let calls = calls.into_iter().map(call).collect::<Vec<_>>();
            fields.insert("tool_calls".to_owned(), calls.into());
        }
        Some(other) => {
            fields.insert("tool_calls".to_owned(), other);
        }
    }
    if let Some(Value::Array(contents)) = fields.remove("contents") {
        let parts = contents
            .into_iter()
            .map(|one| inside(one, "message_content"));
        let parts: Vec<Value> = parts.map(content_part).collect();
        fields.insert("content".to_owned(), joined(parts));
    }
    match fields.remove("parts") {
        Some(Value::Array(parts)) => from_parts(fields, parts),
        _ => vec![Value::Object(fields)],
    }
}

/// The parts of a content that is JSON inside of a text: a list of objects with types. Any other list may be text that
/// a user typed.
fn parts_in_text(content: &Value) -> Option<Value> {
    let text = content.as_str().filter(|text| text.starts_with('['))?;
    let parts: Vec<Value> = serde_json::from_str(text).ok()?;
    let is_part = |part: &Value| part["type"].is_string() || is_block(part);
    let are_parts = !parts.is_empty() && parts.iter().all(is_part);
    are_parts.then(|| parts.into())
}

/// Fields that a block of Bedrock's Converse API consists of: of one of them.
const BLOCKS: [&str; 6] = [
    "text",
    "toolUse",
    "toolResult",
    "image",
    "document",
    "reasoningContent",
];

fn is_block(part: &Value) -> bool {
    let fields = part.as_object().filter(|fields| fields.len() == 1);
    fields.is_some_and(|fields| fields.keys().all(|key| BLOCKS.contains(&key.as_str())))
}

/// Blocks of Bedrock's Converse API (`{"text": ..}`, `{"toolUse": {..}}`, `{"toolResult": {..}}`), as parts of the GenAI
/// conventions. Strands Agents writes them.
fn blocks(content: &mut Value) -> Option<Vec<Value>> {
    let list = content.as_array_mut()?;
    if list.is_empty() || !list.iter().all(is_block) {
        return None;
    }
    let parts = list.iter_mut().map(|block| {
        let mut take = |key| block.get_mut(key).map(Value::take);
        if let Some(text) = take("text") {
            json!({"type": "text", "content": text})
        } else if let Some(call) = take("toolUse") {
            json!({"type": "tool_call", "id": call["toolUseId"], "name": call["name"], "arguments": call["input"]})
        } else if let Some(result) = take("toolResult") {
            json!({"type": "tool_call_response", "id": result["toolUseId"], "response": of_blocks(&result["content"])})
        } else if let Some(thought) = take("reasoningContent") {
            json!({"type": "reasoning", "content": thought["reasoningText"]["text"]})
        } else {
            block.take()
        }
    });
    Some(parts.collect())
}

/// Parts of Vercel's AI SDK, where one is a tool call, a tool's result or a thought, as parts of the GenAI conventions.
/// Parts of other kinds are in OpenAI's shape.
fn parts_of_ai_sdk(content: &mut Value) -> Option<Vec<Value>> {
    let list = content.as_array_mut()?;
    let is_own = |part: &Value| match part["type"].as_str() {
        Some("tool-call" | "tool-result") => part["toolCallId"].is_string(),
        Some("reasoning") => part["text"].is_string(),
        _ => false,
    };
    if !list.iter().any(is_own) {
        return None;
    }
    let parts = list.iter_mut().map(|part| {
        let mut take = |key| part.get_mut(key).map(Value::take);
        match take("type").as_ref().and_then(Value::as_str) {
            Some("tool-call") => {
                let arguments = take("input").or_else(|| take("args"));
                json!({"type": "tool_call", "id": take("toolCallId"), "name": take("toolName"), "arguments": arguments})
            }
            Some("tool-result") => {
                // Since version 5 the value stands beside its type.
                let output = take("output").or_else(|| take("result"));
                let value = output.as_ref().and_then(|output| output.get("value"));
                let response = value.or(output.as_ref());
                json!({"type": "tool_call_response", "id": take("toolCallId"), "response": response})
            }
            Some("reasoning") => json!({"type": "reasoning", "content": take("text")}),
            kind => {
                part["type"] = kind.into();
                part.take()
            }
        }
    });
    Some(parts.collect())
}

/// The text of a tool's result, where it is one.
fn of_blocks(content: &Value) -> Value {
    match content.as_array().map(Vec::as_slice) {
        Some([one]) if one["text"].is_string() => one["text"].clone(),
        Some([one]) if one.get("json").is_some() => one["json"].clone(),
        _ => content.clone(),
    }
}

/// Takes a message out of its wrapper; fields of the wrapper, like a finish reason, move into it.
fn unwrapped(mut fields: Map<String, Value>) -> Map<String, Value> {
    let mut inner = match fields.remove("message") {
        Some(Value::Object(inner)) => inner,
        None | Some(Value::Null) => return fields,
        // The only field, unless there is more.
        Some(said) => {
            let name = match fields.get("content") {
                None | Some(Value::Null) => "content",
                Some(_) => "message",
            };
            fields.insert(name.to_owned(), said);
            return fields;
        }
    };
    for (key, value) in fields {
        inner.entry(key).or_insert(value);
    }
    inner
}

fn inside(value: Value, key: &str) -> Value {
    match value {
        Value::Object(mut fields) => fields.remove(key).unwrap_or(Value::Object(fields)),
        other => other,
    }
}

/// A tool call, whose arguments are text in OpenAI's shape.
fn call(value: Value) -> Value {
    let Value::Object(mut fields) = inside(value, "tool_call") else {
        return Value::Null;
    };
    let mut function = match fields.remove("function") {
        Some(Value::Object(function)) => function,
        _ => Map::new(),
    };
    for key in ["name", "arguments"] {
        if let Some(value) = fields.remove(key) {
            function.entry(key).or_insert(value);
        }
    }
    if let Some(arguments) = function.get_mut("arguments")
        && !arguments.is_string()
    {
        *arguments = arguments.to_string().into();
    }
    fields.insert("type".to_owned(), "function".into());
    fields.insert("function".to_owned(), function.into());
    Value::Object(fields)
}

/// A part of a content, of either convention, in OpenAI's shape; other kinds unchanged.
fn content_part(part: Value) -> Value {
    let text = |name| part.get(name).and_then(Value::as_str);
    let address = part["image"]["image"]["url"]
        .as_str()
        .or(part["image"]["url"].as_str())
        .or_else(|| text("uri"));
    match (text("type"), text("text").or_else(|| text("content"))) {
        (Some("text"), Some(text)) => json!({"type": "text", "text": text}),
        (Some("image"), _) if address.is_some() => {
            json!({"type": "image_url", "image_url": {"url": address}})
        }
        (Some("uri"), _) if address.is_some() && text("modality") == Some("image") => {
            json!({"type": "image_url", "image_url": {"url": address}})
        }
        _ => part,
    }
}

/// A content of one text becomes that text.
fn joined(mut parts: Vec<Value>) -> Value {
    match parts.as_mut_slice() {
        [one] if one["type"] == "text" => one["text"].take(),
        _ => parts.into(),
    }
}

/// What an assistant says before it waits for tools, or what any other says at all.
#[derive(Default)]
struct Turn {
    contents: Vec<Value>,
    calls: Vec<Value>,
    thoughts: Vec<String>,
}

impl Turn {
    fn is_empty(&self) -> bool {
        self.contents.is_empty() && self.calls.is_empty() && self.thoughts.is_empty()
    }

    fn into_message(self, mut fields: Map<String, Value>) -> Value {
        let content = match (self.contents.is_empty(), self.calls.is_empty()) {
            (true, false) => Value::Null,
            (true, true) => "".into(),
            _ => joined(self.contents),
        };
        fields.insert("content".to_owned(), content);
        if !self.calls.is_empty() {
            fields.insert("tool_calls".to_owned(), self.calls.into());
        }
        if !self.thoughts.is_empty() {
            let thoughts = self.thoughts.join("\n");
            fields.insert("reasoning_content".to_owned(), thoughts.into());
        }
        Value::Object(fields)
    }
}

/// A message in the shape of the GenAI conventions, which consists of parts.
fn from_parts(fields: Map<String, Value>, parts: Vec<Value>) -> Vec<Value> {
    let (mut turn, mut messages) = (Turn::default(), Vec::new());
    for part in parts.into_iter().map(of_gemini) {
        match part.get("type").and_then(Value::as_str) {
            Some("tool_call") => turn.calls.push(call(without_type(part))),
            Some("tool_call_response") => {
                // Several turns of an agent in one message: the calls come before their results.
                if !turn.calls.is_empty() {
                    let role = fields
                        .get("role")
                        .map(|role| ("role".to_owned(), role.clone()));
                    messages
                        .push(std::mem::take(&mut turn).into_message(role.into_iter().collect()));
                }
                messages.push(answer_of_tool(part));
            }
            Some("reasoning" | "thinking") if part["content"].is_string() => {
                turn.thoughts
                    .extend(part["content"].as_str().map(str::to_owned));
            }
            _ => turn.contents.push(content_part(part)),
        }
    }
    if !turn.is_empty() || messages.is_empty() {
        messages.push(turn.into_message(fields));
    }
    messages
}

/// A part of Gemini's API, which has no type, as a part of the GenAI conventions.
fn of_gemini(mut part: Value) -> Value {
    if part.get("type").is_some() {
        return part;
    }
    let mut take = |names: [&str; 2]| {
        names
            .into_iter()
            .find_map(|name| part.get_mut(name).map(Value::take))
    };
    if let Some(call) = take(["function_call", "functionCall"]) {
        return json!({"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["args"]});
    }
    if let Some(answer) = take(["function_response", "functionResponse"]) {
        return json!({"type": "tool_call_response", "id": answer["id"], "response": answer["response"]});
    }
    let is_thought = part["thought"] == true;
    match part.get("text").filter(|text| text.is_string()) {
        Some(text) if is_thought => json!({"type": "reasoning", "content": text}),
        Some(text) => json!({"type": "text", "text": text}),
        None => part,
    }
}

fn without_type(mut part: Value) -> Value {
    if let Some(fields) = part.as_object_mut() {
        fields.remove("type");
    }
    part
}

fn answer_of_tool(mut part: Value) -> Value {
    let content = ["response", "result", "content"]
        .into_iter()
        .find_map(|key| part.get_mut(key).map(Value::take));
    let content = match content {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    json!({"role": "tool", "tool_call_id": part["id"], "content": content})
}

#[cfg(test)]
mod tests;
