use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api_error::ApiError;

const NOW_MS: UnixMs = 1_795_185_741_941;

fn event(run_id: &str) -> Value {
    json!({"name": "llm_end", "run_id": run_id, "timestamp": "2026-11-20T10:00:00.000Z", "output": {"text": "[{\"}"}})
}

fn run_ids(body: &str) -> Result<Vec<Result<String, &'static str>>, ApiError> {
    let batch = read(body.as_bytes(), NOW_MS)?;
    Ok(batch
        .slots
        .into_iter()
        .map(|slot| {
            slot.event
                .map(|event| event.run_id.into_owned())
                .map_err(|fault| fault.code.as_str())
        })
        .collect())
}

#[test]
fn events_come_with_their_own_bytes() {
    let first = r#"{"name":"a_start" , "run_id":"1","timestamp":1795185741941}"#;
    let second = r#"{"name":"a_end","run_id":"2","timestamp":1795185741941}"#;
    let body = format!(" {{\n\"events\" : [ {first} ,\t{second} ] , \"other\": [1, {{}}] }} ");
    let batch = read(body.as_bytes(), NOW_MS).unwrap();
    let raw: Vec<_> = batch
        .slots
        .iter()
        .map(|slot| (slot.index, slot.raw))
        .collect();
    assert_eq!(raw, [(0, first), (1, second)]);
}

#[test]
fn a_bad_event_is_rejected_with_its_place_and_the_others_are_kept() {
    let body = json!({"events": [event("a"), 7, null, {"name": "x"}, [event("b")], {"run_id": 3, "name": "x", "timestamp": 1}]});
    assert_eq!(
        run_ids(&body.to_string()).unwrap(),
        [
            Ok("a".to_owned()),
            Err("not_an_object"),
            Err("not_an_object"),
            Err("missing_field"),
            Ok("b".to_owned()),
            Err("wrong_type")
        ]
    );
    let batch = body.to_string();
    let batch = read(batch.as_bytes(), NOW_MS).unwrap();
    let message = batch.slots[3].event.as_ref().unwrap_err().message.clone();
    assert_eq!(message, "events[3].run_id is required");
}

#[test]
fn lists_in_lists_are_flattened_beyond_what_the_parser_allows() {
    for depth in [1, 2, 151, 1000] {
        let body = format!(
            "{{\"events\":[{}{}{},{}]}}",
            "[".repeat(depth),
            event("deep"),
            "]".repeat(depth),
            event("flat")
        );
        assert_eq!(
            run_ids(&body).unwrap(),
            [Ok("deep".to_owned()), Ok("flat".to_owned())],
            "{depth}"
        );
    }
    assert_eq!(run_ids("{\"events\":[[],[[],[]]]}").unwrap(), []);
    let too_deep = format!("{{\"events\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(
        run_ids(&too_deep).unwrap_err().code.as_str(),
        "invalid_body"
    );
}

#[test]
fn a_deep_value_is_its_events_fault_only() {
    let deep = format!(
        "{{\"name\":\"x\",\"run_id\":\"1\",\"timestamp\":1795185741941,\"input\":{}{}}}",
        "[".repeat(600),
        "]".repeat(600)
    );
    let text = format!(
        "{{\"name\":\"x\",\"run_id\":\"2\",\"timestamp\":1795185741941,\"input\":\"{}\"}}",
        "[".repeat(600)
    );
    let body = format!("{{\"events\":[{deep},{text}]}}");
    assert_eq!(
        run_ids(&body).unwrap(),
        [Err("too_deep"), Ok("2".to_owned())]
    );
    let very_deep = format!(
        "{{\"events\":[{{\"input\":{}{}}}]}}",
        "[".repeat(400_000),
        "]".repeat(400_000)
    );
    assert_eq!(run_ids(&very_deep).unwrap(), [Err("too_deep")]);
}

#[test]
fn json_that_stands_for_nothing_is_its_events_fault_only() {
    for odd in [
        "{\"name\":\"x\",\"run_id\":\"1\",\"timestamp\":1795185741941,\"\\ud800\":1}",
        "1e999",
    ] {
        let body = format!("{{\"events\":[{odd},{}]}}", event("good"));
        let read = run_ids(&body).unwrap();
        assert!(matches!(read[0], Err("invalid_value")), "{odd}: {read:?}");
        assert_eq!(read[1], Ok("good".to_owned()));
    }
}

