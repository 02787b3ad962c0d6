//! What the attributes of a span say about its run, in any convention.

use std::borrow::Cow;

use serde_json::Value;

use super::attributes::Attributes;
use super::messages::{self, Said};
use super::usage::Usage;
use super::value::Json;
use super::vocabulary::Used;
use super::{gen_ai, openinference, traceloop};

/// The type of model calls, the only runs with a price.
pub(crate) const LLM: &str = "llm";
const TOOL: &str = "tool";
/// The type of a span that no convention classifies: a request over the network, a query, a step of the application.
const SPAN: &str = "span";

#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// `llm`, `tool`, `agent`, `chain`, ...
    pub(crate) kind: &'static str,
    /// The tool's or agent's own name.
    pub(crate) name: Option<Cow<'a, str>>,
    /// The acting agent.
    pub(crate) agent: Option<Cow<'a, str>>,
    /// Empty except for model calls.
    pub(crate) usage: Usage<'a>,
    pub(crate) said: Said,
    /// Input and output as one value each.
    pub(crate) input: Option<Json<'a>>,
    pub(crate) output: Option<Json<'a>>,
}

impl<'a> Facts<'a> {
    /// Reads all conventions in a fixed order; the first value wins, because some spans carry two conventions.
    pub(crate) fn of(attributes: &Attributes<'a>) -> Self {
        let used = Used::by(attributes);
        let kind = used
            .kind(attributes)
            .or_else(|| openinference::kind(attributes))
            .or_else(|| gen_ai::kind(attributes))
            .or_else(|| traceloop::kind(attributes))
            .or_else(|| gen_ai::guessed_kind(attributes))
            .unwrap_or(SPAN);
        let usage = match kind {
            LLM => Usage::of_model_call(attributes, used),
            _ => Usage::default(),
        };
        let mut facts = Self {
            kind,
            name: None,
            agent: None,
            usage,
            said: Said::default(),
            input: None,
            output: None,
        };
        used.read(attributes, &mut facts);
        openinference::read(attributes, &mut facts);
        gen_ai::read(attributes, &mut facts);
        traceloop::read(attributes, &mut facts);
        openinference::read_completion(attributes, &mut facts);
        facts
    }

    /// Adds messages of another source of the same run, if the attributes had none.
    pub(crate) fn hear(&mut self, said: Said) {
        if self.said.input.is_empty() {
            self.said.input = said.input;
        }
        if self.said.output.is_empty() {
            self.said.output = said.output;
        }
    }

    /// The input, and its second form. For a model call the messages are the input, for other runs the value.
    pub(crate) fn take_input(&mut self) -> (Option<Json<'a>>, Option<Json<'a>>) {
        let messages = self.said.take_input();
        chosen(self.kind, messages, self.input.take())
    }

    /// See [`Facts::take_input`].
    pub(crate) fn take_output(&mut self) -> (Option<Json<'a>>, Option<Json<'a>>) {
        let messages = self.said.take_output();
        chosen(self.kind, messages, self.output.take())
    }
}

fn chosen<'a>(
    kind: &str,
    messages: Option<Value>,
    value: Option<Json<'a>>,
) -> (Option<Json<'a>>, Option<Json<'a>>) {
    let messages = messages.map(|messages| match kind {
        TOOL => Json::from(messages::of_tool(messages)),
        _ => Json::from(messages),
    });
    match (messages, value) {
        (Some(messages), value) if kind == LLM => (Some(messages), value),
        (messages, Some(value)) => (Some(value), messages),
        (messages, None) => (messages, None),
    }
}
