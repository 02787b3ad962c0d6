//! Gemini CLI: prompts, model calls and tools. Spans have no common root; a prompt is the run around them.
//!
//! Spans have fewer counts than records (no thoughts, nothing cached), and without detailed traces no counts at all;
//! then the records are the model calls and the spans are internal. The record of a streamed response names no span.

use std::borrow::Cow;

use schemas::event::EventFault;
use schemas::event::response_id::Signal;
use serde_json::Value;

use super::super::facts::{Facts, LLM};
use super::super::gemini_content;
use super::super::usage::Usage;
use super::super::value::{Json, parsed};
use super::record::{Phase, Record, Reported};
use super::{Around, INTERNAL, Place, Placed, derived_id, digits, same_call};

pub(super) const NAME: &str = "gemini-cli";
pub(super) const SCOPE: &str = "gemini-cli";
/// Its records of model calls have a second form, of the GenAI conventions.
pub(super) const DETAILS: &str = super::super::message_event::DETAILS;

pub(super) fn place<'a>(placed: &Placed<'_, 'a>, facts: &mut Facts<'a>) -> Place<'a> {
    let attributes = placed.attributes;
    let text = |key| attributes.text(key);
    let session = text("gen_ai.conversation.id").unwrap_or_default();
    let mut place = Place::default();
    let mut prompt = text("gen_ai.prompt.name").map(Cow::from);
    match facts.kind {
        LLM => {
            let usage = &facts.usage;
            if usage.prompt.is_none() && usage.completion.is_none() {
                facts.kind = INTERNAL;
                facts.usage = Usage::default();
            } else {
                let counts = [usage.prompt, usage.completion];
                place.response_id = Some(response(Signal::Span, session, counts));
            }
        }
        "tool" => {
            let above = schedule(&placed.span.parent_span_id);
            let name = text("gen_ai.tool.name").unwrap_or_default();
            match facts.input.as_ref() {
                Some(input) => place.tool = Some(tool_id(&above, name, &spelled(input))),
                // A record of it has the arguments.
                None => facts.kind = INTERNAL,
            }
        }
        _ => {
            // The tools of one answer: each names its prompt.
            let requests = facts.input.as_ref();
            let requests = requests.and_then(|json| serde_json::from_str(json.written()).ok());
            let requests: Value = requests.unwrap_or_default();
            let named = requests.pointer("/0/prompt_id").and_then(Value::as_str);
            prompt = prompt.or_else(|| named.map(|id| id.to_owned().into()));
        }
    }
    if let Some(prompt) = prompt.filter(|_| placed.is_root) {
        let run_id = derived_id(NAME, "prompt", &[session, &prompt]);
        place.parent = Some(run_id.clone());
        let asked = gemini_content::last_asked(&facts.said.input);
        let answered = facts.said.output.first();
        let answered = answered.and_then(|one| gemini_content::text_of(&one["content"]));
        let owned = |text: &str| Json::Text(text.to_owned().into());
        place.around.push(Around {
            run_id,
            parent: None,
            name: NAME,
            kind: "agent",
            agent: Some(NAME),
            thread: text("gen_ai.conversation.id").map(Cow::from),
            input: asked.map(owned),
            output: answered.map(owned),
            closes: true,
        });
    }
    place
}

/// Identifies a response by the counts that both signals have.
fn response(signal: Signal, session: &str, counts: [Option<u64>; 2]) -> String {
    let [prompt, completion] = &counts.map(digits);
    same_call(signal, NAME, &[session, prompt, completion])
}

/// The identifier of a call of a tool, which has none in records.
fn tool_id(above: &str, name: &str, arguments: &str) -> String {
    derived_id(NAME, "tool", &[above, name, arguments])
}

/// Arguments without the whitespace between them.
fn spelled(arguments: &Json<'_>) -> String {
    let written = arguments.written();
    let value: Option<Value> = serde_json::from_str(written).ok();
    value.map_or_else(|| written.to_owned(), |value| value.to_string())
}

