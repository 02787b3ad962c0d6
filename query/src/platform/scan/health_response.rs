//! Assesses the health response of a service. Pure.

use std::time::Duration;

use serde_json::Value;

/// Longest version (X1).
const VERSION_CHARS: usize = 100;
/// JSON pointers of versions, in order of precedence.
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
/// Words for an unhealthy service in common frameworks. A 2xx with any other word is healthy.
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

pub(crate) struct HealthResponse<'a> {
    pub(crate) status: u16,
    /// Whether `Content-Type` is JSON.
    pub(crate) is_json: bool,
    /// `None` for a body over the bound.
    pub(crate) body: Option<&'a [u8]>,
}

/// The health of a service.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// Why the service is unhealthy.
    pub(crate) problem: Option<String>,
    /// The version in the response.
    pub(crate) version: Option<String>,
}

impl Health {
    pub(crate) fn unhealthy(problem: impl Into<String>) -> Self {
        Self {
            problem: Some(problem.into()),
            version: None,
        }
    }
}

/// A 2xx is healthy, unless its JSON is invalid or says otherwise.
pub(crate) fn assess(response: &HealthResponse<'_>) -> Health {
    match response.status {
        200..=299 => {}
        300..=399 => {
            return Health::unhealthy(format!(
                "it redirects to another host (status {}), which is not followed",
                response.status
            ));
        }
        401 | 403 => {
            return Health::unhealthy(format!(
                "its health check requires a credential (status {})",
                response.status
            ));
        }
        404 => {
            return Health::unhealthy(
                "its health check was not found (status 404); check `health_url`",
            );
        }
        status => return Health::unhealthy(format!("it answered with status {status}")),
    }
    if !response.is_json {
        return Health::default();
    }
    let Some(body) = response.body else {
        return Health::unhealthy("its health response is too long");
    };
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return Health::unhealthy("its health response is not JSON, unlike its `Content-Type`");
    };
    Health {
        problem: reported_problem(&body),
        version: VERSIONS
            .iter()
            .find_map(|at| version(body.pointer(at)?.as_str()?)),
    }
}

fn reported_problem(body: &Value) -> Option<String> {
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
        return Some(format!("it reports the status `{word}`"));
    }
    (body.get("healthy") == Some(&Value::Bool(false)))
        .then(|| "it reports that it is not healthy".to_owned())
}

fn version(text: &str) -> Option<String> {
    let text = text.trim();
    let is_plain = !text.is_empty()
        && text.chars().count() <= VERSION_CHARS
        && !text.chars().any(char::is_control);
    is_plain.then(|| text.to_owned())
}

/// Why a request failed, without the URL, which may contain a secret (X2).
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
    classify(&causes).to_owned()
}

/// Classifies the error texts of the libraries, which have no error kinds.
fn classify(causes: &str) -> &'static str {
    let causes = causes.to_lowercase();
    let has = |word: &str| causes.contains(word);
    if has("certificate has expired") {
        "its certificate has expired"
    } else if has("hostname mismatch") || has("ip address mismatch") {
        "its certificate is for another host"
    } else if has("certificate") {
        "its certificate is not trusted"
    } else if has("ssl") || has("tls") {
        "TLS failed"
    } else if has("dns error") || has("failed to lookup address") {
        "its host name could not be resolved"
    } else if has("timed out") {
        "it did not answer in time"
    } else if has("invalid http") || has("parse") || has("decod") || has(" body") {
        "its response could not be read"
    } else if has("incomplete") || has("closed") {
        "the connection broke"
    } else {
        "it cannot be reached"
    }
}

pub(crate) fn timed_out(limit: Duration) -> String {
    format!("timed out after {}", seconds(limit))
}

/// A duration, for example `3 s`.
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

    fn of(status: u16, is_json: bool, body: &str) -> Health {
        assess(&HealthResponse {
            status,
            is_json,
            body: Some(body.as_bytes()),
        })
    }

    #[test]
    fn a_2xx_is_healthy_unless_its_body_says_otherwise() {
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
            assert_eq!(of(status, is_json, body), Health::default(), "{body}");
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
        let long = HealthResponse {
            status: 200,
            is_json: true,
            body: None,
        };
        assert!(assess(&long).problem.unwrap().contains("too long"));
    }

    #[test]
    fn a_version_is_found_at_its_usual_places() {
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
    fn error_texts_of_libraries_are_classified() {
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
                "its host name could not be resolved",
            ),
            ("an unknown text", "it cannot be reached"),
        ] {
            assert_eq!(classify(causes), expected);
        }
        assert_eq!(timed_out(Duration::from_secs(3)), "timed out after 3 s");
        assert_eq!(
            timed_out(Duration::from_millis(250)),
            "timed out after 250 ms"
        );
    }

    proptest! {
        #[test]
        fn every_response_is_assessed(status in 100_u16..600, is_json: bool, body: Vec<u8>) {
            let health = assess(&HealthResponse { status, is_json, body: Some(&body) });
            if !(200..300).contains(&status) {
                prop_assert!(health.problem.is_some());
            }
        }
    }
}
