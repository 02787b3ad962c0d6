//! An item of a batch of Langfuse's older SDKs as events: a trace, an observation or a score.
//!
//! An observation is a run with its id. It comes as one item, or as several of which each adds what it names, so an item
//! becomes a start at its start, and an end where it names one. A trace is a run with its id too, above the observations
//! without a parent: its events carry user, session and tags. It closes at once, and again with each of these
//! observations, so that it ends with the last one.

use std::borrow::Cow;
use std::collections::HashMap;

use schemas::api_error::{ApiError, EventCode};
use schemas::event::EventFault;
use schemas::{limits, timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::batch::{self, Kind, Terms};
use super::score;
use crate::otlp::draft::{Draft, Failure, moment};
use crate::otlp::messages;
use crate::otlp::metadata::Metadata;
use crate::otlp::usage::{Counts, PartsRule, Usage};
use crate::otlp::value::Json;

/// The type of model calls.
const LLM: &str = "llm";
const TRACE: &str = "chain";
/// Of a trace without a name.
const TRACE_NAME: &str = "trace";
const NANOS_PER_MS: u64 = 1_000_000;

/// The parts of an item.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    timestamp: Option<Cow<'a, str>>,
    body: Map<String, Value>,
}

/// What other items of a batch say of an observation or a trace: an update names the id alone.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, Named>);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    id: String,
    name: Option<String>,
    trace_id: Option<String>,
    parent_observation_id: Option<String>,
}

impl Names {
    pub(super) fn of(body: &str) -> Result<Self, ApiError> {
        #[derive(Deserialize)]
        struct Outer {
            body: Named,
        }
        let mut names = HashMap::new();
        batch::visit(Kind::Ingestion, body, |raw| {
            // What cannot be read has its fault when it is translated.
            if let Ok(Outer { body }) = serde_json::from_str(raw.get())
                && body.name.is_some()
            {
                names.entry(body.id.clone()).or_insert(body);
            }
            Ok(())
        })?;
        Ok(Self(names))
    }

    fn of_id(&self, id: &str) -> Option<&Named> {
        self.0.get(id)
    }

    fn name(&self, id: &str) -> Option<&str> {
        self.of_id(id)?.name.as_deref()
    }
}

/// The id of an item, and how many events it became; each is followed by a comma. After an error `out` holds a part of
/// them.
pub(super) fn write(
    raw: &RawValue,
    names: &Names,
    terms: Terms,
    out: &mut Vec<u8>,
) -> (String, Result<usize, EventFault>) {
    let item: Item<'_> = match serde_json::from_str(raw.get()) {
        Ok(item) => item,
        Err(error) => {
            let message = format!("must be an object with id, type, timestamp and body: {error}");
            return (String::new(), Err(fault(EventCode::WrongType, message)));
        }
    };
    let id = item.id.as_deref().unwrap_or_default().to_owned();
    (id, of_item(item, names, terms, out))
}

fn of_item(
    item: Item<'_>,
    names: &Names,
    terms: Terms,
    out: &mut Vec<u8>,
) -> Result<usize, EventFault> {
    let mut fields = Fields(item.body);
    let sent_ms = match &item.timestamp {
        Some(text) => time_of(text, "timestamp", terms.now_ms)?,
        None => terms.now_ms,
    };
    let entry = Entry {
        id: item.id.as_deref().unwrap_or_default(),
        names,
        sent_ms,
        terms,
    };
    match item.kind.as_ref() {
        "trace-create" => entry.trace(fields, out),
        "score-create" => {
            score::write(&fields.0, sent_ms, terms.now_ms, out)?;
            Ok(1)
        }
        // Faults of the SDK itself.
        "sdk-log" => Ok(0),
        kind => match Observed::of(kind, &mut fields) {
            Some(observed) => entry.observation(fields, observed, out),
            None => {
                let message = format!("has the type {kind:?}, which is not taken");
                Err(fault(EventCode::InvalidValue, message))
            }
        },
    }
}

/// What an observation is.
#[derive(Clone, Copy)]
struct Observed {
    /// Of its run.
    kind: &'static str,
    makes_vectors: bool,
    /// It has a time and no length.
    is_instant: bool,
}

impl Observed {
    /// By the type of the item; the oldest SDKs have the observation's in the body.
    fn of(kind: &str, fields: &mut Fields) -> Option<Self> {
        let of = kind
            .strip_suffix("-create")
            .or_else(|| kind.strip_suffix("-update"))?;
        let of = match of {
            "observation" => fields.text("type")?.to_ascii_lowercase(),
            of => of.to_owned(),
        };
        let kind = match of.as_str() {
            "generation" | "embedding" => LLM,
            "span" | "event" => "span",
            "agent" => "agent",
            "tool" => "tool",
            "chain" => "chain",
            "retriever" => "retriever",
            "evaluator" => "evaluator",
            "guardrail" => "guardrail",
            _ => return None,
        };
        Some(Self {
            kind,
            makes_vectors: of == "embedding",
            is_instant: of == "event",
        })
    }
}

pub(super) fn fault(code: EventCode, message: impl Into<String>) -> EventFault {
    EventFault {
        code,
        message: message.into(),
    }
}

