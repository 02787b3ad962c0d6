//! Log records of a model call as events of its run.
//!
//! Some instrumentations put the messages of a call into log records that name the span. They come in a separate
//! request, before the span or after it, in no reliable order. So they become events that add input and output to the
//! run and nothing else:
//!
//! - Their name ends in `_start`: such an event opens a run that has not been seen and never closes one.
//! - Their time is rounded up past the record's millisecond, so that the span, which began earlier, stays first and
//!   gives the run its name and type.
//! - The records of one span in one request become one event. Where a client spreads them over several requests, the
//!   run's input is the earliest and its output the latest; the others are among the run's events.
//!
//! Records of coding agents are runs by themselves: see `coding_agent`.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry_proto::tonic::logs::v1::LogRecord;
use schemas::api_error::EventCode;
use schemas::event::EventFault;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::attributes::Attributes;
use super::coding_agent;
use super::context::{Context, app};
use super::draft::{Draft, moment};
use super::facts::{Facts, LLM};
use super::message_event::{DETAILS, MessageEvent};
use super::messages::Said;
use super::source::Source;
use super::span::{fault, identifier};
use super::terms::Terms;
use super::value::{Any, Json, held, plain};

/// The run's name until its span arrives.
const NAME: &str = "llm_start";

/// Records of a request, by run.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    places: HashMap<String, usize>,
    bytes: usize,
}

#[derive(Debug)]
struct Run {
    trace_id: String,
    run_id: String,
    source: Arc<Source>,
    /// The app of the first record that names one.
    app: Option<String>,
    time_ms: i64,
    records: Vec<Record>,
}

/// The content of a record, serialized: as objects it would take many times as much memory.
#[derive(Debug)]
struct Record {
    /// Its index in the request.
    index: usize,
    nanos: u64,
    input: Vec<Box<RawValue>>,
    output: Vec<Box<RawValue>>,
}

/// A record to add.
pub(crate) struct Incoming<'a> {
    /// Its index in the request.
    pub(crate) index: usize,
    pub(crate) record: LogRecord,
    pub(crate) source: &'a Arc<Source>,
    pub(crate) terms: Terms,
}

/// Bytes of a run besides its texts, its entry in the map included.
const RUN_BYTES: usize = size_of::<Run>() + 160;
/// Bytes of a message besides its text.
const MESSAGE_BYTES: usize = size_of::<Box<RawValue>>() + 16;

impl Runs {
    /// Adds one record. A complete one is appended to `out` at once, followed by a comma; after an error `out` may hold
    /// a part of it.
    pub(crate) fn add(
        &mut self,
        incoming: Incoming<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), EventFault> {
        let Incoming {
            index,
            record,
            source,
            terms,
        } = incoming;
        if write_agent(&record, source, terms, out)? {
            return Ok(());
        }
        let name = event_name(&record);
        let event = MessageEvent::of(name);
        if event.is_none() && name != DETAILS {
            let message = "says nothing of a model call: only GenAI events are taken as logs";
            return Err(fault(EventCode::InvalidValue, message));
        }
        let trace_id = identifier(&record.trace_id, 16, "traceId")?;
        let run_id = identifier(&record.span_id, 8, "spanId")?;
        let nanos = nanos(&record);
        let time_ms = moment(nanos, terms.now_ms, "timeUnixNano")? + 1;
        let Some(event) = event else {
            let details = Details {
                source,
                ids: [&trace_id, &run_id],
                time_ms,
            };
            write_details(&record, details, out)?;
            out.push(b',');
            return Ok(());
        };
        let mut said = Said::default();
        let body = held(record.body.as_ref()).map(plain);
        event.add_to(&mut said, body, &record.attributes);
        let (input, output) = (written(said.input), written(said.output));
        let messages = input.iter().chain(&output);
        self.bytes += size_of::<Record>()
            + messages
                .map(|message| message.get().len() + MESSAGE_BYTES)
                .sum::<usize>();
        let next = self.runs.len();
        let place = *self
            .places
            .entry(format!("{trace_id}{run_id}"))
            .or_insert(next);
        if place == next {
            // Runs of one scope share it.
            let is_shared = self
                .runs
                .last()
                .is_some_and(|run| Arc::ptr_eq(&run.source, source));
            self.bytes += RUN_BYTES + if is_shared { 0 } else { source.bytes() };
            self.runs.push(Run {
                trace_id,
                run_id,
                source: Arc::clone(source),
                app: None,
                time_ms,
                records: Vec::new(),
            });
        }
        let run = &mut self.runs[place];
        run.time_ms = run.time_ms.min(time_ms);
        if run.app.is_none() {
            run.app = app(&Attributes::new(&record.attributes)).map(str::to_owned);
            self.bytes += run.app.as_ref().map_or(0, String::len);
        }
        run.records.push(Record {
            index,
            nanos,
            input,
            output,
        });
        Ok(())
    }

