//! Claude Code: interactions, model requests and tools, as spans or as log records.
//!
//! Records name the span of the interaction where spans are exported, and `prompt.id` in any case. A tool call has
//! `session.id` and `tool_use_id` in both signals. A request has the same counts and the same time to the first token.

use std::borrow::Cow;

use schemas::event::EventFault;
use schemas::event::response_id::Signal;
use serde_json::json;

use super::super::facts::{Facts, LLM};
use super::super::usage::{Usage, amount};
use super::super::value::Json;
use super::record::{Phase, Record, Reported};
use super::{Place, Placed, derived_id, digits, same_call};

pub(super) const NAME: &str = "claude-code";
pub(super) const SCOPE: &str = "com.anthropic.claude_code.events";
/// The name of the run of a prompt, as its span has it.
const INTERACTION: &str = "claude_code.interaction";

pub(super) fn place<'a>(placed: &Placed<'_, 'a>, facts: &mut Facts<'a>) -> Place<'a> {
    let text = |key| placed.attributes.text(key);
    let session = text("session.id").unwrap_or_default();
    let mut place = Place::default();
    match (facts.kind, text("tool_use_id")) {
        (LLM, _) => place.response_id = Some(request(Signal::Span, session, &facts.usage)),
        ("tool", tool_use) => {
            place.tool = tool_use.map(|id| derived_id(NAME, "tool", &[session, id]));
            facts.output = facts.output.take().or_else(|| tool_output(placed));
        }
        _ => {}
    }
    place
}

/// The output of a tool, which is in an event of its span.
fn tool_output<'a>(placed: &Placed<'_, 'a>) -> Option<Json<'a>> {
    let mut events = placed.span.events.iter();
    let event = events.rfind(|event| event.name == "tool.output")?;
    let mut fields = super::super::value::object(&event.attributes);
    Some(Json::from(match fields.remove("output") {
        Some(output) => output,
        None => fields.into(),
    }))
}

/// Identifies a request, successful or not.
fn request(signal: Signal, session: &str, usage: &Usage<'_>) -> String {
    let counts = [usage.prompt, usage.completion, usage.cached, usage.ttft_ms].map(digits);
    let [prompt, completion, cached, ttft] = &counts;
    same_call(signal, NAME, &[session, prompt, completion, cached, ttft])
}

