use schemas::api_error::EventCode;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const NOW_MS: i64 = 1_714_600_000_000;

fn event(run: &str, app: Option<&str>) -> String {
    let app = app.map_or(String::new(), |app| format!(r#""app_id":"{app}","#));
    format!(
        r#"{{"name":"agent_start",{app}"run_id":"{run}","timestamp":"2024-05-01T10:00:00.000Z"}}"#
    )
}

fn body(events: &[String]) -> Bytes {
    format!(r#"{{"events":[{}]}}"#, events.join(",")).into()
}

fn bounds() -> DayBounds {
    DayBounds::new(NOW_MS, Duration::from_secs(400 * 86_400))
}

fn any() -> Apps {
    Apps::AnyOr(AppId::new("default"), NamedKeys::default())
}

fn planned(body: &Bytes) -> Plan {
    plan(body.clone(), &any(), &bounds(), limits::REPORTED_ERRORS).unwrap()
}

fn raws(payload: &Payload) -> Vec<String> {
    let batch = batch::read(&payload.bytes, NOW_MS).unwrap();
    batch.slots.iter().map(|slot| slot.raw.to_owned()).collect()
}

#[test]
fn a_body_of_good_events_of_one_app_is_passed_through_without_a_copy() {
    let body = Bytes::from(format!(
        "{{ \"extra\": 1, \"events\": [{} ,\n [[{}]]] }}",
        event("a", None),
        event("b", Some("default"))
    ));
    let plan = planned(&body);
    let [payload] = plan.payloads.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(payload.bytes.as_ptr(), body.as_ptr());
    assert_eq!(
        (payload.events, payload.app.as_str(), plan.accepted),
        (2, "default", 2)
    );
}

#[test]
fn events_of_several_apps_become_one_payload_for_each_in_order() {
    let events: Vec<String> = ["x", "y", "x", "z", "y"]
        .iter()
        .enumerate()
        .map(|(i, app)| event(&format!("run-{i}"), Some(app)))
        .collect();
    let plan = planned(&body(&events));
    let got: Vec<(&str, u32, Vec<String>)> = plan
        .payloads
        .iter()
        .map(|payload| (payload.app.as_str(), payload.events, raws(payload)))
        .collect();
    assert_eq!(
        got,
        [
            ("x", 2, vec![events[0].clone(), events[2].clone()]),
            ("y", 2, vec![events[1].clone(), events[4].clone()]),
            ("z", 1, vec![events[3].clone()]),
        ]
    );
}

#[test]
fn a_bad_event_is_left_out_and_the_others_keep_their_bytes() {
    let good = [event("a", None), event("b", None)];
    let plan = planned(&body(&[
        good[0].clone(),
        "7".to_owned(),
        good[1].clone(),
        "{}".to_owned(),
    ]));
    assert_eq!(raws(&plan.payloads[0]), good);
    assert_eq!((plan.accepted, plan.rejections.count), (2, 2));
    assert_eq!(plan.rejections.reported[0].index, 1);
    assert_eq!(
        plan.rejections.reported[1].message,
        "events[3].name is required"
    );
    assert_eq!(
        plan.rejections.by_code,
        [(EventCode::NotAnObject, 1), (EventCode::MissingField, 1)]
    );
}

#[test]
fn only_the_first_rejections_are_told_and_all_are_counted() {
    let plan = planned(&body(&vec!["null".to_owned(); 5000]));
    assert_eq!(plan.rejections.reported.len(), limits::REPORTED_ERRORS);
    assert_eq!((plan.rejections.count, plan.payloads.len()), (5000, 0));
}

#[test]
fn what_is_too_long_for_a_record_is_split_between_events() {
    let text = "t".repeat(100_000);
    let events: Vec<String> = (0..60)
        .map(|i| {
            format!(r#"{{"name":"n","run_id":"r{i}","timestamp":1714500000000,"input":"{text}"}}"#)
        })
        .collect();
    let plan = planned(&body(&events));
    assert!(
        plan.payloads
            .iter()
            .all(|payload| payload.bytes.len() <= limits::RECORD_BYTES)
    );
    assert_eq!(
        plan.payloads.iter().flat_map(raws).collect::<Vec<_>>(),
        events
    );
    assert_eq!(plan.payloads.len(), 3);
    assert_eq!(
        plan.payloads
            .iter()
            .map(|payload| payload.events)
            .sum::<u32>(),
        60
    );
}

#[test]
fn without_a_key_all_events_must_name_the_app_of_the_first() {
    let events = [
        event("a", Some("x")),
        event("b", Some("y")),
        event("c", None),
        event("d", Some("x")),
    ];
    let plan = plan(
        body(&events),
        &Apps::OnlyFirst,
        &bounds(),
        limits::REPORTED_ERRORS,
    )
    .unwrap();
    assert_eq!(
        raws(&plan.payloads[0]),
        [events[0].clone(), events[3].clone()]
    );
    assert_eq!(plan.rejections.by_code, [(EventCode::AppNotAllowed, 2)]);
}

proptest! {
    /// No valid event is lost, duplicated, changed or put under another app, however the batch is mixed.
    #[test]
    fn good_events_arrive_unchanged_under_their_app(
        kinds in proptest::collection::vec((0u8..4, 0usize..6), 0..40)
    ) {
        let events: Vec<(Option<&str>, String)> = kinds.iter().enumerate().map(|(i, (app, bad))| {
            let app = [None, Some("default"), Some("x"), Some("y")][usize::from(*app)];
            let text = if *bad == 0 { format!("{{\"name\":{i}}}") } else { event(&format!("r{i}"), app) };
            ((*bad != 0).then_some(app.unwrap_or("default")), text)
        }).collect();
        let texts: Vec<String> = events.iter().map(|(_, text)| text.clone()).collect();
        let plan = planned(&body(&texts));
        for app in ["default", "x", "y"] {
            let expected: Vec<&String> =
                events.iter().filter(|(of, _)| *of == Some(app)).map(|(_, text)| text).collect();
            let got: Vec<String> =
                plan.payloads.iter().filter(|payload| payload.app.as_str() == app).flat_map(raws).collect();
            prop_assert_eq!(got.iter().collect::<Vec<_>>(), expected);
        }
        prop_assert_eq!(plan.accepted + plan.rejections.count, events.len());
    }

    /// Any damage to a valid body yields an error or rejections, never a panic, and never more events than there were
    /// values.
    #[test]
    fn a_damaged_body_is_answered(cut in 0usize..400, at in 0usize..400, byte: u8) {
        let mut bytes = body(&[event("a", Some("x")), event("b", None), "[[]]".to_owned()]).to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(cut.max(1));
        match plan(bytes.into(), &any(), &bounds(), limits::REPORTED_ERRORS) {
            Ok(plan) => {
                let kept: u32 = plan.payloads.iter().map(|payload| payload.events).sum();
                prop_assert_eq!(kept as usize, plan.accepted);
                let _: Vec<Value> = plan.payloads.iter().flat_map(raws)
                    .map(|raw| serde_json::from_str(&raw).unwrap()).collect();
            }
            Err(fault) => prop_assert_eq!(fault.status, 400),
        }
    }
}

fn event_on(day: i64) -> String {
    let time_ms = NOW_MS - day * 86_400_000;
    format!(r#"{{"name":"agent_start","run_id":"r{day}","timestamp":{time_ms}}}"#)
}

#[test]
fn events_of_all_but_the_newest_days_are_rejected_with_the_rule_and_the_way_out_x1() {
    let mut events: Vec<String> = [50, 3].into_iter().chain(0..40).map(event_on).collect();
    events.push("7".to_owned());
    let plan = planned(&body(&events));
    // The newest 31 days, one of them twice.
    assert_eq!((plan.accepted, plan.rejections.count), (32, 11));
    assert_eq!(plan.old_days.len(), 29, "not today and yesterday");
    let [payload] = plan.payloads.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!((payload.events, payload.old_days.len()), (32, 29));
    assert_eq!(payload.old_days, plan.old_days);
    let reported: Vec<(usize, &str)> = plan
        .rejections
        .reported
        .iter()
        .map(|rejection| (rejection.index, rejection.code.as_str()))
        .collect();
    let expected: Vec<(usize, &str)> = [0]
        .into_iter()
        .chain(33..42)
        .map(|index| (index, "too_many_days"))
        .chain([(42, "not_an_object")])
        .collect();
    assert_eq!(reported, expected);
    let message = &plan.rejections.reported[0].message;
    assert!(message.contains("events[0]") && message.contains("31 newest of 41 days"));
    assert!(message.contains("another report"), "{message}");
}

#[test]
fn old_events_are_rejected_and_those_of_a_month_pass_as_they_came() {
    let month: Vec<String> = (0..31).map(event_on).collect();
    let whole = body(&month);
    let plan = planned(&whole);
    assert_eq!((plan.accepted, plan.rejections.count), (31, 0));
    assert_eq!(plan.payloads[0].bytes.as_ptr(), whole.as_ptr());
    let plan = planned(&body(&[event_on(399), event_on(401)]));
    assert_eq!((plan.accepted, plan.rejections.count), (1, 1));
    assert_eq!(
        plan.rejections.reported[0].code.as_str(),
        "timestamp_too_old"
    );
}
