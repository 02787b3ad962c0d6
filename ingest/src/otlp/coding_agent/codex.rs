//! Codex: conversations, turns, responses and tools, among some 600 spans of its own functions for a turn.
//!
//! Records name nothing but `conversation.id`, so that is the agent's run. Spans name `turn.id`, a few of them the
//! conversation too: a turn is a run below the conversation, and the first spans of traces are below their turn. First
//! spans that name neither (of the start of the program, for one) are below one run for each minute, because nothing
//! says which process they are of.
//!
//! A response has the same counts in both signals and nothing else; its span does not name the conversation.

use std::borrow::Cow;

use opentelemetry_proto::tonic::trace::v1::Span;
use schemas::event::EventFault;
use schemas::event::response_id::Signal;

use super::super::attributes::Attributes;
use super::super::facts::{Facts, LLM};
use super::super::usage::{Usage, count};
use super::super::value::{Any, held};
use super::super::vocabulary::Used;
use super::record::{Phase, Record, Reported};
use super::{Around, INTERNAL, Place, Placed, derived_id, digits, same_call};

pub(super) const NAME: &str = "codex";
/// The span of a whole turn.
const TURN: &str = "session_task.turn";
const MINUTE_NANOS: u64 = 60_000_000_000;
/// Equal counts further apart are two responses.
const HOUR_NANOS: u64 = 60 * MINUTE_NANOS;

pub(super) fn is_codex(scope: &str) -> bool {
    scope == "codex" || scope.starts_with("codex_") || scope.starts_with("codex-")
}

/// Spans whose `model` is that of the responses of their trace.
const NAMES_MODEL: [&str; 5] = [
    "run_sampling_request",
    "try_run_sampling_request",
    "model_client.stream_responses_api",
    "built_tools",
    TURN,
];

fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a Any> {
    let pair = span.attributes.iter().find(|pair| pair.key == key)?;
    held(pair.value.as_ref())
}

/// The model of the responses of this span's trace, if the span names it.
pub(crate) fn model_named<'a>(span: &'a Span, scope: &str) -> Option<&'a str> {
    if !is_codex(scope) || !NAMES_MODEL.contains(&span.name.as_str()) {
        return None;
    }
    match attribute(span, "model")? {
        Any::StringValue(model) if !model.is_empty() => Some(model),
        _ => None,
    }
}

/// Whether the span is a response, whose model another span of its trace names.
pub(crate) fn waits_for_model(span: &Span, scope: &str) -> bool {
    is_codex(scope)
        && attribute(span, "gen_ai.usage.input_tokens").is_some()
        && attribute(span, "gen_ai.request.model").is_none()
}

pub(super) fn place<'a>(placed: &Placed<'_, 'a>, facts: &mut Facts<'a>) -> Place<'a> {
    let attributes = placed.attributes;
    let conversation = conversation(attributes);
    let turn = ["turn.id", "turn_id"]
        .iter()
        .find_map(|key| attributes.text(key));
    let mut place = Place::default();
    if attributes.get("gen_ai.usage.input_tokens").is_some() {
        facts.kind = LLM;
        facts.usage = Usage::of_model_call(attributes, Used::by(attributes));
        let usage = &mut facts.usage;
        usage.model = usage.model.take().or_else(|| placed.model.map(Cow::from));
        usage.cache_write = attributes
            .first(["gen_ai.usage.cache_write.input_tokens"], count)
            .or(usage.cache_write)
            .filter(|count| *count > 0);
        place.response_id = Some(response(
            Signal::Span,
            placed.span.end_time_unix_nano,
            usage,
        ));
    } else if let Some(call) = attributes.text("call_id")
        && let Some(tool) = attributes.text("tool_name")
        && let Some(conversation) = conversation
        && (tool == placed.span.name || attributes.text("codex.tool.phase").is_some())
    {
        facts.kind = "tool";
        facts.name = Some(tool.into());
        place.tool = Some(derived_id(NAME, "tool", &[conversation, call]));
    } else if facts.kind == "span" {
        facts.kind = INTERNAL;
    }
    let run_of_conversation = conversation.map(|id| derived_id(NAME, "conversation", &[id]));
    let run_of_turn = turn.map(|id| derived_id(NAME, "turn", &[id]));
    let thread = conversation.map(Cow::from);
    let around = |run_id, parent, name, kind| Around {
        run_id,
        parent,
        name,
        kind,
        agent: (kind == "agent").then_some(NAME),
        thread: thread.clone(),
        input: None,
        output: None,
        closes: placed.span.name == TURN,
    };
    match (run_of_turn, run_of_conversation) {
        (Some(turn), Some(conversation)) => {
            let above = Some(conversation.clone());
            place.parent = Some(turn.clone());
            place.around.push(around(conversation, None, NAME, "agent"));
            place.around.push(around(turn, above, "turn", "chain"));
        }
        (Some(turn), None) if placed.is_root => {
            place.parent = Some(turn.clone());
            place.around.push(around(turn, None, "turn", "chain"));
        }
        (None, Some(conversation)) if placed.is_root => {
            place.parent = Some(conversation.clone());
            place.around.push(around(conversation, None, NAME, "agent"));
        }
        (None, None) if placed.is_root && facts.kind == INTERNAL => {
            let minute = placed.span.start_time_unix_nano / MINUTE_NANOS;
            let run_id = derived_id(NAME, "background", &[&minute.to_string()]);
            place.parent = Some(run_id.clone());
            let background = around(run_id, None, "codex background", INTERNAL);
            place.around.push(Around {
                closes: true,
                ..background
            });
        }
        _ => {}
    }
    place
}

