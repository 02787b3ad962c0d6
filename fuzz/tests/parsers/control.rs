//! Messages on the control topic.

use fuzz::{Seeds, fuzz};
use schemas::control::ControlMessage;

fn seeds() -> Seeds {
    Seeds::of_files("control")
        .with(r#"{"word":"changed","what":"credentials"}"#)
        .with(r#"{"word":"clear_caches","names":["runs"],"order":"o1"}"#)
        .with(r#"{"word":"processor","process":"p","closed":null,"partitions":4,"leaves":false,"count":7}"#)
        .with(r#"{"word":"close","gate":"g","for_ms":10000,"count":1}"#)
        .with(r#"{"word":"open","gate":"g","outcome":{"repartitioned":{"partitions":8}}}"#)
        .with(r#"{"word":"open","gate":"g","outcome":"nothing"}"#)
        .with(r#"{"word":"present","process":"p","role":"serve","version":"2","endpoint":"http://a","missing":[],"caches":[],"cleared":[],"leaves":true,"sequence":9,"processor":{"barrier":"b","partitions":4}}"#)
        .with(r#"{"word":"present","process":"p","role":"query","version":"1","endpoint":"http://a","missing":[["log","away"]],"caches":[{"name":"runs","entries":1,"used_bytes":2,"max_bytes":3,"hits":4,"misses":5}],"cleared":["o1"],"leaves":false,"events":{"accepted":1,"rejected":null,"stored":2,"dead_lettered":0}}"#)
        .with_words(&["\"word\"", "\"missed\"", "\"unknown\"", "\"count\"", "\"gate\""])
        .as_json()
}

#[test]
fn control() {
    fuzz!(seeds(), 4000, examine);
}

fn examine(bytes: &[u8]) {
    let Ok(message) = serde_json::from_slice::<ControlMessage>(bytes) else {
        return;
    };
    assert_ne!(message, ControlMessage::Missed, "is never published");
    if message == ControlMessage::Unknown {
        return;
    }
    let text = serde_json::to_vec(&message).expect("what was received can be published");
    assert!(
        text.len() <= 8 * bytes.len() + 512,
        "{} of {}",
        text.len(),
        bytes.len()
    );
    assert_eq!(
        serde_json::from_slice::<ControlMessage>(&text).unwrap(),
        message
    );
}
