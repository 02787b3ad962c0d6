//! Bodies of distinct spans as `/v1/traces` takes them: the trees of [`super::batches`], each run as one span with the
//! attributes of the GenAI conventions of OpenTelemetry.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

use super::batches::{APP_DIGITS, Batches, Place, TEXT_BYTES, Template, What};

/// Spans of one body for which there are marks: each has at most seven places, and a mark's number has 12 bits.
pub(super) const SPANS_AT_MOST: u32 = 500;
/// Spans of one tree: an agent with one model call.
pub(super) const TREE_SPANS: usize = 2;
/// A span is the start and the end of a run.
pub(crate) const EVENTS_PER_SPAN: u64 = 2;

/// First and last byte of a mark, and what fills it up to its width: control characters, which occur nowhere else in a
/// rendered body.
const OPEN: u8 = 0x02;
const CLOSE: u8 = 0x03;
const FILL: u8 = 0x04;
/// Digits of a mark's number, each of 6 bits.
const DIGITS: usize = 2;
const DIGIT_ZERO: u8 = b'0';

/// What changes in the body, by the number of its mark.
#[derive(Default)]
struct Marks(Vec<What>);

impl Marks {
    /// A mark of so many bytes (at least four), to be found again in the encoded body.
    fn bytes(&mut self, what: What, width: usize) -> Vec<u8> {
        let number = self.0.len();
        self.0.push(what);
        let digits = [number >> 6, number & 63].map(|digit| DIGIT_ZERO + digit as u8);
        let mut mark = vec![OPEN, digits[0], digits[1], CLOSE];
        mark.resize(width.max(mark.len()), FILL);
        mark
    }

    fn text(&mut self, what: What, width: usize) -> String {
        String::from_utf8_lossy(&self.bytes(what, width)).into_owned()
    }

    fn number(&mut self, what: What) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.bytes(what, 8));
        u64::from_le_bytes(bytes)
    }

    fn template(self, bytes: Vec<u8>) -> Template {
        let mut places = Vec::new();
        for at in 0..bytes.len() {
            if bytes[at] == OPEN && bytes.get(at + DIGITS + 1) == Some(&CLOSE) {
                let digits = [bytes[at + 1], bytes[at + 2]];
                let [high, low] = digits.map(|digit| usize::from(digit.wrapping_sub(DIGIT_ZERO)));
                let what = self.0.get(high << 6 | low);
                places.extend(what.map(|what| Place { at, what: *what }));
            }
        }
        Template { bytes, places }
    }
}

impl Batches {
    /// Bodies of `spans` spans of about `span_bytes`; the ids differ from all other bodies'. At most
    /// [`SPANS_AT_MOST`].
    pub(super) fn of_spans(spans: usize, span_bytes: usize, text: Arc<[u8]>) -> Self {
        let stream = rand::random::<u32>() | 1;
        // What a span takes besides its texts is measured on one with empty texts.
        let bare = render(stream, spans, 0).bytes.len() / spans.max(1);
        let text_bytes = (span_bytes.saturating_sub(bare) / 2).min(TEXT_BYTES);
        let template = render(stream, spans, text_bytes);
        Self::new(template, spans.div_ceil(TREE_SPANS), text)
    }
}

/// Two texts of `text_bytes` in each span.
fn render(stream: u32, spans: usize, text_bytes: usize) -> Template {
    let mut marks = Marks::default();
    let app = marks.text(What::App, APP_DIGITS);
    let spans = (0..spans)
        .map(|number| span(stream, number, text_bytes, &mut marks))
        .collect();
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: vec![
                    pair("service.name", text(format!("bench-{app}"))),
                    pair("deployment.environment.name", text("prod")),
                ],
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                spans,
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    marks.template(request.encode_to_vec())
}

