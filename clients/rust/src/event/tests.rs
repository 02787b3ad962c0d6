use proptest::prelude::*;
use schemas::event::{Event as Read, Fields};
use serde_json::{Value, json};

use super::*;

/// 2026-11-20T10:00:00.007Z.
const AT: Timestamp = Timestamp(1_795_168_800_007_000);

/// Calls `look` with the event as the server parses it.
fn read<T>(event: &Event, look: impl FnOnce(Read<'_>) -> T) -> T {
    let text = event.to_json();
    let fields: Fields<'_> = serde_json::from_str(&text).unwrap();
    look(
        Read::from_fields(fields, 0, AT.as_ms())
            .unwrap_or_else(|fault| panic!("{fault:?}: {text}")),
    )
}

#[test]
fn an_event_is_written_as_the_interface_has_it_and_nothing_that_is_not_known() {
    let empty = Event::at("agent_start", "r", AT);
    let expected =
        json!({"name": "agent_start", "run_id": "r", "timestamp": "2026-11-20T10:00:00.007Z"});
    assert_eq!(
        serde_json::from_str::<Value>(&empty.to_json()).unwrap(),
        expected
    );
    let full = Event {
        event_id: Some("e".to_owned()),
        app_id: Some("app".to_owned()),
        parent_run_id: Some("p".to_owned()),
        kind: Some(Kind::Llm),
        metadata: [("k".to_owned(), json!(1))].into(),
        input: super::json(json!({"q": 1})),
        output: super::json("yes"),
        model: Some("m".to_owned()),
        tokens: Tokens {
            total: Some(30),
            cached: Some(1),
            cache_write: Some(2),
            cache_write_1h: Some(3),
            input_audio: Some(4),
            input_image: Some(5),
            reasoning: Some(0),
            output_audio: Some(6),
            requests: Some(7),
            ..Tokens::new(20, 10)
        },
        service_tier: Some("batch".to_owned()),
        cost: Some(0.5),
        estimated_cost: Some(0.25),
        ttft_ms: Some(8),
        response_id: Some("resp_1".to_owned()),
        error: Some(ErrorInfo {
            message: "no".to_owned(),
            ..ErrorInfo::default()
        }),
        tags: vec!["t".to_owned()],
        user_email: Some("u".to_owned()),
        agent: Some("a".to_owned()),
        thread_id: Some("th".to_owned()),
        ..empty
    };
    let expected = json!({
        "name": "agent_start", "event_id": "e", "app_id": "app", "run_id": "r", "parent_run_id": "p",
        "timestamp": "2026-11-20T10:00:00.007Z", "type": "llm", "metadata": {"k": 1}, "input": {"q": 1},
        "output": "yes", "model": "m", "prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30,
        "cached_tokens": 1, "cache_write_tokens": 2, "cache_write_1h_tokens": 3, "input_audio_tokens": 4,
        "input_image_tokens": 5, "reasoning_tokens": 0, "output_audio_tokens": 6, "requests": 7,
        "service_tier": "batch", "cost": 0.5, "estimated_cost": 0.25, "ttft_ms": 8, "response_id": "resp_1", "error": {"message": "no"}, "tags": ["t"], "user_email": "u",
        "agent": "a", "thread_id": "th"
    });
    assert_eq!(
        serde_json::from_str::<Value>(&full.to_json()).unwrap(),
        expected
    );
}

#[test]
fn a_run_keeps_one_name_in_every_phase_however_long() {
    for name in [
        "clerk",
        &"x".repeat(600),
        &"ü".repeat(300),
        "_start",
        "a_end",
    ] {
        let names = [Phase::Start, Phase::End, Phase::Error].map(|phase| {
            let event = Event::at(event_name(name, phase), "r", AT);
            read(&event, |read| read.run_name.map(|name| name.into_owned()))
        });
        assert!(
            names[0]
                .as_ref()
                .is_some_and(|read| name.starts_with(read.as_str()))
        );
        assert!(names.iter().all(|other| *other == names[0]), "{names:?}");
    }
}

#[test]
fn events_of_one_millisecond_keep_their_order() {
    let moments: Vec<Timestamp> = (0..10_000).map(|_| Timestamp::now()).collect();
    assert!(moments.iter().all(|moment| moment.is_fine()));
    let written: Vec<String> = moments.iter().map(Timestamp::to_string).collect();
    assert!(written.is_sorted_by(|a, b| a < b) && moments.is_sorted_by(|a, b| a < b));
    // A clock that stands still, one that is set back a little, and one that is set back far.
    assert_eq!([after(5, 5), after(999, 5), after(7, 6)], [6, 1001, 8]);
    let far = 10 * AHEAD_US;
    assert_eq!((after(far, 5), after(5, far)), (5, far + 1));
}

#[test]
fn what_is_no_json_says_so() {
    let no_json = json([((1, 2), 3)].into_iter().collect::<BTreeMap<_, _>>()).unwrap();
    assert!(no_json.get().contains("no JSON"), "{no_json}");
    assert_eq!(json(f64::NAN).unwrap().get(), "null");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Built alone, this crate's serde_json reads the last digit of other fractions differently.
        any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".{0,8}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn text() -> impl Strategy<Value = Option<String>> {
    prop::option::of(".{1,40}")
}

prop_compose! {
    fn any_event()(
        (name, run_id, parent) in (".{1,60}", ".{1,40}", text()),
        (app, thread, user, agent, model) in (text(), text(), text(), text(), text()),
        (input, output) in (any_json(), any_json()),
        (prompt, completion, cached) in (prop::option::of(0..1u64 << 50), prop::option::of(0..1u64 << 50), prop::option::of(0..1u64 << 50)),
        kind in prop::option::of(prop::sample::select(vec![Kind::Agent, Kind::Chain, Kind::Tool, Kind::Llm, Kind::Process])),
        metadata in prop::collection::btree_map("[a-z]{1,8}", any_json(), 0..4),
        tags in prop::collection::vec(".{1,20}", 0..4),
        error in prop::option::of((text(), ".{0,40}", text())),
        us in 946_684_800_000_000i64..AT.0,
        phase in prop::sample::select(vec![Phase::Start, Phase::End, Phase::Error]),
    ) -> Event {
        Event {
            app_id: app,
            parent_run_id: parent,
            kind,
            metadata: metadata.into_iter().filter(|(key, _)| !["app_id", "tags"].contains(&key.as_str())).collect(),
            input: json_of(&input),
            output: json_of(&output),
            model,
            tokens: Tokens { prompt, completion, cached, ..Tokens::default() },
            error: error.map(|(name, message, stack)| ErrorInfo { name, message, stack }),
            tags,
            user_email: user,
            agent,
            thread_id: thread,
            ..Event { timestamp: Timestamp(us), ..Event::new(event_name(&name, phase), run_id) }
        }
    }
}

/// `null` means absent.
fn json_of(value: &Value) -> Option<Box<RawValue>> {
    (!value.is_null()).then(|| super::json(value)).flatten()
}

proptest! {
    /// Every event of these types is accepted by the server, with the same meaning.
    #[test]
    fn the_server_reads_what_was_written(event in any_event()) {
        read(&event, |read| {
            let own = |text: &Option<String>| text.clone();
            let theirs = |text: Option<std::borrow::Cow<'_, str>>| text.map(|text| text.into_owned());
            prop_assert_eq!(read.name.as_ref(), &event.name);
            prop_assert_eq!(read.run_id.as_ref(), &event.run_id);
            prop_assert_eq!(read.timestamp_ms, event.timestamp.as_ms());
            let microsecond = (event.timestamp.0 % 1000 != 0).then_some((event.timestamp.0 % 1000) as u16);
            prop_assert_eq!(read.microsecond, microsecond);
            prop_assert_eq!(theirs(read.event_id), own(&event.event_id));
            prop_assert_eq!(theirs(read.app), own(&event.app_id));
            prop_assert_eq!(theirs(read.parent_run_id), own(&event.parent_run_id).filter(|id| id != "None"));
            prop_assert_eq!(theirs(read.model), own(&event.model));
            prop_assert_eq!(theirs(read.thread_id), own(&event.thread_id));
            prop_assert_eq!(theirs(read.kind), event.kind.map(|kind| kind.as_str().to_owned()));
            prop_assert_eq!(read.tokens.prompt, event.tokens.prompt);
            prop_assert_eq!(read.tokens.cached, event.tokens.cached);
            let tags = event.tags.iter().filter(|tag| !tag.trim().is_empty());
            prop_assert_eq!(read.tags.len(), tags.count());
            prop_assert_eq!(read.error.is_some(), event.error.is_some());
            prop_assert_eq!(read.others.len(), 0);
            let input = event.input.as_ref().map(|raw| raw.get()).filter(|raw| *raw != "null");
            prop_assert_eq!(read.input.map(|raw| raw.get()), input);
            Ok(())
        })?;
        let again: Event = serde_json::from_str(&event.to_json()).unwrap();
        prop_assert_eq!(again.to_json(), event.to_json());
    }
}

#[test]
fn what_people_say_and_find_is_read_too() {
    let chat = Event {
        role: Some(Role::Assistant),
        content: Some("because".to_owned()),
        ..Event::at("chat", "m", AT)
    };
    read(&chat, |read| {
        let message = read.message.unwrap();
        assert_eq!(
            (message.role.as_ref(), message.content.as_ref()),
            ("assistant", "because")
        );
    });
    let feedback = Event {
        rating: Some(Rating::Negative),
        comment: Some("no".to_owned()),
        ..Event::at("feedback", "r", AT)
    };
    read(&feedback, |read| {
        let feedback = read.feedback.unwrap();
        assert_eq!(feedback.rating, Some(schemas::event::Rating::Negative));
        assert_eq!(feedback.comment.as_deref(), Some("no"));
    });
}