/// A time that an event may have.
pub(super) fn time_of(text: &str, field: &str, now_ms: i64) -> Result<i64, EventFault> {
    let Some(time_ms) = timestamp::parse_text(text) else {
        let message = format!("{field} must be an ISO 8601 time, got {text:?}");
        return Err(fault(EventCode::InvalidValue, message));
    };
    let nanos = u64::try_from(time_ms).unwrap_or(0);
    moment(nanos.saturating_mul(NANOS_PER_MS), now_ms, field)
}

/// The body of an item.
struct Fields(Map<String, Value>);

impl Fields {
    fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key).filter(|value| !value.is_null())
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    fn name(&mut self, key: &str) -> Option<String> {
        let name = self.text(key)?;
        let end = name.floor_char_boundary(limits::NAME_BYTES);
        Some(name[..end].to_owned())
    }

    fn time(&mut self, key: &str, now_ms: i64) -> Result<Option<i64>, EventFault> {
        let text = self.text(key);
        text.map(|text| time_of(&text, key, now_ms)).transpose()
    }

    fn required(&mut self, keys: &[&str]) -> Result<String, EventFault> {
        let mut ids = keys.iter().filter_map(|key| self.text(key));
        ids.next().ok_or_else(|| {
            let message = format!("body.{} is required", keys.join(" or body."));
            fault(EventCode::MissingField, message)
        })
    }

    /// The rest as metadata, and the keys of `metadata` itself.
    fn metadata(mut self, trace_id: Option<&str>) -> Metadata<'static> {
        let mut metadata = Metadata::default();
        if let Some(trace_id) = trace_id {
            metadata.insert("trace_id", Json::Text(trace_id.to_owned().into()));
        }
        match self.take("metadata") {
            Some(Value::Object(fields)) => {
                for (key, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
                    metadata.insert(key, Json::from(value));
                }
            }
            Some(other) => metadata.insert("metadata", Json::from(other)),
            None => {}
        }
        for (key, value) in self.0 {
            if !value.is_null() {
                metadata.insert(key, Json::from(value));
            }
        }
        metadata
    }

    fn usage(&mut self, observed: Observed) -> Option<Usage<'static>> {
        let details = self.take("usageDetails");
        let former = self.take("usage");
        let costs = self.take("costDetails");
        let model = self.name("model");
        if observed.kind != LLM {
            return None;
        }
        // Characters and images have other prices than tokens.
        let is_tokens =
            |usage: &Value| matches!(&usage["unit"], Value::Null) || usage["unit"] == "TOKENS";
        let counted = details.or_else(|| former.clone().filter(is_tokens));
        let counts = counted.map(|usage| Counts::of(&usage, PartsRule::ByNumbers));
        let former = former.unwrap_or_default();
        let cost = costs
            .as_ref()
            .and_then(total_of_costs)
            .or_else(|| former["totalCost"].as_f64())
            .or_else(|| {
                let parts = ["inputCost", "outputCost"].map(|key| former[key].as_f64());
                parts.into_iter().flatten().reduce(|sum, cost| sum + cost)
            });
        Some(Usage {
            model: model.map(Cow::Owned),
            ..Usage::of_counts(counts.unwrap_or_default(), observed.makes_vectors)
                .with_estimate(cost)
        })
    }
}

/// The total of costs by kind, else their sum.
fn total_of_costs(costs: &Value) -> Option<f64> {
    let total = costs["total"].as_f64();
    total.or_else(|| Some(costs.as_object()?.values().filter_map(Value::as_f64).sum()))
}

/// The messages of a model call, which stand beside its tools in some integrations.
fn messages_of(value: Value, role: &str) -> Vec<Value> {
    let messages = match value {
        Value::Object(mut fields) if fields.get("messages").is_some_and(Value::is_array) => {
            fields.remove("messages").unwrap_or_default()
        }
        other => other,
    };
    messages::of_value(messages, role)
}

/// An item, with what all of its events share.
struct Entry<'a> {
    id: &'a str,
    names: &'a Names,
    sent_ms: i64,
    terms: Terms,
}

