//! A score as feedback on a run.
//!
//! The run is the observation's. A score that names a trace alone is feedback on the trace's root: the run with the
//! trace's id, which the older SDKs report; or of a trace of spans the root that the processor finds for the mark, which
//! waits under the trace's id and a name of its own until then (decision 0026).
//!
//! What users say with thumbs is a rating: 0 and 1, true and false, and words for good and bad. A value on any other
//! scale is kept as a comment, as is what an evaluator of Langfuse's says.

use schemas::api_error::EventCode;
use schemas::event::{EventFault, thumb_of_score};
use schemas::timestamp::to_text;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::observation::{fault, time_of};

/// The id of a score that is no item of a batch, and its one event.
pub(super) fn write_alone(
    raw: &RawValue,
    now_ms: i64,
    out: &mut Vec<u8>,
) -> (String, Result<usize, EventFault>) {
    let score: Map<String, Value> = match serde_json::from_str(raw.get()) {
        Ok(score) => score,
        Err(_) => {
            let fault = fault(EventCode::WrongType, "must be an object");
            return (String::new(), Err(fault));
        }
    };
    let id = score.get("id").and_then(Value::as_str);
    let id = match id.filter(|id| !id.is_empty()) {
        Some(id) => id.to_owned(),
        None => {
            let hash = xxh3_64(format!("{now_ms} {}", raw.get()).as_bytes());
            format!("{hash:016x}")
        }
    };
    (id, write(&score, now_ms, now_ms, out).map(|()| 1))
}

/// Appends the event of a score, followed by a comma. `sent_ms` is its time unless it has one.
pub(super) fn write(
    score: &Map<String, Value>,
    sent_ms: i64,
    now_ms: i64,
    out: &mut Vec<u8>,
) -> Result<(), EventFault> {
    let text = |key: &str| {
        let text = score.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let Some(run_id) = text("observationId").or_else(|| text("traceId")) else {
        let message = "names neither traceId nor observationId; scores of sessions and of runs of datasets are not kept";
        return Err(fault(EventCode::MissingField, message));
    };
    let Some(name) = text("name") else {
        return Err(fault(EventCode::MissingField, "name is required"));
    };
    let value = score.get("value").unwrap_or(&Value::Null);
    if !(value.is_boolean() || value.is_number() || value.is_string()) {
        let message = "value must be a number, a string or a boolean";
        return Err(fault(EventCode::WrongType, message));
    }
    let time_ms = match text("timestamp") {
        Some(text) => time_of(text, "timestamp", now_ms)?,
        None => sent_ms,
    };
    let is_rating = text("dataType") != Some("CORRECTION") && text("source") != Some("EVAL");
    let thumb = if is_rating {
        thumb_of_score(value)
    } else {
        Value::Null
    };
    let written = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let comment = match text("comment") {
        Some(comment) => format!("{name} = {written}: {comment}"),
        None => format!("{name} = {written}"),
    };
    let mut feedback = json!({
        "thumb": thumb, "comment": comment, "label": name, "value": value,
    });
    for key in ["id", "dataType", "source", "metadata"] {
        if let Some(more) = score.get(key).filter(|more| !more.is_null()) {
            feedback[key] = more.clone();
        }
    }
    let run_id = match text("observationId") {
        None if is_trace_of_spans(run_id) => {
            // A score that is sent again waits under the same name.
            let of_score = match (text("id"), text("timestamp")) {
                (Some(id), _) => id.to_owned(),
                (None, time) => format!("{} {feedback}", time.unwrap_or_default()),
            };
            format!("{run_id}/{:016x}", xxh3_64(of_score.as_bytes()))
        }
        _ => run_id.to_owned(),
    };
    let event = json!({
        "event": "feedback", "runId": run_id, "timestamp": to_text(time_ms), "feedback": feedback,
    });
    out.extend_from_slice(event.to_string().as_bytes());
    out.push(b',');
    Ok(())
}

/// Whether an id is that of a trace in OpenTelemetry.
fn is_trace_of_spans(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}
