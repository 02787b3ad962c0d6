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
    if let Some(blocks) = fields.get_mut("content").and_then(blocks) {
        fields.remove("content");
        return from_parts(fields, blocks);
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

/// A message in the shape of the GenAI conventions, which consists of parts.
fn from_parts(mut fields: Map<String, Value>, parts: Vec<Value>) -> Vec<Value> {
    let (mut contents, mut calls, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    let mut thoughts: Vec<String> = Vec::new();
    for part in parts.into_iter().map(of_gemini) {
        match part.get("type").and_then(Value::as_str) {
            Some("tool_call") => calls.push(call(without_type(part))),
            Some("tool_call_response") => messages.push(answer_of_tool(part)),
            Some("reasoning" | "thinking") if part["content"].is_string() => {
                thoughts.extend(part["content"].as_str().map(str::to_owned));
            }
            _ => contents.push(content_part(part)),
        }
    }
    if contents.is_empty() && calls.is_empty() && thoughts.is_empty() && !messages.is_empty() {
        return messages;
    }
    let content = match (contents.is_empty(), calls.is_empty()) {
        (true, false) => Value::Null,
        (true, true) => "".into(),
        _ => joined(contents),
    };
    fields.insert("content".to_owned(), content);
    if !calls.is_empty() {
        fields.insert("tool_calls".to_owned(), calls.into());
    }
    if !thoughts.is_empty() {
        fields.insert("reasoning_content".to_owned(), thoughts.join("\n").into());
    }
    messages.push(Value::Object(fields));
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
