//! Messages and feedback.

use super::*;

fn message(event: &Value) -> Option<(String, String)> {
    check(event, |event| {
        let message = event.unwrap().message?;
        Some((message.role.into_owned(), message.content.into_owned()))
    })
}

fn feedback_of(event: &Value) -> Option<(Option<Rating>, Option<String>)> {
    check(event, |event| {
        let feedback = event.unwrap().feedback?;
        Some((feedback.rating, feedback.comment.map(Cow::into_owned)))
    })
}

fn other_names(event: &Value) -> Vec<String> {
    check(event, |event| {
        let event = event.unwrap();
        event
            .others
            .iter()
            .map(|(key, _)| key.to_string())
            .collect()
    })
}

fn old(fields: Value) -> Value {
    let mut event = json!({"runId": "m1", "timestamp": NOW_MS});
    for (key, value) in fields.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

fn said(role: &str, content: &str) -> Option<(String, String)> {
    Some((role.to_owned(), content.to_owned()))
}

#[test]
fn a_chat_event_of_the_interfaces_own_shape_says_who_said_what() {
    let chat = |fields: Value| {
        let mut event = minimal_with(json!({"name": "chat", "thread_id": "None"}));
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    };
    let event = chat(json!({"role": "user", "content": "hi\n\"you\""}));
    assert_eq!(message(&event), said("user", "hi\n\"you\""));
    check(&event, |event| {
        assert_eq!(event.unwrap().thread_id.as_deref(), Some("None"));
    });
    let event = chat(json!({"role": "assistant", "content": "", "rating": "so so", "extra": 1}));
    assert_eq!(message(&event), said("assistant", ""));
    assert_eq!(feedback_of(&event), None);
    assert_eq!(other_names(&event), ["extra", "rating"]);
    for (fields, code, text) in [
        (
            json!({"content": "x"}),
            "missing_field",
            "events[3].role is required: \"user\" or \"assistant\"",
        ),
        (
            json!({"role": "system", "content": "x"}),
            "invalid_value",
            "events[3].role must be \"user\" or \"assistant\"",
        ),
        (
            json!({"role": "User", "content": "x"}),
            "invalid_value",
            "events[3].role must be \"user\" or \"assistant\"",
        ),
        (
            json!({"role": 1, "content": "x"}),
            "wrong_type",
            "events[3].role must be a string",
        ),
        (
            json!({"role": "user"}),
            "missing_field",
            "events[3].content is required",
        ),
        (
            json!({"role": "user", "content": null}),
            "missing_field",
            "events[3].content is required",
        ),
        (
            json!({"role": "user", "content": {"text": "x"}}),
            "wrong_type",
            "events[3].content must be a string",
        ),
    ] {
        check(&chat(fields), |event| {
            let fault = event.unwrap_err();
            assert_eq!((fault.code.as_str(), fault.message.as_str()), (code, text));
        });
    }
}

#[test]
fn a_feedback_event_of_the_interfaces_own_shape_judges() {
    let feedback = |fields: Value| {
        let mut event = minimal_with(json!({"name": "feedback"}));
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        event
    };
    let event = feedback(json!({"rating": "positive", "comment": "well done", "role": "x"}));
    let expected = (Some(Rating::Positive), Some("well done".to_owned()));
    assert_eq!(feedback_of(&event), Some(expected));
    assert_eq!(other_names(&event), ["role"]);
    let event = feedback(json!({"rating": "negative", "comment": null}));
    assert_eq!(feedback_of(&event), Some((Some(Rating::Negative), None)));
    for (fields, code, text) in [
        (
            json!({"comment": "x"}),
            "missing_field",
            "events[3].rating is required: \"positive\" or \"negative\"",
        ),
        (
            json!({"rating": "meh"}),
            "invalid_value",
            "events[3].rating must be \"positive\" or \"negative\"",
        ),
        (
            json!({"rating": 5}),
            "wrong_type",
            "events[3].rating must be a string",
        ),
        (
            json!({"rating": "positive", "comment": ["x"]}),
            "wrong_type",
            "events[3].comment must be a string",
        ),
    ] {
        check(&feedback(fields), |event| {
            let fault = event.unwrap_err();
            assert_eq!((fault.code.as_str(), fault.message.as_str()), (code, text));
        });
    }
}

#[test]
fn the_words_of_chat_and_feedback_mean_nothing_in_other_events() {
    let fields = json!({
        "role": 1, "content": [], "rating": "x", "comment": {}, "message": 2, "feedback": {"thumb": "up"}, "extra": 3,
    });
    let names = [
        "comment", "content", "extra", "feedback", "message", "rating", "role",
    ];
    let old = old(json!({"type": "llm", "event": "start"}));
    for mut event in [minimal(), minimal_with(json!({"name": "saved"})), old] {
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        assert_eq!((message(&event), feedback_of(&event)), (None, None));
        let mut kept = other_names(&event);
        kept.sort();
        assert_eq!(kept, names);
    }
}

#[test]
fn a_chat_event_of_an_old_client_says_what_it_can() {
    let chat = |event: &str| json!({"type": "chat", "event": event});
    let with = |mut event: Value, fields: Value| {
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        old(event)
    };
    let thread = || json!({"type": "thread", "event": "chat"});
    for (event, expected) in [
        (
            with(chat("start"), json!({"input": "Hi"})),
            said("user", "Hi"),
        ),
        (
            with(chat("end"), json!({"output": "Ho"})),
            said("assistant", "Ho"),
        ),
        (
            with(chat("end"), json!({"input": "Hi", "output": "Ho"})),
            said("assistant", "Ho"),
        ),
        (
            with(
                chat("start"),
                json!({"input": {"role": "ai", "text": "I am"}}),
            ),
            said("assistant", "I am"),
        ),
        (
            with(chat("start"), json!({"input": {"city": "Paris"}})),
            said("user", r#"{"city":"Paris"}"#),
        ),
        (
            with(chat("end"), json!({"output": [1, 2]})),
            said("assistant", "[1,2]"),
        ),
        (with(chat("start"), json!({})), None),
        (with(chat("error"), json!({"error": "boom"})), None),
        (
            with(
                thread(),
                json!({"message": {"role": "tool", "content": "found"}}),
            ),
            said("tool", "found"),
        ),
        (
            with(
                thread(),
                json!({"message": {"role": "human", "content": {"a": 1}}}),
            ),
            said("user", r#"{"a":1}"#),
        ),
        (
            with(
                thread(),
                json!({"message": {"role": "assistant", "content": null, "tool_calls": [1]}}),
            ),
            said("assistant", "[1]"),
        ),
        (
            with(thread(), json!({"message": {"role": "assistant"}})),
            None,
        ),
        (
            with(thread(), json!({"message": "plain"})),
            said("user", "plain"),
        ),
        (with(thread(), json!({"message": null})), None),
    ] {
        assert_eq!(message(&event), expected, "{event}");
    }
}

#[test]
fn the_parent_of_an_old_chat_message_is_its_thread() {
    let thread_of = |fields: Value| {
        check(&old(fields), |event| {
            let event = event.unwrap();
            let own = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
            (own(event.thread_id), own(event.parent_run_id))
        })
    };
    let text = |text: &str| Some(text.to_owned());
    for (fields, expected) in [
        (
            json!({"type": "chat", "event": "start", "parentRunId": "t", "input": "x"}),
            (text("t"), text("t")),
        ),
        (
            json!({"type": "thread", "event": "chat", "parentRunId": "None"}),
            (None, None),
        ),
        (
            json!({"type": "chat", "event": "start", "parentRunId": "t", "thread_id": "u"}),
            (text("u"), text("t")),
        ),
        (
            json!({"type": "tool", "event": "start", "parentRunId": "t"}),
            (None, text("t")),
        ),
    ] {
        assert_eq!(thread_of(fields.clone()), expected, "{fields}");
    }
}

#[test]
fn feedback_of_an_old_client_is_understood_as_far_as_it_can_be() {
    use Rating::{Negative, Positive};
    let some =
        |rating: Option<Rating>, comment: Option<&str>| Some((rating, comment.map(str::to_owned)));
    for (given, expected) in [
        (json!({"thumb": "up"}), some(Some(Positive), None)),
        (
            json!({"thumbs": "down", "comment": "no"}),
            some(Some(Negative), Some("no")),
        ),
        (
            json!({"thumb": "down", "rating": 2, "emoji": "😕"}),
            some(Some(Negative), None),
        ),
        (json!({"rating": 5}), some(Some(Positive), None)),
        (json!({"rating": "4.5"}), some(Some(Positive), None)),
        (json!({"rating": 1}), some(Some(Negative), None)),
        (json!({"rating": 3}), some(None, None)),
        (json!({"rating": "Good"}), some(Some(Positive), None)),
        (json!({"thumb": 1}), some(Some(Positive), None)),
        (json!({"thumb": -1}), some(Some(Negative), None)),
        (json!({"thumbs": true}), some(Some(Positive), None)),
        (json!({"emoji": "👍🏽"}), some(Some(Positive), None)),
        (json!({"emoji": "☹️"}), some(Some(Negative), None)),
        (
            json!({"emoji": "🦀", "comment": "?"}),
            some(None, Some("?")),
        ),
        (
            json!({"thumb": "sideways", "rating": 5}),
            some(Some(Positive), None),
        ),
        (
            json!({"comment": {"stars": 1}}),
            some(None, Some(r#"{"stars":1}"#)),
        ),
        (json!({"comment": ""}), None),
        (json!({"channel": "web"}), None),
        (json!("up"), some(Some(Positive), None)),
        (json!("perhaps"), None),
    ] {
        for place in ["extra", "feedback"] {
            let event = old(json!({"type": null, "event": "feedback", place: given.clone()}));
            assert_eq!(feedback_of(&event), expected, "{event}");
        }
    }
    let both = old(json!({"event": "feedback", "feedback": {}, "extra": {"thumb": "up"}}));
    assert_eq!(feedback_of(&both), some(Some(Positive), None));
    assert_eq!(feedback_of(&old(json!({"event": "feedback"}))), None);
}

/// The captured clients' chat events, as one line each.
fn captured(body: &str) -> Vec<String> {
    let capture: Value = serde_json::from_str(body).unwrap();
    let events = capture["body"]["events"].as_array().unwrap();
    let mut lines = Vec::new();
    for event in events {
        check(event, |read| {
            let Ok(read) = read else { return };
            let thread = read.thread_id.as_deref().unwrap_or("-");
            if let Some(message) = read.message {
                lines.push(format!("{thread} {}: {}", message.role, message.content));
            }
            if let Some(feedback) = read.feedback {
                let rating = feedback.rating.map_or("-", Rating::as_str);
                let comment = feedback.comment.as_deref().unwrap_or("-");
                lines.push(format!("{} {rating} {comment}", read.name));
            }
        });
    }
    lines
}

#[test]
fn captured_chats_and_feedback_are_read() {
    let lunary_js = include_str!(
        "../../../../tests/captures/npm-lunary-1.0.18/main/002-POST-v1-runs-ingest.json"
    );
    assert_eq!(
        captured(lunary_js),
        [
            "thread-7 user: Hello, is it raining?",
            "- assistant: Yes, a little.",
            "thread-7 user: Thanks!",
            "- assistant: You are welcome.",
            "feedback positive good answer",
            "feedback negative -",
            "thread-8 user: Where is my order?",
            "thread-8 assistant: On its way.",
            "chat positive -",
            "thread-8 tool: lookup(order)",
            "feedback negative wrong order",
        ]
    );
    let lunary_py = include_str!(
        "../../../../tests/captures/pypi-lunary-1.4.41/main/001-POST-v1-runs-ingest.json"
    );
    let thread = "0803a3e0-8b4a-b6ab-18c2-f1f6077b057d";
    assert_eq!(
        captured(lunary_py),
        [
            format!("{thread} user: Where is my order?"),
            format!("{thread} assistant: On its way."),
            "chat positive -".to_owned(),
            "feedback negative wrong order".to_owned(),
        ]
    );
    let llmonitor_py = include_str!(
        "../../../../tests/captures/pypi-llmonitor-0.0.51/main/001-POST-api-report.json"
    );
    assert_eq!(captured(llmonitor_py), ["feedback positive nice"]);
}