    /// Bytes of memory of all records.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends the events of all runs, each followed by a comma. Records that cannot be written are rejected
    /// individually, by their index.
    pub(crate) fn write(self, out: &mut Vec<u8>, mut refuse: impl FnMut(usize, EventFault)) {
        for mut run in self.runs {
            run.records.sort_by_key(|record| record.nanos);
            let indexes: Vec<usize> = run.records.iter().map(|record| record.index).collect();
            let (mut input, mut output) = (Vec::new(), Vec::new());
            for record in run.records {
                input.extend(record.input);
                output.extend(record.output);
            }
            let output = match output.len() {
                1 => output.pop().map(Json::written_out),
                _ => list(&output),
            };
            let mut draft = Draft {
                app_id: run.app.as_deref().or(run.source.app.as_deref()),
                input: list(&input),
                output,
                ..Draft::new(NAME.to_owned(), &run.run_id, LLM, run.time_ms)
            };
            draft
                .metadata
                .insert("trace_id", Json::Text((&run.trace_id).into()));
            run.source.add_to(&mut draft.metadata);
            let start = out.len();
            match draft.write(out) {
                Ok(()) => out.push(b','),
                Err(fault) => {
                    out.truncate(start);
                    for index in indexes {
                        refuse(index, fault.clone());
                    }
                }
            }
        }
    }
}

fn written(messages: Vec<Value>) -> Vec<Box<RawValue>> {
    messages
        .iter()
        .filter_map(|message| to_raw_value(message).ok())
        .collect()
}

fn list(messages: &[Box<RawValue>]) -> Option<Json<'static>> {
    if messages.is_empty() {
        return None;
    }
    to_raw_value(messages).ok().map(Json::written_out)
}

/// The record's name: a field in current versions, formerly an attribute.
fn event_name(record: &LogRecord) -> &str {
    if !record.event_name.is_empty() {
        return &record.event_name;
    }
    let pair = record
        .attributes
        .iter()
        .find(|pair| pair.key == "event.name");
    match pair.and_then(|pair| held(pair.value.as_ref())) {
        Some(Any::StringValue(name)) => name,
        _ => "",
    }
}

/// Whose details a record has.
struct Details<'a> {
    source: &'a Source,
    /// Of the trace and of the run.
    ids: [&'a str; 2],
    time_ms: i64,
}

fn nanos(record: &LogRecord) -> u64 {
    match record.time_unix_nano {
        0 => record.observed_time_unix_nano,
        nanos => nanos,
    }
}

/// Appends the events of a record of a coding agent; `false` if it is none. Its name is an attribute, or the body.
fn write_agent(
    record: &LogRecord,
    source: &Source,
    terms: Terms,
    out: &mut Vec<u8>,
) -> Result<bool, EventFault> {
    let text = |any: Option<&'_ Any>| match any {
        Some(Any::StringValue(text)) => Some(text.clone()),
        _ => None,
    };
    let mut pairs = record.attributes.iter();
    let named = pairs.find(|pair| pair.key == "event.name");
    let named = text(named.and_then(|pair| held(pair.value.as_ref())));
    let names = [
        named,
        Some(record.event_name.clone()),
        text(held(record.body.as_ref())),
    ];
    let mut names = names.iter().flatten();
    let Some(name) = names.find_map(|name| coding_agent::Name::of(name, source.scope())) else {
        return Ok(false);
    };
    let nanos = nanos(record);
    let time_ms = moment(nanos, terms.now_ms, "timeUnixNano")?;
    let ids = identifier(&record.trace_id, 16, "traceId").ok();
    let ids = ids.zip(identifier(&record.span_id, 8, "spanId").ok());
    let attributes = Attributes::new(&record.attributes);
    let agent = coding_agent::Record::new(
        name,
        coding_agent::Written {
            attributes: &attributes,
            source,
            client_cost: terms.client_cost,
            nanos,
            time_ms,
            ids: ids
                .as_ref()
                .map(|(trace, span)| [trace.as_str(), span.as_str()]),
        },
    );
    attributes.take("event.name");
    coding_agent::write(&agent, out)?;
    Ok(true)
}

/// Messages only: the record names the span that was current when it was written, and after a streamed answer (OpenLIT)
/// that is the one around the call, which is none. Model and tokens are on the call's own span.
fn write_details(
    record: &LogRecord,
    details: Details<'_>,
    out: &mut Vec<u8>,
) -> Result<(), EventFault> {
    let Details {
        source,
        ids: [trace_id, run_id],
        time_ms,
    } = details;
    let attributes = Attributes::new(&record.attributes).of_scope(source.scope());
    attributes.take("event.name");
    let mut facts = Facts::of(&attributes);
    let context = Context::of(&attributes);
    // OpenLIT (1.35) writes the messages on the span of the call too, and its record may name the agent around it.
    let scope = source.scope();
    let has_own_messages = scope == "openlit" || scope.starts_with("openlit.");
    let mut draft = Draft {
        app_id: context.app.as_deref().or(source.app.as_deref()),
        input: facts.take_input().0.filter(|_| !has_own_messages),
        output: facts.take_output().0.filter(|_| !has_own_messages),
        agent: facts.agent.take(),
        user_email: context.user.clone(),
        thread_id: context.thread.clone(),
        tags: context.tags.clone(),
        ..Draft::new(NAME.to_owned(), run_id, facts.kind, time_ms)
    };
    draft
        .metadata
        .insert("trace_id", Json::Text(trace_id.into()));
    source.add_to(&mut draft.metadata);
    draft.metadata.insert_rest(&attributes);
    draft.write(out)
}

#[cfg(test)]
mod tests;