/// The conversation that a span names. `thread.id` is the number of a thread of the process in most spans.
fn conversation<'a>(attributes: &Attributes<'a>) -> Option<&'a str> {
    let mut names = ["conversation.id", "thread_id", "thread.id"].iter();
    names.find_map(|key| attributes.text(key).filter(|id| id.contains('-')))
}

/// Identifies a response.
fn response(signal: Signal, nanos: u64, usage: &Usage<'_>) -> String {
    let counts = [
        usage.prompt,
        usage.completion,
        usage.cached,
        usage.reasoning,
    ]
    .map(digits);
    let [prompt, completion, cached, reasoning] = &counts;
    let hour = (nanos / HOUR_NANOS).to_string();
    same_call(
        signal,
        NAME,
        &[&hour, prompt, completion, cached, reasoning],
    )
}

/// Whether the record became a part of a run.
pub(super) fn write<'a>(record: &Record<'_, 'a>, out: &mut Vec<u8>) -> Result<bool, EventFault> {
    let thread = record.thread().to_owned();
    let run_of_conversation = derived_id(NAME, "conversation", &[&thread]);
    let conversation = |phase| Reported {
        run_id: run_of_conversation.clone(),
        name: NAME.into(),
        kind: "agent",
        began_ms: record.time_ms,
        phase,
        ..Reported::default()
    };
    match record.name {
        "conversation_starts" => record.report(conversation(Phase::Start), out)?,
        "user_prompt" => {
            let input = record.json("prompt");
            record.report(
                Reported {
                    input,
                    ..conversation(Phase::Start)
                },
                out,
            )?;
        }
        "sse_event" | "websocket_event" | "api_request" | "websocket_request" => {
            let Some(call) = call(record, &thread, &run_of_conversation) else {
                return Ok(false);
            };
            record.report(call, out)?;
            record.report(conversation(Phase::End), out)?;
        }
        "tool_decision" | "tool_result" => {
            let Some(tool) = tool(record, &thread, &run_of_conversation) else {
                return Ok(false);
            };
            record.report(tool, out)?;
            record.report(conversation(Phase::End), out)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A response, or a request that failed. The events of a stream and requests that succeeded are neither.
fn call<'a>(record: &Record<'_, 'a>, thread: &str, parent: &str) -> Option<Reported<'a>> {
    let usage = Usage {
        model: record.attributes.name(["model"]),
        // Cached tokens are included.
        prompt: record.count("input_token_count"),
        completion: record.count("output_token_count"),
        total: record.count("tool_token_count"),
        cached: record.count("cached_token_count"),
        cache_write: record
            .count("cache_write_token_count")
            .filter(|count| *count > 0),
        reasoning: record.count("reasoning_token_count"),
        ttft_ms: record.count("ttft_ms"),
        ..Usage::default()
    };
    let message = record
        .text("error.message")
        .or_else(|| record.text("error"));
    let status = record.text("http.response.status_code");
    let is_bad_status = status.is_some_and(|status| !status.starts_with('2') && status != "101");
    let is_failed = record.attributes.text("event.kind") == Some("response.failed");
    let has_failed = message.is_some() || is_bad_status || is_failed;
    let is_response = usage.prompt.is_some() && usage.completion.is_some();
    if !is_response && !has_failed {
        return None;
    }
    let response_id = is_response.then(|| response(Signal::Log, record.nanos, &usage));
    let parts = [thread, &record.nanos.to_string(), record.name];
    Some(Reported {
        run_id: derived_id(NAME, "response", &parts),
        parent: Some(parent.to_owned()),
        name: "response".into(),
        kind: LLM,
        began_ms: record.began_ms(),
        usage,
        response_id,
        error: has_failed.then(|| {
            let message = message.unwrap_or("the request failed");
            (status.filter(|_| is_bad_status), message.into())
        }),
        ..Reported::default()
    })
}

/// A tool call that has ended or was decided on. `None` for one that names no call.
fn tool<'a>(record: &Record<'_, 'a>, thread: &str, parent: &str) -> Option<Reported<'a>> {
    let call = record.text("call_id")?;
    let name = record
        .attributes
        .name(["tool_name"])
        .unwrap_or("tool".into());
    let tool = Reported {
        run_id: derived_id(NAME, "tool", &[thread, call]),
        parent: Some(parent.to_owned()),
        name,
        kind: "tool",
        began_ms: record.time_ms,
        ..Reported::default()
    };
    if record.name == "tool_decision" {
        let decision = record.attributes.text("decision").unwrap_or_default();
        let is_rejected = ["denied", "abort", "rejected"].contains(&decision);
        return Some(Reported {
            phase: if is_rejected {
                Phase::Whole
            } else {
                Phase::Start
            },
            error: is_rejected.then(|| (Some("rejected"), format!("decision: {decision}").into())),
            ..tool
        });
    }
    let output = record.json("output");
    let has_failed = record.is("success") == Some(false);
    let message = output.as_ref().map(|output| output.written().to_owned());
    let message = message.unwrap_or_else(|| "the tool failed".to_owned());
    Some(Reported {
        began_ms: record.began_ms(),
        input: record.json("arguments"),
        error: has_failed.then(|| (None, message.into())),
        output,
        ..tool
    })
}
