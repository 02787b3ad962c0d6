//! A log record of a coding agent, and the events that it becomes.

use std::borrow::Cow;
use std::cell::Cell;

use schemas::api_error::EventCode;
use schemas::event::EventFault;
use schemas::limits;

use super::super::attributes::Attributes;
use super::super::context::Context;
use super::super::draft::{Draft, Failure};
use super::super::source::Source;
use super::super::usage::{Usage, count};
use super::super::value::{Any, Json, cut};
use super::{claude_code, codex, gemini_cli};
use crate::config::ClientCost;

/// Bytes of an error's message.
const ERROR_BYTES: usize = 64 << 10;

/// A record with a name of one of the clients.
pub(crate) struct Record<'s, 'a> {
    /// Without the client's prefix.
    pub(super) name: &'a str,
    client: &'static str,
    pub(super) attributes: &'s Attributes<'a>,
    source: &'a Source,
    context: Context<'a>,
    pub(super) nanos: u64,
    pub(super) time_ms: i64,
    trace_id: Option<&'a str>,
    /// The span that the record names.
    pub(super) span_id: Option<&'a str>,
    client_cost: ClientCost,
    /// Whether its other attributes are metadata of a run already.
    is_described: Cell<bool>,
}

/// The name of a record of one of the clients.
#[derive(Clone, Copy)]
pub(crate) struct Name<'a> {
    client: &'static str,
    /// Without the client's prefix.
    name: &'a str,
}

/// The prefixes of their names, and what the agents are called.
const CLIENTS: [(&str, &str); 3] = [
    ("claude_code.", claude_code::NAME),
    ("codex.", codex::NAME),
    ("gemini_cli.", gemini_cli::NAME),
];

impl<'a> Name<'a> {
    /// `None` if the name is not of these clients. Claude Code has its prefix in the body only.
    pub(crate) fn of(name: &'a str, scope: &str) -> Option<Self> {
        let mut clients = CLIENTS.iter();
        let known = clients.find_map(|(prefix, client)| {
            let name = name.strip_prefix(prefix)?;
            Some(Self { client, name })
        });
        let of_scope = match scope {
            claude_code::SCOPE => Some(claude_code::NAME),
            gemini_cli::SCOPE if name == gemini_cli::DETAILS => Some(gemini_cli::NAME),
            _ => None,
        };
        known.or_else(|| of_scope.map(|client| Self { client, name }))
    }
}

/// What a record says beside its name.
pub(crate) struct Written<'s, 'a> {
    pub(crate) attributes: &'s Attributes<'a>,
    pub(crate) source: &'a Source,
    pub(crate) client_cost: ClientCost,
    pub(crate) nanos: u64,
    pub(crate) time_ms: i64,
    /// Trace and span, if it names them.
    pub(crate) ids: Option<[&'a str; 2]>,
}

impl<'s, 'a> Record<'s, 'a> {
    pub(crate) fn new(name: Name<'a>, written: Written<'s, 'a>) -> Self {
        Self {
            name: name.name,
            client: name.client,
            attributes: written.attributes,
            source: written.source,
            client_cost: written.client_cost,
            context: Context::of(written.attributes),
            nanos: written.nanos,
            time_ms: written.time_ms,
            trace_id: written.ids.map(|[trace, _]| trace),
            span_id: written.ids.map(|[_, span]| span),
            is_described: Cell::new(false),
        }
    }

