//! Coding agents in a terminal: Claude Code, Codex and Gemini CLI.
//!
//! By default they send log records and no spans, and with both signals a record rarely names the span of the same
//! work. So what they report becomes runs of both signals that meet without looking at each other:
//!
//! - The run of a prompt, of a conversation and of a tool call has an identifier that follows from what both signals
//!   name ([`derived_id`]): whatever comes, and in any order, is one run.
//! - A model call is a run of each signal with one response identifier ([`same_call`]), so that it is counted once
//!   (docs/decisions/0028).
//!
//! Each client has a module: what the place of its spans is ([`Place`]), and what its records become. The names of its
//! spans' attributes are in `vocabulary`.

mod claude_code;
mod codex;
mod gemini_cli;
mod record;

use std::borrow::Cow;

use opentelemetry_proto::tonic::trace::v1::Span;
use schemas::digest;
use schemas::event::response_id;

use super::attributes::Attributes;
use super::facts::Facts;
use super::value::Json;

pub(crate) use codex::{model_named, waits_for_model};
pub(crate) use record::{Name, Record, Written, write};

/// The type of spans of a client's own functions, which say nothing of its work.
pub(crate) const INTERNAL: &str = "internal";

/// A span of any client, as far as its place in the tree depends on it.
pub(crate) struct Placed<'s, 'a> {
    pub(crate) span: &'a Span,
    pub(crate) attributes: &'s Attributes<'a>,
    /// The name of its instrumentation scope.
    pub(crate) scope: &'a str,
    /// Whether it is the first of its trace.
    pub(crate) is_root: bool,
    /// The model that other spans of its trace name.
    pub(crate) model: Option<&'a str>,
}

/// What the run of a span has beside what the span says.
#[derive(Default)]
pub(crate) struct Place<'a> {
    /// The parent of a span without one.
    pub(crate) parent: Option<String>,
    /// The run of a tool call, which records of it name too. The span itself is then a run around it, so that its
    /// children have a parent.
    pub(crate) tool: Option<String>,
    /// Identifies a model call in both signals.
    pub(crate) response_id: Option<String>,
    /// Runs that no span has.
    pub(crate) around: Vec<Around<'a>>,
}

/// A run that no span has, from the span that makes it known.
pub(crate) struct Around<'a> {
    pub(crate) run_id: String,
    pub(crate) parent: Option<String>,
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// The agent, if the run is one.
    pub(crate) agent: Option<&'static str>,
    pub(crate) thread: Option<Cow<'a, str>>,
    pub(crate) input: Option<Json<'a>>,
    pub(crate) output: Option<Json<'a>>,
    /// Whether it has ended when the span has; the latest end counts.
    pub(crate) closes: bool,
}

/// The place of a span, and its type where its attributes do not decide it.
pub(crate) fn place<'a>(placed: &Placed<'_, 'a>, facts: &mut Facts<'a>) -> Place<'a> {
    if placed.attributes.get("span.type").is_some() {
        claude_code::place(placed, facts)
    } else if codex::is_codex(placed.scope) {
        codex::place(placed, facts)
    } else if placed.scope == gemini_cli::SCOPE {
        gemini_cli::place(placed, facts)
    } else {
        Place::default()
    }
}

/// The identifier of a run that is named by what spans and records share.
fn derived_id(client: &str, what: &str, parts: &[&str]) -> String {
    let names = [client, what].into_iter();
    let hash = digest::of_texts(names.chain(parts.iter().copied()));
    format!("{client}-{what}-{hash:032x}")
}

/// The identifier of a response that both signals report without naming it: equal for both, except for the signal.
fn same_call(signal: response_id::Signal, client: &str, parts: &[&str]) -> String {
    let names = [client].into_iter();
    let hash = digest::of_texts(names.chain(parts.iter().copied()));
    response_id::of_counts(signal, hash)
}

/// A count as a part of an identifier.
fn digits(count: Option<u64>) -> String {
    count.map(|count| count.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
