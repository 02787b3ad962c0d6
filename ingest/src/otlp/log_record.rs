//! Log records of a model call as events of its run.
//!
//! Some instrumentations put what was said into log records that name the span. They come in a request of their own,
//! before the span or after it, in no order that could be relied on. So they become events that add input and output
//! to the run and claim nothing else:
//!
//! - Their name ends in `_start`: such an event opens a run that has not been seen and never closes one.
//! - Their time is rounded up past the record's millisecond, so that the span, which began before it said anything,
//!   stays first and gives the run its name and type.
//! - The records of one span in one request make one event. Where a client spreads them over several requests, the
//!   run's input is what came in the earliest and its output what came in the latest; the others are among the run's
//!   events.

use std::collections::HashMap;

use opentelemetry_proto::tonic::logs::v1::LogRecord;
use schemas::event::EventFault;
use serde_json::Value;

use super::attributes::Attributes;
use super::context::Context;
use super::draft::{Draft, moment};
use super::facts::{Facts, LLM};
use super::message_event::MessageEvent;
use super::messages::Said;
use super::source::Source;
use super::span::{fault, identifier};
use super::value::{Any, Json, held, plain};

/// Everything of a call in one record, in attributes as a span would have them.
const DETAILS: &str = "gen_ai.client.inference.operation.details";
/// The run is so called until its span comes.
const NAME: &str = "llm_start";

/// Records of a request, by the run they are of.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    places: HashMap<String, usize>,
}

#[derive(Debug)]
struct Run {
    trace_id: String,
    run_id: String,
    source: Source,
    /// The earliest of its records.
    time_ms: i64,
    records: Vec<Record>,
}

/// A record that says one message.
#[derive(Debug)]
struct Record {
    /// Its place in the request.
    index: usize,
    nanos: u64,
    event: MessageEvent,
    body: Option<Value>,
    record: LogRecord,
}

impl Runs {
    /// Takes one record in. One that carries everything is appended to `out` at once, with a comma behind it; after an
    /// error `out` may hold a part of it.
    pub(crate) fn add(
        &mut self,
        (index, record): (usize, LogRecord),
        source: &Source,
        now_ms: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), EventFault> {
        let name = event_name(&record);
        let event = MessageEvent::of(name);
        if event.is_none() && name != DETAILS {
            let message = "says nothing of a model call: only GenAI events are taken as logs";
            return Err(fault("invalid_value", message));
        }
        let trace_id = identifier(&record.trace_id, 16, "traceId")?;
        let run_id = identifier(&record.span_id, 8, "spanId")?;
        let nanos = match record.time_unix_nano {
            0 => record.observed_time_unix_nano,
            nanos => nanos,
        };
        let time_ms = moment(nanos, now_ms, "timeUnixNano")? + 1;
        let Some(event) = event else {
            write_details(&record, source, [&trace_id, &run_id], time_ms, out)?;
            out.push(b',');
            return Ok(());
        };
        let next = self.runs.len();
        let place = *self
            .places
            .entry(format!("{trace_id}{run_id}"))
            .or_insert(next);
        if place == next {
            self.runs.push(Run {
                trace_id,
                run_id,
                source: source.clone(),
                time_ms,
                records: Vec::new(),
            });
        }
        let run = &mut self.runs[place];
        run.time_ms = run.time_ms.min(time_ms);
        run.records.push(Record {
            index,
            nanos,
            event,
            body: held(record.body.as_ref()).map(plain),
            record,
        });
        Ok(())
    }

    /// Appends the events of all runs, with a comma behind each. What cannot be written is refused, record by record,
    /// under the places they had.
    pub(crate) fn write(self, out: &mut Vec<u8>, mut refuse: impl FnMut(usize, EventFault)) {
        for mut run in self.runs {
            run.records.sort_by_key(|record| record.nanos);
            let indexes: Vec<usize> = run.records.iter().map(|record| record.index).collect();
            let mut said = Said::default();
            for Record {
                event,
                body,
                record,
                ..
            } in run.records
            {
                event.add_to(&mut said, body, &record.attributes);
            }
            let mut draft = Draft {
                app_id: run.source.app.as_deref(),
                input: said.take_input().map(Json::from),
                output: said.take_output().map(Json::from),
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

/// The record's name: a field of its own now, an attribute before.
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

fn write_details(
    record: &LogRecord,
    source: &Source,
    [trace_id, run_id]: [&str; 2],
    time_ms: i64,
    out: &mut Vec<u8>,
) -> Result<(), EventFault> {
    let attributes = Attributes::new(&record.attributes);
    attributes.take("event.name");
    let mut facts = Facts::of(&attributes);
    let context = Context::of(&attributes);
    let mut draft = Draft {
        app_id: context.app.as_deref().or(source.app.as_deref()),
        input: facts.take_input().0,
        output: facts.take_output().0,
        usage: Some(std::mem::take(&mut facts.usage).into()),
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
