//! What cannot be processed goes to the dead letters once and can be sent again; the rest flows.

use eventlog::{KafkaLog, Log, Record};
use prometheus::Registry;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Setup, VISIBLE_WITHIN, event};

const LETTERS: &str = "/api/internal/dead-letters";

/// A record as ingest writes it, with a payload that it never would.
fn poison(app: &str, payload: &'static str) -> Record {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned().into());
    Record {
        key: format!("default/{app}").into(),
        headers: vec![
            header("v", "1"),
            header("project", "default"),
            header("app", app),
            header("received_at_ms", "1800000000000"),
            header("events", "1"),
        ],
        payload: payload.into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_record_becomes_one_letter_that_can_be_sent_again_while_the_rest_flows_p1() {
    let setup = Setup::distributed().await;
    let server = setup.start_ready().await;
    let topic = setup.backing.as_ref().unwrap().topic("events");
    let log = KafkaLog::open(topic, &Registry::new()).await.unwrap();
    let at = log.append(poison("bad", "{\"events\":[")).await.unwrap();
    let fine = [event("bad", "fine", "agent_start", 0)];
    assert_eq!(server.report(&fine).await.unwrap().status(), StatusCode::OK);
    server
        .until("the rest is there", VISIBLE_WITHIN, async || {
            let (status, _) = server.get("/api/run/fine").await;
            (status == StatusCode::OK).then_some(())
        })
        .await;
    let list = async || {
        server
            .get_as(&setup.token, &format!("{LETTERS}?payload=true"))
            .await
    };
    let listed = server
        .until("the letter is there", VISIBLE_WITHIN, async || {
            let (status, page) = list().await;
            assert_eq!(status, StatusCode::OK, "{page}");
            (!page["data"].as_array()?.is_empty()).then_some(page)
        })
        .await;
    let letter = &listed["data"][0];
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(listed["next_cursor"], Value::Null);
    assert_eq!(letter["payload"], json!("{\"events\":["));
    assert_eq!(letter["original_partition"], json!(at.partition));
    assert_eq!(letter["original_offset"], json!(at.offset));
    assert!(
        letter["original_topic"]
            .as_str()
            .unwrap()
            .ends_with(".events")
    );
    assert_eq!(
        (
            &letter["project_id"],
            &letter["app_id"],
            &letter["redriven"]
        ),
        (&json!("default"), &json!("bad"), &json!(false))
    );
    let (status, _) = server.get(LETTERS).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "not for keys of a project");

    // It is bad still, so it comes back as a letter of its own.
    let done = server.command(&["dead-letter", "redrive", "--all", "--json"]);
    assert!(done.status.success(), "{done:?}");
    let done: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (&done["letters"], &done["more"]),
        (&json!(1), &json!(false))
    );
    let again = server
        .until("it comes back", VISIBLE_WITHIN, async || {
            let (_, page) = list().await;
            (page["data"].as_array()?.len() == 2).then_some(page)
        })
        .await;
    let redriven = again["data"].as_array().unwrap().iter();
    let redriven: Vec<&Value> = redriven.map(|letter| &letter["redriven"]).collect();
    assert_eq!(redriven, [&json!(true), &json!(false)]);
    let named = json!({"letters": [again["data"][1]["id"], "0-999"]});
    let (status, done) = server
        .ask(
            Method::POST,
            &setup.token,
            &format!("{LETTERS}/redrive"),
            Some(named),
        )
        .await;
    assert_eq!(status, StatusCode::OK, "{done}");
    assert_eq!(
        (&done["letters"], &done["left"]),
        (&json!(1), &json!(["0-999"]))
    );
    log.close().await;
}