/// Whether the record became a part of a run.
pub(super) fn write<'a>(record: &Record<'_, 'a>, out: &mut Vec<u8>) -> Result<bool, EventFault> {
    let session = record.thread().to_owned();
    let prompt = record.text("prompt.id");
    let run_of_prompt = match (record.span_id, prompt) {
        (Some(span), _) => span.to_owned(),
        (None, Some(prompt)) => derived_id(NAME, "prompt", &[&session, prompt]),
        (None, None) => derived_id(NAME, "session", &[&session]),
    };
    let interaction = |phase| Reported {
        run_id: run_of_prompt.clone(),
        name: INTERACTION.into(),
        kind: "agent",
        began_ms: record.time_ms,
        phase,
        ..Reported::default()
    };
    match record.name {
        "user_prompt" => {
            let input = record.json("prompt");
            record.attributes.take("prompt_text");
            record.report(
                Reported {
                    input,
                    ..interaction(Phase::Start)
                },
                out,
            )?;
        }
        "assistant_response" => {
            // A subagent's answer is not that of the interaction.
            let source = record.attributes.text("query_source").unwrap_or_default();
            let output = record
                .json("response")
                .filter(|_| !source.starts_with("agent"));
            record.report(
                Reported {
                    output,
                    ..interaction(Phase::End)
                },
                out,
            )?;
        }
        "api_request" | "api_error" => {
            let has_failed = record.name == "api_error";
            let usage = usage(record);
            let sequence = record.text("event.sequence").unwrap_or_default();
            let parts = [session.as_str(), &record.nanos.to_string(), sequence];
            let request = Reported {
                run_id: derived_id(NAME, "request", &parts),
                parent: Some(run_of_prompt.clone()),
                name: "claude_code.llm_request".into(),
                kind: LLM,
                began_ms: record.began_ms(),
                response_id: Some(request(Signal::Log, &session, &usage)),
                usage,
                error: has_failed.then(|| error(record)),
                ..Reported::default()
            };
            record.report(request, out)?;
            if record.span_id.is_none() {
                record.report(interaction(Phase::End), out)?;
            }
        }
        "tool_result" | "tool_decision" => {
            let Some(tool) = tool(record, &session, &run_of_prompt) else {
                return Ok(false);
            };
            record.report(tool, out)?;
            if record.span_id.is_none() {
                record.report(interaction(Phase::End), out)?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Input is exclusive: what was read from a cache or written to it is beside it.
fn usage<'a>(record: &Record<'_, 'a>) -> Usage<'a> {
    let cached = record.count("cache_read_tokens");
    let written = record.count("cache_creation_tokens");
    let written_1h = record.count("cache_creation_1h_tokens");
    let written_5m = record.count("cache_creation_5m_tokens");
    let written_5m = written_5m.or_else(|| Some(written?.saturating_sub(written_1h.unwrap_or(0))));
    let beside = [cached, written_5m, written_1h].into_iter().flatten();
    let beside: u64 = beside.sum();
    Usage {
        model: record.attributes.name(["model"]),
        prompt: record
            .count("input_tokens")
            .map(|input| input.saturating_add(beside)),
        completion: record.count("output_tokens"),
        cached,
        cache_write: written_5m,
        cache_write_1h: written_1h.filter(|count| *count > 0),
        estimated_cost: record.attributes.first(["cost_usd"], amount),
        ttft_ms: record.count("ttft_ms"),
        ..Usage::default()
    }
}

fn error<'a>(record: &Record<'_, 'a>) -> (Option<&'a str>, Cow<'a, str>) {
    let message = record
        .text("error")
        .or_else(|| record.text("error_message"));
    let kind = record
        .text("error_type")
        .or_else(|| record.text("status_code"));
    (kind, message.unwrap_or("the request failed").into())
}

/// A tool call that has ended or was decided on. `None` for a decision that no call can be found by.
fn tool<'a>(record: &Record<'_, 'a>, session: &str, parent: &str) -> Option<Reported<'a>> {
    let tool_use = record.text("tool_use_id");
    let is_decision = record.name == "tool_decision";
    let run_id = match tool_use {
        Some(id) => derived_id(NAME, "tool", &[session, id]),
        None if is_decision => return None,
        None => derived_id(NAME, "tool", &[session, &record.nanos.to_string()]),
    };
    let name = record
        .attributes
        .name(["tool_name"])
        .unwrap_or("tool".into());
    let parameters = record.json("tool_parameters");
    let input = record.json("tool_input").or(parameters);
    let tool = Reported {
        run_id,
        // The span of a decision is a step of the call.
        parent: (!is_decision || record.span_id.is_none()).then(|| parent.to_owned()),
        name,
        kind: "tool",
        began_ms: record.time_ms,
        ..Reported::default()
    };
    if is_decision {
        let is_rejected = record.attributes.text("decision") == Some("reject");
        let by = record.attributes.text("source").unwrap_or("unknown");
        return Some(Reported {
            phase: if is_rejected {
                Phase::Whole
            } else {
                Phase::Start
            },
            // Of a call that is carried out the result says more.
            input: input.filter(|_| is_rejected),
            error: is_rejected.then(|| (Some("rejected"), format!("rejected by {by}").into())),
            ..tool
        });
    }
    let has_failed = record.is("success") == Some(false);
    let bytes = record.count("tool_result_size_bytes");
    let outcome = json!({"success": !has_failed, "result_size_bytes": bytes});
    Some(Reported {
        began_ms: record.began_ms(),
        input,
        outcome: Some(Json::from(outcome)),
        error: has_failed.then(|| error(record)),
        ..tool
    })
}