fn schedule(span_id: &[u8]) -> String {
    span_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the record became a part of a run.
pub(super) fn write<'a>(record: &Record<'_, 'a>, out: &mut Vec<u8>) -> Result<bool, EventFault> {
    let session = record.thread().to_owned();
    let id = record.text("prompt_id");
    let run_of_prompt = id.map(|id| derived_id(NAME, "prompt", &[&session, id]));
    let prompt = |phase| {
        run_of_prompt.clone().map(|run_id| Reported {
            run_id,
            name: NAME.into(),
            kind: "agent",
            began_ms: record.time_ms,
            phase,
            ..Reported::default()
        })
    };
    // The event's own time, which both forms of a record share.
    let written = record.text("event.timestamp").map(Cow::from);
    let written = written.unwrap_or_else(|| record.nanos.to_string().into());
    let call = Reported {
        run_id: derived_id(NAME, "response", &[&session, &written]),
        parent: run_of_prompt.clone(),
        name: "llm_call".into(),
        kind: LLM,
        began_ms: record.began_ms(),
        ..Reported::default()
    };
    match record.name {
        "user_prompt" => {
            let Some(prompt) = prompt(Phase::Start) else {
                return Ok(false);
            };
            let input = record.json("prompt");
            record.report(Reported { input, ..prompt }, out)?;
        }
        "api_response" => {
            let usage = usage(record);
            let counts = [
                record.count("input_token_count"),
                record.count("output_token_count"),
            ];
            let answer = record.attributes.take("response_text").map(parsed);
            let answer = gemini_content::answer(contents(answer.unwrap_or_default()));
            let answered = answer
                .first()
                .and_then(|one| gemini_content::text_of(&one["content"]));
            let answered = answered.map(|text| Json::Text(text.to_owned().into()));
            let response_id = Some(response(Signal::Log, &session, counts));
            let output = answer.into_iter().next().map(Json::from);
            let call = Reported {
                usage,
                response_id,
                output,
                ..call
            };
            record.report(call, out)?;
            if let Some(prompt) = prompt(Phase::End) {
                record.report(
                    Reported {
                        output: answered,
                        ..prompt
                    },
                    out,
                )?;
            }
        }
        "api_error" => {
            let model = record.attributes.name(["model"]);
            let message = record
                .text("error.message")
                .or_else(|| record.text("error"));
            let kind = record
                .text("error.type")
                .or_else(|| record.text("error_type"));
            let message = message.unwrap_or("the request failed");
            let usage = Usage {
                model,
                ..Usage::default()
            };
            let error = Some((kind, message.into()));
            record.report(
                Reported {
                    usage,
                    error,
                    ..call
                },
                out,
            )?;
            if let Some(prompt) = prompt(Phase::End) {
                record.report(prompt, out)?;
            }
        }
        // The record of a request has nothing that that of its response has not.
        DETAILS if record.attributes.get("gen_ai.output.messages").is_some() => {
            let mut facts = Facts::of(record.attributes);
            let details = Reported {
                input: facts.take_input().0,
                phase: Phase::Start,
                began_ms: record.time_ms,
                ..call
            };
            record.report(details, out)?;
        }
        "tool_call" => {
            let tool = tool(record, &session, run_of_prompt.clone());
            record.report(tool, out)?;
            if let Some(prompt) = prompt(Phase::End) {
                record.report(prompt, out)?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The content of the first candidate of each response: a streamed one is a list.
fn contents(responses: Value) -> Value {
    let list = match responses {
        Value::Array(list) => list,
        one => vec![one],
    };
    let contents = list.into_iter().filter_map(|mut one| {
        let content = one.pointer_mut("/candidates/0/content")?;
        Some(content.take())
    });
    contents.collect()
}

/// Thoughts are beside the output in Gemini's counts, cached tokens in the input; results of the server's own tools
/// are beside the input.
fn usage<'a>(record: &Record<'_, 'a>) -> Usage<'a> {
    let thoughts = record.count("thoughts_token_count");
    let of_tools = record.count("tool_token_count").unwrap_or(0);
    let input = record.count("input_token_count");
    let output = record.count("output_token_count");
    Usage {
        model: record.attributes.name(["model"]),
        prompt: input.map(|input| input.saturating_add(of_tools)),
        completion: output.map(|output| output.saturating_add(thoughts.unwrap_or(0))),
        total: record.count("total_token_count"),
        cached: record.count("cached_content_token_count"),
        reasoning: thoughts,
        ..Usage::default()
    }
}

fn tool<'a>(record: &Record<'_, 'a>, session: &str, parent: Option<String>) -> Reported<'a> {
    let name = record
        .attributes
        .name(["function_name"])
        .unwrap_or("tool".into());
    let input = record.json("function_args");
    let arguments = input.as_ref().map(spelled).unwrap_or_default();
    let run_id = match record.span_id {
        Some(schedule) => tool_id(schedule, &name, &arguments),
        None => {
            let nanos = record.nanos.to_string();
            derived_id(NAME, "tool", &[session, &nanos, &name, &arguments])
        }
    };
    let has_failed = record.is("success") == Some(false);
    let message = record
        .text("error.message")
        .or_else(|| record.text("error"));
    let kind = record
        .text("error.type")
        .or_else(|| record.text("error_type"));
    let bytes = record.count("content_length");
    let outcome = serde_json::json!({"success": !has_failed, "content_length": bytes});
    Reported {
        run_id,
        parent,
        name,
        kind: "tool",
        began_ms: record.began_ms(),
        input,
        outcome: Some(Json::from(outcome)),
        error: has_failed.then(|| (kind, message.unwrap_or("the tool failed").into())),
        ..Reported::default()
    }
}
