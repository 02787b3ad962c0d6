//! The identifier that the model's provider gave to the response of a call: runs with the same one report one call.

use std::borrow::Cow;

use schemas::event::response_id;
use serde_json::value::RawValue;

use super::attributes::Attributes;
use super::facts::{Facts, LLM};
use super::value::Json;

/// OpenTelemetry's GenAI conventions; OpenLLMetry before it followed them; the AI SDK (`ai.response.id` of
/// `recordSpan` in `vercel/ai`, packages/ai/src/telemetry).
const KEYS: [&str; 3] = ["gen_ai.response.id", "llm.response.id", "ai.response.id"];

/// The identifier by the attributes, else in the output as one value, where OpenInference has the whole response. Call
/// it before the output is taken.
pub(crate) fn of<'a>(facts: &Facts<'a>, attributes: &Attributes<'a>) -> Option<Cow<'a, str>> {
    if facts.kind != LLM {
        return None;
    }
    let mut named = KEYS.iter().filter_map(|key| attributes.text(key));
    let named = named.find_map(response_id::of_text);
    named.map(Cow::Borrowed).or_else(|| {
        let Some(Json::Raw(output)) = &facts.output else {
            return None;
        };
        let output: &RawValue = output;
        let id = response_id::of_output(output)?;
        Some(Cow::Owned(id.into_owned()))
    })
}