    /// What joins the records of one session or conversation: its id, else the prompt's, else the trace's. Empty where the
    /// record names none of them.
    pub(super) fn thread(&self) -> &str {
        let of_source = self.source.thread.as_deref();
        let session = self.context.thread.as_deref().or(of_source);
        let mut prompts = ["prompt.id", "prompt_id"].iter();
        session
            .or_else(|| prompts.find_map(|key| self.attributes.text(key)))
            .or(self.trace_id)
            .unwrap_or_default()
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.attributes.first([key], |any| match any {
            Any::StringValue(text) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn count(&self, key: &str) -> Option<u64> {
        self.attributes.first([key], count)
    }

    /// A flag, which some clients write as text.
    pub(super) fn is(&self, key: &str) -> Option<bool> {
        self.attributes.first([key], |any| match any {
            Any::BoolValue(yes) => Some(*yes),
            Any::StringValue(text) => text.parse().ok(),
            _ => None,
        })
    }

    pub(super) fn json(&self, key: &str) -> Option<Json<'a>> {
        let any = self.attributes.take(key)?;
        let is_empty = matches!(any, Any::StringValue(text) if text.is_empty());
        (!is_empty).then(|| Json::read(any))
    }

    /// When what the record reports began: clients write records at its end.
    pub(super) fn began_ms(&self) -> i64 {
        let length = self.count("duration_ms").unwrap_or(0);
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let began = self.time_ms.saturating_sub(length);
        began.max(limits::EARLIEST_TIMESTAMP_MS)
    }
}

/// What a record says of a run.
#[derive(Default)]
pub(super) struct Reported<'a> {
    pub(super) run_id: String,
    pub(super) parent: Option<String>,
    pub(super) name: Cow<'a, str>,
    pub(super) kind: &'static str,
    pub(super) began_ms: i64,
    /// Whether the record is its beginning, its end, or all of it.
    pub(super) phase: Phase,
    pub(super) input: Option<Json<'a>>,
    pub(super) output: Option<Json<'a>>,
    /// What is known of an output that is not in the record; a span of the same run knows better.
    pub(super) outcome: Option<Json<'a>>,
    pub(super) usage: Usage<'a>,
    pub(super) response_id: Option<String>,
    /// Type and message.
    pub(super) error: Option<(Option<&'a str>, Cow<'a, str>)>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Phase {
    Start,
    End,
    #[default]
    Whole,
}

impl<'s, 'a> Record<'s, 'a> {
    /// Appends the events of a run, each followed by a comma. The attributes that nothing has read are metadata of the
    /// first run that is written.
    pub(super) fn report(
        &self,
        reported: Reported<'a>,
        out: &mut Vec<u8>,
    ) -> Result<(), EventFault> {
        let Reported {
            run_id,
            parent,
            name,
            kind,
            began_ms,
            phase,
            input,
            output,
            outcome,
            usage,
            response_id,
            error,
        } = reported;
        let name = cut(&name, limits::NAME_BYTES - "_error".len());
        let event = |suffix: &str, at_ms| Draft {
            app_id: self.context.app.as_deref().or(self.source.app.as_deref()),
            parent_run_id: parent.as_deref(),
            agent: (kind == "agent").then_some(self.client.into()),
            user_email: own_or(&self.context.user, &self.source.user),
            thread_id: own_or(&self.context.thread, &self.source.thread),
            ..Draft::new(format!("{name}_{suffix}"), &run_id, kind, at_ms)
        };
        // Equal for any outcome.
        let event_id = |phase| Some(format!("{}-{}-{phase}", self.nanos, self.name));
        let mut drafts = Vec::with_capacity(2);
        if phase != Phase::End {
            drafts.push(Draft {
                event_id: event_id("start"),
                input,
                output: outcome,
                ..event("start", began_ms)
            });
        }
        if phase != Phase::Start {
            let suffix = if error.is_some() { "error" } else { "end" };
            drafts.push(Draft {
                event_id: event_id("end"),
                output,
                usage: Some(usage.with_cost_by(self.client_cost).into()),
                response_id: response_id.map(Cow::from),
                error: error.as_ref().map(|(name, message)| Failure {
                    name: *name,
                    message: cut(message, ERROR_BYTES),
                    stack: None,
                }),
                ..event(suffix, self.time_ms)
            });
        }
        if let Some(first) = drafts.first_mut() {
            if let Some(trace_id) = self.trace_id {
                let trace_id = Json::Text(trace_id.into());
                first.metadata.insert("trace_id", trace_id);
            }
            self.source.add_to(&mut first.metadata);
            if !self.is_described.replace(true) {
                first.metadata.insert_rest(self.attributes);
            }
        }
        for mut draft in drafts {
            draft.write(out)?;
            out.push(b',');
        }
        Ok(())
    }
}

fn own_or<'a>(own: &Option<Cow<'a, str>>, other: &'a Option<String>) -> Option<Cow<'a, str>> {
    own.clone().or_else(|| other.as_deref().map(Cow::from))
}

/// Appends the events of a record, each followed by a comma.
///
/// # Errors
/// A record that says nothing of a run is counted as rejected, like any other log.
pub(crate) fn write(record: &Record<'_, '_>, out: &mut Vec<u8>) -> Result<(), EventFault> {
    if record.thread().is_empty() {
        let message = "names neither a session nor a conversation, a prompt or a trace".to_owned();
        return Err(EventFault {
            code: EventCode::MissingField,
            message,
        });
    }
    let is_kept = match record.client {
        claude_code::NAME => claude_code::write(record, out)?,
        codex::NAME => codex::write(record, out)?,
        _ => gemini_cli::write(record, out)?,
    };
    if is_kept {
        return Ok(());
    }
    Err(EventFault {
        code: EventCode::InvalidValue,
        message: format!(
            "says nothing of a run: {:?} of {} is not kept",
            cut(record.name, 80),
            record.client
        ),
    })
}
