//! Peculiarities of the captured clients.

use super::*;

fn old(fields: Value) -> Value {
    let mut event =
        json!({"type": "agent", "event": "start", "runId": "r", "timestamp": 1_795_185_741_941i64});
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

#[test]
fn ids_are_text_and_nothing_else() {
    for id in [
        "3f2a1b0c-0000-4000-8000-000000000001",
        // Invalid UUIDs; a 64-bit number; a span; whatever a user calls it.
        "0803a3e0-8b4a-b6ab-f8c2-f1f6077b057d",
        "16284555259369995481",
        "00f067aa0ba902b7",
        "thread 7/ä",
    ] {
        check(&old(json!({"runId": id, "parentRunId": id})), |event| {
            let event = event.unwrap();
            assert_eq!(event.run_id, id);
            assert_eq!(event.parent_run_id.as_deref(), Some(id));
        });
    }
}

#[test]
fn a_moment_is_the_same_in_each_form_of_it() {
    for moment in [
        json!(1_795_185_741_941i64),
        json!("2026-11-20 14:42:21.941077"),
        json!("2026-11-20T14:42:21.941077+00:00"),
        json!("2026-11-20T15:42:21.941+01:00"),
        json!("2026-11-20T14:42:21.941Z"),
    ] {
        check(&old(json!({"timestamp": moment})), |event| {
            assert_eq!(event.unwrap().timestamp_ms, 1_795_185_741_941, "{moment}");
        });
    }
}

#[test]
fn input_and_output_are_any_json() {
    for value in [
        json!(21),
        json!(0.5),
        json!("text"),
        json!(false),
        json!(["What?", {"lang": "fr"}]),
        json!({"py/newargs": ["text"], "capitalize": null}),
        json!("{'city': 'Paris'}"),
    ] {
        check(&old(json!({"input": value, "output": value})), |event| {
            let event = event.unwrap();
            for kept in [event.input, event.output] {
                assert_eq!(kept.unwrap().get(), value.to_string());
            }
        });
    }
}

#[test]
fn a_stream_counts_its_answer_alone() {
    for usage in [
        json!({"completion": 7}),
        json!({"completion": 7, "prompt": null}),
    ] {
        let event = old(
            json!({"type": "llm", "event": "end", "name": "gpt-4o-mini", "tokensUsage": usage}),
        );
        check(&event, |event| {
            let event = event.unwrap();
            assert_eq!(
                (event.tokens.prompt, event.tokens.completion),
                (None, Some(7))
            );
            assert_eq!(event.model.as_deref(), Some("gpt-4o-mini"));
        });
    }
}

#[test]
fn an_event_of_a_thread_that_is_no_message_makes_no_run() {
    let event = old(
        json!({"type": "thread", "event": "custom-event", "name": "opened", "parentRunId": "t"}),
    );
    check(&event, |event| {
        let event = event.unwrap();
        assert_eq!(event.name, "thread_custom-event");
        assert_eq!(event.custom, Some(Custom::Thread));
        assert!(event.message.is_none());
    });
}

#[test]
fn parameters_of_a_model_call_are_kept() {
    let event = old(json!({"type": "llm", "params": {"temperature": 0.5}, "appId": "shop"}));
    check(&event, |event| {
        let event = event.unwrap();
        assert_eq!(event.app.as_deref(), Some("shop"));
        let kept = event.others.iter().find(|(key, _)| key == "params");
        assert_eq!(kept.unwrap().1.get(), "{\"temperature\":0.5}");
    });
}