fn span(stream: u32, number: usize, text_bytes: usize, marks: &mut Marks) -> Span {
    let (tree, place) = (number / TREE_SPANS, number % TREE_SPANS);
    let is_call = place == 1;
    let first = (tree * TREE_SPANS) as u32;
    let stream = stream.to_be_bytes();
    // A run's id is the span's: the stream makes it differ from the ids of other bodies.
    let mut id = |number: u32| [&stream[..], &marks.bytes(What::Span(number), 4)].concat();
    let (span_id, of_trace) = (id(number as u32), id(first));
    let parent_span_id = if is_call { id(first) } else { Vec::new() };
    let trace_id = [&stream[..], &stream[..], &of_trace].concat();
    let messages = |role: &str, content: String| {
        format!(r#"[{{"role":"{role}","parts":[{{"type":"text","content":"{content}"}}]}}]"#)
    };
    let mut content = |role| messages(role, marks.text(What::Text(text_bytes), text_bytes));
    let said = [
        pair("gen_ai.input.messages", text(content("user"))),
        pair("gen_ai.output.messages", text(content("assistant"))),
    ];
    let own = match is_call {
        true => vec![
            pair("gen_ai.operation.name", text("chat")),
            pair("gen_ai.provider.name", text("openai")),
            pair("gen_ai.request.model", text("gpt-4o-mini")),
            pair("gen_ai.response.model", text("gpt-4o-mini")),
            pair("gen_ai.usage.input_tokens", Value::IntValue(812)),
            pair("gen_ai.usage.output_tokens", Value::IntValue(203)),
        ],
        false => vec![
            pair("gen_ai.operation.name", text("invoke_agent")),
            pair("gen_ai.agent.name", text("support")),
            pair(
                "user.id",
                text(format!("user-{:02}@example.com", number % 50)),
            ),
            pair("region", text("eu")),
        ],
    };
    // The agent starts first and ends last.
    let [start, end] = if is_call { [1, 2] } else { [0, 3] };
    Span {
        trace_id,
        span_id,
        parent_span_id,
        name: if is_call {
            "chat gpt-4o-mini"
        } else {
            "invoke_agent support"
        }
        .to_owned(),
        kind: if is_call {
            SpanKind::Client
        } else {
            SpanKind::Internal
        } as i32,
        start_time_unix_nano: marks.number(What::Nanos(start)),
        end_time_unix_nano: marks.number(What::Nanos(end)),
        attributes: own.into_iter().chain(said).collect(),
        ..Span::default()
    }
}

fn text(text: impl Into<String>) -> Value {
    Value::StringValue(text.into())
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::batches::{self, Moment};
    use super::*;

    #[test]
    fn every_body_has_spans_of_their_size_in_trees_no_two_alike() {
        let mut batches = Batches::of_spans(100, 2000, batches::text());
        let mut body = batches.blank();
        // The app, and of each tree six places of the agent and seven of its call.
        assert_eq!(batches.places(), 1 + 50 * (6 + 7));
        let mut ids = HashSet::new();
        for app in 0..3 {
            let now_ms = 1_714_500_000_000;
            batches.write(&mut body, &Moment { app, now_ms });
            assert!(
                (1990..=2010).contains(&(body.len() / 100)),
                "{}",
                body.len()
            );
            let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
            let resource = &request.resource_spans[0];
            let attributes = &resource.resource.as_ref().unwrap().attributes;
            assert_eq!(
                attributes[0],
                pair("service.name", text(format!("bench-{app:04}")))
            );
            let spans = &resource.scope_spans[0].spans;
            assert_eq!(spans.len(), 100);
            for tree in spans.chunks(TREE_SPANS) {
                let [agent, call] = tree else {
                    panic!("{tree:?}")
                };
                assert_eq!(call.parent_span_id, agent.span_id);
                assert_eq!(call.trace_id, agent.trace_id);
                assert_eq!(agent.end_time_unix_nano, now_ms as u64 * 1_000_000);
                assert!(agent.start_time_unix_nano < call.start_time_unix_nano);
                assert!(call.start_time_unix_nano < call.end_time_unix_nano);
                assert!(ids.insert(agent.span_id.clone()) && ids.insert(call.span_id.clone()));
            }
        }
    }
}
