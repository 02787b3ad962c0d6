use super::super::tests::fold;
use super::super::{Previews, RunState, StateFault};
use super::*;
use crate::golden;

/// A run with a value in every field of format 1.
fn finished() -> Vec<String> {
    [
        r#"{"name": "llm_start", "type": "llm", "run_id": "r", "parent_run_id": "p", "timestamp": 1795185741941,
            "run_name": "call", "input": "question", "tags": ["b", "a"], "thread_id": "t",
            "metadata": {"k": 1, "agent": "planner", "user_email": "ann@example.com"}}"#,
        r#"{"name": "llm_error", "type": "llm", "run_id": "r", "timestamp": 1795185742941, "model": "m-1",
            "error": {"name": "Timeout", "message": "after 3 s"}}"#,
        r#"{"name": "llm_end", "type": "llm", "run_id": "r", "timestamp": 1795185743941, "output": "answer",
            "cost": 0.25, "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 121, "cached_tokens": 7,
            "reasoning_tokens": 3}"#,
    ]
    .map(str::to_owned)
    .into()
}

/// The same run, saved and rated.
fn marked() -> Vec<String> {
    let marks = [
        r#"{"name": "saved", "run_id": "r", "timestamp": 1795185744941}"#,
        r#"{"name": "feedback", "run_id": "r", "timestamp": 1795185745941, "rating": "positive", "comment": "good"}"#,
    ];
    let mut events = finished();
    events.extend(marks.map(str::to_owned));
    events
}

/// The same run with further calls.
fn called_again() -> Vec<String> {
    let calls = [
        r#"{"name": "llm_call", "type": "llm", "run_id": "r", "timestamp": 1795185746941, "model": "m-2",
            "prompt_tokens": 9, "completion_tokens": 8, "cached_tokens": 1}"#,
        r#"{"name": "llm_call", "type": "llm", "run_id": "r", "timestamp": 1795185747941, "total_tokens": 70000}"#,
        r#"{"name": "step", "run_id": "r", "timestamp": 1795185748941, "model": "m-1", "cost": 0.125,
            "reasoning_tokens": 2}"#,
    ];
    let mut events = marked();
    events.extend(calls.map(str::to_owned));
    events
}

/// The same run with the identifier of its response.
fn answered() -> Vec<String> {
    let response = r#"{"name": "llm_end", "type": "llm", "run_id": "r", "timestamp": 1795185743941, "event_id": "e",
        "response_id": "chatcmpl-1"}"#;
    let mut events = called_again();
    events.push(response.to_owned());
    events
}

/// The same run with what few calls report.
fn detailed() -> Vec<String> {
    let details = r#"{"name": "llm_call", "type": "llm", "run_id": "r", "timestamp": 1795185749941, "model": "m-2",
        "prompt_tokens": 90, "completion_tokens": 8, "cache_write_tokens": 10, "cache_write_1h_tokens": 20,
        "input_audio_tokens": 5, "input_image_tokens": 6, "output_audio_tokens": 7, "requests": 2,
        "service_tier": "priority", "estimated_cost": 0.0625, "ttft_ms": 321,
        "call_fingerprint": "f"}"#;
    let mut events = answered();
    events.push(details.to_owned());
    events
}

#[test]
fn states_of_every_format_are_read_and_written_as_they_are_stored() {
    let states = [
        ("run_state.1.empty.bin", 1, RunState::default()),
        ("run_state.1.bin", 1, fold(&finished())),
        ("run_state.2.bin", 2, fold(&marked())),
        ("run_state.3.bin", 3, fold(&called_again())),
        ("run_state.4.bin", 4, fold(&answered())),
        ("run_state.5.bin", 5, fold(&detailed())),
    ];
    for (name, format, state) in states {
        let golden = golden::check(name, &state.encode().unwrap());
        assert_eq!(golden[0], format, "{name}");
        assert_eq!(RunState::decode(&golden, state.previews()).unwrap(), state);
    }
}

/// The state of a later version, with one more field.
#[derive(Debug, Default, PartialEq)]
struct Grown {
    state: RunState,
    retries: Option<u32>,
}

impl StoredFields for Grown {
    const COUNT: u8 = RunState::COUNT + 1;

    fn is_set(&self, field: u8) -> bool {
        match field {
            RunState::COUNT => value::is_set(&self.retries),
            field => self.state.is_set(field),
        }
    }

    fn write<T: SerializeTuple>(&self, field: u8, fields: &mut T) -> Result<(), T::Error> {
        match field {
            RunState::COUNT => value::write(&self.retries, fields),
            field => self.state.write(field, fields),
        }
    }

    fn read<'a>(&mut self, field: u8, bytes: &'a [u8]) -> postcard::Result<&'a [u8]> {
        match field {
            RunState::COUNT => value::read(&mut self.retries, bytes),
            field => self.state.read(field, bytes),
        }
    }
}

#[test]
fn a_state_with_a_field_more_reads_every_stored_row() {
    for name in [
        "run_state.1.empty.bin",
        "run_state.1.bin",
        "run_state.2.bin",
        "run_state.3.bin",
        "run_state.4.bin",
        "run_state.5.bin",
    ] {
        let golden = golden::bytes(name);
        let grown: Grown = decode(&golden).unwrap();
        assert_eq!(grown.retries, None, "{name}");
        assert_eq!(grown.state, decode(&golden).unwrap(), "{name}");
        assert_eq!(
            encode(&grown).unwrap(),
            golden,
            "{name}: rows without the field keep their bytes"
        );
    }
}

#[test]
fn a_state_that_uses_a_new_field_is_a_new_format() {
    for state in [
        RunState::default(),
        decode(&golden::bytes("run_state.2.bin")).unwrap(),
    ] {
        let retries = Some(3);
        let grown = Grown { state, retries };
        let bytes = encode(&grown).unwrap();
        assert_eq!(bytes[0], 6);
        assert_eq!(decode::<Grown>(&bytes).unwrap(), grown);
        let fault = RunState::decode(&bytes, Previews::default()).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "run state format must be between 1 and 5, got 6: a newer version wrote it"
        );
    }
}

#[test]
fn bytes_of_no_format_are_refused() {
    let fault = |bytes: &[u8]| RunState::decode(bytes, Previews::default()).unwrap_err();
    assert!(matches!(fault(&[]), StateFault::Empty));
    assert!(matches!(
        fault(&[0]),
        StateFault::UnknownFormat { format: 0, .. }
    ));
    assert!(matches!(fault(&[1, 0]), StateFault::Damaged(_)));
}
