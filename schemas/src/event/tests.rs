use serde_json::{Value, json};

use super::*;

mod odd;
mod said;

const NOW_MS: UnixMs = 1_795_185_741_941;

fn minimal() -> Value {
    json!({"name": "agent_start", "run_id": "r1", "timestamp": "2026-11-20T10:00:00.000Z"})
}

fn minimal_with(fields: Value) -> Value {
    let mut event = minimal();
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

/// Calls the check with the parsed event.
fn check<T>(event: &Value, look: impl FnOnce(Result<Event<'_>, EventFault>) -> T) -> T {
    let text = event.to_string();
    let fields: Fields<'_> = serde_json::from_str(&text).unwrap();
    look(Event::from_fields(fields, 3, NOW_MS))
}

#[test]
fn an_event_of_the_interfaces_own_shape_is_read_whole() {
    let event = json!({
        "name": "llm_end", "app_id": "shop", "run_id": "r1", "parent_run_id": "p1", "timestamp": 1795185741941i64,
        "type": "llm", "metadata": {"user_email": "a@b.c", "agent": "planner", "k": 1, "gone": null},
        "input": {"q": 1}, "output": "done", "model": "m", "prompt_tokens": 37, "completion_tokens": 11.0,
        "total_tokens": 48, "cached_tokens": 8, "reasoning_tokens": 2, "cost": 0.000_123, "tags": ["x", "y"],
        "thread_id": "t", "event_id": "e", "mystery": [1], "nothing": null,
    });
    check(&event, |event| {
        let event = event.unwrap();
        assert_eq!(
            (event.name.as_ref(), event.run_name.as_deref()),
            ("llm_end", Some("llm"))
        );
        assert_eq!(
            (event.app.as_deref(), event.run_id.as_ref()),
            (Some("shop"), "r1")
        );
        assert_eq!(
            (event.parent_run_id.as_deref(), event.timestamp_ms),
            (Some("p1"), NOW_MS)
        );
        assert_eq!(
            (event.agent.as_deref(), event.user_email.as_deref()),
            (Some("planner"), Some("a@b.c"))
        );
        let tokens = Tokens {
            prompt: Some(37),
            completion: Some(11),
            total: Some(48),
            cached: Some(8),
            reasoning: Some(2),
        };
        assert_eq!(event.tokens, tokens);
        assert_eq!(event.cost.unwrap().to_string(), "0.000123");
        assert_eq!(event.tags, ["x", "y"]);
        assert_eq!(
            event.effect,
            Effect {
                opened_at_ms: None,
                closed_at_ms: Some(NOW_MS),
                failed: false
            }
        );
        let keys = |pairs: &[(Cow<'_, str>, &RawValue)]| {
            pairs
                .iter()
                .map(|(key, _)| key.to_string())
                .collect::<Vec<_>>()
        };
        // serde_json's maps are sorted by key.
        assert_eq!(keys(&event.metadata), ["agent", "k", "user_email"]);
        assert_eq!(keys(&event.others), ["mystery"]);
    });
}

#[test]
fn an_event_of_the_old_clients_means_the_same() {
    let event = json!({
        "event": "end", "type": "llm", "app": "shop", "name": "gpt-4o-mini", "userId": "user-42",
        "userProps": {"email": "ada@example.com"}, "tags": null, "runId": "11948513760694177673",
        "parentRunId": "None", "timestamp": "2026-11-20 14:42:21.941077", "input": null,
        "output": {"role": "assistant", "text": "Sunny"}, "error": null, "runtime": "llmonitor-py",
        "tokensUsage": {"completion": 11, "prompt": 37, "promptCached": 8}, "metadata": null,
    });
    check(&event, |event| {
        let event = event.unwrap();
        assert_eq!(
            (event.name.as_ref(), event.run_name.as_deref()),
            ("llm_end", Some("gpt-4o-mini"))
        );
        assert_eq!(
            (event.kind.as_deref(), event.model.as_deref()),
            (Some("llm"), Some("gpt-4o-mini"))
        );
        assert_eq!(
            (event.app.as_deref(), event.parent_run_id.as_deref()),
            (Some("shop"), None)
        );
        assert_eq!(
            (
                event.tokens.prompt,
                event.tokens.completion,
                event.tokens.cached
            ),
            (Some(37), Some(11), Some(8))
        );
        assert_eq!(event.user_email.as_deref(), Some("ada@example.com"));
        assert!(event.others.iter().any(|(key, _)| key == "runtime"));
    });
}

#[test]
fn an_old_client_s_user_is_the_address_or_at_the_root_of_a_trace_the_id() {
    let base = json!({"type": "agent", "runId": "r", "timestamp": "2026-11-20T14:42:21.941Z"});
    let email = json!({"email": "ada@example.com"});
    for (fields, user) in [
        (json!({"event": "start", "userId": "u-1"}), Some("u-1")),
        (json!({"event": "start", "userId": 42}), Some("42")),
        (
            json!({"event": "start", "userId": "u-1", "userProps": {"name": "Ada"}}),
            Some("u-1"),
        ),
        (
            json!({"event": "start", "userId": "u-1", "userProps": email}),
            Some("ada@example.com"),
        ),
        (
            json!({"event": "start", "userId": "u-1", "parentRunId": "None"}),
            Some("u-1"),
        ),
        (
            json!({"event": "start", "userId": "u-1", "parentRunId": "p"}),
            None,
        ),
        (json!({"event": "start", "userId": {"id": 1}}), None),
        (json!({"event": "end", "userId": "u-1"}), None),
        (
            json!({"event": "chat", "type": "thread", "userId": "u-1", "parentRunId": "t", "message": {"role": "user", "content": "hi"}}),
            Some("u-1"),
        ),
    ] {
        let mut event = base.clone();
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        check(&event, |read| {
            let read = read.unwrap();
            assert_eq!(read.user_email.as_deref(), user, "{event}");
            assert!(
                read.others.iter().any(|(key, _)| key == "userId"),
                "{event}"
            );
        });
    }
}

#[test]
fn custom_events_of_both_dialects_are_recognised() {
    for (fields, custom) in [
        (json!({"name": "saved"}), Some(Custom::Saved)),
        (json!({"name": "unsaved"}), Some(Custom::Unsaved)),
        (
            json!({"name": "chat", "role": "user", "content": ""}),
            Some(Custom::Chat),
        ),
        (
            json!({"name": "feedback", "rating": "positive"}),
            Some(Custom::Feedback),
        ),
        (json!({"name": "feedback_start"}), None),
    ] {
        check(&minimal_with(fields), |event| {
            assert_eq!(event.unwrap().custom, custom)
        });
    }
    for (kind, event, custom, name) in [
        (json!(null), "feedback", Some(Custom::Feedback), "feedback"),
        (json!("chat"), "start", Some(Custom::Chat), "chat"),
        (json!("thread"), "chat", Some(Custom::Chat), "chat"),
        (
            json!("thread"),
            "start",
            Some(Custom::Thread),
            "thread_start",
        ),
        (json!("tool"), "error", None, "tool_error"),
    ] {
        let event =
            json!({"type": kind, "event": event, "runId": "1", "timestamp": 1795185741941i64});
        check(&event, |event| {
            let event = event.unwrap();
            assert_eq!((event.custom, event.name.as_ref()), (custom, name));
        });
    }
}

#[test]
fn each_phase_does_to_the_run_what_its_name_says() {
    let at = 1_795_168_800_000;
    for (fields, opened, closed, failed) in [
        (json!({"name": "agent_start"}), Some(at), None, false),
        (
            json!({"name": "agent_start", "output": 1}),
            Some(at),
            None,
            false,
        ),
        (
            json!({"name": "agent_start", "error": "x"}),
            Some(at),
            Some(at),
            true,
        ),
        (json!({"name": "agent_end"}), None, Some(at), false),
        (
            json!({"name": "agent_end", "duration_ms": 5}),
            None,
            Some(at),
            false,
        ),
        (
            json!({"name": "agent_end", "status": "error"}),
            None,
            Some(at),
            true,
        ),
        (json!({"name": "tool_error"}), None, Some(at), true),
        (json!({"name": "llm_call"}), Some(at), Some(at), false),
        (
            json!({"name": "llm_call", "duration_ms": 1500}),
            Some(at),
            Some(at + 1500),
            false,
        ),
        (
            json!({"name": "anything", "output": {}, "duration_ms": 20.7}),
            Some(at),
            Some(at + 20),
            false,
        ),
        (
            json!({"name": "anything", "output": null}),
            None,
            None,
            false,
        ),
        (json!({"name": "anything"}), None, None, false),
        (
            json!({"name": "anything", "error": {"message": "m"}}),
            None,
            Some(at),
            true,
        ),
        (
            json!({"name": "anything", "status": "success"}),
            None,
            Some(at),
            false,
        ),
    ] {
        check(&minimal_with(fields.clone()), |event| {
            let expected = Effect {
                opened_at_ms: opened,
                closed_at_ms: closed,
                failed,
            };
            assert_eq!(event.unwrap().effect, expected, "{fields}");
        });
    }
}

#[test]
fn each_bad_field_is_named_with_its_reason() {
    for (fields, code, message) in [
        (
            json!({"name": null}),
            "missing_field",
            "events[3].name is required",
        ),
        (
            json!({"name": ""}),
            "missing_field",
            "events[3].name is required",
        ),
        (
            json!({"run_id": null}),
            "missing_field",
            "events[3].run_id is required",
        ),
        (
            json!({"timestamp": null}),
            "missing_field",
            "events[3].timestamp is required",
        ),
        (
            json!({"run_id": 7}),
            "wrong_type",
            "events[3].run_id must be a string",
        ),
        (
            json!({"run_id": "x".repeat(257)}),
            "too_long",
            "events[3].run_id is longer than 256 bytes",
        ),
        (
            json!({"name": "x".repeat(513)}),
            "too_long",
            "events[3].name is longer than 512 bytes",
        ),
        (
            json!({"timestamp": "soon"}),
            "invalid_value",
            "events[3].timestamp must be",
        ),
        (
            json!({"timestamp": 1.5}),
            "invalid_value",
            "events[3].timestamp must be",
        ),
        (
            json!({"timestamp": "1999-12-31T23:59:59Z"}),
            "timestamp_out_of_range",
            "before the year 2000",
        ),
        (
            json!({"timestamp": NOW_MS + 86_400_001}),
            "timestamp_out_of_range",
            "more than a day in the future",
        ),
        (
            json!({"prompt_tokens": -1}),
            "invalid_value",
            "events[3].prompt_tokens must be an integer from 0",
        ),
        (
            json!({"prompt_tokens": "7"}),
            "wrong_type",
            "events[3].prompt_tokens must be a number",
        ),
        (
            json!({"total_tokens": u64::MAX}),
            "invalid_value",
            "events[3].total_tokens is too large",
        ),
        (
            json!({"cost": -0.1}),
            "invalid_value",
            "events[3].cost must be from 0",
        ),
        (
            json!({"cost": "1"}),
            "wrong_type",
            "events[3].cost must be a number",
        ),
        (
            json!({"cost": 1e30}),
            "invalid_value",
            "events[3].cost must be from 0",
        ),
        (
            json!({"status": "fine"}),
            "invalid_value",
            "events[3].status must be",
        ),
        (
            json!({"tags": "x"}),
            "wrong_type",
            "events[3].tags must be a list of strings",
        ),
        (
            json!({"tags": [1]}),
            "wrong_type",
            "events[3].tags must be a list of strings",
        ),
        (
            json!({"metadata": []}),
            "wrong_type",
            "events[3].metadata must be an object",
        ),
        (
            json!({"duration_ms": -1}),
            "invalid_value",
            "events[3].duration_ms must be",
        ),
        (
            json!({"duration_ms": "1"}),
            "wrong_type",
            "events[3].duration_ms must be a number",
        ),
    ] {
        check(&minimal_with(fields.clone()), |event| {
            let fault = event.expect_err(&fields.to_string());
            assert_eq!(fault.code.as_str(), code, "{fields}");
            assert!(
                fault.message.contains(message),
                "{} lacks {message}",
                fault.message
            );
        });
    }
}

#[test]
fn null_and_the_text_none_mean_not_given() {
    let event = minimal_with(json!({
        "parent_run_id": "None", "type": null, "input": null, "output": null, "tags": null, "metadata": null,
        "prompt_tokens": null, "cost": null, "error": null, "status": null, "agent": null, "user_email": null,
    }));
    check(&event, |event| {
        let event = event.unwrap();
        assert!(event.parent_run_id.is_none() && event.kind.is_none() && event.input.is_none());
        assert_eq!(event.tokens, Tokens::default());
        assert!(!event.effect.failed);
    });
}

#[test]
fn odd_values_in_free_form_metadata_are_kept_and_mean_nothing() {
    let event =
        minimal_with(json!({"metadata": {"agent": 7, "user_email": ["x"], "tags": "loose"}}));
    check(&event, |event| {
        let event = event.unwrap();
        assert!(event.agent.is_none() && event.user_email.is_none() && event.tags.is_empty());
        assert_eq!(event.metadata.len(), 3);
    });
}

#[test]
fn escapes_in_keys_and_values_are_read() {
    let text =
        r#"{"na\u006de":"agent_start","run_id":"a\"b","timestamp":1795185741941,"agent":"\u00e9"}"#;
    let fields: Fields<'_> = serde_json::from_str(text).unwrap();
    let event = Event::from_fields(fields, 0, NOW_MS).unwrap();
    assert_eq!(
        (event.run_id.as_ref(), event.agent.as_deref()),
        ("a\"b", Some("é"))
    );
    let lone = r#"{"name":"x","run_id":"\ud800","timestamp":1795185741941}"#;
    let fields: Fields<'_> = serde_json::from_str(lone).unwrap();
    assert_eq!(
        Event::from_fields(fields, 0, NOW_MS)
            .unwrap_err()
            .code
            .as_str(),
        "wrong_type"
    );
}

#[test]
fn an_error_of_any_shape_says_something() {
    for (error, name, message) in [
        (json!("boom"), None, "boom"),
        (
            json!({"name": "E", "message": "m", "stack": "s"}),
            Some("E"),
            "m",
        ),
        (json!({"type": "T", "message": "m"}), Some("T"), "m"),
        (json!({"code": 5}), None, "{\"code\":5}"),
        (json!([1]), None, "[1]"),
        (json!(false), None, "false"),
    ] {
        check(&minimal_with(json!({"error": error})), |event| {
            let info = event.unwrap().error.unwrap();
            assert_eq!(
                (info.name.as_deref(), info.message.as_ref()),
                (name, message)
            );
        });
    }
}

#[test]
fn odd_metadata_never_rejects_an_event_and_is_named_in_a_warning() {
    let long = "x".repeat(crate::limits::NAME_BYTES + 1);
    for (metadata, field) in [
        (json!({"tags": "prod"}), "metadata.tags"),
        (json!({"tags": {"a": 1}}), "metadata.tags"),
        (json!({"tags": ["ok", 5]}), "metadata.tags"),
        (json!({"tags": ["ok", long]}), "metadata.tags"),
        (json!({"app_id": 5}), "metadata.app_id"),
        (
            json!({"app_id": [long, long, long, long]}),
            "metadata.app_id",
        ),
        (json!({"agent": {"name": "a"}}), "metadata.agent"),
        (json!({"agent": long}), "metadata.agent"),
        (json!({"user_email": 7}), "metadata.user_email"),
    ] {
        check(&minimal_with(json!({ "metadata": metadata })), |event| {
            let event = event.expect("it is accepted");
            let [warning] = event.warnings.as_slice() else {
                panic!("{metadata}: {:?}", event.warnings);
            };
            assert_eq!(warning.field, field);
            assert!(warning.reason.contains(field), "{}", warning.reason);
            assert_eq!(event.metadata.len(), 1, "it is kept as it is");
            assert_eq!(
                (&event.app, &event.agent, &event.user_email),
                (&None, &None, &None)
            );
            let usable = usize::from(metadata["tags"][0] == "ok");
            assert_eq!(event.tags, ["ok"][..usable]);
        });
    }
}

#[test]
fn the_first_tags_count_and_blanks_around_them_do_not() {
    let many: Vec<String> = (0..70).map(|number| format!(" t{number}\t")).collect();
    for fields in [json!({"tags": many}), json!({"metadata": {"tags": many}})] {
        check(&minimal_with(fields), |event| {
            let event = event.expect("it is accepted");
            assert_eq!(event.tags.len(), 64);
            assert_eq!((&*event.tags[0], &*event.tags[63]), ("t0", "t63"));
            assert!(
                event.warnings[0].reason.contains("64"),
                "{:?}",
                event.warnings
            );
        });
    }
}
