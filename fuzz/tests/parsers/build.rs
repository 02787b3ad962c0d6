//! Builds with the schemas of their processes, as administrators register them.

use fuzz::{Seeds, fuzz};
use schemas::api_error::{CUT, MESSAGE_BYTES};

fn seeds() -> Seeds {
    Seeds::of_files("build")
        .with(r#"{"status":"COMMITTED","processes":[{"name":"Order","schema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]},"startNodes":["s"],"roles":["starter"]}]}"#)
        .with(r##"{"status":"s","workspaceId":"w","processes":[{"name":"a","uuid":"6F9619FF-8B86-D011-B42D-00CF4FC964FF","schema":{"$defs":{"x":{"type":"array","items":{"$ref":"#/$defs/x"}}},"$ref":"#/$defs/x"}},{"name":"b","schema":true}]}"##)
        .with_words(&["\"$ref\":\"#\"", "\"$ref\"", "\"allOf\"", "\"pattern\":\"(a+)+$\"", "\"$id\"", "\"format\"", "\"not\""])
        .as_json()
}

#[test]
fn build() {
    fuzz!(seeds(), 1000, examine);
}

fn examine(body: &[u8]) {
    match query::fuzz::build(body) {
        Ok(stored) => {
            let again = query::fuzz::stored_build(&stored).expect("what is stored can be read");
            assert_eq!(again, stored);
        }
        Err(fault) => {
            assert_eq!(fault.status, 400, "{fault:?}");
            assert!(!fault.message.is_empty());
            assert!(fault.message.len() <= MESSAGE_BYTES + CUT.len());
        }
    }
}