#[test]
fn an_event_of_countless_fields_is_refused_without_keeping_them() {
    let fields = "\"a\":1,".repeat(5000);
    let many = format!("{{{fields}\"name\":\"x\",\"run_id\":\"1\",\"timestamp\":1795185741941}}");
    let metadata = format!(
        "{{\"name\":\"x\",\"run_id\":\"2\",\"timestamp\":1795185741941,\"metadata\":{{{fields}\"b\":1}}}}"
    );
    let body = format!("{{\"events\":[{many},{metadata},{}]}}", event("good"));
    assert_eq!(
        run_ids(&body).unwrap(),
        [Err("too_long"), Err("too_long"), Ok("good".to_owned())]
    );
}

#[test]
fn a_huge_event_is_rejected_and_the_rest_is_kept() {
    let mut huge = event("huge");
    huge["input"] = Value::from("x".repeat(limits::EVENT_BYTES));
    let body = json!({"events": [huge, event("small")]});
    assert_eq!(
        run_ids(&body.to_string()).unwrap(),
        [Err("event_too_large"), Ok("small".to_owned())]
    );
}

#[test]
fn what_is_not_a_batch_is_refused_as_a_whole() {
    for (body, code) in [
        ("", "invalid_json"),
        ("   ", "invalid_json"),
        ("[]", "invalid_body"),
        ("null", "invalid_body"),
        ("7", "invalid_body"),
        ("{}", "invalid_body"),
        ("{\"events\":{}}", "invalid_body"),
        ("{\"events\":null}", "invalid_body"),
        ("{\"events\":[],\"events\":[]}", "invalid_body"),
        ("{\"events\":[]} x", "invalid_json"),
        ("{\"events\":[],}", "invalid_json"),
        ("{,\"events\":[]}", "invalid_json"),
        ("{\"events\":[,]}", "invalid_json"),
        ("{\"events\":[{},]}", "invalid_json"),
        ("{\"events\":[{} {}]}", "invalid_json"),
        ("{\"events\":[{}}", "invalid_json"),
        ("{\"events\":[{\"a\":}]}", "invalid_json"),
        ("{\"events\":[{\"a\":[}]}]}", "invalid_json"),
        ("{\"events\" []}", "invalid_json"),
        ("{\"events\":[]]}", "invalid_json"),
        ("\u{feff}{\"events\":[]}", "invalid_json"),
    ] {
        let fault = run_ids(body).expect_err(body);
        assert_eq!((fault.code.as_str(), fault.status), (code, 400), "{body}");
    }
    assert_eq!(
        read(b"{\"events\":[\"\xff\"]}", NOW_MS)
            .unwrap_err()
            .message,
        "the body is not UTF-8 at byte 12"
    );
    assert_eq!(
        run_ids("{\"events\":[\n\n{]}").unwrap_err().message,
        "the body is not JSON at byte 14"
    );
    assert_eq!(run_ids("{\"events\":[]}").unwrap(), []);
}

proptest! {
    /// Cut or changed at any byte, a body is parsed, rejected as a whole, or some of its events are: never a panic, and
    /// every event is JSON.
    #[test]
    fn damage_at_any_byte_is_survived(at in 0usize..400, byte in any::<u8>(), cut in any::<bool>()) {
        let body = json!({"events": [event("a"), [event("b\u{e9}\"")], event("c")], "x": 1}).to_string();
        let mut bytes = body.into_bytes();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(batch) = read(&bytes, NOW_MS) {
            for slot in batch.slots {
                prop_assert!(serde_json::from_str::<Value>(slot.raw).is_ok());
            }
        } else {
            prop_assert!(cut || serde_json::from_slice::<Value>(&bytes).is_err()
                || !serde_json::from_slice::<Value>(&bytes).unwrap()["events"].is_array());
        }
    }

    /// It agrees with a plain parser about which bodies are batches and about their contents.
    #[test]
    fn it_reads_what_a_plain_parser_reads(text in "(\\{\"events\":)?[\\[\\]{},:\" a17]{0,30}\\}?") {
        let plain: Option<Value> = serde_json::from_str(&text).ok();
        match read(text.as_bytes(), NOW_MS) {
            Ok(batch) => {
                let flat = flatten(&plain.expect("accepted what is no JSON")["events"]);
                let read: Vec<Value> = batch.slots.iter().map(|slot| serde_json::from_str(slot.raw).unwrap()).collect();
                prop_assert_eq!(read, flat);
            }
            Err(fault) if fault.code.as_str() == "invalid_json" => prop_assert!(plain.is_none()),
            Err(_) => {
                let text_of_events = plain.as_ref().map(|value| value["events"].is_array());
                prop_assert!(text_of_events != Some(true) || text.matches("events").count() > 1);
            }
        }
    }
}

fn flatten(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items
            .iter()
            .flat_map(|item| {
                if item.is_array() {
                    flatten(item)
                } else {
                    vec![item.clone()]
                }
            })
            .collect(),
        other => vec![other.clone()],
    }
}
