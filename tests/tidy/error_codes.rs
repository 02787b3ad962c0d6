//! Error codes: `docs/reference/errors.md` is written from the enums in `schemas`, and every code is answered somewhere.

use std::fmt::Write as _;

use schemas::api_error::{ErrorCode, EventCode};

use super::{assert_none, files, read, root};

const PAGE: &str = "docs/reference/errors.md";
/// Names codes for the API document, and answers none.
const FAMILIES: &str = "api/src/errors.rs";

const HEAD: &str = "# Errors

Written from `schemas/src/api_error/codes.rs` by `UPDATE=1 cargo test --test tidy error_codes`.

Every answer with a status of 400 or above has the body `{\"error\", \"message\", \"status\", \"details\"?}`.
`error` is one of the codes below; a code always has the same status.
A 401 has the header `WWW-Authenticate`, and an answer that can succeed later has `Retry-After` in seconds.
Clearing caches answers in a shape of its own, with the same statuses.
";

const EVENTS: &str = "
## Rejected events

`POST /api/report` answers 200 and lists each rejected event in `errors` with one of these codes.
An operation that reports an event itself, such as giving feedback, answers them with status 400.

| code | meaning |
| --- | --- |
";

fn page() -> String {
    let mut text = HEAD.to_owned();
    let mut status = 0;
    for code in ErrorCode::ALL {
        if code.status() != status {
            status = code.status();
            write!(
                text,
                "\n## {status}\n\n| code | meaning | remedy |\n| --- | --- | --- |\n"
            )
            .unwrap();
        }
        let (meaning, remedy) = (code.meaning(), code.remedy());
        writeln!(text, "| `{code}` | {meaning} | {remedy} |").unwrap();
    }
    text += EVENTS;
    for code in EventCode::ALL {
        writeln!(text, "| `{code}` | {} |", code.meaning()).unwrap();
    }
    text
}

#[test]
fn the_page_of_errors_is_what_the_table_says() {
    let expected = page();
    let path = root().join(PAGE);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "{PAGE} is old: UPDATE=1 cargo test --test tidy error_codes"
    );
}

/// The compiler rejects an undeclared code; this finds a declared one that is answered nowhere.
#[test]
fn every_declared_code_is_answered_somewhere() {
    let mut texts = Vec::new();
    for path in files() {
        let is_source = path.extension().is_some_and(|extension| extension == "rs")
            && path.iter().any(|part| part == "src")
            && path != std::path::Path::new(FAMILIES);
        if is_source {
            texts.push(read(&path));
        }
    }
    let is_used = |name: String| texts.iter().any(|text| text.contains(&name));
    let codes = ErrorCode::ALL
        .iter()
        .map(|code| format!("ErrorCode::{code:?}"));
    let event_codes = EventCode::ALL
        .iter()
        .map(|code| format!("EventCode::{code:?}"));
    let unused: Vec<String> = codes
        .chain(event_codes)
        .filter(|name| !is_used(name.clone()))
        .collect();
    assert_none(&unused, "error codes that are answered nowhere");
}