impl Entry<'_> {
    fn draft<'d>(&self, run: &Run<'d>, phase: &str, time_ms: i64) -> Draft<'d> {
        let name = format!("{}_{phase}", run.name);
        // One identity for any outcome.
        let phase = if phase == "error" { "end" } else { phase };
        Draft {
            event_id: (!self.id.is_empty()).then(|| format!("{}-{phase}", self.id)),
            parent_run_id: run.parent,
            ..Draft::new(name, run.id, run.kind, time_ms)
        }
    }

    fn trace(&self, mut fields: Fields, out: &mut Vec<u8>) -> Result<usize, EventFault> {
        let id = fields.required(&["id"])?;
        let own_name = fields.name("name");
        let name = own_name
            .as_deref()
            .or_else(|| self.names.name(&id))
            .unwrap_or(TRACE_NAME);
        let run = Run {
            id: &id,
            parent: None,
            name,
            kind: TRACE,
        };
        let start_ms = fields.time("timestamp", self.terms.now_ms)?;
        let start_ms = start_ms.unwrap_or(self.sent_ms);
        let mut start = self.draft(&run, "start", start_ms);
        let mut end = self.draft(&run, "end", start_ms.max(self.sent_ms));
        start.input = fields.take("input").map(Json::from);
        end.output = fields.take("output").map(Json::from);
        start.user_email = fields.name("userId").map(Cow::Owned);
        start.thread_id = fields.name("sessionId").map(Cow::Owned);
        if let Some(Value::Array(tags)) = fields.take("tags") {
            let tags = tags.iter().filter_map(Value::as_str);
            let tags = tags.filter(|tag| (1..=limits::NAME_BYTES).contains(&tag.len()));
            start.tags = tags
                .take(limits::EVENT_TAGS)
                .map(|tag| tag.to_owned().into())
                .collect();
        }
        start.metadata = fields.metadata(Some(&id));
        put(&mut start, out)?;
        put(&mut end, out)?;
        Ok(2)
    }

    fn observation(
        &self,
        mut fields: Fields,
        observed: Observed,
        out: &mut Vec<u8>,
    ) -> Result<usize, EventFault> {
        let kind = observed.kind;
        let now_ms = self.terms.now_ms;
        // The oldest updates name the id by the kind.
        let id = fields.required(&["id", "spanId", "generationId"])?;
        let known = self.names.of_id(&id);
        let own_name = fields.name("name");
        let own_trace = fields.text("traceId");
        let own_parent = fields.text("parentObservationId");
        let trace = own_trace.as_deref().or_else(|| known?.trace_id.as_deref());
        let above = own_parent
            .as_deref()
            .or_else(|| known?.parent_observation_id.as_deref());
        let name = own_name.as_deref().or_else(|| self.names.name(&id));
        let run = Run {
            id: &id,
            parent: above.or(trace).filter(|parent| *parent != id),
            name: name.unwrap_or(kind),
            kind,
        };
        let given_start = fields.time("startTime", now_ms)?;
        let start_ms = given_start.unwrap_or(self.sent_ms);
        let end_ms = match observed.is_instant {
            true => Some(start_ms),
            false => fields.time("endTime", now_ms)?,
        };
        let first_token_ms = fields.time("completionStartTime", now_ms)?;
        let [input, output] = ["input", "output"].map(|key| fields.take(key));
        let [prompt, completion] = ["prompt", "completion"].map(|key| fields.take(key));
        let usage = fields.usage(observed);
        let level = fields.text("level");
        let has_failed = level.as_deref() == Some("ERROR");
        let message = match has_failed {
            true => fields.text("statusMessage"),
            false => None,
        };
        let failure = has_failed.then(|| Failure {
            name: None,
            message: message
                .as_deref()
                .unwrap_or("the observation's level is ERROR"),
            stack: None,
        });
        if let Some(level) = level.filter(|level| level != "DEFAULT") {
            fields.0.insert("level".to_owned(), level.into());
        }

        let mut start = self.draft(&run, "start", start_ms);
        start.input = said(kind, input.or(prompt), "user");
        start.metadata = fields.metadata(trace);
        let mut end = end_ms.map(|end_ms| {
            let phase = if has_failed { "error" } else { "end" };
            self.draft(&run, phase, end_ms.max(given_start.unwrap_or(end_ms)))
        });
        // Without an end the start carries what there is: it opens a run and closes none.
        let last = end.as_mut().unwrap_or(&mut start);
        last.output = said(kind, output.or(completion), "assistant");
        last.error = failure;
        last.usage = usage.map(|mut usage| {
            let since_start = first_token_ms.map(|first_ms| first_ms - start_ms);
            usage.ttft_ms = since_start.and_then(|ms| u64::try_from(ms).ok());
            usage.with_cost_by(self.terms.client_cost).into()
        });
        put(&mut start, out)?;
        let Some(mut end) = end else {
            return Ok(1);
        };
        put(&mut end, out)?;
        let Some(trace) = trace.filter(|_| above.is_none()) else {
            return Ok(2);
        };
        let of_trace = Run {
            id: trace,
            parent: None,
            name: self.names.name(trace).unwrap_or(TRACE_NAME),
            kind: TRACE,
        };
        let mut end_of_trace = self.draft(&of_trace, "end", end.timestamp_ms);
        put(&mut end_of_trace, out)?;
        Ok(3)
    }
}

/// The run of an item.
struct Run<'a> {
    id: &'a str,
    parent: Option<&'a str>,
    name: &'a str,
    kind: &'static str,
}

fn put(draft: &mut Draft<'_>, out: &mut Vec<u8>) -> Result<(), EventFault> {
    draft.write(out)?;
    out.push(b',');
    Ok(())
}

/// Input or output: of a model call as messages, of which a single one is an output.
fn said(kind: &str, value: Option<Value>, role: &str) -> Option<Json<'static>> {
    let value = value?;
    if kind != LLM {
        return Some(Json::from(value));
    }
    let mut messages = messages_of(value, role);
    match messages.len() {
        0 => None,
        1 if role == "assistant" => messages.pop().map(Json::from),
        _ => Some(Json::from(Value::from(messages))),
    }
}
