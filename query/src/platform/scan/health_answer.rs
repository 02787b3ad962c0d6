//! What the answer of a service means: pure.

use std::time::Duration;

use serde_json::Value;

/// Characters of a version that is told (X1).
const VERSION_CHARS: usize = 100;
/// Where services tell their version, in the order in which it is looked for.
const VERSIONS: [&str; 8] = [
    "/version",
    "/build/version",
    "/app/version",
    "/info/version",
    "/info/app/version",
    "/application/version",
    "/details/version",
    "/releaseId",
];
/// Words for being down, in the dialects of the usual frameworks. Any other word of a 2xx is no reason to doubt it.
const DOWN: [&str; 18] = [
    "down",
    "unhealthy",
    "not healthy",
    "fail",
    "failed",
    "failing",
    "failure",
    "error",
    "critical",
    "red",
    "out_of_service",
    "unavailable",
    "not_ready",
    "not ready",
    "stopped",
    "stopping",
    "dead",
    "degraded",
];

/// An answer as far as it matters.
pub(crate) struct HealthAnswer<'a> {
    /// HTTP status.
    pub(crate) status: u16,
    /// Whether it says of itself that it is JSON.
    pub(crate) is_json: bool,
    /// The body; `None` where it is longer than is read.
    pub(crate) body: Option<&'a [u8]>,
}

/// What it means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Why the service is not healthy, for a person.
    pub(crate) problem: Option<String>,
    /// The version it told.
    pub(crate) version: Option<String>,
}

/// Reads an answer: 2xx is healthy, unless its JSON is none or says otherwise.
pub(crate) fn verdict(answer: &HealthAnswer<'_>) -> Verdict {
    let bad = |problem: String| Verdict {
        problem: Some(problem),
        version: None,
    };
    match answer.status {
        200..=299 => {}
        300..=399 => {
            return bad(format!(
                "it redirects elsewhere (status {}), which is not followed",
                answer.status
            ));
        }
        401 | 403 => {
            return bad(format!(
                "it refuses to tell how it is (status {})",
                answer.status
            ));
        }
        404 => {
            return bad(
                "there is nothing at its health address (status 404); check `health_url`"
                    .to_owned(),
            );
        }
        status => return bad(format!("it answered with status {status}")),
    }
    if !answer.is_json {
        return Verdict::default();
    }
    let Some(body) = answer.body else {
        return bad("its answer is too long to be a health answer".to_owned());
    };
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return bad("its answer says that it is JSON and is not".to_owned());
    };
    Verdict {
        problem: said_down(&body),
        version: VERSIONS
            .iter()
            .find_map(|at| version(body.pointer(at)?.as_str()?)),
    }
}

/// What it says against itself.
fn said_down(body: &Value) -> Option<String> {
    let status = body.get("status").or_else(|| body.get("state"));
    let word = match status {
        Some(Value::String(word)) => Some(word.as_str()),
        Some(status) => status.get("code").and_then(Value::as_str),
        None => None,
    };
    let word = word.map(|word| word.trim().to_ascii_lowercase());
    if let Some(word) = word
        && DOWN.contains(&word.as_str())
    {
        return Some(format!("it says of itself that it is `{word}`"));
    }
    (body.get("healthy") == Some(&Value::Bool(false)))
        .then(|| "it says of itself that it is not healthy".to_owned())
}

fn version(text: &str) -> Option<String> {
    let text = text.trim();
    let is_plain = !text.is_empty()
        && text.chars().count() <= VERSION_CHARS
        && !text.chars().any(char::is_control);
    is_plain.then(|| text.to_owned())
}

/// Why an address could not be asked, for a person: without the address, which may hold a secret (X2).
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut causes = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if let Some(kind) = error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind)
        {
            use std::io::ErrorKind as Kind;
            match kind {
                Kind::ConnectionRefused => return "the connection was refused".to_owned(),
                Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => {
                    return "the connection broke".to_owned();
                }
                Kind::HostUnreachable | Kind::NetworkUnreachable => {
                    return "its host cannot be reached".to_owned();
                }
                _ => {}
            }
        }
        causes.push_str(&error.to_string());
        causes.push('\n');
        cause = error.source();
    }
    said(&causes).to_owned()
}

