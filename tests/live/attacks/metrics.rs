//! What `/metrics` and the settings say to those who ask without a credential.

use reqwest::StatusCode;

use crate::harness::{Setup, event};

async fn scraped(url: &str, token: Option<&str>) -> (StatusCode, String) {
    let mut request = reqwest::Client::new().get(format!("{url}/metrics"));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let answer = request.send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[tokio::test]
async fn metrics_name_projects_to_nobody_without_the_token() {
    const ACCEPTED: &str = "spindle_ingest_accepted_events_total";
    let open = Setup::new();
    let server = open.start_ready().await;
    let events = [event("named", "r", "agent_start", 0)];
    assert_eq!(
        server.report(&events).await.unwrap().status(),
        StatusCode::OK
    );
    for token in [None, Some(server.token.as_str())] {
        let (status, text) = scraped(&server.url, token).await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            text.contains(&format!("{ACCEPTED}{{project=\"_other\"}} 1")),
            "{text}"
        );
        assert!(!text.contains("project=\"default\""), "{text}");
    }
    drop(server);

    let closed = open
        .with("metrics.token", "hunter2")
        .with("metrics.listen", "127.0.0.1:0");
    let server = closed.start_ready().await;
    assert_eq!(
        server.report(&events).await.unwrap().status(),
        StatusCode::OK
    );
    // The listener of its own has them, and the port has not.
    assert_eq!(
        scraped(&server.url, Some("hunter2")).await.0,
        StatusCode::NOT_FOUND
    );
    let logged = closed.logged();
    let address = logged.rsplit("metrics.address=").next().unwrap();
    let url = format!("http://{}", address.split_whitespace().next().unwrap());
    for token in [None, Some("hunter3"), Some(server.token.as_str())] {
        assert_eq!(scraped(&url, token).await.0, StatusCode::UNAUTHORIZED);
    }
    let (status, text) = scraped(&url, Some("hunter2")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        text.contains(&format!("{ACCEPTED}{{project=\"default\"}} 1")),
        "{text}"
    );
    assert!(!logged.contains("hunter2"), "(X2)");
}

#[tokio::test]
async fn the_settings_are_shown_without_the_password_of_an_address_x2() {
    let with_password = "http://spindle:hunter2@127.0.0.1:9/";
    let shown = |variables: &[(&str, &str)]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_spindle"))
            .arg("check-config")
            .current_dir(std::env::temp_dir())
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    };
    for variables in [
        &[("SPINDLE_CLICKHOUSE__URL", with_password)][..],
        &[(
            "SPINDLE_CLICKHOUSE__URL",
            "https://spindle:hunter2@127.0.0.1:9/",
        )],
        &[("SPINDLE_KAFKA__BROKERS", "u:hunter2@a:9092,b:9092")],
        &[("SPINDLE_KAFKA__PROPERTIES", "http.proxy=http://u:hunter2@a")],
        &[("SPINDLE_SERVER__PUBLIC_URL", with_password)],
        &[("SPINDLE_SERVER__LISTEN", with_password)],
        &[("SPINDLE_METRICS__TOKEN", "hunter2")],
    ] {
        let text = shown(variables);
        assert!(text.contains("***"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    // Some addresses are not shown at all where they are at fault.
    for key in ["AUTH__OIDC__ISSUER", "PLATFORM__DOCUMENT_STORAGE__URL"] {
        let text = shown(&[(&format!("SPINDLE_{key}"), with_password)]);
        assert!(
            text.contains("fault") && !text.contains("hunter2"),
            "{text}"
        );
    }
}
