//! The identifier that a model's provider gave to a response.
//!
//! Two instrumentations that see one model call report two runs with the same identifier; see docs/decisions/0028.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Bytes of an identifier. A provider's has 20 to 60.
const ID_BYTES: usize = 256;

/// Levels of objects and lists that are followed: LangChain's results have the response's metadata at the sixth.
const DEPTH: usize = 6;

/// The parts of an output that identify the response, and those that show that it is one.
#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    /// LangChain: what the provider sent beside the message.
    #[serde(borrow)]
    response_metadata: Option<&'a RawValue>,
    /// OpenAI.
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
    /// OpenAI and Anthropic.
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    /// Anthropic.
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    /// LangChain's `LLMResult`: a list of lists of generations, each with a message, serialized or not.
    #[serde(borrow)]
    generations: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    kwargs: Option<&'a RawValue>,
}

/// The identifier as text, if it is one that a provider may have given. LangChain gives its own, which begin with
/// `run-` or `lc_run-`, where the provider's is unknown.
pub fn of_text(id: &str) -> Option<&str> {
    let is_of_client = id.starts_with("run-") || id.starts_with("lc_run-");
    (!id.is_empty() && id.len() <= ID_BYTES && !is_of_client).then_some(id)
}

/// The two signals in which one client may report the same model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Span,
    Log,
}

impl Signal {
    fn prefix(self) -> &'static str {
        match self {
            Self::Span => "counts-of-span-",
            Self::Log => "counts-of-log-",
        }
    }
}

/// An identifier in place of the provider's, for a client that reports each call in both signals and identifies it in
/// neither: the hash is of what both say of it. Calls with equal counts have the same one, so it identifies the call
/// only together with the order of its signal's calls: see [`counts`].
pub fn of_counts(signal: Signal, hash: u128) -> String {
    format!("{}{hash:032x}", signal.prefix())
}

/// The signal and the hash of an identifier made by [`of_counts`].
pub fn counts(id: &str) -> Option<(Signal, &str)> {
    let mut signals = [Signal::Span, Signal::Log].into_iter();
    signals.find_map(|signal| Some((signal, id.strip_prefix(signal.prefix())?)))
}

/// What runs of one call may have in common: the identifier, without the signal.
pub fn shared(id: &str) -> &str {
    counts(id).map_or(id, |(_, hash)| hash)
}

/// The identifier in the output of a model call: `response_metadata.id`, else the `id` of an object that is a response
/// of OpenAI's, Anthropic's or LangChain's shape. An `id` in an object that a model was asked to make is none.
pub fn of_output(output: &RawValue) -> Option<Cow<'_, str>> {
    let raw = output.get();
    // Most outputs are texts and messages; a search for the name is faster than parsing.
    memchr::memmem::find(raw.as_bytes(), b"\"id\"")?;
    of_part(raw, DEPTH)
}

fn of_part(raw: &str, depth: usize) -> Option<Cow<'_, str>> {
    let depth = depth.checked_sub(1)?;
    match raw.as_bytes().first()? {
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
            match items.as_slice() {
                [only] => of_part(only.get(), depth),
                _ => None,
            }
        }
        b'{' => {
            let output: Output<'_> = serde_json::from_str(raw).ok()?;
            let of_metadata = output.response_metadata.and_then(id_in);
            let signs = [
                output.response_metadata,
                output.object,
                output.choices,
                output.model,
                output.usage,
                output.stop_reason,
            ];
            let is_response = signs.iter().any(Option::is_some);
            let own = output.id.filter(|_| is_response).and_then(text);
            let inner = [output.generations, output.message, output.kwargs];
            let mut inner = inner.into_iter().flatten();
            of_metadata
                .or(own)
                .or_else(|| inner.find_map(|part| of_part(part.get(), depth)))
        }
        _ => None,
    }
}

/// The field `id` of an object.
fn id_in(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct WithId<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    let with_id: WithId<'_> = serde_json::from_str(raw.get()).ok()?;
    text(with_id.id?)
}

fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let id = super::text_of(raw)?;
    of_text(&id).is_some().then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_is_found_where_clients_put_it_and_nowhere_else() {
        let langchain = r#"{"generations": [[{"text": "", "message": {"lc": 1, "id": ["langchain", "AIMessage"],
            "kwargs": {"response_metadata": {"id": "chatcmpl-1"}, "id": "lc_run--7"}}}]], "llm_output": null}"#;
        for (output, expected) in [
            (r#"{"id": "chatcmpl-1", "choices": []}"#, Some("chatcmpl-1")),
            (
                r#"{"id": "msg_1", "type": "message", "stop_reason": "end_turn"}"#,
                Some("msg_1"),
            ),
            (
                r#"{"id": "run-5", "response_metadata": {"id": "resp_1"}, "content": "hello"}"#,
                Some("resp_1"),
            ),
            (
                r#"{"id": "run-5", "response_metadata": {"finish_reason": "stop"}}"#,
                None,
            ),
            (langchain, Some("chatcmpl-1")),
            // What a model was asked to make.
            (r#"{"id": "customer-7", "name": "Ada"}"#, None),
            (r#"{"id": 7, "choices": []}"#, None),
            (r#"{"id": "", "choices": []}"#, None),
            // Items of an output have identifiers of their own.
            (
                r#"[{"id": "a", "model": "m"}, {"id": "b", "model": "m"}]"#,
                None,
            ),
            (r#""a text with \"id\" in it""#, None),
        ] {
            let raw: &RawValue = serde_json::from_str(output).unwrap();
            assert_eq!(of_output(raw).as_deref(), expected, "{output}");
        }
    }

    #[test]
    fn an_identifier_by_counts_has_its_signal_and_is_else_equal() {
        let [span, log] = [Signal::Span, Signal::Log].map(|signal| of_counts(signal, 7));
        assert_ne!(span, log);
        assert_eq!(of_text(&span), Some(span.as_str()));
        let (of_span, of_log) = (counts(&span).unwrap(), counts(&log).unwrap());
        assert_eq!((of_span.0, of_log.0), (Signal::Span, Signal::Log));
        assert_eq!(of_span.1, of_log.1);
        assert_eq!([shared(&span), shared(&log)], [of_span.1, of_log.1]);
        assert_eq!(shared("chatcmpl-1"), "chatcmpl-1");
        assert_eq!(counts("chatcmpl-1"), None);
    }

    #[test]
    fn a_long_identifier_is_none() {
        assert_eq!(of_text(&"x".repeat(ID_BYTES)).map(str::len), Some(ID_BYTES));
        assert_eq!(of_text(&"x".repeat(ID_BYTES + 1)), None);
    }
}