/// What the texts of the libraries mean: they have no kinds for it.
fn said(causes: &str) -> &'static str {
    let causes = causes.to_lowercase();
    let has = |word: &str| causes.contains(word);
    if has("certificate has expired") {
        "its certificate has expired"
    } else if has("hostname mismatch") || has("ip address mismatch") {
        "its certificate is for another host"
    } else if has("certificate") {
        "its certificate is not trusted"
    } else if has("ssl") || has("tls") {
        "no encrypted connection could be made"
    } else if has("dns error") || has("failed to lookup address") {
        "its host name is not known"
    } else if has("timed out") {
        "it did not answer in time"
    } else if has("invalid http") || has("parse") || has("decod") || has(" body") {
        "its answer could not be read"
    } else if has("incomplete") || has("closed") {
        "the connection broke"
    } else {
        "it cannot be reached"
    }
}

/// What is said of something that took longer than it may.
pub(crate) fn timed_out(limit: Duration) -> String {
    format!("timed out after {}", seconds(limit))
}

/// A length of time for a person, such as `3 s`.
pub(crate) fn seconds(time: Duration) -> String {
    let ms = time.as_millis();
    match ms % 1000 {
        0 => format!("{} s", ms / 1000),
        _ => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(status: u16, is_json: bool, body: &str) -> Verdict {
        verdict(&HealthAnswer {
            status,
            is_json,
            body: Some(body.as_bytes()),
        })
    }

    #[test]
    fn a_2xx_is_healthy_unless_it_says_otherwise() {
        for (status, is_json, body) in [
            (200, false, "whatever"),
            (204, false, ""),
            (200, true, "{\"status\":\"UP\"}"),
            (200, true, "{\"status\":\"ok\"}"),
            (200, true, "{\"status\":\"pass\"}"),
            (200, true, "{\"status\":\"strange\"}"),
            (200, true, "{\"healthy\":true}"),
            (200, true, "[]"),
            (200, true, "3"),
        ] {
            assert_eq!(of(status, is_json, body), Verdict::default(), "{body}");
        }
        for (status, is_json, body, word) in [
            (500, false, "", "status 500"),
            (503, true, "{\"status\":\"UP\"}", "status 503"),
            (302, false, "", "redirects"),
            (401, false, "", "status 401"),
            (404, false, "", "health_url"),
            (200, true, "{\"status\":\"DOWN\"}", "`down`"),
            (200, true, "{\"status\":\" Fail \"}", "`fail`"),
            (
                200,
                true,
                "{\"status\":{\"code\":\"OUT_OF_SERVICE\"}}",
                "out_of_service",
            ),
            (200, true, "{\"healthy\":false}", "not healthy"),
            (200, true, "", "JSON"),
            (200, true, "<html>", "JSON"),
        ] {
            let problem = of(status, is_json, body).problem.unwrap();
            assert!(problem.contains(word), "{body}: {problem}");
        }
        let long = HealthAnswer {
            status: 200,
            is_json: true,
            body: None,
        };
        assert!(verdict(&long).problem.unwrap().contains("too long"));
    }

    #[test]
    fn a_version_is_found_where_services_tell_it() {
        for body in [
            r#"{"version":"2.1"}"#,
            r#"{"status":"UP","build":{"version":"2.1"}}"#,
            r#"{"app":{"version":" 2.1 "}}"#,
            r#"{"version":7,"build":{"version":"2.1"}}"#,
            r#"{"status":"DOWN","version":"2.1"}"#,
        ] {
            assert_eq!(
                of(200, true, body).version.as_deref(),
                Some("2.1"),
                "{body}"
            );
        }
        let long = format!(r#"{{"version":"{}"}}"#, "1".repeat(101));
        for body in [r#"{"version":""}"#, r#"{"version":"a\nb"}"#, &long] {
            assert_eq!(of(200, true, body).version, None, "{body}");
        }
    }

    #[test]
    fn causes_are_told_in_words_of_their_own() {
        for (causes, expected) in [
            (
                "error sending request\nclient error (Connect)\nerror:0A000086:SSL routines::certificate verify failed: (self-signed certificate)",
                "its certificate is not trusted",
            ),
            (
                "certificate verify failed: (Hostname mismatch)",
                "its certificate is for another host",
            ),
            (
                "certificate verify failed: (certificate has expired)",
                "its certificate has expired",
            ),
            (
                "dns error: failed to lookup address information",
                "its host name is not known",
            ),
            ("what nobody expects", "it cannot be reached"),
        ] {
            assert_eq!(said(causes), expected);
        }
        assert_eq!(timed_out(Duration::from_secs(3)), "timed out after 3 s");
        assert_eq!(
            timed_out(Duration::from_millis(250)),
            "timed out after 250 ms"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_answered_there_is_a_verdict(status in 100_u16..600, is_json: bool, body: Vec<u8>) {
            let verdict = verdict(&HealthAnswer { status, is_json, body: Some(&body) });
            if !(200..300).contains(&status) {
                prop_assert!(verdict.problem.is_some());
            }
        }
    }
}
